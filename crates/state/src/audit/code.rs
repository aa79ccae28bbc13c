//! The code of each refusal, as the audit has it. The HTTP API has a more special one for some calls.
//!
//! The codes are in the chain of hashes: they change only together with the cluster's version.

use crate::{access::AccessFault, rejection::Rejection};
use fairhold_types::Code;

impl Rejection {
    /// Its code, in general. Some calls have a more special one.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Rejection::NoSession => Code::SessionNotFound,
            Rejection::SessionEnded => Code::SessionExpired,
            Rejection::NoGrant => Code::GrantNotFound,
            Rejection::LockHeld { .. } => Code::LockHeld,
            Rejection::GrantEnded { .. } => Code::GrantGone,
            Rejection::Forgotten => Code::Forgotten,
            Rejection::IdempotencyMismatch { .. } => Code::IdempotencyMismatch,
            Rejection::LimitMismatch { .. } | Rejection::SharedWithLimit { .. } => Code::LimitMismatch,
            Rejection::PermitsOverLimit { .. } | Rejection::Unsupported { .. } | Rejection::NoRoomForName { .. } => {
                Code::BadRequest
            }
            Rejection::QueueFull { .. } | Rejection::HoldsFull { .. } => Code::QueueFull,
            Rejection::StateFull { .. } => Code::StateFull,
            Rejection::SessionsFull { .. }
            | Rejection::MemoryFull { .. }
            | Rejection::JoinTokensFull { .. }
            | Rejection::JoinsFull { .. } => Code::RateLimited,
            Rejection::SessionOwned { .. } => Code::SessionOwned,
            Rejection::StaleToken { .. } => Code::StaleToken,
            Rejection::VersionMismatch { .. } => Code::VersionMismatch,
            Rejection::NoNode { .. } => Code::NoNode,
            Rejection::ReadOnly { .. } => Code::Denied,
            Rejection::Step { reason, .. } => reason.code(),
            Rejection::NodeExists { .. } | Rejection::OtherKind { .. } => Code::NodeExists,
            Rejection::NotEmpty { .. } => Code::NotEmpty,
            Rejection::EphemeralParent { .. } => Code::EphemeralParent,
            Rejection::TooManyNodes { .. } | Rejection::TooManyCreated { .. } => Code::TooLarge,
            Rejection::WouldDeadlock { .. } => Code::WouldDeadlock,
            Rejection::NotHeld => Code::NotHeld,
            Rejection::NotLeader => Code::NotLeader,
            Rejection::OtherUse { .. } => Code::KindMismatch,
            Rejection::Defect { .. } => Code::Internal,
            Rejection::JoinToken(_) => Code::NotFound,
            Rejection::NeedsUpgrade { .. } => Code::NeedsUpgrade,
            Rejection::AccessChanged => Code::StaleAccess,
            Rejection::Access(fault) => of_access(fault),
            Rejection::QuotaExceeded { .. } => Code::QuotaExceeded,
            Rejection::NoVoterLeft { .. } => Code::ChangeInProgress,
        }
    }
}

fn of_access(fault: &AccessFault) -> Code {
    match fault {
        AccessFault::NeedsFile => Code::Denied,
        AccessFault::NoRole | AccessFault::NoToken | AccessFault::TokenGone => Code::NotFound,
        AccessFault::RoleChanged { .. } | AccessFault::TenantChanged { .. } => Code::VersionMismatch,
        AccessFault::Full { .. } => Code::RateLimited,
        AccessFault::WouldLockOut => Code::WouldLockOut,
        AccessFault::BuiltInRole | AccessFault::RoleInUse { .. } => Code::InUse,
        AccessFault::TenantOverlaps { .. } => Code::Overlaps,
        AccessFault::AlreadyIssued => Code::AlreadyIssued,
        AccessFault::UserDisabled => Code::BadRequest,
    }
}
