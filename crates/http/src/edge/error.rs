//! The one mapping from error to status: every refusal, failure and wrong request becomes a problem of RFC 9457 here.

use crate::{
    edge::advice::{advice_for, bounded, retry_advice},
    edge::answer,
    edge::problem::{Problem, about, limited, outcome, over_quota},
    edge::rejection::of_rejection,
    edge::request_kind::RequestKind,
};
use fairhold_access::{Denied, QuotaKind};
use fairhold_node::{
    access::AccessRefusal,
    api::{CallError, QueuePosition},
};
use fairhold_raft::{
    FinalizeError, HandoverError, MembershipError,
    error::{NotProposed, ProposeError, ReadError, UnknownReason},
};
use fairhold_types::{
    Code,
    cluster_version::MEMBERSHIP_SINCE,
    dto::Contender,
    duration,
    problem::{Effect, Facts},
};

/// The problem of a read.
pub(crate) fn of_read(error: CallError) -> Problem {
    problem_of(error, RequestKind::Read)
}

/// The problem of a change that is safe to repeat.
pub(crate) fn of_change(error: CallError) -> Problem {
    problem_of(error, RequestKind::Change)
}

/// The problem of a call to the node.
pub(crate) fn problem_of(error: CallError, kind: RequestKind) -> Problem {
    let detail = bounded(error.to_string());
    match error {
        CallError::Rejected(rejection) => with_advice(of_rejection(rejection, detail, kind), kind),
        CallError::Propose(ProposeError::NotProposed(reason)) | CallError::Read(ReadError::NotServed(reason)) => {
            not_proposed(reason, detail)
        }
        CallError::Propose(ProposeError::Unknown(
            UnknownReason::Deadline | UnknownReason::ConnectionLost | UnknownReason::Deposed,
        )) => {
            let problem = Problem::new(Code::DeadlineExceeded, format!("{detail}; the request may have been carried out"));
            problem.advice(retry_advice(kind, "")).facts(outcome(Effect::Unknown, kind.key()))
        }
        CallError::Read(ReadError::Deadline) => Problem::new(Code::DeadlineExceeded, detail).facts(outcome(Effect::None, None)),
        CallError::LockHeld { refused, queue_position } => {
            let problem = with_advice(of_rejection(refused, detail, kind), kind);
            problem.map_facts(|facts| blocked(facts, *queue_position, kind))
        }
        CallError::WaitTimeout { holder, queue_position } => {
            let holder = holder.map(|holder| answer::contender(holder, kind.now()));
            let facts = blocked(Facts { holder, ..Facts::default() }, *queue_position, kind);
            // The grant has ended: only a request with a new id may still succeed.
            Problem::new(Code::WaitTimeout, detail).retryable(!kind.key_given()).facts(facts)
        }
        CallError::Superseded => Problem::new(Code::DeadlineExceeded, detail).facts(outcome(Effect::Unknown, kind.key())),
        // The usual advice is for a caller that has lost its grant, and does not fit here.
        CallError::NotInQueue { lock: _, number: _ } => {
            Problem::new(Code::GrantNotFound, format!("{detail}: show the queue without \"around\""))
        }
        CallError::NoNode { path } => Problem::new(Code::NoNode, detail).facts(about(path)),
        CallError::Access(refusal) => access_problem(refusal, detail),
        CallError::OverRate { tenant, limit } => {
            let facts = over_quota(tenant.to_string(), QuotaKind::Requests, limit.into(), limit.into());
            Problem::new(Code::RateLimited, detail).facts(Facts { outcome: Some(Effect::None), used: None, ..facts })
        }
        CallError::Handover(error) => handover_problem(&error, detail),
        CallError::Finalize(error) => with_advice(finalize_problem(&error, detail), kind),
        CallError::Membership(error) => with_advice(membership_problem(error, detail), kind),
        CallError::TimingTooFast { .. } => with_advice(Problem::new(Code::TimingTooFast, detail), kind),
        CallError::TtlTooShort { .. } => Problem::bad_request(format!("the parameter \"ttl\": {detail}")),
        CallError::Compacted { oldest } => {
            Problem::new(Code::Compacted, detail).facts(Facts { oldest: Some(oldest), ..Facts::default() })
        }
        CallError::WatcherTooSlow => Problem::new(Code::Compacted, detail),
        CallError::FutureRevision { .. } => Problem::bad_request(detail),
        CallError::BackupBusy => Problem::new(Code::BackupBusy, detail).facts(outcome(Effect::None, None)),
        CallError::ShuttingDown => Problem::new(Code::ShuttingDown, detail).facts(outcome(Effect::None, None)),
        CallError::Detached => {
            // The outcome of this 503 is unknown: the place in the queue is kept for a retry with the key.
            let problem = Problem::new(Code::ShuttingDown, detail).facts(outcome(Effect::Unknown, kind.key()));
            problem.advice(retry_advice(kind, " at another node"))
        }
    }
}

fn access_problem(refusal: AccessRefusal, detail: String) -> Problem {
    match refusal {
        AccessRefusal::Unauthenticated(fault) => Problem::new(Code::Unauthenticated, detail)
            .facts(Facts { credential: Some(fault.as_str()), ..outcome(Effect::None, None) }),
        AccessRefusal::Denied(Denied { needs, on, because: _ }) => {
            let facts = Facts { needs: Some(bounded(needs)), on: Some(bounded(on)), ..outcome(Effect::None, None) };
            Problem::new(Code::Denied, detail).facts(facts)
        }
        AccessRefusal::Stale => Problem::new(Code::StaleAccess, detail).facts(outcome(Effect::None, None)),
    }
}

