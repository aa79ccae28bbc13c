//! The certificates of this node, one for clients and one for the other nodes, and the keys of the providers of JWTs: they
//! are loaded at the start, their files are followed, and the log says whose they are.

use super::{certificate_alarm::OwnCertificates, error::ServeError};
use crate::config::{ServeConfig, client_tls::ClientTlsConfig, peer_tls::PeerTlsConfig};
use fairhold_peer::security::PeerSecurity;
use fairhold_trust::{
    client_port::{ClientPortTls, UserRule},
    jwt::JwtProviders,
    live_pair::LivePair,
    pair::{PairError, PairUse},
    peer::PeerTls,
};
use fairhold_types::NodeId;
use parking_lot::Mutex;
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
    followed: FollowedFiles,
    /// Follows the files of the certificate for the other nodes.
    peers_watch: Option<AbortHandle>,
    tasks: JoinSet<()>,
}

/// The files that are followed, and the providers of JWTs, which can change. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct FollowedFiles {
    providers: JwtProviders,
    /// Makes the tasks read their files at once.
    reload_clients: Arc<Notify>,
    reload_peers: Arc<Notify>,
    keys: Arc<Mutex<FollowedKeys>>,
}

/// The tasks that follow the keys of providers. Dropping it ends them.
#[derive(Debug, Default)]
struct FollowedKeys {
    reloads: Vec<Arc<Notify>>,
    tasks: JoinSet<()>,
}

impl FollowedFiles {
    fn new(providers: JwtProviders) -> FollowedFiles {
        let followed =
            FollowedFiles { providers, reload_clients: Arc::default(), reload_peers: Arc::default(), keys: Arc::default() };
        followed.follow_keys();
        followed
    }

    /// Follows the files of the providers of this moment, and no others. Needs a runtime.
    fn follow_keys(&self) {
        let mut keys = self.keys.lock();
        *keys = FollowedKeys::default();
        for key_set in self.providers.key_sets() {
            let reload = Arc::new(Notify::new());
            keys.tasks.spawn(key_set.watch(reload.clone()));
            keys.reloads.push(reload);
        }
    }

    /// Reads all files again at once.
    pub(super) fn read_again(&self) {
        self.reload_clients.notify_one();
        self.reload_peers.notify_one();
        self.keys.lock().reloads.iter().for_each(|reload| reload.notify_one());
    }

    /// Replaces the providers, whose keys are loaded. Needs a runtime.
    pub(super) fn replace_providers(&self, providers: &JwtProviders) {
        self.providers.replace(providers);
        self.follow_keys();
    }
}

impl Certificates {
    /// Loads the certificates and follows their files: every 2 s, and when a reload asks for it. The certificate for
    /// the other nodes must name this node if its number is known. Needs a runtime.
    pub(super) fn load(config: &ServeConfig) -> Result<Certificates, ServeError> {
        let clients = config.client_tls.as_ref().map(load_for_clients).transpose()?;
        let followed = FollowedFiles::new(JwtProviders::load(config.jwt.clone())?);
        let mut tasks = JoinSet::new();
        if let Some(tls) = &clients {
            tasks.spawn(tls.pair().clone().watch(followed.reload_clients.clone()));
        }
        let mut certificates = Certificates { clients, peers: PeerSecurity::plain(), followed, peers_watch: None, tasks };
        certificates.load_for_peers(config, config.start.id())?;
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
        self.peers_watch = pair.map(|pair| self.tasks.spawn(pair.watch(self.followed.reload_peers.clone())));
        Ok(())
    }

    /// The certificates themselves.
    pub(super) fn own(&self) -> OwnCertificates {
        OwnCertificates::new(self.clients.as_ref().map(ClientPortTls::pair), self.peers.pair())
    }

    /// The providers of JWTs.
    pub(super) fn providers(&self) -> &JwtProviders {
        &self.followed.providers
    }

    /// The files that are followed.
    pub(super) fn followed(&self) -> &FollowedFiles {
        &self.followed
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
        for keys in self.providers().key_sets() {
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

/// Checks the files as a start would, and returns every reason why one cannot be used.
pub(crate) fn check(config: &ServeConfig) -> Vec<ServeError> {
    let clients = config.client_tls.as_ref().and_then(|tls| load_for_clients(tls).err());
    let providers = config.jwt.iter().filter_map(|provider| JwtProviders::load(vec![provider.clone()]).err());
    let peers = load_for_peers(config.peer_tls.as_ref(), config.start.id(), peer_host(config)).err();
    clients.into_iter().chain(providers.map(ServeError::from)).chain(peers).collect()
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
