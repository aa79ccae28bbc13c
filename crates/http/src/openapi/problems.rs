//! An example of each refusal, made by the code that refuses.

use super::examples;
use crate::{
    audit::unavailable, edge::error::problem_of, edge::params::expected, edge::problem::Problem, edge::request_kind::RequestKind,
};
use fairhold_access::{QuotaKind, TenantName};
use fairhold_node::{access::AccessRefusal, api::CallError};
use fairhold_raft::{
    FinalizeError, HandoverError, MembershipError,
    error::{NotProposed, ReadError},
};
use fairhold_state::command::{AccessFault, Blocked, HolderFacts, Rejection};
use fairhold_types::{
    ClusterVersion, Code, EndReason, FencingToken, GrantId, GrantNumber, LockName, Path, Revision, SessionNumber, Timing,
    limits::{HEAD_BYTES_MAX, HEADERS_MAX, VALUE_BYTES_MAX},
    problem,
    time::WallMillis,
};
use http::StatusCode;
use serde_json::Value;
use std::time::Duration;

/// 2026-01-01T12:00:31Z, as the other examples have it.
const NOW: WallMillis = WallMillis(1_767_268_831_000);

/// The JSON of the refusal with that status; `null` if it cannot be encoded.
pub(super) fn example_json(status: StatusCode, code: Code) -> Value {
    let problem = match (code, status) {
        (Code::TooLarge, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) => Problem::new(
            code,
            format!(
                "a request can have at most {HEADERS_MAX} headers, and {HEAD_BYTES_MAX} bytes in its request line and headers"
            ),
        ),
        _ => example(code),
    };
    serde_json::to_value(problem::Problem::from(problem.status(status))).unwrap_or_default()
}

/// A typical refusal with that code.
pub(super) fn example(code: Code) -> Problem {
    let problem = |detail: &'static str| Problem::new(code, detail);
    match code {
        Code::BadRequest => expected("wait", "a duration with a unit, like 30s, 250ms or 10m (a bare number means seconds)"),
        Code::Unauthenticated => problem("this call is for administrators: send \"Authorization: Bearer TOKEN\" with the token"),
        Code::Denied => {
            problem("the token is not this server's administrator token: pass the token of the server's --admin-token-file")
        }
        Code::WrongCluster => {
            problem("the request is for another cluster; Fairhold-Cluster in this answer names the cluster of this node")
        }
        Code::NotFound => problem("there is nothing at this path: /openapi.json lists all calls"),
        Code::MethodNotAllowed => problem(
            "this path does not support this method: the header Allow lists the methods that it has, and /openapi.json lists \
             all calls",
        ),
        Code::NoLeader => problem("this election has no leader"),
        Code::SessionExpired => problem("the session has ended or never existed"),
        Code::TooLarge => Problem::new(code, format!("a value can have at most {VALUE_BYTES_MAX} bytes")),
        Code::Internal => problem("the answer could not be encoded as JSON"),
        Code::DeadlineExceeded => problem_of(ReadError::Deadline.into(), RequestKind::Read),
        Code::BackupBusy => problem_of(CallError::BackupBusy, RequestKind::Read),
        Code::Overloaded => not_served(NotProposed::Overloaded),
        Code::DiskLow => problem_of(CallError::Propose(NotProposed::DiskLow.into()), acquire_kind()),
        Code::StaleAccess => problem_of(AccessRefusal::Stale.into(), RequestKind::Change),
        Code::AuditUnavailable => unavailable(),
        Code::NoQuorum => not_served(NotProposed::NoLeader),
        Code::ShuttingDown => problem_of(CallError::ShuttingDown, RequestKind::Read),
        Code::NotCaughtUp => problem_of(HandoverError::Behind { to: 2, lag: 830 }.into(), RequestKind::Change),
        Code::AlreadyLeader => problem_of(HandoverError::AlreadyLeader { to: 2 }.into(), RequestKind::Change),
        Code::NotAllUpgraded => problem_of(FinalizeError::Blocked(vec![examples::BLOCKER.into()]).into(), RequestKind::Change),
        Code::NeedsUpgrade => member_refused(MembershipError::NeedsUpgrade { version: ClusterVersion::FIRST }),
        Code::ChangeInProgress => member_refused(MembershipError::ChangeInProgress { what: "node 5 replaces node 2".to_owned() }),
        Code::WrongNode => member_refused(MembershipError::WrongNode { address: "n2:7271".to_owned(), found: Some(3) }),
        Code::WouldLoseQuorum => member_refused(MembershipError::WouldLoseQuorum { voters: 2, healthy: 1, needed: 2 }),
        Code::TimingTooFast => timing_too_fast(),
        Code::Compacted => problem_of(CallError::Compacted { oldest: Revision(8_000) }, RequestKind::Read),
        Code::WouldLockOut => refused(Rejection::Access(AccessFault::WouldLockOut)),
        Code::AlreadyIssued => refused(Rejection::Access(AccessFault::AlreadyIssued)),
        Code::InUse => refused(Rejection::Access(AccessFault::RoleInUse { bindings: 3 })),
        Code::Overlaps => {
            refused(Rejection::Access(AccessFault::TenantOverlaps { tenant: tenant_name(), on: "locks:web/a/**".to_owned() }))
        }
        Code::QuotaExceeded => {
            refused(Rejection::QuotaExceeded { tenant: tenant_name(), quota: QuotaKind::Contenders, limit: 300, used: 300 })
        }
        Code::BadRule => problem("rule 2: character 15: level 2 is empty"),
        Code::NoNode => refused(Rejection::NoNode { path: path() }),
        Code::NotEmpty => refused(Rejection::NotEmpty { path: path(), children: 3 }),
        Code::NodeExists => refused(Rejection::NodeExists { path: path() }),
        Code::EphemeralParent => refused(Rejection::EphemeralParent { path: path() }),
        Code::VersionMismatch => refused(Rejection::VersionMismatch { current: Some(18) }),
        Code::GrantNotFound => refused(Rejection::NoGrant),
        Code::SessionNotFound => refused(Rejection::NoSession),
        Code::SessionOwned => refused(Rejection::SessionOwned { session: SessionNumber(40) }),
        Code::GrantGone => refused(Rejection::GrantEnded { reason: EndReason::Expired, note: None }),
        Code::NotHeld => refused(Rejection::NotHeld),
        Code::NotLeader => refused(Rejection::NotLeader),
        Code::KindMismatch => refused(Rejection::OtherUse { election: true }),
        Code::StaleToken => refused(Rejection::StaleToken { current: Some(FencingToken(57)) }),
        Code::Forgotten => refused(Rejection::Forgotten),
        Code::IdempotencyMismatch => refused(Rejection::IdempotencyMismatch { field: "mode".to_owned() }),
        Code::LimitMismatch => refused(Rejection::LimitMismatch { limit: 3 }),
        Code::QueueFull => refused(Rejection::QueueFull { max: 10_000 }),
        Code::StateFull => refused(Rejection::StateFull { used: 127_000_000, max: 134_217_728 }),
        Code::RateLimited => refused(Rejection::SessionsFull { max: 1_000_000 }),
        Code::WouldDeadlock => refused(Rejection::WouldDeadlock { cycle: deadlock_cycle() }),
        Code::LockHeld => refused(Rejection::LockHeld { holder: holder(), ahead: 1 }),
        Code::WaitTimeout => wait_timeout(),
    }
}

