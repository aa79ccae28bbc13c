//! Which requests the audit log has.

use std::str::FromStr;

/// Which requests the audit log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AuditScope {
    /// Requests that were refused because of their credential or their rights.
    #[default]
    Denied,
    /// Also requests that change something, except renewals and keepalives.
    Writes,
    /// Every request, except for checks of health, metrics and the description of the API.
    All,
}

/// An unknown scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownScope;

impl AuditScope {
    /// The value in a configuration file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            AuditScope::Denied => "denied",
            AuditScope::Writes => "writes",
            AuditScope::All => "all",
        }
    }
}

impl FromStr for AuditScope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<AuditScope, UnknownScope> {
        [AuditScope::Denied, AuditScope::Writes, AuditScope::All]
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or(UnknownScope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_is_written() {
        for scope in [AuditScope::Denied, AuditScope::Writes, AuditScope::All] {
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        assert_eq!("Denied".parse::<AuditScope>(), Err(UnknownScope));
        assert!(AuditScope::Denied < AuditScope::Writes && AuditScope::Writes < AuditScope::All);
    }
}
