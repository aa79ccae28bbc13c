//! The names that Fairhold puts into certificates, as URIs: `fairhold://CLUSTER/node/ID`, `fairhold://CLUSTER/node/*`,
//! `fairhold://CLUSTER/user/NAME` and `fairhold://CLUSTER/ca`.

use fairhold_types::NodeId;
use std::{fmt, str::FromStr};

/// The scheme of these URIs.
const SCHEME: &str = "fairhold://";

/// The longest name of a cluster, in bytes: it stands where a URI has its host.
pub const CLUSTER_NAME_BYTES_MAX: usize = 63;

/// The longest name of a user, in bytes.
pub const USER_NAME_BYTES_MAX: usize = 128;

/// Why a text cannot be a name in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseNameError {
    /// The name of a cluster has other characters, or too many.
    #[error(
        "a cluster name has 1 to {CLUSTER_NAME_BYTES_MAX} lower-case letters, digits, dots and hyphens, and begins and ends \
         with a letter or a digit"
    )]
    Cluster,
    /// The name of a user has other characters, or too many.
    #[error(
        "a user name in a certificate has 1 to {USER_NAME_BYTES_MAX} letters, digits and . _ @ -, and begins with a letter or a \
         digit"
    )]
    User,
    /// The URI has another form.
    #[error(
        "a name in a certificate is fairhold://CLUSTER/node/ID, fairhold://CLUSTER/node/*, fairhold://CLUSTER/user/NAME or \
         fairhold://CLUSTER/ca"
    )]
    Form,
}

/// The name of a cluster, which its operator chose. It keeps apart the clusters whose certificates have one authority.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName(String);

impl ClusterName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClusterName {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_fine = (1..=CLUSTER_NAME_BYTES_MAX).contains(&text.len())
            && text.chars().all(|c| is_alphanumeric(c) || c == '-' || c == '.')
            && text.starts_with(is_alphanumeric)
            && text.ends_with(is_alphanumeric);
        if is_fine { Ok(ClusterName(text.to_owned())) } else { Err(ParseNameError::Cluster) }
    }
}

/// The name of a user in a client's certificate. Every one of them can have access rights.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserName(String);

impl UserName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for UserName {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        let is_fine = (1..=USER_NAME_BYTES_MAX).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._@-".contains(c))
            && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if is_fine { Ok(UserName(text.to_owned())) } else { Err(ParseNameError::User) }
    }
}

/// A URI of Fairhold in a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateName {
    /// The cluster in which the name counts.
    pub cluster: ClusterName,
    /// What it names there.
    pub role: CertificateRole,
}

/// What a certificate names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateRole {
    /// The node with this id.
    Node(NodeId),
    /// Any node of the cluster.
    AnyNode,
    /// A user.
    User(UserName),
    /// The authority that issues the cluster's certificates.
    Authority,
}

impl CertificateName {
    /// Whether a URI is one of Fairhold's, well formed or not.
    #[must_use]
    pub fn is_candidate(uri: &str) -> bool {
        uri.starts_with(SCHEME)
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = &self.cluster;
        match &self.role {
            CertificateRole::Node(id) => write!(f, "{SCHEME}{cluster}/node/{id}"),
            CertificateRole::AnyNode => write!(f, "{SCHEME}{cluster}/node/*"),
            CertificateRole::User(user) => write!(f, "{SCHEME}{cluster}/user/{user}"),
            CertificateRole::Authority => write!(f, "{SCHEME}{cluster}/ca"),
        }
    }
}

impl FromStr for CertificateName {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        let rest = text.strip_prefix(SCHEME).ok_or(ParseNameError::Form)?;
        let (cluster, role) = rest.split_once('/').ok_or(ParseNameError::Form)?;
        let cluster = cluster.parse()?;
        let role = match role.split_once('/') {
            None if role == "ca" => CertificateRole::Authority,
            Some(("node", "*")) => CertificateRole::AnyNode,
            Some(("node", id)) => CertificateRole::Node(node_id(id).ok_or(ParseNameError::Form)?),
            Some(("user", name)) => CertificateRole::User(name.parse()?),
            None | Some(_) => return Err(ParseNameError::Form),
        };
        Ok(CertificateName { cluster, role })
    }
}

/// A node's id as this program writes it. `+3` and `03` are refused, so that each node has exactly one URI.
fn node_id(text: &str) -> Option<NodeId> {
    let id: NodeId = text.parse().ok()?;
    (id > 0 && id.to_string() == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_printed_as_it_was_read() {
        let uris =
            ["fairhold://prod/node/3", "fairhold://prod.eu-1/node/*", "fairhold://p/user/ci@example.com", "fairhold://prod/ca"];
        for uri in uris {
            assert_eq!(uri.parse::<CertificateName>().unwrap().to_string(), uri);
        }
    }

    #[test]
    fn other_forms_are_refused() {
        let long_user = format!("fairhold://prod/user/{}", "x".repeat(USER_NAME_BYTES_MAX + 1));
        let long_cluster = format!("fairhold://{}/node/1", "x".repeat(CLUSTER_NAME_BYTES_MAX + 1));
        let uris = [
            "",
            "fairhold://",
            "fairhold://prod",
            "fairhold://prod/",
            "fairhold:///node/1",
            "fairhold://prod/node",
            "fairhold://prod/node/",
            "fairhold://prod/node/0",
            "fairhold://prod/node/03",
            "fairhold://prod/node/+3",
            "fairhold://prod/node/3/",
            "fairhold://prod/node/99999999999999999999",
            "fairhold://prod/node/3*",
            "fairhold://prod/user/",
            "fairhold://prod/user/a/b",
            "fairhold://prod/user/a%2Fb",
            "fairhold://prod/user/é",
            "fairhold://prod/user/a:b",
            "fairhold://prod/user/a+b",
            "fairhold://prod/user/-a",
            "fairhold://prod/ca/",
            "fairhold://prod/other/1",
            "fairhold://Prod/node/1",
            "fairhold://-prod/node/1",
            "fairhold://prod-/node/1",
            "fairhold://pr_od/node/1",
            "https://prod/node/1",
            "FAIRHOLD://prod/node/1",
            " fairhold://prod/node/1",
            &long_user,
            &long_cluster,
        ];
        for uri in uris {
            assert!(uri.parse::<CertificateName>().is_err(), "{uri}");
        }
    }
}
