//! The problem of each refusal of the state machine.

use crate::{
    edge::advice::bounded,
    edge::answer,
    edge::problem::{Problem, about, limited, outcome, over_quota},
    edge::request_kind::RequestKind,
};
use fairhold_state::command::{AccessFault, Blocked, Part, Rejection};
use fairhold_types::{
    ClusterVersion, Code, Path,
    limits::CYCLE_NAMED_MAX,
    problem::{self, Effect, Facts, FailedStep, TransactionPart},
};
use http::StatusCode;

/// The problem of a rejection, with `detail` as its text unless the caller needs another.
pub(crate) fn of_rejection(rejection: Rejection, detail: String, kind: RequestKind) -> Problem {
    let code = rejection.code();
    let facts = match rejection {
        Rejection::LockHeld { holder, ahead } => {
            let position = Some(ahead.saturating_add(1));
            Facts { holder: Some(answer::contender(holder, kind.now())), position, ..Facts::default() }
        }
        Rejection::GrantEnded { reason, note } => Facts { reason: Some(reason), note, ..Facts::default() },
        Rejection::IdempotencyMismatch { field } => return other_request(field, detail, kind),
        Rejection::SessionOwned { session } => Facts { session: Some(session), ..Facts::default() },
        Rejection::StaleToken { current } => {
            let problem =
                Problem::new(code, detail).facts(Facts { current_token: Some(current), ..Facts::default() });
            // A check answers the caller's question. A write fails because its condition does not hold.
            let is_write = matches!(kind, RequestKind::Write { .. });
            return if is_write { problem.status(StatusCode::PRECONDITION_FAILED) } else { problem };
        }
        Rejection::VersionMismatch { current } => {
            Facts { current_version: Some(current), ..Facts::default() }
        }
        Rejection::ReadOnly { path } => return read_only(path, &detail),
        // A multi-lock grant cannot do this: the cause is the grant, not the request.
        Rejection::Unsupported { what: _ } if matches!(kind, RequestKind::Change) => {
            return Problem::new(Code::KindMismatch, detail);
        }
        Rejection::Step { part, index, reason } => {
            let problem = of_rejection(*reason, detail, kind);
            return problem.map_facts(|facts| Facts { failed: Some(failed_step(part, index)), ..facts });
        }
        Rejection::WouldDeadlock { cycle } => {
            let cycle = cycle.into_iter().take(CYCLE_NAMED_MAX);
            let cycle = cycle.map(|Blocked { session, owner, lock }| problem::Blocked { session, owner, lock });
            Facts { cycle: Some(cycle.collect()), ..Facts::default() }
        }
        Rejection::OtherUse { election } => return other_use(election, detail),
        Rejection::NoNode { path }
        | Rejection::NodeExists { path }
        | Rejection::OtherKind { path, kind: _ }
        | Rejection::NotEmpty { path, children: _ }
        | Rejection::EphemeralParent { path }
        | Rejection::NoRoomForName { parent: path } => about(path),
        Rejection::LimitMismatch { limit }
        | Rejection::SharedWithLimit { limit }
        | Rejection::PermitsOverLimit { permits: _, limit } => limited(limit.into()),
        Rejection::QueueFull { max }
        | Rejection::HoldsFull { max }
        | Rejection::StateFull { used: _, max }
        | Rejection::SessionsFull { max }
        | Rejection::MemoryFull { max }
        | Rejection::TooManyNodes { max }
        | Rejection::TooManyCreated { max }
        | Rejection::JoinTokensFull { max }
        | Rejection::JoinsFull { max } => limited(max),
        // The node decides again before a caller sees that access rights changed.
        Rejection::Defect { fingerprint: _ } | Rejection::AccessChanged => outcome(Effect::None, None),
        Rejection::NoSession
        | Rejection::SessionEnded
        | Rejection::NoGrant
        | Rejection::Forgotten
        | Rejection::Unsupported { what: _ }
        | Rejection::NotHeld
        | Rejection::NotLeader
        // Only a join is refused so, except that the token of a repeated request may be revoked by now.
        | Rejection::JoinToken(_)
        | Rejection::NoVoterLeft { node: _ } => Facts::default(),
        Rejection::NeedsUpgrade { version } => needs_upgrade(version),
        Rejection::Access(fault) => of_access_fault(fault),
        // Grants and sessions end by themselves. Nodes and tokens stay until somebody removes them.
        Rejection::QuotaExceeded { tenant, quota, limit, used } => {
            let facts = Facts { outcome: Some(Effect::None), ..over_quota(tenant.to_string(), quota, limit, used) };
            return Problem::new(code, detail).retryable(quota.frees_itself()).facts(facts);
        }
    };
    Problem::new(code, detail).facts(facts)
}

/// The same id or key was used for another request.
fn other_request(field: String, detail: String, kind: RequestKind) -> Problem {
    let detail = match kind {
        RequestKind::AcquireInBatch { .. } => bounded(format!("the same id was used with another {field}")),
        RequestKind::Acquire { .. } | RequestKind::Change | RequestKind::Write { .. } | RequestKind::Read => detail,
    };
    Problem::new(Code::IdempotencyMismatch, detail).facts(Facts { field: Some(field), ..Facts::default() })
}

fn read_only(path: Path, detail: &str) -> Problem {
    let why = match path == Path::root() {
        true => "the root always exists",
        false => "only the calls for locks change the nodes under /locks",
    };
    Problem::new(Code::Denied, format!("{detail}: {why}")).facts(about(path))
}

fn other_use(election: bool, detail: String) -> Problem {
    let (collection, other) = if election { ("elections", "lock") } else { ("locks", "election") };
    let advice = format!("use /v1/{collection}/…, or choose another name for the {other}");
    Problem::new(Code::KindMismatch, detail).advice(Some(advice))
}

fn needs_upgrade(version: ClusterVersion) -> Facts {
    Facts { cluster_version: Some(version), ..Facts::default() }
}

fn of_access_fault(fault: AccessFault) -> Facts {
    match fault {
        AccessFault::Full { what: _, max } => limited(max),
        AccessFault::TenantOverlaps { tenant, on: _ } => Facts { tenant: Some(tenant.to_string()), ..Facts::default() },
        AccessFault::NeedsFile
        | AccessFault::NoRole
        | AccessFault::NoToken
        | AccessFault::TokenGone
        | AccessFault::RoleChanged { current: _ }
        | AccessFault::TenantChanged { current: _ }
        | AccessFault::WouldLockOut
        | AccessFault::BuiltInRole
        | AccessFault::RoleInUse { bindings: _ }
        | AccessFault::AlreadyIssued
        | AccessFault::UserDisabled => Facts::default(),
    }
}

fn failed_step(part: Part, index: u32) -> FailedStep {
    let part = match part {
        Part::Conditions => TransactionPart::If,
        Part::Then => TransactionPart::Then,
        Part::Otherwise => TransactionPart::Else,
    };
    FailedStep { part, index }
}
