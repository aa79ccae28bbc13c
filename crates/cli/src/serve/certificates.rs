//! The certificates of this node, one for clients and one for the other nodes, and the keys of the providers of JWTs: they
//! are loaded at the start, their files are followed, and the log says whose they are.

use super::{certificate_alarm::OwnCertificates, error::ServeError};
use crate::{
    config::{ServeConfig, client_tls::ClientTlsConfig, peer_tls::PeerTlsConfig},
    signals,
};
use fairhold_peer::security::PeerSecurity;
use fairhold_trust::{
    client_port::{ClientPortTls, UserRule},
    jwt::JwtProviders,
    live_pair::LivePair,
    pair::{PairError, PairUse},
    peer::PeerTls,
};
use fairhold_types::NodeId;
use std::sync::Arc;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
};

/// The certificates of this node, the keys of the providers of JWTs, and the tasks that follow their files. Dropping it ends
/// the tasks.
#[derive(Debug)]
pub(super) struct Certificates {
    clients: Option<ClientPortTls>,
    peers: PeerSecurity,
    providers: JwtProviders,
    /// Follows the files of the certificate for the other nodes.
    peers_watch: Option<AbortHandle>,
    reload_peers: Arc<Notify>,
    tasks: JoinSet<()>,
}

impl Certificates {
    /// Loads the certificates and follows their files: every 2 s, and at SIGHUP. The certificate for the other nodes must
    /// name this node if its number is known. Needs a runtime.
    pub(super) fn load(config: &ServeConfig) -> Result<Certificates, ServeError> {
        let mut certificates = Certificates {
            clients: config.client_tls.as_ref().map(load_for_clients).transpose()?,
            peers: PeerSecurity::plain(),
            providers: JwtProviders::load(config.jwt.clone())?,
            peers_watch: None,
            reload_peers: Arc::default(),
            tasks: JoinSet::new(),
        };
        let reload_clients = Arc::new(Notify::new());
        if let Some(tls) = &certificates.clients {
            certificates.tasks.spawn(tls.pair().clone().watch(reload_clients.clone()));
        }
        certificates.load_for_peers(config, config.start.id())?;
        if config.follows_files() {
            let mut reloads = vec![reload_clients, certificates.reload_peers.clone()];
            for keys in certificates.providers.key_sets() {
                let reload = Arc::new(Notify::new());
                certificates.tasks.spawn(keys.clone().watch(reload.clone()));
                reloads.push(reload);
            }
            let reload = move || {
                tracing::info!("SIGHUP: reading the certificates and keys again");
                reloads.iter().for_each(|reload| reload.notify_one());
            };
            certificates.tasks.spawn(signals::on_hangup(reload).map_err(ServeError::Runtime)?);
        }
        certificates.log(config);
        Ok(certificates)
    }

    /// Loads the certificate for the other nodes again, when the cluster has given this node its number.
    pub(super) fn load_for_peers(&mut self, config: &ServeConfig, node: Option<NodeId>) -> Result<(), ServeError> {
        self.peers = load_for_peers(config.peer_tls.as_ref(), node, peer_host(config))?;
        if let Some(watch) = self.peers_watch.take() {
            watch.abort();
        }
        let pair = self.peers.pair().cloned();
        self.peers_watch = pair.map(|pair| self.tasks.spawn(pair.watch(self.reload_peers.clone())));
        Ok(())
    }

    /// The certificates themselves.
    pub(super) fn own(&self) -> OwnCertificates {
        OwnCertificates::new(self.clients.as_ref().map(ClientPortTls::pair), self.peers.pair())
    }

    /// The providers of JWTs.
    pub(super) fn providers(&self) -> &JwtProviders {
        &self.providers
    }

    /// TLS of the port for clients.
    pub(super) fn clients(&self) -> Option<&ClientPortTls> {
        self.clients.as_ref()
    }

    /// How the connections to the other nodes are protected.
    pub(super) fn peers(&self) -> &PeerSecurity {
        &self.peers
    }

