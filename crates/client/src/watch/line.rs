//! Parses the lines of a watch. The client ignores unknown lines and fields, which a newer server may send.

use crate::{error::Error, problem::ProblemBody};
use fairhold_types::{
    ClusterVersion, Code, EndReason, FencingToken, GrantNumber, LockName, MemberRole, NodeId, Path, Revision, SessionNumber,
    Timing,
    dto::GrantState,
    watch::{SessionEnd, WatchLine, What},
};
use serde::{Deserialize, de::IntoDeserializer};

/// The meaning of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Change(WatchLine),
    /// The node has reported everything up to that revision.
    Bookmark(Revision),
    /// The credential of the watch expires soon. The watch then breaks, and continues with that of then.
    CredentialExpires,
    /// The node has reported everything up to that revision, and is stopping.
    GoAway(Revision),
    /// The node no longer keeps what comes next, but it keeps everything from this revision on.
    Compacted(Revision),
    /// The node cannot continue; another one may.
    Failed(String),
    /// No node will continue it.
    Refused(Error),
    /// An unknown kind of line, of that revision.
    Other(Revision),
}

/// The fields of all kinds of lines.
#[derive(Debug, Deserialize)]
struct LineFields {
    revision: Revision,
    #[serde(rename = "type")]
    kind: String,
    path: Option<Path>,
    version: Option<i32>,
    lock: Option<LockName>,
    number: Option<GrantNumber>,
    session: Option<SessionNumber>,
    owner: Option<String>,
    token: Option<FencingToken>,
    reason: Option<String>,
    by: Option<String>,
    delay: Option<String>,
    ttl: Option<String>,
    name: Option<String>,
    state: Option<GrantState>,
    member: Option<NodeId>,
    role: Option<MemberRole>,
    replaces: Option<NodeId>,
    timing: Option<Timing>,
    cluster_version: Option<ClusterVersion>,
    retryable: Option<bool>,
    status: Option<u16>,
}

/// Reads a line.
pub(super) fn read(text: &[u8]) -> Result<Parsed, serde_json::Error> {
    let fields: LineFields = serde_json::from_slice(text)?;
    let revision = fields.revision;
    Ok(match fields.kind.as_str() {
        "bookmark" => Parsed::Bookmark(revision),
        "credential_expires" => Parsed::CredentialExpires,
        "goaway" => Parsed::GoAway(revision),
        "error" => failure(&fields, text),
        _ => what(fields).map_or(Parsed::Other(revision), |what| Parsed::Change(WatchLine::new(revision, what))),
    })
}

fn failure(fields: &LineFields, text: &[u8]) -> Parsed {
    let problem = ProblemBody::read(text);
    match (problem.code, problem.oldest) {
        (Some(Code::Compacted), Some(oldest)) => Parsed::Compacted(oldest),
        _ if fields.retryable == Some(false) && fields.status.is_some_and(|status| status < 500) => {
            Parsed::Refused(Error::refused(fields.status.unwrap_or_default(), problem))
        }
        _ => Parsed::Failed(problem.detail),
    }
}

/// The change, according to the fields that are present.
fn what(fields: LineFields) -> Option<What> {
    if fields.path.is_none() && fields.lock.is_none() && fields.session.is_none() {
        return of_cluster(fields);
    }
    let LineFields { kind, path, version, lock, number, session, owner, token, reason, by, delay, ttl, name, state, .. } = fields;
    Some(match (kind.as_str(), path, lock, session) {
        ("created", Some(path), None, None) => What::NodeCreated { path },
        ("changed", Some(path), None, None) => What::NodeChanged { path, version: version? },
        ("deleted", Some(path), None, None) => What::NodeDeleted { path },
        ("initial", Some(path), None, None) => What::NodeThere { path, version: version? },
        ("queued", None, Some(lock), Some(session)) => What::Queued { lock, number: number?, session, owner: owner? },
        ("granted", None, Some(lock), Some(session)) => {
            What::Granted { lock, number: number?, token: token?, session, owner: owner? }
        }
        ("ended", None, Some(lock), Some(session)) => {
            What::GrantEnded { lock, number: number?, session, reason: word::<EndReason>(reason?)? }
        }
        ("initial", None, Some(lock), Some(session)) => {
            What::ContenderThere { lock, number: number?, state: state?, token, session, owner: owner? }
        }
        ("cooling", None, Some(lock), None) => What::Cooling { lock, number: number?, delay: delay? },
        ("cooled", None, Some(lock), None) => What::Cooled { lock, number: number? },
        ("downgraded", None, Some(lock), None) => What::Downgraded { lock, number: number? },
        ("proclaimed", None, Some(lock), Some(session)) => {
            What::Proclaimed { lock, number: number?, token: token?, version: version?, session, owner: owner? }
        }
        ("vacated", None, Some(lock), None) => What::Vacated { lock, number: number? },
        ("set", None, Some(lock), None) => What::LockSet { lock, by: by? },
        ("revoke", None, Some(lock), None) => What::Revoked { lock, number: number?, by: by?, reason: reason? },
        ("broken", None, Some(lock), None) => What::Broken { lock, by: by?, reason: reason? },
        ("forgotten", None, Some(lock), None) => What::LockForgotten { lock },
        ("opened", None, None, Some(session)) => What::SessionOpened { session, ttl: ttl? },
        ("changed", None, None, Some(session)) => What::SessionChanged { session, ttl: ttl? },
        ("ended", None, None, Some(session)) => What::SessionEnded { session, reason: word::<SessionEnd>(reason?)? },
        ("initial", None, None, Some(session)) => What::SessionThere { session, ttl: ttl?, name: name? },
        _ => return None,
    })
}

