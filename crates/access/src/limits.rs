//! The largest sizes.

/// Bytes of a rule: its verbs and a pattern.
pub const RULE_BYTES_MAX: usize = PATTERN_BYTES_MAX + 128;
/// Bytes of a pattern in a rule.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// Bytes of the name of a role, a user, a tenant or a principal.
pub const ACCESS_NAME_BYTES_MAX: usize = 128;
/// Roles, without the built-in ones.
pub const ROLES_MAX: usize = 1_000;
/// Rules of a role.
pub const RULES_PER_ROLE_MAX: usize = 100;
/// Bindings of roles to subjects.
pub const BINDINGS_MAX: usize = 10_000;
/// Bearer tokens, including expired ones that are not removed yet.
pub const TOKENS_MAX: usize = 100_000;
/// Bearer tokens of one user, so that disabling the user is one bounded step.
pub const TOKENS_PER_USER_MAX: usize = 1_000;
/// Users that are disabled.
pub const DISABLED_USERS_MAX: usize = 10_000;
/// Principals with marks of their own. One more replaces all of them by the mark of all.
pub const MARKS_MAX: usize = 1_000;
/// Tenants.
pub const TENANTS_MAX: usize = 1_000;
/// Prefixes of a tenant.
pub const TENANT_PREFIXES_MAX: usize = 100;
/// Subjects of a tenant.
pub const TENANT_SUBJECTS_MAX: usize = 100;