fn tenant_name() -> TenantName {
    TenantName::parse("web").unwrap_or_else(|_| TenantName::lowest())
}

fn not_served(reason: NotProposed) -> Problem {
    problem_of(ReadError::from(reason).into(), RequestKind::Read)
}

fn wait_timeout() -> Problem {
    problem_of(CallError::WaitTimeout { holder: Some(holder()), queue_position: Box::default() }, acquire_kind())
}

fn timing_too_fast() -> Problem {
    let (round_trip, suits) = (Duration::from_millis(112), Timing::Wan);
    problem_of(CallError::TimingTooFast { timing: Timing::Lan, round_trip, suits }, RequestKind::Change)
}

fn member_refused(error: MembershipError) -> Problem {
    problem_of(error.into(), RequestKind::Change)
}

fn refused(rejection: Rejection) -> Problem {
    problem_of(rejection.into(), acquire_kind())
}

/// A request for a grant.
fn acquire_kind() -> RequestKind {
    RequestKind::Acquire { id: GrantId::from_ulid(1), id_given: false, now: NOW }
}

fn path() -> Path {
    Path::parse("/jobs/nightly").unwrap_or_else(|_| Path::root())
}

fn holder() -> HolderFacts {
    let since = WallMillis(NOW.0 - 31_000);
    HolderFacts { number: GrantNumber(41), owner: "ci-7".to_owned(), token: Some(FencingToken(42)), since }
}

/// Two waiters that wait for each other.
fn deadlock_cycle() -> Vec<Blocked> {
    let waits = |(session, owner, lock): (u64, &str, &str)| {
        let lock = LockName::parse(lock).ok()?;
        Some(Blocked { session: SessionNumber(session), owner: owner.to_owned(), lock })
    };
    [(57, "ci-9", "deploy"), (40, "ci-7", "stock")].into_iter().filter_map(waits).collect()
}
