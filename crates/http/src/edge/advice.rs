//! Advice for refused callers, in words that suit an HTTP request, a command and a program.

use crate::edge::request_kind::RequestKind;
use fairhold_types::{Code, limits::DETAIL_BYTES_MAX};

/// A message with names from outside, truncated if it is too long.
pub(crate) fn bounded(mut detail: String) -> String {
    if detail.len() > DETAIL_BYTES_MAX {
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
        detail.push('…');
    }
    detail
}

/// The advice for a refusal, if the same advice fits every refusal of this kind.
pub(crate) fn advice_for(code: Code, kind: RequestKind) -> Option<&'static str> {
    let is_in_batch = matches!(kind, RequestKind::AcquireInBatch { .. });
    match code {
        Code::LockHeld if is_in_batch => Some("to queue for it, set \"queue\" to true in the call"),
        Code::IdempotencyMismatch if is_in_batch => Some("use a new id for each acquire"),
        Code::Forgotten if is_in_batch => Some("use a new id"),
        Code::LockHeld => Some("to queue for it, pass wait=30s"),
        Code::SessionOwned => Some("keep the session alive: that keeps the grant alive too"),
        Code::LimitMismatch => Some("pass that limit or leave it out; an administrator can change it"),
        Code::NotHeld => Some("to wait until it is held, get the grant with wait=30s"),
        Code::NotEmpty => Some("remove what is below it first, or remove everything in one step with recursive=true"),
        Code::VersionMismatch => Some("read it again, and write with its current version"),
        Code::IdempotencyMismatch => Some("use a new key for each request"),
        Code::Forgotten => Some("use a new key"),
        Code::QueueFull => Some("try again later"),
        Code::StateFull => Some(
            "remove nodes, release grants or end sessions: these requests still work; /v1/cluster shows state_bytes, and serve \
             --state-bytes-max on every node sets the limit",
        ),
        Code::DiskLow => {
            Some("free space on the servers' disks, or delete what you do not need; releases and deletes still work")
        }
        Code::SessionNotFound | Code::SessionExpired => Some("everything that it owned ended with it; to go on, open a new one"),
        Code::GrantNotFound => Some("it never existed, or was forgotten; acquire a new one"),
        Code::NotLeader => Some("another candidate may lead by now; stand for election again"),
        Code::StaleToken => Some("the lock was lost, released or broken; stop all work under it"),
        Code::WrongCluster => Some("check the addresses of your servers; after a restore of the cluster, restart this program"),
        Code::GrantGone => Some("stop all work under it; to go on, acquire a new one"),
        Code::WouldDeadlock => Some("release a lock that you hold, or acquire all of them in one request"),
        Code::NoLeader => Some("to wait for one, pass wait=30s"),
        Code::NotAllUpgraded => Some("fairhold cluster upgrade status shows what each member runs"),
        Code::NeedsUpgrade => Some("fairhold cluster upgrade status shows which nodes still need the newer program"),
        Code::ChangeInProgress => Some("fairhold cluster members shows what is under way"),
        Code::WouldLoseQuorum => Some("fairhold cluster members shows which nodes do not answer"),
        Code::TimingTooFast => Some("fairhold cluster timing shows the round trips, and the profile that suits them"),
        Code::QuotaExceeded => Some("end or remove something, or let an administrator raise it: fairhold tenants show NAME"),
        Code::WouldLockOut => Some("fairhold access bind admin --to user:NAME, and create a token for that user"),
        Code::NoNode if matches!(kind, RequestKind::Write { .. }) => Some("create it first; parents creates the missing parents"),
        Code::BadRequest
        | Code::Unauthenticated
        | Code::Denied
        | Code::NotFound
        | Code::MethodNotAllowed
        | Code::NoNode
        | Code::NodeExists
        | Code::AlreadyIssued
        | Code::Overlaps
        | Code::InUse
        | Code::BadRule
        | Code::EphemeralParent
        | Code::WaitTimeout
        | Code::KindMismatch
        | Code::NotCaughtUp
        | Code::AlreadyLeader
        | Code::WrongNode
        | Code::Compacted
        | Code::TooLarge
        | Code::RateLimited
        | Code::BackupBusy
        | Code::Overloaded
        | Code::StaleAccess
        | Code::AuditUnavailable
        | Code::NoQuorum
        | Code::ShuttingDown
        | Code::DeadlineExceeded
        | Code::Internal => None,
    }
}

/// How to repeat a request that may have been carried out. `where_to` says where, or is empty.
pub(crate) fn retry_advice(kind: RequestKind, where_to: &str) -> Option<String> {
    match kind {
        RequestKind::Acquire { id, .. } | RequestKind::Write { key: id } => {
            Some(format!("retry{where_to} with Idempotency-Key: {id}"))
        }
        RequestKind::AcquireInBatch { .. } => Some(format!("send the call again{where_to}, with the same id")),
        RequestKind::Change => Some(format!("it is safe to retry{where_to}")),
        RequestKind::Read => None,
    }
}
