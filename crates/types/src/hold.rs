//! The lines of a stream that holds a grant (`hold=stream`): one JSON object each.

use crate::{EndReason, FencingToken, GrantId, Revision, dto::Contender, problem::Problem};
use serde::Serialize;

/// One line. The stream ends after `lost`, `error` and `goaway`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum HoldLine {
    /// The grant waits.
    Queued {
        /// Its secret id, which is also the `Idempotency-Key` to retry with.
        id: GrantId,
        /// Its position: the number of grants ahead, including holders, plus 1.
        position: u64,
        /// The first few grants ahead, in order.
        ahead: Vec<Contender>,
        /// The estimated time until it is held, as in the entries of a queue.
        #[serde(skip_serializing_if = "Option::is_none")]
        estimate: Option<String>,
    },
    /// The grant is held.
    Held {
        /// Its secret id, which is also the `Idempotency-Key` to retry with.
        id: GrantId,
        /// Its fencing token.
        token: FencingToken,
    },
    /// The connection works. This proves nothing about the grant.
    Alive {
        /// The revision of the node's state.
        revision: Revision,
    },
    /// An administrator asks you to release the lock; you still hold it.
    Revoke {
        /// Its id.
        id: GrantId,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
        /// The reason; may be empty.
        reason: String,
    },
    /// The caller's credential expires within a minute: nothing renews the grant then. Post again with the id as the key and
    /// with a newer credential; that ends this stream, and the grant stays.
    CredentialExpires {
        /// Its id.
        id: GrantId,
    },
    /// The grant has ended.
    Lost {
        /// Its id.
        id: GrantId,
        /// How it ended.
        reason: EndReason,
    },
    /// The request failed.
    Error(Box<Problem>),
    /// The server is shutting down; the grant stays as it is, held or queued, for its ttl.
    Goaway {
        /// Its secret id, which is also the `Idempotency-Key` to retry with at another node.
        id: GrantId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GrantNumber;

    #[test]
    fn the_lines_have_the_documented_json() {
        let id = GrantId::from_ulid(1);
        let owner = "ci-7".to_owned();
        let first =
            Contender { number: GrantNumber(41), owner, since: None, token: None, held_for: None, meta: Default::default() };
        for (line, text) in [
            (
                HoldLine::Queued { id, position: 2, ahead: vec![first], estimate: None },
                r#"{"event":"queued","id":"ID","position":2,"ahead":[{"number":41,"owner":"ci-7"}]}"#,
            ),
            (HoldLine::Held { id, token: FencingToken(43) }, r#"{"event":"held","id":"ID","token":43}"#),
            (HoldLine::Alive { revision: Revision(9012) }, r#"{"event":"alive","revision":9012}"#),
            (HoldLine::Lost { id, reason: EndReason::Expired }, r#"{"event":"lost","id":"ID","reason":"expired"}"#),
            (
                HoldLine::Revoke { id, by: "admin".to_owned(), reason: "an upgrade".to_owned() },
                r#"{"event":"revoke","id":"ID","by":"admin","reason":"an upgrade"}"#,
            ),
            (HoldLine::CredentialExpires { id }, r#"{"event":"credential_expires","id":"ID"}"#),
            (HoldLine::Goaway { id }, r#"{"event":"goaway","id":"ID"}"#),
        ] {
            assert_eq!(serde_json::to_string(&line).unwrap(), text.replace("ID", &id.to_string()));
        }
    }
}