/// The problem at the end of a stream. A client can open it again with a newer credential.
pub(crate) fn at_end_of_stream(error: CallError, kind: RequestKind) -> Problem {
    let is_renewable = matches!(error, CallError::Access(AccessRefusal::Unauthenticated(_)));
    let problem = problem_of(error, kind);
    if is_renewable { problem.retryable(true) } else { problem }
}

/// The same, with advice for the caller.
fn with_advice(problem: Problem, kind: RequestKind) -> Problem {
    let advice = advice_for(problem.code(), kind);
    problem.advice(advice)
}

fn handover_problem(error: &HandoverError, detail: String) -> Problem {
    let (code, effect) = match error {
        HandoverError::NotMember { .. } => (Code::NotFound, None),
        HandoverError::NoVote { .. } => (Code::BadRequest, None),
        HandoverError::OtherRequest => (Code::IdempotencyMismatch, Some(Effect::None)),
        HandoverError::TooManyKeys => (Code::RateLimited, Some(Effect::None)),
        HandoverError::AlreadyLeader { .. } => (Code::AlreadyLeader, None),
        HandoverError::Silent { .. } | HandoverError::Behind { .. } => (Code::NotCaughtUp, None),
        HandoverError::NoLeader => (Code::NoQuorum, Some(Effect::None)),
        HandoverError::Unfinished { .. } => (Code::DeadlineExceeded, Some(Effect::Unknown)),
        // The node decides again before a caller sees it.
        HandoverError::AccessChanged { revision: _ } => (Code::StaleAccess, Some(Effect::None)),
    };
    Problem::new(code, detail).facts(Facts { outcome: effect, ..Facts::default() })
}

fn finalize_problem(error: &FinalizeError, detail: String) -> Problem {
    let (code, effect) = match error {
        FinalizeError::Blocked(_) => (Code::NotAllUpgraded, None),
        FinalizeError::NotNext { .. } => (Code::BadRequest, None),
        // A leader that is gone since may have raised the version.
        FinalizeError::NoLeader => (Code::NoQuorum, Some(Effect::Unknown)),
        // The node decides again before a caller sees it.
        FinalizeError::AccessChanged { revision: _ } => (Code::StaleAccess, Some(Effect::None)),
    };
    Problem::new(code, detail).facts(Facts { outcome: effect, ..Facts::default() })
}

fn membership_problem(error: MembershipError, detail: String) -> Problem {
    let (code, facts) = match error {
        MembershipError::NeedsUpgrade { version: _ } => {
            (Code::NeedsUpgrade, Facts { cluster_version: Some(MEMBERSHIP_SINCE), ..Facts::default() })
        }
        MembershipError::NotMember { .. } => (Code::NotFound, Facts::default()),
        MembershipError::WouldLoseQuorum { voters, healthy, needed } => (Code::WouldLoseQuorum, quorum(voters, healthy, needed)),
        // A retry does not help, and neither does the usual advice.
        MembershipError::LastVoter { .. } => {
            return Problem::new(Code::WouldLoseQuorum, detail)
                .retryable(false)
                .facts(quorum(0, 0, 1))
                .advice(Some("let another node join first"));
        }
        MembershipError::ChangeInProgress { .. } => (Code::ChangeInProgress, Facts::default()),
        MembershipError::WrongNode { .. } | MembershipError::AddressInUse { .. } | MembershipError::TwoProcesses { .. } => {
            (Code::WrongNode, Facts::default())
        }
        MembershipError::NotAnswering { .. } | MembershipError::NotCaughtUp { .. } => (Code::NotCaughtUp, Facts::default()),
        MembershipError::TooMany { what: _, max } => {
            return Problem::new(Code::RateLimited, detail).retryable(false).facts(limited(max));
        }
        // The leader that is gone may have begun the change.
        MembershipError::NoLeader => (Code::NoQuorum, outcome(Effect::Unknown, None)),
        MembershipError::Unfinished { .. } => (Code::DeadlineExceeded, outcome(Effect::Unknown, None)),
        MembershipError::OtherRequest => (Code::IdempotencyMismatch, outcome(Effect::None, None)),
        MembershipError::TooManyKeys => (Code::RateLimited, outcome(Effect::None, None)),
        // The node decides again before a caller sees it.
        MembershipError::AccessChanged { revision: _ } => (Code::StaleAccess, outcome(Effect::None, None)),
        MembershipError::BadRequest(_) => (Code::BadRequest, Facts::default()),
    };
    Problem::new(code, detail).facts(facts)
}

/// The facts of a change after which too few voters would be healthy.
fn quorum(voters: u64, healthy: u64, needed: u64) -> Facts {
    Facts { voters: Some(voters), healthy: Some(healthy), needed: Some(needed), ..Facts::default() }
}

/// The problem of a request that certainly did nothing.
fn not_proposed(reason: NotProposed, detail: String) -> Problem {
    let code = match reason {
        NotProposed::NoLeader | NotProposed::Deposed => Code::NoQuorum,
        NotProposed::Overloaded => Code::Overloaded,
        NotProposed::DiskLow => Code::DiskLow,
        NotProposed::ShuttingDown => Code::ShuttingDown,
    };
    Problem::new(code, detail).facts(outcome(Effect::None, None))
}

/// Adds the grants ahead of the caller. If the holder is known, its pairs of text go to the first of them.
fn blocked(facts: Facts, queue_position: QueuePosition, kind: RequestKind) -> Facts {
    let QueuePosition { position, ahead, estimate } = queue_position;
    let ahead = answer::ahead(ahead, kind.now());
    let same = |holder: &Contender| ahead.iter().find(|other| other.number == holder.number).cloned();
    Facts {
        holder: facts.holder.map(|holder| same(&holder).unwrap_or(holder)),
        position: (position > 0).then_some(position),
        ahead,
        estimate: estimate.map(duration::format),
        ..facts
    }
}

#[cfg(test)]
mod tests;
