//! The lines of a watch (`GET /v1/watch`): one JSON object for each event.

use crate::{
    ClusterVersion, Code, EndReason, FencingToken, GrantNumber, LockName, MemberRole, NodeId, Path, Revision, SessionNumber,
    Timing, dto::GrantState, problem::Facts, problem::Problem,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One line of a watch. The stream ends after `error` and `goaway`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct WatchLine {
    /// The revision of the change. For `initial`, the revision that the whole initial state reflects; for `bookmark`,
    /// `credential_expires` and `goaway`, the revision up to which all events were sent; for `error`, the node's revision.
    pub revision: Revision,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

impl WatchLine {
    /// What happened at that revision.
    #[must_use]
    pub fn new(revision: Revision, what: What) -> WatchLine {
        WatchLine { revision, what }
    }
}

/// What happened, and to what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum What {
    /// A node of the tree was created.
    #[serde(rename = "created")]
    NodeCreated {
        /// The node.
        path: Path,
    },
    /// A node's value was written.
    #[serde(rename = "changed")]
    NodeChanged {
        /// The node.
        path: Path,
        /// Its version now.
        version: i32,
    },
    /// A node was removed.
    #[serde(rename = "deleted")]
    NodeDeleted {
        /// The node.
        path: Path,
    },
    /// A contender took its place in a lock's queue.
    Queued {
        /// The lock.
        lock: LockName,
        /// The grant's public number.
        number: GrantNumber,
        /// Its session's public number.
        session: SessionNumber,
        /// Its owner, for people to read.
        owner: String,
    },
    /// A contender became a holder.
    Granted {
        /// The lock.
        lock: LockName,
        /// The grant's public number.
        number: GrantNumber,
        /// Its fencing token.
        token: FencingToken,
        /// Its session's public number.
        session: SessionNumber,
        /// Its owner, for people to read.
        owner: String,
    },
    /// A grant ended, held or queued.
    #[serde(rename = "ended")]
    GrantEnded {
        /// The lock.
        lock: LockName,
        /// The grant's public number.
        number: GrantNumber,
        /// Its session's public number.
        session: SessionNumber,
        /// How it ended.
        reason: EndReason,
    },
    /// A grant expired, and its lock stays blocked for the lock delay.
    Cooling {
        /// The lock.
        lock: LockName,
        /// The public number of the grant that expired.
        number: GrantNumber,
        /// The delay, with a unit.
        delay: String,
    },
    /// An exclusive holder now shares the lock, with the same token.
    Downgraded {
        /// The lock.
        lock: LockName,
        /// The grant's public number.
        number: GrantNumber,
    },
    /// A lock delay has ended.
    Cooled {
        /// The lock.
        lock: LockName,
        /// The public number of the grant that had expired.
        number: GrantNumber,
    },
    /// An administrator broke the lock; the grant of each holder ends with its own event.
    Broken {
        /// The lock.
        lock: LockName,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
        /// The reason; may be empty.
        reason: String,
    },
    /// An election has a new leader (version 0), or its leader proclaimed another value. `GET /v1/elections/{name}` shows the
    /// value.
    Proclaimed {
        /// The election.
        lock: LockName,
        /// The public number of the leader's grant.
        number: GrantNumber,
        /// Its fencing token.
        token: FencingToken,
        /// How many times the leader has proclaimed a new value since it took the lead.
        version: i32,
        /// Its session's public number.
        session: SessionNumber,
        /// Its owner, for people to read.
        owner: String,
    },
    /// The leader of an election no longer leads it.
    Vacated {
        /// The election.
        lock: LockName,
        /// The public number of its grant.
        number: GrantNumber,
    },
    /// An administrator changed the settings of a lock.
    #[serde(rename = "set")]
    LockSet {
        /// The lock.
        lock: LockName,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
    },
    /// An administrator asks a holder to release the lock; this ends nothing.
    #[serde(rename = "revoke")]
    Revoked {
        /// The lock.
        lock: LockName,
        /// The grant's public number.
        number: GrantNumber,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
        /// The reason; may be empty.
        reason: String,
    },
    /// A lock was forgotten, with its limit, because nobody had used it for a long time.
    #[serde(rename = "forgotten")]
    LockForgotten {
        /// The lock.
        lock: LockName,
    },
    /// A session was opened.
    #[serde(rename = "opened")]
    SessionOpened {
        /// The session's public number.
        session: SessionNumber,
        /// Its timeout, with a unit.
        ttl: String,
    },
    /// The timeout of a session changed.
    #[serde(rename = "changed")]
    SessionChanged {
        /// The session's public number.
        session: SessionNumber,
        /// Its timeout, with a unit.
        ttl: String,
    },
    /// A session ended.
    #[serde(rename = "ended")]
    SessionEnded {
        /// The session's public number.
        session: SessionNumber,
        /// How it ended.
        reason: SessionEnd,
    },
    /// A new node of the cluster was admitted, and is about to become a member.
    #[serde(rename = "joining")]
    MemberJoining {
        /// Its id.
        member: NodeId,
        /// The role that it will have.
        role: MemberRole,
        /// The member that it replaces.
        #[serde(skip_serializing_if = "Option::is_none")]
        replaces: Option<NodeId>,
    },
    /// The join of a new node is done: it is a member.
    #[serde(rename = "joined")]
    MemberJoined {
        /// Its id.
        member: NodeId,
        /// Its role.
        role: MemberRole,
    },
    /// An administrator requested the removal of a node of the cluster.
    #[serde(rename = "removing")]
    MemberRemoving {
        /// Its id.
        member: NodeId,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
    },
    /// A node of the cluster is no longer a member, and never will be again.
    #[serde(rename = "removed")]
    MemberRemoved {
        /// Its id.
        member: NodeId,
        /// The administrator's client, or the node that replaced it; may be empty.
        by: String,
    },
    /// An administrator changed the priority, the zone or the addresses of a member: `GET /v1/cluster/members`.
    #[serde(rename = "set")]
    MemberSet {
        /// Its id.
        member: NodeId,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
    },
    /// The cluster has another timing profile. Each node uses it from its next start on.
    #[serde(rename = "set")]
    TimingSet {
        /// The profile.
        timing: Timing,
        /// The administrator's client, such as `curl@127.0.0.1`, or `formation`.
        by: String,
    },
    /// An upgrade was finalized.
    #[serde(rename = "finalized")]
    UpgradeFinalized {
        /// The cluster's version from now on.
        cluster_version: ClusterVersion,
    },
    /// A node of the tree that was there when the watch began.
    #[serde(rename = "initial")]
    NodeThere {
        /// The node.
        path: Path,
        /// Its version.
        version: i32,
    },
    /// A grant that held or waited for a lock when the watch began.
    #[serde(rename = "initial")]
    ContenderThere {
        /// The lock.
        lock: LockName,
        /// The grant's public number.
        number: GrantNumber,
        /// Held, queued or cooling.
        state: GrantState,
        /// Its fencing token, while it is held.
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<FencingToken>,
        /// Its session's public number.
        session: SessionNumber,
        /// Its owner, for people to read.
        owner: String,
    },
    /// A session that was open when the watch began.
    #[serde(rename = "initial")]
    SessionThere {
        /// The session's public number.
        session: SessionNumber,
        /// Its timeout, with a unit.
        ttl: String,
        /// Its name, for people.
        name: String,
    },
    /// All events up to this revision were sent.
    Bookmark,
    /// The credential of this watch expires within a minute: the watch then ends. Start it again with a newer one.
    CredentialExpires,
    /// The server is shutting down: watch again at another node, from the revision after this one.
    Goaway,
    /// The watch cannot continue.
    Error(Box<Failure>),
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum SessionEnd {
    /// Its owner ended it, or it ended with its only grant.
    Closed,
    /// It expired: it was not kept alive.
    Expired,
}

/// The problem that ends a watch, without the problem's own `type`: here `type` says that it is an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// The error code, for programs.
    pub code: Code,
    /// The HTTP status that an answer with this problem would have.
    pub status: u16,
    /// What went wrong, in a few words.
    pub title: &'static str,
    /// What went wrong this time.
    pub detail: Cow<'static, str>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Cow<'static, str>>,
    /// Whether the same watch may succeed if you simply start it again.
    pub retryable: bool,
    /// Further facts for a person or a program.
    #[serde(flatten)]
    pub facts: Facts,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let Problem { kind: _, title, status, detail, advice, code, retryable, facts } = problem;
        Failure { code, status, title, detail, advice, retryable, facts }
    }
}