/// The change of the cluster.
fn of_cluster(fields: LineFields) -> Option<What> {
    let LineFields { kind, member, role, replaces, timing, cluster_version, by, .. } = fields;
    Some(match (kind.as_str(), member, timing) {
        ("joining", Some(member), None) => What::MemberJoining { member, role: role?, replaces },
        ("joined", Some(member), None) => What::MemberJoined { member, role: role? },
        ("removing", Some(member), None) => What::MemberRemoving { member, by: by? },
        ("removed", Some(member), None) => What::MemberRemoved { member, by: by? },
        ("set", Some(member), None) => What::MemberSet { member, by: by? },
        ("set", None, Some(timing)) => What::TimingSet { timing, by: by? },
        ("finalized", None, None) => What::UpgradeFinalized { cluster_version: cluster_version? },
        _ => return None,
    })
}

fn word<T: for<'de> Deserialize<'de>>(text: String) -> Option<T> {
    let read: Result<T, serde::de::value::Error> = T::deserialize(text.into_deserializer());
    read.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_parsed_as_it_was_written() {
        let (path, lock) = (Path::parse("/a").unwrap(), LockName::parse("deploy").unwrap());
        let (number, session, token) = (GrantNumber(41), SessionNumber(40), FencingToken(42));
        let (owner, ttl) = ("ci".to_owned(), "30s".to_owned());
        for what in [
            What::NodeCreated { path: path.clone() },
            What::NodeChanged { path: path.clone(), version: 3 },
            What::NodeDeleted { path: path.clone() },
            What::NodeThere { path, version: 0 },
            What::Queued { lock: lock.clone(), number, session, owner: owner.clone() },
            What::Granted { lock: lock.clone(), number, token, session, owner: owner.clone() },
            What::GrantEnded { lock: lock.clone(), number, session, reason: EndReason::Broken },
            What::Proclaimed { lock: lock.clone(), number, token, version: 1, session, owner: owner.clone() },
            What::Vacated { lock: lock.clone(), number },
            What::Downgraded { lock: lock.clone(), number },
            What::LockSet { lock: lock.clone(), by: "ops".to_owned() },
            What::Revoked { lock: lock.clone(), number, by: "ops".to_owned(), reason: "an upgrade".to_owned() },
            What::ContenderThere { lock: lock.clone(), number, state: GrantState::Queued, token: None, session, owner },
            What::Cooling { lock: lock.clone(), number, delay: ttl.clone() },
            What::Cooled { lock: lock.clone(), number },
            What::Broken { lock: lock.clone(), by: "ops".to_owned(), reason: String::new() },
            What::LockForgotten { lock },
            What::SessionOpened { session, ttl: ttl.clone() },
            What::SessionChanged { session, ttl: ttl.clone() },
            What::SessionEnded { session, reason: SessionEnd::Expired },
            What::SessionThere { session, ttl, name: "worker".to_owned() },
            What::MemberJoining { member: 5, role: MemberRole::Voter, replaces: Some(2) },
            What::MemberJoining { member: 5, role: MemberRole::Learner, replaces: None },
            What::MemberJoined { member: 5, role: MemberRole::Voter },
            What::MemberRemoving { member: 5, by: "ops".to_owned() },
            What::MemberRemoved { member: 5, by: String::new() },
            What::MemberSet { member: 5, by: "ops".to_owned() },
            What::TimingSet { timing: Timing::Wan, by: "ops".to_owned() },
            What::UpgradeFinalized { cluster_version: ClusterVersion(2) },
        ] {
            let line = WatchLine::new(Revision(7), what);
            let text = serde_json::to_vec(&line).unwrap();
            assert_eq!(read(&text).unwrap(), Parsed::Change(line));
        }
    }

    #[test]
    fn ends_are_distinguished_and_unknown_lines_are_ignored() {
        let parsed = |text: &str| read(text.as_bytes()).unwrap();
        assert_eq!(parsed(r#"{"revision":7,"type":"bookmark"}"#), Parsed::Bookmark(Revision(7)));
        assert_eq!(parsed(r#"{"revision":7,"type":"goaway"}"#), Parsed::GoAway(Revision(7)));
        assert_eq!(parsed(r#"{"revision":7,"type":"credential_expires"}"#), Parsed::CredentialExpires);
        assert_eq!(parsed(r#"{"revision":7,"type":"of_next_year","path":"/a"}"#), Parsed::Other(Revision(7)));
        let compacted =
            r#"{"revision":9,"type":"error","code":"compacted","status":410,"detail":"d","retryable":false,"oldest":8}"#;
        assert_eq!(parsed(compacted), Parsed::Compacted(Revision(8)));
        let overloaded = r#"{"revision":9,"type":"error","code":"overloaded","status":503,"detail":"d","retryable":true}"#;
        assert_eq!(parsed(overloaded), Parsed::Failed("d".to_owned()));
        let denied = r#"{"revision":9,"type":"error","code":"denied","status":403,"detail":"d","retryable":false}"#;
        assert!(matches!(parsed(denied), Parsed::Refused(Error::Refused { status: 403, .. })));
        assert!(read(b"<html>").is_err());
    }
}
