//! How the connections to the other nodes are encrypted, resolved from the options.

use super::error::ConfigError;
use fairhold_trust::{files::CertificateFiles, name::ClusterName};
use std::path::PathBuf;

/// Whether connections between nodes have TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PeerTlsMode {
    /// No connection has TLS.
    Off,
    /// A connection has TLS if both nodes can have it.
    Optional,
    /// Every connection has TLS.
    Required,
}

/// TLS between nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerTlsConfig {
    /// Whether a connection may have no TLS.
    pub(crate) is_required: bool,
    /// The certificate of this node, its key, and the authority of the nodes.
    pub(crate) files: CertificateFiles,
    /// The cluster that certificates must name.
    pub(crate) cluster: ClusterName,
}

/// What the configuration says about TLS between nodes.
#[derive(Debug, Default)]
pub(super) struct PeerTlsInput {
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
    pub(super) mode: Option<PeerTlsMode>,
    pub(super) cluster: Option<ClusterName>,
}

impl PeerTlsMode {
    /// The value as the options have it.
    fn as_str(self) -> &'static str {
        match self {
            PeerTlsMode::Off => "off",
            PeerTlsMode::Optional => "optional",
            PeerTlsMode::Required => "required",
        }
    }
}

impl PeerTlsConfig {
    /// The value of `peer-tls`.
    pub(crate) fn mode(&self) -> &'static str {
        let mode = if self.is_required { PeerTlsMode::Required } else { PeerTlsMode::Optional };
        mode.as_str()
    }
}

impl PeerTlsInput {
    /// With a certificate and without a mode, TLS is required. If it is off, the files may be there already. Without its
    /// own certificate for the other nodes, a node uses the one for clients.
    pub(super) fn resolve(self, for_clients: Option<&CertificateFiles>) -> Result<Option<PeerTlsConfig>, ConfigError> {
        let PeerTlsInput { mut cert, mut key, ca, mode, cluster } = self;
        if let Some(files) = for_clients
            && cert.is_none()
            && key.is_none()
            && (ca.is_some() || mode.is_some())
        {
            (cert, key) = (Some(files.cert.clone()), Some(files.key.clone()));
        }
        let has_files = cert.is_some() || key.is_some() || ca.is_some();
        let is_required = match mode {
            Some(PeerTlsMode::Off) => return Ok(None),
            None if !has_files => return Ok(None),
            None | Some(PeerTlsMode::Required) => true,
            Some(PeerTlsMode::Optional) => false,
        };
        let missing = |name| ConfigError::PeerTlsIncomplete { name };
        Ok(Some(PeerTlsConfig {
            is_required,
            files: CertificateFiles {
                cert: cert.ok_or(missing("peer-cert FILE"))?,
                key: key.ok_or(missing("peer-key FILE"))?,
                ca: Some(ca.ok_or(missing("peer-ca FILE"))?),
            },
            cluster: cluster.ok_or(missing("cluster-name NAME"))?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> PeerTlsInput {
        PeerTlsInput {
            cert: Some("c".into()),
            key: Some("k".into()),
            ca: Some("a".into()),
            mode: None,
            cluster: Some("prod".parse().unwrap()),
        }
    }

    #[test]
    fn without_options_there_is_no_tls_and_with_a_certificate_it_is_required() {
        assert_eq!(PeerTlsInput::default().resolve(None).unwrap(), None);
        assert_eq!(PeerTlsInput { cluster: input().cluster, ..PeerTlsInput::default() }.resolve(None).unwrap(), None);
        for (mode, required) in [(None, true), (Some(PeerTlsMode::Required), true), (Some(PeerTlsMode::Optional), false)] {
            let config = PeerTlsInput { mode, ..input() }.resolve(None).unwrap().unwrap();
            assert_eq!((config.is_required, config.cluster.as_str()), (required, "prod"), "{mode:?}");
        }
        let off = PeerTlsInput { mode: Some(PeerTlsMode::Off), ..input() };
        assert_eq!(off.resolve(None).unwrap(), None, "the files may be there before they are used");
    }

    #[test]
    fn the_certificate_for_clients_is_also_the_one_for_nodes_unless_these_have_their_own() {
        let for_clients = CertificateFiles { cert: "client.crt".into(), key: "client.key".into(), ca: None };
        let resolved = |input: PeerTlsInput| input.resolve(Some(&for_clients));
        let shared = resolved(PeerTlsInput { cert: None, key: None, ..input() }).unwrap().unwrap();
        assert_eq!((shared.files.cert, shared.files.key), (for_clients.cert.clone(), for_clients.key.clone()));
        assert_eq!(shared.files.ca, Some("a".into()));
        assert_eq!(resolved(input()).unwrap().unwrap().files.cert, PathBuf::from("c"));
        assert_eq!(
            resolved(PeerTlsInput::default()).unwrap(),
            None,
            "a certificate for clients alone means no TLS between nodes"
        );
        let half = resolved(PeerTlsInput { cert: None, ..input() }).unwrap_err();
        assert!(half.to_string().contains("--peer-cert FILE"), "a key alone is a mistake: {half}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (incomplete, named) in [
            (PeerTlsInput { cert: None, ..input() }, "pass --peer-cert FILE"),
            (PeerTlsInput { key: None, ..input() }, "pass --peer-key FILE"),
            (PeerTlsInput { ca: None, ..input() }, "pass --peer-ca FILE"),
            (PeerTlsInput { cluster: None, ..input() }, "pass --cluster-name NAME"),
            (PeerTlsInput { mode: Some(PeerTlsMode::Optional), ..PeerTlsInput::default() }, "pass --peer-cert FILE"),
        ] {
            let error = incomplete.resolve(None).unwrap_err();
            assert!(error.to_string().contains(named), "{named}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
