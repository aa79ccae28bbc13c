//! Tenants: which principals and which names belong together, and how much they may use.

use crate::{
    binding::Subject,
    pattern::{BadPattern, Pattern},
    verb::ResourceKind,
};
use fairhold_types::{LockName, ParsePathError, Path};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// A tenant's number: the revision at which it was created. It never belongs to another tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantNumber(pub u64);

/// A part of the names: `locks:a/**` or `nodes:a/**`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TenantPrefix {
    resource: ResourceKind,
    /// The node at its top.
    base: Path,
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
    /// It is not a name.
    #[error("{0}")]
    Name(ParsePathError),
    /// It names the nodes of locks.
    #[error("the nodes of locks are named by `locks:…`")]
    NodesOfLocks,
    /// No lock may have such a name.
    #[error("a level has the form of a contender's node, which no lock may have")]
    Reserved,
}

impl TenantPrefix {
    /// Parses a prefix: literal levels, and `**` at the end.
    pub fn parse(text: &str) -> Result<TenantPrefix, BadPrefix> {
        let (kind, text) = text.split_once(':').ok_or(BadPrefix::Kind)?;
        let named = ResourceKind::ALL.into_iter().filter(|resource| resource.has_names());
        let resource = named.into_iter().find(|resource| resource.as_str() == kind).ok_or(BadPrefix::Kind)?;
        let pattern = Pattern::parse(text).map_err(BadPrefix::Pattern)?;
        if !pattern.is_literal() || !pattern.is_open_ended() {
            return Err(BadPrefix::NotLiteral);
        }
        let name = text.trim_end_matches("**").trim_end_matches('/');
        Ok(TenantPrefix { resource, base: base(resource, name)? })
    }

    /// The node at its top. All names of the prefix are this node or below it. Only `nodes:**` leaves out something: the
    /// root itself, and the nodes of locks.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Whether each name of the other prefix belongs to it.
    #[must_use]
    pub fn contains(&self, other: &TenantPrefix) -> bool {
        let is_root = self.base.as_str() == "/";
        let rest = other.base.as_str().strip_prefix(self.base.as_str());
        let is_covered = rest.is_some_and(|rest| is_root || rest.is_empty() || rest.starts_with('/'));
        self.resource == other.resource && is_covered
    }

    /// Whether a name belongs to both.
    #[must_use]
    pub fn overlaps(&self, other: &TenantPrefix) -> bool {
        self.contains(other) || other.contains(self)
    }
}

fn base(resource: ResourceKind, name: &str) -> Result<Path, BadPrefix> {
    if resource == ResourceKind::Nodes {
        let base = Path::parse(&format!("/{name}")).map_err(BadPrefix::Name)?;
        return if base.is_under_locks() { Err(BadPrefix::NodesOfLocks) } else { Ok(base) };
    }
    if name.is_empty() {
        return Ok(Path::locks());
    }
    let lock = LockName::parse(name).map_err(BadPrefix::Name)?;
    if lock.is_reserved() { Err(BadPrefix::Reserved) } else { Ok(lock.path()) }
}

impl fmt::Display for TenantPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.base.as_str();
        let name =
            if self.resource == ResourceKind::Locks { base.strip_prefix(Path::locks().as_str()).unwrap_or(base) } else { base };
        let name = name.trim_start_matches('/');
        write!(f, "{}:{name}{}**", self.resource.as_str(), if name.is_empty() { "" } else { "/" })
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

/// What a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QuotaKind {
    /// Nodes below the prefixes, with those of locks, without those of contenders.
    Nodes,
    /// Bytes of the values of these nodes, and of the values of elections.
    Bytes,
    /// Grants, held and queued, once in each of their locks.
    Contenders,
    /// Waiters in the queue of one lock.
    Waiters,
    /// Live sessions that the subjects opened.
    Sessions,
    /// Access tokens of the subjects.
    Tokens,
    /// Requests a second at one node.
    Requests,
    /// Open waits at one node.
    Waits,
    /// Watches at one node.
    Watches,
}

impl QuotaKind {
    /// Each kind.
    pub const ALL: [QuotaKind; 9] = [
        QuotaKind::Nodes,
        QuotaKind::Bytes,
        QuotaKind::Contenders,
        QuotaKind::Waiters,
        QuotaKind::Sessions,
        QuotaKind::Tokens,
        QuotaKind::Requests,
        QuotaKind::Waits,
        QuotaKind::Watches,
    ];

