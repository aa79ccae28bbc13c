//! The lines of a stream that holds a grant (`hold=stream`): one JSON object each.

use crate::{EndReason, FencingToken, GrantId, Revision, dto::Contender, problem::Problem};
use serde::Serialize;

/// One line. After `lost`, `error` and `goaway` the stream ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// The grant waits.
    Queued {
        /// Its secret id, and the key to ask again with.
        id: GrantId,
        /// Those ahead, holders counted, and 1.
        position: u64,
        /// The first of those ahead, in order.
        ahead: Vec<Contender>,
        /// How long it may wait yet, as a queue's entries have it.
        #[serde(skip_serializing_if = "Option::is_none")]
        estimate: Option<String>,
    },
    /// The grant is held.
    Held {
        /// Its secret id, and the key to ask again with.
        id: GrantId,
        /// Its fencing token.
        token: FencingToken,
    },
    /// The connection stands. It proves nothing about the grant.
    Alive {
        /// The revision of the node's state.
        revision: Revision,
    },
    /// An administrator asks to give the lock back; it is held all the same.
    Revoke {
        /// Its id.
        id: GrantId,
        /// Who asks, in words.
        by: String,
        /// Why, in words; may be empty.
        reason: String,
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
    /// The server stops; the grant keeps its place, held or queued, for its ttl.
    Goaway {
        /// Its secret id, and the key to ask again with at another node.
        id: GrantId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GrantNumber;

    #[test]
    fn the_lines_read_as_the_contract_has_them() {
        let id = GrantId::from_ulid(1);
        let owner = "ci-7".to_owned();
        let first =
            Contender { number: GrantNumber(41), owner, since: None, token: None, held_for: None, meta: Default::default() };
        for (line, text) in [
            (
                Line::Queued { id, position: 2, ahead: vec![first], estimate: None },
                r#"{"event":"queued","id":"ID","position":2,"ahead":[{"number":41,"owner":"ci-7"}]}"#,
            ),
            (Line::Held { id, token: FencingToken(43) }, r#"{"event":"held","id":"ID","token":43}"#),
            (Line::Alive { revision: Revision(9012) }, r#"{"event":"alive","revision":9012}"#),
            (Line::Lost { id, reason: EndReason::Expired }, r#"{"event":"lost","id":"ID","reason":"expired"}"#),
            (
                Line::Revoke { id, by: "admin".to_owned(), reason: "an upgrade".to_owned() },
                r#"{"event":"revoke","id":"ID","by":"admin","reason":"an upgrade"}"#,
            ),
            (Line::Goaway { id }, r#"{"event":"goaway","id":"ID"}"#),
        ] {
            assert_eq!(serde_json::to_string(&line).unwrap(), text.replace("ID", &id.to_string()));
        }
    }
}
