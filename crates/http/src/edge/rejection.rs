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
    let (code, facts) = match rejection {
        Rejection::NoSession => (Code::SessionNotFound, Facts::default()),
        Rejection::SessionEnded => (Code::SessionExpired, Facts::default()),
        Rejection::NoGrant => (Code::GrantNotFound, Facts::default()),
        Rejection::LockHeld { holder, ahead } => {
            let position = Some(ahead.saturating_add(1));
            (Code::LockHeld, Facts { holder: Some(answer::contender(holder, kind.now())), position, ..Facts::default() })
        }
        Rejection::GrantEnded { reason, note } => (Code::GrantGone, Facts { reason: Some(reason), note, ..Facts::default() }),
        Rejection::Forgotten => (Code::Forgotten, Facts::default()),
        Rejection::IdempotencyMismatch { field } => {
            let detail = match kind {
                RequestKind::AcquireInBatch { .. } => bounded(format!("the same id was used with another {field}")),
                RequestKind::Acquire { .. } | RequestKind::Change | RequestKind::Write { .. } | RequestKind::Read => detail,
            };
            let facts = Facts { field: Some(field), ..Facts::default() };
            return Problem::new(Code::IdempotencyMismatch, detail).facts(facts);
        }
        Rejection::LimitMismatch { limit } | Rejection::SharedWithLimit { limit } => (Code::LimitMismatch, limited(limit.into())),
        Rejection::PermitsOverLimit { permits: _, limit } => (Code::BadRequest, limited(limit.into())),
        Rejection::QueueFull { max } | Rejection::HoldsFull { max } => (Code::QueueFull, limited(max)),
        Rejection::StateFull { used: _, max } => (Code::StateFull, limited(max)),
        Rejection::SessionsFull { max } | Rejection::MemoryFull { max } => (Code::RateLimited, limited(max)),
        Rejection::SessionOwned { session } => (Code::SessionOwned, Facts { session: Some(session), ..Facts::default() }),
        Rejection::StaleToken { current } => {
            let problem =
                Problem::new(Code::StaleToken, detail).facts(Facts { current_token: Some(current), ..Facts::default() });
            // A check answers the caller's question. A write fails because its condition does not hold.
            let is_write = matches!(kind, RequestKind::Write { .. });
            return if is_write { problem.status(StatusCode::PRECONDITION_FAILED) } else { problem };
        }
        Rejection::VersionMismatch { current } => {
            (Code::VersionMismatch, Facts { current_version: Some(current), ..Facts::default() })
        }
        Rejection::NoNode { path } => (Code::NoNode, about(path)),
        Rejection::ReadOnly { path } => {
            let why = match path == Path::root() {
                true => "the root always exists",
                false => "only the calls for locks change the nodes under /locks",
            };
            return Problem::new(Code::Denied, format!("{detail}: {why}")).facts(about(path));
        }
        // A multi-lock grant cannot do this: the cause is the grant, not the request.
        Rejection::Unsupported { what: _ } if matches!(kind, RequestKind::Change) => (Code::KindMismatch, Facts::default()),
        Rejection::Unsupported { what: _ } => (Code::BadRequest, Facts::default()),
        Rejection::Step { part, index, reason } => {
            let problem = of_rejection(*reason, detail, kind);
            return problem.map_facts(|facts| Facts { failed: Some(failed_step(part, index)), ..facts });
        }
        Rejection::NodeExists { path } | Rejection::OtherKind { path, kind: _ } => (Code::NodeExists, about(path)),
        Rejection::NotEmpty { path, children: _ } => (Code::NotEmpty, about(path)),
        Rejection::EphemeralParent { path } => (Code::EphemeralParent, about(path)),
        Rejection::TooManyNodes { max } | Rejection::TooManyCreated { max } => (Code::TooLarge, limited(max)),
        Rejection::WouldDeadlock { cycle } => {
            let cycle = cycle.into_iter().take(CYCLE_NAMED_MAX);
            let cycle = cycle.map(|Blocked { session, owner, lock }| problem::Blocked { session, owner, lock });
            (Code::WouldDeadlock, Facts { cycle: Some(cycle.collect()), ..Facts::default() })
        }
        Rejection::NotHeld => (Code::NotHeld, Facts::default()),
        Rejection::NotLeader => (Code::NotLeader, Facts::default()),
        Rejection::OtherUse { election } => return other_use(election, detail),
        Rejection::Defect { fingerprint: _ } => (Code::Internal, outcome(Effect::None, None)),
        // Only a join is refused so, except that the token of a repeated request may be revoked by now.
        Rejection::JoinToken(_) => (Code::NotFound, Facts::default()),
        Rejection::JoinTokensFull { max } | Rejection::JoinsFull { max } => (Code::RateLimited, limited(max)),
        Rejection::NeedsUpgrade { version } => needs_upgrade(version),
        // The node decides again before a caller sees it.
        Rejection::AccessChanged => (Code::StaleAccess, outcome(Effect::None, None)),
        Rejection::Access(fault) => of_access_fault(fault),
        // Grants and sessions end by themselves. Nodes and tokens stay until somebody removes them.
        Rejection::QuotaExceeded { tenant, quota, limit, used } => {
            let facts = Facts { outcome: Some(Effect::None), ..over_quota(tenant.to_string(), quota, limit, used) };
            return Problem::new(Code::QuotaExceeded, detail).retryable(quota.frees_itself()).facts(facts);
        }
        Rejection::NoRoomForName { parent } => (Code::BadRequest, about(parent)),
    };
    Problem::new(code, detail).facts(facts)
}

fn other_use(election: bool, detail: String) -> Problem {
    let (collection, other) = if election { ("elections", "lock") } else { ("locks", "election") };
    let advice = format!("use /v1/{collection}/…, or choose another name for the {other}");
    Problem::new(Code::KindMismatch, detail).advice(Some(advice))
}

fn needs_upgrade(version: ClusterVersion) -> (Code, Facts) {
    (Code::NeedsUpgrade, Facts { cluster_version: Some(version), ..Facts::default() })
}

fn of_access_fault(fault: AccessFault) -> (Code, Facts) {
    match fault {
        AccessFault::NeedsFile => (Code::Denied, Facts::default()),
        AccessFault::NoRole | AccessFault::NoToken | AccessFault::TokenGone => (Code::NotFound, Facts::default()),
        AccessFault::RoleChanged { current: _ } | AccessFault::TenantChanged { current: _ } => {
            (Code::VersionMismatch, Facts::default())
        }
        AccessFault::Full { what: _, max } => (Code::RateLimited, limited(max)),
        AccessFault::WouldLockOut => (Code::WouldLockOut, Facts::default()),
        AccessFault::BuiltInRole | AccessFault::RoleInUse { bindings: _ } => (Code::InUse, Facts::default()),
        AccessFault::TenantOverlaps { tenant, on: _ } => {
            (Code::Overlaps, Facts { tenant: Some(tenant.to_string()), ..Facts::default() })
        }
        AccessFault::AlreadyIssued => (Code::AlreadyIssued, Facts::default()),
        AccessFault::UserDisabled => (Code::BadRequest, Facts::default()),
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
