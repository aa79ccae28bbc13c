//! How a node authenticates the other nodes.

use super::peer_tls::PeerTlsConfig;
use std::path::PathBuf;

/// How a node authenticates the other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerTrust {
    /// With the key in this file.
    Key(PathBuf),
    /// With certificates alone: every connection has TLS.
    Certificates,
    /// Not at all: its peer address is a loopback address, or its operator passed `--insecure`.
    Nothing,
}

impl PeerTrust {
    /// The one that follows from the options.
    pub(super) fn new(key_file: Option<PathBuf>, peer_tls: Option<&PeerTlsConfig>) -> PeerTrust {
        match key_file {
            Some(file) => PeerTrust::Key(file),
            None if peer_tls.is_some_and(|tls| tls.is_required) => PeerTrust::Certificates,
            None => PeerTrust::Nothing,
        }
    }
}
