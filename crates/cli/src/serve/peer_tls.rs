//! TLS between nodes: the certificate of this node, from its files, and its reload.

use crate::config::{ServeConfig, peer_tls::PeerTlsConfig};
use fairhold_peer::security::PeerSecurity;
use fairhold_trust::{
    live_pair::LivePair,
    pair::{PairError, PairUse},
    peer::PeerTls,
};
use fairhold_types::NodeId;
use std::sync::Arc;
use tokio::{sync::Notify, task::JoinHandle};

/// How the connections of this node are protected, and the task that follows its files. Dropping it ends the task.
#[derive(Debug, Default)]
pub(super) struct PeerProtection {
    security: PeerSecurity,
    watch: Option<JoinHandle<()>>,
}

impl PeerProtection {
    /// Loads the certificate, which must name this node if its number is known, and follows its files: every 2 s, and
    /// when `reload` is notified. Needs a runtime.
    pub(super) fn load(config: &ServeConfig, node: Option<NodeId>, reload: &Arc<Notify>) -> Result<PeerProtection, PairError> {
        let Some(tls) = &config.peer_tls else { return Ok(PeerProtection::default()) };
        let pair = load(tls, node)?;
        let peers = PeerTls::new(pair.clone(), tls.cluster.clone());
        let security = if tls.is_required { PeerSecurity::required(peers) } else { PeerSecurity::optional(peers) };
        let watch = tokio::spawn(pair.watch(reload.clone()));
        Ok(PeerProtection { security, watch: Some(watch) })
    }

    pub(super) fn security(&self) -> &PeerSecurity {
        &self.security
    }
}

impl Drop for PeerProtection {
    fn drop(&mut self) {
        self.watch.iter().for_each(JoinHandle::abort);
    }
}

/// Logs what the certificate says and what remains unprotected.
pub(super) fn log(config: &ServeConfig, protection: &PeerProtection) {
    let (Some(tls), Some(pair)) = (&config.peer_tls, protection.security.pair()) else { return };
    let (file, pair) = (tls.files.cert.display(), pair.current());
    let (holder, until) = (pair.certificate().holder(), pair.not_after().to_rfc3339());
    let mode = tls.mode();
    tracing::info!(%file, mode, "connections to other nodes use TLS with the certificate of {holder}, valid until {until}");
    if pair.is_key_open() {
        let key = tls.files.key.display();
        tracing::warn!(file = %key, "all users of this machine can read or write --peer-key {key}: chmod 600 {key}");
    }
    if !tls.is_required {
        tracing::warn!(
            "--peer-tls optional: an attacker on the path between two nodes can keep them from using TLS. Pass --peer-tls \
             required as soon as every node has a certificate"
        );
    }
}

/// Checks the files as a start would.
pub(crate) fn check(config: &ServeConfig) -> Result<(), PairError> {
    match &config.peer_tls {
        Some(tls) => load(tls, config.start.id()).map(drop),
        None => Ok(()),
    }
}

fn load(tls: &PeerTlsConfig, node: Option<NodeId>) -> Result<Arc<LivePair>, PairError> {
    LivePair::load(tls.files.clone(), PairUse::Peers { cluster: tls.cluster.clone(), node })
}
