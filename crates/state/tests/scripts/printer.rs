//! The result of a command, as one line: `@3 printer #3 queued; printer #3 granted token=3 → held #3 token=3 of s1`.

use crate::{members, names::Names};
use fairhold_state::command::{Applied, Event, HeldGrant, OperationResult, Outcome, Part, Queued, Rejection};
use fairhold_types::Revision;

/// A changed state prints its revision and events; an unchanged one says so.
pub(crate) fn applied(names: &Names, before: Revision, applied: &Applied) -> String {
    let revision = applied.answer.revision;
    let events: Vec<String> = applied.events.iter().map(|event| self::event(names, event)).collect();
    match &applied.answer.result {
        Ok(outcome) if revision == before => format!("unchanged @{revision} → {}", self::outcome(names, revision, outcome)),
        Ok(outcome) if events.is_empty() => format!("@{revision} → {}", self::outcome(names, revision, outcome)),
        Ok(outcome) => format!("@{revision} {} → {}", events.join("; "), self::outcome(names, revision, outcome)),
        Err(rejection) => format!("refused @{revision}: {}", self::rejection(rejection)),
    }
}

fn event(names: &Names, event: &Event) -> String {
    let name = |number| names.of_session(number);
    match event {
        Event::SessionOpened { session, timeout_ms } => format!("{} opened for {timeout_ms}ms", name(*session)),
        Event::SessionRetimed { session, timeout_ms } => format!("{} lives {timeout_ms}ms", name(*session)),
        Event::SessionClosed { session } => format!("{} closed", name(*session)),
        Event::SessionExpired { session } => format!("{} expired", name(*session)),
        Event::Queued { lock, grant } => format!("{lock} #{grant} queued"),
        Event::Attached { lock, grant, attempt } => format!("{lock} #{grant} attached attempt={attempt}"),
        Event::Granted { lock, grant, token } => format!("{lock} #{grant} granted token={token}"),
        Event::Ended { lock, grant, session: _, reason } => format!("{lock} #{grant} {reason}"),
        Event::Cooling { lock, grant, delay_ms } => format!("{lock} #{grant} cools for {delay_ms}ms"),
        Event::Cooled { lock, grant } => format!("{lock} #{grant} cooled"),
        Event::Broken { lock, by, reason } => format!("{lock} broken by {by}: {reason}"),
        Event::LockForgotten { lock } => format!("{lock} forgotten"),
        Event::NodeCreated { path } => format!("{path} created"),
        Event::NodeChanged { path, version } => format!("{path} changed version={version}"),
        Event::NodeDeleted { path, version } => format!("{path} deleted version={version}"),
        Event::Downgraded { lock, grant } => format!("{lock} #{grant} downgraded"),
        Event::Upgrading { lock, grant } => format!("{lock} #{grant} waits to be upgraded"),
        Event::Holds { lock, grant, holds } => format!("{lock} #{grant} has {holds} holds"),
        Event::LockSet { lock, by } => format!("{lock} set by {by}"),
        Event::Revoked { lock, grant, by, reason } => format!("{lock} #{grant} asked back by {by}: {reason}"),
        Event::UpgradeEnded { lock, grant } => format!("{lock} #{grant} stays shared"),
        Event::ChildrenChanged { path, cversion } => format!("{path} children cversion={cversion}"),
        Event::Proclaimed { lock, grant, token, version, value } => {
            format!("{lock} #{grant} leads token={token} version={version} value={}", String::from_utf8_lossy(value))
        }
        Event::Vacated { lock, grant } => format!("{lock} #{grant} leads no more"),
        Event::Cluster(event) => members::event(event),
    }
}

