//! Access rights as pure functions: patterns, rules, roles, subjects, tokens, tenants and the decision.
//!
//! # Model
//!
//! - A rule is verbs on a pattern of names. A role is rules. A binding gives a role to a subject: one principal, or all
//!   whose text begins alike.
//! - Rights only add up. No rule takes a right away, so the order of rules means nothing, and it can be decided whether
//!   a pattern contains another one.
//! - Patterns match level by level, never by letters.
//! - A name has one meaning: `locks:orders/42` is the node `/locks/orders/42`, and an election is a lock.
//!
//! # Caveats
//!
//! - Two providers may have principals with the same name. A pattern with `{user}` covers the same names for both, so its
//!   role should be bound to the principals of one provider.
//! - Containment looks at one rule at a time. Two rules that cover everything of a watch only together do not allow it.
//! - Levels that have `*` or braces in their names are covered by wildcards only.
//!
//! The crate has no clock and no storage. Whether a credential has expired, and where roles come from, is for its callers.

pub mod binding;
pub mod decide;
pub mod limits;
pub mod name;
pub mod need;
pub mod pattern;
pub mod principal;
pub mod role;
pub mod rule;
pub mod tenant;
pub mod token;
pub mod verb;

pub use binding::Subject;
pub use decide::{Denied, Permission, Rights};
pub use name::{RoleName, TenantName, UserName};
pub use need::Need;
pub use pattern::Pattern;
pub use principal::{Attributes, Principal, PrincipalKey};
pub use rule::{BadRule, Rule};
pub use tenant::{Quota, QuotaKind, Tenant, TenantNumber, TenantPrefix};
pub use token::{BearerToken, TokenHash};
pub use verb::{ResourceKind, Verb, VerbSet};
