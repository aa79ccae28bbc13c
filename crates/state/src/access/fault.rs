//! Why a change of the access data is refused.

use fairhold_access::TenantName;
use fairhold_types::Revision;
use serde::{Deserialize, Serialize};

/// Why a change of the access data is refused. Frames encode variants by position: add at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AccessFault {
    /// After it, only an administrator by a file could change the access data.
    #[error(
        "no principal could change the access data any more, except administrators by a file: bind a role with the verb \
         admin to another principal first"
    )]
    WouldLockOut,
    /// Only an administrator by a file may do it.
    #[error("only an administrator by a file may disable access control")]
    NeedsFile,
    /// A built-in role cannot be changed.
    #[error("the role is built in and cannot be changed: choose another name")]
    BuiltInRole,
    /// No such role.
    #[error("there is no role of this name: create it first")]
    NoRole,
    /// The role is bound.
    #[error("the role has {bindings} {}: remove them first, or force it", if *.bindings == 1 { "binding" } else { "bindings" })]
    RoleInUse {
        /// To how many subjects.
        bindings: u64,
    },
    /// The role was changed since the caller read it, or exists against its expectation.
    #[error("the role was last changed at revision {current}, which is not the expected one")]
    RoleChanged {
        /// The revision of its last change; 0 if there is no such role.
        current: Revision,
    },
    /// A token with this hash exists, or the request was repeated with another secret.
    #[error("the token was issued before: create another one with a new secret and a new Idempotency-Key")]
    AlreadyIssued,
    /// No token ever had this number.
    #[error("no token has this number")]
    NoToken,
    /// The user is disabled.
    #[error("the user is disabled: enable it before you create tokens for it (fairhold users enable NAME)")]
    UserDisabled,
    /// Too many of something.
    #[error("there are already {max} {what}, which is the limit: remove some that are not needed")]
    Full {
        /// Of what.
        what: String,
        /// The maximum number.
        max: u64,
    },
    /// The token was revoked or removed before, so nothing names its user any more.
    #[error(
        "the token was revoked or has expired before, so its user is not known any more, and no session ends: disable the \
         user and end its sessions instead"
    )]
    TokenGone,
    /// Another tenant has the name or the principal.
    #[error("{on} overlaps the tenant {tenant}: no name and no principal may belong to two tenants")]
    TenantOverlaps {
        /// The other tenant.
        tenant: TenantName,
        /// The prefix or the subject of this one.
        on: String,
    },
    /// The tenant was changed since the caller read it, or exists against its expectation.
    #[error("the tenant was last changed at revision {current}, which is not the expected one")]
    TenantChanged {
        /// The revision of its last change; 0 if there is no such tenant.
        current: Revision,
    },
}
