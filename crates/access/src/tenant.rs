//! Tenants: which principals and which names belong together, and how much they may use.

use crate::{
    binding::Subject,
    pattern::{BadPattern, Pattern},
    verb::ResourceKind,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// A part of the names: `locks:a/**` or `nodes:a/**`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TenantPrefix {
    resource: ResourceKind,
    pattern: Pattern,
}

/// Why a text is not the prefix of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPrefix {
    /// It is not about locks or nodes.
    #[error("a prefix begins with `locks:` or `nodes:`")]
    Kind,
    /// The pattern is wrong.
    #[error("{0}")]
    Pattern(BadPattern),
    /// The pattern is not literal levels and `**`.
    #[error("a prefix is levels and `/**` at the end, without * and {{…}}")]
    NotLiteral,
}

impl TenantPrefix {
    /// Parses a prefix: literal levels, and `**` at the end.
    pub fn parse(text: &str) -> Result<TenantPrefix, BadPrefix> {
        let (kind, pattern) = text.split_once(':').ok_or(BadPrefix::Kind)?;
        let named = ResourceKind::ALL.into_iter().filter(|resource| resource.has_names());
        let resource = named.into_iter().find(|resource| resource.as_str() == kind).ok_or(BadPrefix::Kind)?;
        let pattern = Pattern::parse(pattern).map_err(BadPrefix::Pattern)?;
        if !pattern.is_literal() || !pattern.is_open_ended() {
            return Err(BadPrefix::NotLiteral);
        }
        Ok(TenantPrefix { resource, pattern })
    }

    /// Whether a name belongs to both.
    #[must_use]
    pub fn overlaps(&self, other: &TenantPrefix) -> bool {
        self.resource == other.resource && (self.pattern.contains(&other.pattern) || other.pattern.contains(&self.pattern))
    }

    /// Whether this lock or node belongs to it. The name of a node is its path without the first `/`.
    #[must_use]
    pub fn covers(&self, resource: ResourceKind, name: &str) -> bool {
        self.resource == resource && self.pattern.matches(name)
    }
}

impl fmt::Display for TenantPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.resource.as_str(), self.pattern)
    }
}

impl fmt::Debug for TenantPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl FromStr for TenantPrefix {
    type Err = BadPrefix;

    fn from_str(text: &str) -> Result<TenantPrefix, BadPrefix> {
        TenantPrefix::parse(text)
    }
}

impl Serialize for TenantPrefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TenantPrefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TenantPrefix, D::Error> {
        TenantPrefix::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// How much a tenant may use; `None` for no bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Nodes below its prefixes.
    pub nodes: Option<u64>,
    /// Bytes of the values of those nodes.
    pub bytes: Option<u64>,
    /// Grants, held and queued, of its locks.
    pub contenders: Option<u64>,
    /// Waiters in the queue of one of its locks.
    pub waiters: Option<u64>,
    /// Sessions that its subjects opened.
    pub sessions: Option<u64>,
    /// Tokens of its subjects.
    pub tokens: Option<u64>,
    /// Requests a second at one node, without keepalives, releases and withdrawals.
    pub requests_per_second: Option<u32>,
    /// Requests at one node at once, above the rate.
    pub burst: Option<u32>,
    /// Open waits at one node.
    pub waits: Option<u32>,
    /// Watches at one node.
    pub watches: Option<u32>,
}

/// A tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its principals.
    pub subjects: Vec<Subject>,
    /// Its names.
    pub prefixes: Vec<TenantPrefix>,
    /// How much it may use.
    pub quota: Quota,
}

impl Tenant {
    /// What it has in common with another tenant, as text: a prefix or a subject. Two tenants must have nothing in common:
    /// otherwise it would not be clear whose quota counts.
    #[must_use]
    pub fn overlap(&self, other: &Tenant) -> Option<String> {
        let prefix = self.prefixes.iter().find(|mine| other.prefixes.iter().any(|theirs| mine.overlaps(theirs)));
        let subject = || self.subjects.iter().find(|mine| other.subjects.iter().any(|theirs| mine.overlaps(theirs)));
        prefix.map(TenantPrefix::to_string).or_else(|| subject().map(Subject::to_string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_literal_and_end_open() {
        assert_eq!(TenantPrefix::parse("nodes:a/b/**").unwrap().to_string(), "nodes:a/b/**");
        assert!(TenantPrefix::parse("locks:**").is_ok());
        for (text, error) in [
            ("a/**", BadPrefix::Kind),
            ("cluster:a/**", BadPrefix::Kind),
            ("locks:a", BadPrefix::NotLiteral),
            ("locks:a/*/**", BadPrefix::NotLiteral),
            ("locks:{user}/**", BadPrefix::NotLiteral),
        ] {
            assert_eq!(TenantPrefix::parse(text), Err(error), "{text}");
        }
        assert!(matches!(TenantPrefix::parse("locks:"), Err(BadPrefix::Pattern(_))));
    }

    #[test]
    fn tenants_overlap_by_levels_and_by_subjects() {
        let tenant = |prefix: &str, subject: &str| Tenant {
            subjects: vec![Subject::parse(subject).unwrap()],
            prefixes: vec![TenantPrefix::parse(prefix).unwrap()],
            quota: Quota::default(),
        };
        let first = tenant("locks:a/**", "user:ann");
        for (prefix, subject, overlap) in [
            ("locks:a/**", "user:bob", Some("locks:a/**")),
            ("locks:a/b/**", "user:bob", Some("locks:a/**")),
            ("locks:**", "user:bob", Some("locks:a/**")),
            ("locks:ab/**", "user:bob", None),
            ("nodes:a/**", "user:bob", None),
            ("nodes:a/**", "user:*", Some("user:ann")),
        ] {
            assert_eq!(first.overlap(&tenant(prefix, subject)).as_deref(), overlap, "{prefix} {subject}");
        }
    }
}