    /// Logs what the certificates say, and what remains unprotected.
    fn log(&self, config: &ServeConfig) {
        if let Some(tls) = &self.clients {
            log_pair(tls.pair(), "connections of clients", "--key");
            if tls.pair().files().ca.is_some() && !tls.names_users() {
                tracing::warn!(
                    "certificates of clients are verified (--client-ca), and name no user: the certificate of this node names no \
                     cluster. Pass --cluster-name NAME"
                );
            }
        }
        for keys in self.providers.key_sets() {
            let (file, provider, count) = (keys.path().display(), keys.provider(), keys.current().key_count());
            tracing::info!(%file, "JWTs of {provider} prove who a caller is, with {count} keys");
        }
        let (Some(tls), Some(pair)) = (&config.peer_tls, self.peers.pair()) else { return };
        log_pair(pair, "connections to other nodes", "--peer-key");
        if !pair.is_for_its_host() {
            let (file, host) = (pair.files().cert.display(), peer_host(config));
            tracing::warn!(
                "--peer-cert {file} is not for {host}: nodes that dial this one there refuse it. Issue another certificate with \
                 `fairhold cert node --host {host}`, or advertise a host that it names"
            );
        }
        if !tls.is_required {
            tracing::warn!(
                "--peer-tls optional: an attacker on the path between two nodes can keep them from using TLS. Pass --peer-tls \
                 required as soon as every node has a certificate"
            );
        }
    }
}

/// Checks the files as a start would.
pub(crate) fn check(config: &ServeConfig) -> Result<(), ServeError> {
    config.client_tls.as_ref().map(load_for_clients).transpose()?;
    JwtProviders::load(config.jwt.clone())?;
    load_for_peers(config.peer_tls.as_ref(), config.start.id(), peer_host(config)).map(drop)
}

fn load_for_clients(tls: &ClientTlsConfig) -> Result<ClientPortTls, ServeError> {
    let options = if tls.files.ca.is_some() { "--cert, --key or --client-ca" } else { "--cert or --key" };
    let pair = load(LivePair::load(tls.files.clone(), PairUse::ClientPort), options)?;
    let of_own_certificate = || pair.current().certificate().fairhold_names().next().map(|name| name.cluster);
    let cluster = tls.cluster.clone().or_else(of_own_certificate);
    Ok(ClientPortTls::new(pair, cluster.map_or(UserRule::Nowhere, UserRule::Uri), tls.oldest))
}

fn load_for_peers(tls: Option<&PeerTlsConfig>, node: Option<NodeId>, own_host: &str) -> Result<PeerSecurity, ServeError> {
    let Some(tls) = tls else { return Ok(PeerSecurity::plain()) };
    let pair_use = PairUse::Peers { cluster: tls.cluster.clone(), node, host: Some(own_host.to_owned()) };
    let pair = load(LivePair::load(tls.files.clone(), pair_use), "--peer-cert, --peer-key or --peer-ca")?;
    let peers = PeerTls::new(pair, tls.cluster.clone());
    Ok(if tls.is_required { PeerSecurity::required(peers) } else { PeerSecurity::optional(peers) })
}

fn load<T>(loaded: Result<T, PairError>, options: &'static str) -> Result<T, ServeError> {
    loaded.map_err(|error| ServeError::Certificate { options, error })
}

/// The host at which the other nodes dial this one.
fn peer_host(config: &ServeConfig) -> &str {
    let host = config.own.peer.rsplit_once(':').map_or(config.own.peer.as_str(), |(host, _)| host);
    host.trim_matches(['[', ']'])
}

fn log_pair(pair: &LivePair, connections: &str, key_option: &str) {
    let (files, pair) = (pair.files(), pair.current());
    let (holder, until) = (pair.certificate().holder(), pair.not_after().to_rfc3339());
    let file = files.cert.display();
    tracing::info!(%file, "{connections} use TLS with the certificate of {holder}, valid until {until}");
    if pair.is_key_open() {
        let key = files.key.display();
        tracing::warn!(file = %key, "all users of this machine can read or write {key_option} {key}: chmod 600 {key}");
    }
}
