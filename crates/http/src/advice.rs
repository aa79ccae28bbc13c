//! What a refused caller can do, in words that fit a request, a command and a program alike.

use crate::error::Asked;
use fairhold_types::{Code, limits::DETAIL_BYTES_MAX};

/// A text that names what others chose, cut where it is too long.
pub(crate) fn bounded(mut detail: String) -> String {
    if detail.len() > DETAIL_BYTES_MAX {
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
        detail.push('…');
    }
    detail
}

/// What to do about a refusal, where what happened does not say it.
pub(crate) fn what_to_do(code: Code) -> Option<&'static str> {
    match code {
        Code::LockHeld => Some("to stand in line for it, say how long with wait, like 30s"),
        Code::SessionOwned => Some("keep that session alive, and the grant lives on"),
        Code::LimitMismatch => Some("name that limit or none; an administrator may set another"),
        Code::NotHeld => Some("wait until it is held, by a look at the grant with wait"),
        Code::NotEmpty => Some("remove them first, or all in one step with recursive"),
        Code::VersionMismatch => Some("read it, decide anew, and write with the version that it has"),
        Code::IdempotencyMismatch => Some("a key is for one request; take a new one"),
        Code::Forgotten => Some("take a new key"),
        Code::QueueFull => Some("ask again later"),
        Code::StateFull => Some(
            "remove nodes, release grants or end sessions, all of which still works; /v1/cluster shows state_bytes, and \
             serve --state-bytes-max on every node sets the most",
        ),
        Code::DiskLow => Some("make room on the servers' disks, or delete what is not needed; releases and deletes go on"),
        Code::SessionNotFound | Code::SessionExpired => Some("open a new one; what it owned ended with it"),
        Code::GrantNotFound => Some("it was never taken, or is forgotten; take a new one"),
        Code::NotLeader => Some("another one may lead by now; stand again"),
        Code::StaleToken => Some("the lock was lost, given back or taken away; stop what is done under it"),
        Code::WrongCluster => Some("look at the addresses that you ask"),
        Code::BadRequest
        | Code::Unauthenticated
        | Code::Denied
        | Code::NotFound
        | Code::MethodNotAllowed
        | Code::NoNode
        | Code::NodeExists
        | Code::EphemeralParent
        | Code::WaitTimeout
        | Code::WouldDeadlock
        | Code::NoLeader
        | Code::KindMismatch
        | Code::NotCaughtUp
        | Code::AlreadyLeader
        | Code::GrantGone
        | Code::Compacted
        | Code::TooLarge
        | Code::RateLimited
        | Code::Overloaded
        | Code::NoQuorum
        | Code::ShuttingDown
        | Code::DeadlineExceeded
        | Code::Internal => None,
    }
}

/// What happened, where it may have happened, with how to ask again.
pub(crate) fn ask_again(detail: String, asked: Asked) -> String {
    match asked {
        Asked::Acquire { id, .. } | Asked::Write { key: id } => {
            format!("{detail}; it may have happened: ask again with Idempotency-Key: {id}")
        }
        Asked::Change => format!("{detail}; it may have happened, and it is safe to ask again"),
        Asked::Read => detail,
    }
}
