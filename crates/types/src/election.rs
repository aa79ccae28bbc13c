//! Elections: the list of them (`GET /v1/elections`), the current leader of one (`GET /v1/elections/{name}`), and the lines of
//! a stream that observes it, one JSON object each.

use crate::{FencingToken, GrantNumber, LockName, Revision, SessionNumber, dto::Contender, watch::Failure};
use serde::{Deserialize, Serialize};

/// The current leader of an election.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Election {
    /// The election.
    pub election: LockName,
    /// The leader.
    pub leader: Contender,
    /// The leader's session, by its public number.
    pub session: SessionNumber,
    /// The value that it proclaims.
    pub value: String,
    /// Its fencing token, which is the revision at which it was elected.
    pub token: FencingToken,
    /// How many times the leader has proclaimed a new value since it took the lead.
    pub version: i32,
    /// The revision of that value.
    pub value_since: Revision,
}

/// An election in the list of elections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ListedElection {
    /// Its name.
    pub election: LockName,
    /// The leader; missing if nobody leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<Contender>,
    /// The value that the leader proclaims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The leader's fencing token, which is the revision at which it was elected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// The number of candidates that wait.
    pub waiting: u64,
}

/// A value was proclaimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Proclaimed {
    /// The election.
    pub election: LockName,
    /// How many times the leader has proclaimed a new value since it took the lead.
    pub version: i32,
    /// The revision of the change.
    pub revision: Revision,
}

/// One line. After `error` and `goaway` the stream ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ElectionLine"))]
pub struct ElectionLine {
    /// The revision of the change. For `leader` and the first `vacant`, the revision of the state that was read; for
    /// `bookmark`, `credential_expires` and `goaway`, the revision up to which all events were sent; for `error`, the node's
    /// revision.
    pub revision: Revision,
    /// The event.
    #[serde(flatten)]
    pub what: What,
}

/// An event that an observer of an election receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum What {
    /// The leader when the observation began.
    Leader(Leader),
    /// A new leader.
    Elected(Leader),
    /// The leader proclaims another value.
    Proclaimed(Leader),
    /// Nobody leads.
    Vacant,
    /// All events up to this revision were sent.
    Bookmark,
    /// The credential of this observation expires within a minute: the observation then ends. Start it again with a newer one.
    CredentialExpires,
    /// The server is shutting down: observe again at another node, from the revision after this one.
    Goaway,
    /// The observation cannot continue.
    Error(Box<Failure>),
}

/// A leader, as observers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ElectionLeader"))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Leader {
    /// Its fencing token: it grows from leader to leader.
    pub token: FencingToken,
    /// The value that it proclaims.
    pub value: String,
    /// How many times the leader has proclaimed a new value since it took the lead.
    pub version: i32,
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: String,
}

impl From<Election> for Leader {
    fn from(found: Election) -> Leader {
        let Election { leader: Contender { number, owner, .. }, session, value, token, version, .. } = found;
        Leader { token, value, version, number, session, owner }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_have_the_documented_json() {
        let leader = Leader {
            token: FencingToken(57),
            value: "http://10.0.0.7".to_owned(),
            version: 0,
            number: GrantNumber(41),
            session: SessionNumber(40),
            owner: "ci-7".to_owned(),
        };
        let of = r#""token":57,"value":"http://10.0.0.7","version":0,"number":41,"session":40,"owner":"ci-7""#;
        for (what, text) in [
            (What::Elected(leader.clone()), format!(r#""elected",{of}"#)),
            (What::Leader(leader), format!(r#""leader",{of}"#)),
            (What::Vacant, r#""vacant""#.to_owned()),
            (What::Bookmark, r#""bookmark""#.to_owned()),
            (What::CredentialExpires, r#""credential_expires""#.to_owned()),
        ] {
            let line = serde_json::to_string(&ElectionLine { revision: Revision(57), what }).unwrap();
            assert_eq!(line, format!(r#"{{"revision":57,"type":{text}}}"#));
        }
    }
}