fn outcome(names: &Names, revision: Revision, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Nothing => "nothing".to_owned(),
        Outcome::Done => "done".to_owned(),
        Outcome::SessionOpened { id: _, number, timeout_ms } => {
            format!("{} is open for {timeout_ms}ms", names.of_session(*number))
        }
        Outcome::Held(HeldGrant { number, token, session, attempt }) => {
            format!("held #{number} token={token} of {}{}", names.of_session(*session), again(*attempt))
        }
        Outcome::Queued(Queued { number, session, attempt }) => {
            format!("queued #{number} of {}{}", names.of_session(*session), again(*attempt))
        }
        Outcome::Broken { holders, named } => {
            let named: Vec<String> = named.iter().map(|number| format!("#{number}")).collect();
            format!("broke {holders}: {}", if named.is_empty() { "nobody".to_owned() } else { named.join(" ") })
        }
        Outcome::Judged { objects } => format!("judged {objects}"),
        Outcome::JoinTokenCreated { number, repeated } => {
            format!("join token {number}{}", if *repeated { ", created before" } else { "" })
        }
        Outcome::AccessTokenCreated { number, repeated } => {
            format!("token {number}{}", if *repeated { ", created before" } else { "" })
        }
        Outcome::Admitted { node, role, replaces } => format!("node {node}, a {role}{}", members::in_place_of(*replaces)),
        Outcome::WrittenBefore { succeeded, at } => {
            format!("{} at @{at}, without its results", if *succeeded { "written" } else { "written otherwise" })
        }
        Outcome::Written { succeeded, results, at } => {
            let results: Vec<String> = results.iter().map(result).collect();
            let results = if results.is_empty() { "nothing".to_owned() } else { results.join(", ") };
            let when = if *at == revision { String::new() } else { format!(" at @{at}") };
            format!("{}{when}: {results}", if *succeeded { "written" } else { "written otherwise" })
        }
    }
}

fn again(attempt: u64) -> String {
    if attempt == 1 { String::new() } else { format!(" attempt={attempt}") }
}

fn result(result: &OperationResult) -> String {
    match result {
        OperationResult::Put { created, version } => {
            format!("{} version={version}", if *created { "created" } else { "changed" })
        }
        OperationResult::Created { path } => format!("created {path}"),
        OperationResult::Set { version } => format!("set version={version}"),
        OperationResult::Deleted { count } => format!("deleted {count}"),
        OperationResult::Checked { version } => format!("checked version={version}"),
    }
}

/// The variant's name, for programs, and its text, for people; and the facts that the text leaves out.
pub(crate) fn rejection(rejection: &Rejection) -> String {
    if let Rejection::Step { part, index, reason } = rejection {
        let part = match part {
            Part::Conditions => "if",
            Part::Then => "then",
            Part::Otherwise => "else",
        };
        return format!("{part}[{index}] {}", self::rejection(reason));
    }
    let debug = format!("{rejection:?}");
    let variant = debug.split([' ', '(']).next().unwrap_or_default();
    let facts = match rejection {
        Rejection::LockHeld { holder, ahead } => {
            let token = holder.token.map_or_else(|| "none".to_owned(), |token| token.to_string());
            format!(" (#{} token={token}, {ahead} ahead)", holder.number)
        }
        Rejection::StaleToken { current } => {
            format!(" (current: {})", current.map_or_else(|| "none".to_owned(), |token| token.to_string()))
        }
        Rejection::VersionMismatch { current } => {
            format!(" (current: {})", current.map_or_else(|| "no node".to_owned(), |version| version.to_string()))
        }
        Rejection::NoSession
        | Rejection::SessionEnded
        | Rejection::NoGrant
        | Rejection::GrantEnded { .. }
        | Rejection::Forgotten
        | Rejection::IdempotencyMismatch { .. }
        | Rejection::LimitMismatch { .. }
        | Rejection::PermitsOverLimit { .. }
        | Rejection::QuotaExceeded { .. }
        | Rejection::SharedWithLimit { .. }
        | Rejection::QueueFull { .. }
        | Rejection::SessionsFull { .. }
        | Rejection::MemoryFull { .. }
        | Rejection::SessionOwned { .. }
        | Rejection::NoNode { .. }
        | Rejection::ReadOnly { .. }
        | Rejection::Unsupported { .. }
        | Rejection::Step { .. }
        | Rejection::NodeExists { .. }
        | Rejection::OtherKind { .. }
        | Rejection::NotEmpty { .. }
        | Rejection::EphemeralParent { .. }
        | Rejection::TooManyNodes { .. }
        | Rejection::NoRoomForName { .. }
        | Rejection::WouldDeadlock { .. }
        | Rejection::HoldsFull { .. }
        | Rejection::Defect { .. }
        | Rejection::TooManyCreated { .. }
        | Rejection::StateFull { .. }
        | Rejection::JoinToken(_)
        | Rejection::JoinTokensFull { .. }
        | Rejection::JoinsFull { .. }
        | Rejection::NoVoterLeft { .. }
        | Rejection::NeedsUpgrade { .. }
        | Rejection::AccessChanged
        | Rejection::Access(_)
        | Rejection::NotHeld
        | Rejection::NotLeader
        | Rejection::OtherUse { .. } => String::new(),
    };
    format!("{variant}: {rejection}{facts}")
}
