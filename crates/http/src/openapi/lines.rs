//! Examples of each line of the three streams.

use super::{examples::GRANT_ID, problems};
use crate::{edge::answer, edge::stream::StreamFormat};
use fairhold_types::{
    ClusterVersion, Code, EndReason, FencingToken, GrantNumber, LockName, MemberRole, Path, Revision, SessionNumber, Timing, dto,
    election::{self, Leader},
    hold,
    problem::Problem,
    watch::{self, SessionEnd},
};
use serde::Serialize;
use serde_json::Value;

/// Lines by their names.
pub(super) type Lines = Vec<(String, Value)>;

const NUMBER: GrantNumber = GrantNumber(57);
const SESSION: SessionNumber = SessionNumber(57);
const TOKEN: FencingToken = FencingToken(58);
const OWNER: &str = "ci-9";
const BY: &str = "curl@10.0.0.2";
const REASON: &str = "an upgrade";

/// The lines of a stream that holds a grant, by their names.
pub(super) fn held() -> Lines {
    let Ok(id) = GRANT_ID.parse() else { return Vec::new() };
    let ahead = answer::named(GrantNumber(41), "ci-7".to_owned());
    let (by, reason) = (BY.to_owned(), REASON.to_owned());
    let lines = [
        hold::HoldLine::Queued { id, position: 2, ahead: vec![ahead], estimate: Some("40s".to_owned()) },
        hold::HoldLine::Held { id, token: TOKEN },
        hold::HoldLine::Alive { revision: Revision(9012) },
        hold::HoldLine::Revoke { id, by, reason },
        hold::HoldLine::CredentialExpires { id },
        hold::HoldLine::Lost { id, reason: EndReason::Expired },
        hold::HoldLine::Error(Box::new(Problem::from(problems::example(Code::WaitTimeout)))),
        hold::HoldLine::Goaway { id },
    ];
    lines.iter().map(|line| named(line, "event")).collect()
}

/// The lines of a watch, by their names, as lines and as server-sent events.
pub(super) fn watched() -> [Lines; 2] {
    let (Ok(path), Ok(lock)) = (Path::parse("/jobs/nightly"), LockName::parse("deploy")) else { return Default::default() };
    // A client cannot continue after an incomplete revision, or after a line that is not an event.
    let goes_on = |what: &watch::What| {
        !matches!(
            what,
            watch::What::NodeThere { .. }
                | watch::What::ContenderThere { .. }
                | watch::What::SessionThere { .. }
                | watch::What::CredentialExpires
                | watch::What::Goaway
                | watch::What::Error(_)
        )
    };
    let lines = tree(&path).into_iter().chain(locks(&lock)).chain(cluster()).chain(rest(&path, lock));
    in_both_formats(lines.map(|what| {
        let (revision, goes_on) = (Revision(58), goes_on(&what));
        (watch::WatchLine { revision, what }, goes_on.then_some(revision))
    }))
}

/// The lines of an election's stream, likewise.
pub(super) fn observed() -> [Lines; 2] {
    let leader = |version, value: &str| Leader {
        token: TOKEN,
        value: value.to_owned(),
        version,
        number: NUMBER,
        session: SESSION,
        owner: OWNER.to_owned(),
    };
    let (first, moved) = (leader(0, "http://10.0.0.9:8080"), leader(1, "http://10.0.0.9:8081"));
    let error = watch::Failure::from(Problem::from(problems::example(Code::Compacted)));
    in_both_formats(
        [
            (election::What::Leader(first.clone()), true),
            (election::What::Elected(first), true),
            (election::What::Proclaimed(moved), true),
            (election::What::Vacant, true),
            (election::What::Bookmark, true),
            (election::What::CredentialExpires, false),
            (election::What::Goaway, false),
            (election::What::Error(Box::new(error)), false),
        ]
        .into_iter()
        .map(|(what, goes_on)| {
            let revision = Revision(58);
            (election::ElectionLine { revision, what }, goes_on.then_some(revision))
        }),
    )
}

