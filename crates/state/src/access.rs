//! The access data: roles, their bindings, disabled users, tokens, tenants, and the marks of what was narrowed.
//!
//! The machine evaluates no rights. The node that receives a request decides by its own copy of this data, and the
//! command carries the revision of the data by which it was decided (`AccessGuard`). `apply` compares that revision with two
//! marks. Whatever is new widens and moves no mark. Whatever replaces or removes something narrows: a token or a user
//! moves the mark of one principal; a role, a binding or the switch moves the mark of all.

mod check;
mod edit;
mod fault;
mod guard;
mod guarded;
mod index;
mod marks;
mod needs;
mod needs_guard;
mod openers;
mod reads;
mod records;
mod requests;
mod roles;
pub(crate) mod saved;
mod tenants;
mod tokens;
mod users;

pub use fairhold_access::PrincipalKey;
pub use fault::AccessFault;
pub use guarded::{AccessGuard, ForTenant, Guarded};
pub(crate) use records::EndingSessions;
pub use records::{BindingRecord, DisabledUser, RoleRecord, TenantRecord, TokenRecord};
pub use requests::{AccessChange, AccessRequester, ChangeAccess};

use crate::weighed::Weighed;
use fairhold_access::{RoleName, Subject, TenantName, UserName, token::AccessTokenNumber};
use fairhold_types::{Revision, SessionNumber};
use index::AccessIndex;
use marks::Marks;
use records::{Opener, SessionTenant};
use std::sync::Arc;

/// Roles, bindings, users, tokens, tenants and marks. A clone shares all its parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccessData {
    /// Whether rights are enforced.
    on: bool,
    /// The newest change of anything here, except of the openers of sessions.
    revision: Revision,
    marks: Marks,
    /// How many tokens were ever created.
    tokens_created: u64,
    roles: Weighed<RoleName, Arc<RoleRecord>>,
    bindings: Weighed<(RoleName, Subject), Arc<BindingRecord>>,
    disabled: Weighed<UserName, DisabledUser>,
    tokens: Weighed<AccessTokenNumber, Arc<TokenRecord>>,
    /// The principals that opened the live sessions, as far as guards have told.
    openers: Weighed<SessionNumber, Opener>,
    tenants: Weighed<TenantName, Arc<TenantRecord>>,
    /// The tenants that the live sessions count for.
    session_tenants: Weighed<SessionNumber, SessionTenant>,
    /// A cache.
    index: AccessIndex,
}