    /// Its name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            QuotaKind::Nodes => "nodes",
            QuotaKind::Bytes => "bytes",
            QuotaKind::Contenders => "contenders",
            QuotaKind::Waiters => "waiters",
            QuotaKind::Sessions => "sessions",
            QuotaKind::Tokens => "tokens",
            QuotaKind::Requests => "requests_per_second",
            QuotaKind::Waits => "waits",
            QuotaKind::Watches => "watches",
        }
    }

    /// Whether its use falls by itself, as grants and sessions end, so that a repeated request may succeed.
    #[must_use]
    pub const fn frees_itself(self) -> bool {
        match self {
            QuotaKind::Nodes | QuotaKind::Bytes | QuotaKind::Tokens => false,
            QuotaKind::Contenders
            | QuotaKind::Waiters
            | QuotaKind::Sessions
            | QuotaKind::Requests
            | QuotaKind::Waits
            | QuotaKind::Watches => true,
        }
    }
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much a tenant may use; `None` for no bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Nodes below its prefixes, with those of locks, without those of contenders.
    pub nodes: Option<u64>,
    /// Bytes of the values of those nodes, and of the values of its elections.
    pub bytes: Option<u64>,
    /// Grants, held and queued, once in each of its locks.
    pub contenders: Option<u64>,
    /// Waiters in the queue of one of its locks.
    pub waiters: Option<u64>,
    /// Live sessions that its subjects opened.
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

impl Quota {
    /// The limit of one kind.
    #[must_use]
    pub fn limit(&self, kind: QuotaKind) -> Option<u64> {
        match kind {
            QuotaKind::Nodes => self.nodes,
            QuotaKind::Bytes => self.bytes,
            QuotaKind::Contenders => self.contenders,
            QuotaKind::Waiters => self.waiters,
            QuotaKind::Sessions => self.sessions,
            QuotaKind::Tokens => self.tokens,
            QuotaKind::Requests => self.requests_per_second.map(u64::from),
            QuotaKind::Waits => self.waits.map(u64::from),
            QuotaKind::Watches => self.watches.map(u64::from),
        }
    }
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
    /// The same tenant with subjects and prefixes in order, without those that another one covers.
    #[must_use]
    pub fn normalized(&self) -> Tenant {
        let mut prefixes: Vec<TenantPrefix> = self.prefixes.clone();
        prefixes.sort_unstable();
        prefixes.dedup();
        let covered = |one: &TenantPrefix| prefixes.iter().any(|other| other != one && other.contains(one));
        let prefixes = prefixes.iter().filter(|one| !covered(one)).cloned().collect();
        let mut subjects: Vec<Subject> = self.subjects.clone();
        subjects.sort_unstable();
        subjects.dedup();
        let covered = |one: &Subject| subjects.iter().any(|other| other != one && other.contains(one));
        let subjects = subjects.iter().filter(|one| !covered(one)).cloned().collect();
        Tenant { subjects, prefixes, quota: self.quota.clone() }
    }

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
        for (text, base) in [("locks:**", "/locks"), ("locks:a/b/**", "/locks/a/b"), ("nodes:**", "/"), ("nodes:a/**", "/a")] {
            let prefix = TenantPrefix::parse(text).unwrap();
            assert_eq!((prefix.base().as_str(), prefix.to_string().as_str()), (base, text));
        }
        for (text, error) in [
            ("a/**", BadPrefix::Kind),
            ("cluster:a/**", BadPrefix::Kind),
            ("locks:a", BadPrefix::NotLiteral),
            ("locks:a/*/**", BadPrefix::NotLiteral),
            ("locks:{user}/**", BadPrefix::NotLiteral),
            ("nodes:locks/**", BadPrefix::NodesOfLocks),
            ("nodes:locks/a/**", BadPrefix::NodesOfLocks),
            ("locks:a/7-lock-0000000001/**", BadPrefix::Reserved),
        ] {
            assert_eq!(TenantPrefix::parse(text), Err(error), "{text}");
        }
        assert!(matches!(TenantPrefix::parse("locks:"), Err(BadPrefix::Pattern(_))));
    }

    #[test]
    fn a_tenant_has_nothing_twice() {
        let parse = |prefixes: &[&str], subjects: &[&str]| Tenant {
            subjects: subjects.iter().map(|text| Subject::parse(text).unwrap()).collect(),
            prefixes: prefixes.iter().map(|text| TenantPrefix::parse(text).unwrap()).collect(),
            quota: Quota::default(),
        };
        let given = parse(
            &["nodes:b/**", "locks:a/b/**", "locks:a/**", "nodes:b/**", "nodes:a/**"],
            &["user:bob", "k8s:a:b", "user:ann", "k8s:a:*", "user:bob"],
        );
        let wanted = parse(&["locks:a/**", "nodes:a/**", "nodes:b/**"], &["k8s:a:*", "user:ann", "user:bob"]);
        assert_eq!(given.normalized(), wanted);
        assert_eq!(wanted.normalized(), wanted);
    }

    #[test]
    fn each_limit_has_a_kind_of_its_own() {
        let quota = Quota {
            nodes: Some(1),
            bytes: Some(2),
            contenders: Some(3),
            waiters: Some(4),
            sessions: Some(5),
            tokens: Some(6),
            requests_per_second: Some(7),
            burst: None,
            waits: Some(8),
            watches: Some(9),
        };
        assert_eq!(QuotaKind::ALL.map(|kind| quota.limit(kind)), [1, 2, 3, 4, 5, 6, 7, 8, 9].map(Some));
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
            ("nodes:**", "user:bob", None),
            ("nodes:a/**", "user:*", Some("user:ann")),
        ] {
            assert_eq!(first.overlap(&tenant(prefix, subject)).as_deref(), overlap, "{prefix} {subject}");
        }
    }
}