/// A page of the events that the server keeps, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RecentEvents {
    /// The events, each as a watch reports it. The last event of a revision comes first.
    pub items: Vec<WatchLine>,
    /// Where the next page begins; `null` on the last one. A page may have fewer events than the limit even if another
    /// one follows.
    pub next_cursor: Option<String>,
    /// The number of further events after `after` that match: the following pages have them. Missing without `after`, or if
    /// the server has not examined all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// The server keeps all events from this revision on.
    pub oldest: Revision,
    /// The server has examined the events up to this revision: to get later ones, pass it as `after`.
    pub revision: Revision,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_have_the_documented_json() {
        let (path, lock) = (Path::parse("/jobs/a").unwrap(), LockName::parse("deploy").unwrap());
        let (number, session) = (GrantNumber(41), SessionNumber(40));
        for (what, text) in [
            (What::NodeCreated { path: path.clone() }, r#""created","path":"/jobs/a""#),
            (What::NodeChanged { path: path.clone(), version: 3 }, r#""changed","path":"/jobs/a","version":3"#),
            (
                What::Queued { lock: lock.clone(), number, session, owner: "ci".to_owned() },
                r#""queued","lock":"deploy","number":41,"session":40,"owner":"ci""#,
            ),
            (
                What::GrantEnded { lock: lock.clone(), number, session, reason: EndReason::Released },
                r#""ended","lock":"deploy","number":41,"session":40,"reason":"released""#,
            ),
            (What::SessionEnded { session, reason: SessionEnd::Expired }, r#""ended","session":40,"reason":"expired""#),
            (
                What::MemberJoining { member: 4, role: MemberRole::Voter, replaces: Some(2) },
                r#""joining","member":4,"role":"voter","replaces":2"#,
            ),
            (What::MemberJoined { member: 4, role: MemberRole::Learner }, r#""joined","member":4,"role":"learner""#),
            (What::TimingSet { timing: Timing::Wan, by: "ci".to_owned() }, r#""set","timing":"wan","by":"ci""#),
            (What::UpgradeFinalized { cluster_version: ClusterVersion(2) }, r#""finalized","cluster_version":2"#),
            (What::NodeThere { path, version: 0 }, r#""initial","path":"/jobs/a","version":0"#),
            (What::Bookmark, r#""bookmark""#),
            (What::CredentialExpires, r#""credential_expires""#),
        ] {
            let line = serde_json::to_string(&WatchLine { revision: Revision(7), what }).unwrap();
            assert_eq!(line, format!(r#"{{"revision":7,"type":{text}}}"#));
        }
    }

    #[test]
    fn an_error_line_has_one_type_field() {
        let problem = Problem {
            kind: "about:blank",
            title: "Gone",
            status: 410,
            detail: "it is".into(),
            advice: None,
            code: Code::Compacted,
            retryable: false,
            facts: Facts { oldest: Some(Revision(9)), ..Facts::default() },
        };
        let line = WatchLine { revision: Revision(12), what: What::Error(Box::new(problem.into())) };
        let text = concat!(
            r#"{"revision":12,"type":"error","code":"compacted","status":410,"title":"Gone","#,
            r#""detail":"it is","retryable":false,"oldest":9}"#
        );
        assert_eq!(serde_json::to_string(&line).unwrap(), text);
    }
}
