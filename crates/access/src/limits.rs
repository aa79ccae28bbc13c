//! The largest sizes.

/// Bytes of a rule: its verbs and a pattern.
pub const RULE_BYTES_MAX: usize = PATTERN_BYTES_MAX + 128;
/// Bytes of a pattern in a rule.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// Bytes of the name of a role, a user, a tenant or a principal.
pub const ACCESS_NAME_BYTES_MAX: usize = 128;