fn tree(path: &Path) -> Vec<watch::What> {
    vec![
        watch::What::NodeCreated { path: path.clone() },
        watch::What::NodeChanged { path: path.clone(), version: 3 },
        watch::What::NodeDeleted { path: path.clone() },
    ]
}

fn locks(lock: &LockName) -> Vec<watch::What> {
    let (number, session, token) = (NUMBER, SESSION, TOKEN);
    let (lock, owner, by, reason) = (|| lock.clone(), || OWNER.to_owned(), || BY.to_owned(), || REASON.to_owned());
    vec![
        watch::What::Queued { lock: lock(), number, session, owner: owner() },
        watch::What::Granted { lock: lock(), number, token, session, owner: owner() },
        watch::What::GrantEnded { lock: lock(), number, session, reason: EndReason::Released },
        watch::What::Cooling { lock: lock(), number, delay: "10s".to_owned() },
        watch::What::Downgraded { lock: lock(), number },
        watch::What::Cooled { lock: lock(), number },
        watch::What::Broken { lock: lock(), by: by(), reason: reason() },
        watch::What::Proclaimed { lock: lock(), number, token, version: 0, session, owner: owner() },
        watch::What::Vacated { lock: lock(), number },
        watch::What::LockSet { lock: lock(), by: by() },
        watch::What::Revoked { lock: lock(), number, by: by(), reason: reason() },
        watch::What::LockForgotten { lock: lock() },
    ]
}

fn cluster() -> Vec<watch::What> {
    let (member, role, by) = (5, MemberRole::Voter, || BY.to_owned());
    vec![
        watch::What::MemberJoining { member, role, replaces: Some(2) },
        watch::What::MemberJoined { member, role },
        watch::What::MemberRemoving { member, by: by() },
        watch::What::MemberRemoved { member, by: by() },
        watch::What::MemberSet { member, by: by() },
        watch::What::TimingSet { timing: Timing::Wan, by: by() },
        watch::What::UpgradeFinalized { cluster_version: ClusterVersion(2) },
    ]
}

fn rest(path: &Path, lock: LockName) -> Vec<watch::What> {
    let (number, session, owner) = (NUMBER, SESSION, OWNER.to_owned());
    let (ttl, name) = (|| "15s".to_owned(), "worker-3".to_owned());
    let error = watch::Failure::from(Problem::from(problems::example(Code::Compacted)));
    vec![
        watch::What::SessionOpened { session, ttl: ttl() },
        watch::What::SessionChanged { session, ttl: ttl() },
        watch::What::SessionEnded { session, reason: SessionEnd::Expired },
        watch::What::NodeThere { path: path.clone(), version: 3 },
        watch::What::ContenderThere { lock, number, state: dto::GrantState::Held, token: Some(TOKEN), session, owner },
        watch::What::SessionThere { session, ttl: ttl(), name },
        watch::What::Bookmark,
        watch::What::CredentialExpires,
        watch::What::Goaway,
        watch::What::Error(Box::new(error)),
    ]
}

/// Each line under its name, as JSON and as a server-sent event. A second line with the same name gets its subject appended.
fn in_both_formats<L: Serialize>(lines: impl Iterator<Item = (L, Option<Revision>)>) -> [Lines; 2] {
    let (mut plain, mut events) = (Lines::new(), Lines::new());
    for (line, id) in lines {
        let (mut name, json) = named(&line, "type");
        if plain.iter().any(|(other, _)| *other == name) {
            let subject =
                ["lock", "session", "member", "timing"].into_iter().find(|subject| !json[*subject].is_null()).unwrap_or_default();
            name = format!("{name}_{subject}");
        }
        let mut event = Vec::new();
        StreamFormat::Events.write(&line, id, &mut event);
        events.push((name.clone(), String::from_utf8_lossy(&event).into_owned().into()));
        plain.push((name, json));
    }
    [plain, events]
}

fn named(line: &impl Serialize, tag: &str) -> (String, Value) {
    let json = serde_json::to_value(line).unwrap_or_default();
    (json[tag].as_str().unwrap_or_default().to_owned(), json)
}
