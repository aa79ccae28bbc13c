//! The running node: starts its services in the order of their dependencies, and stops them in order.

use super::{
    admin_token,
    alarms::{self, MachineSources},
    allocator, audit,
    backups::BackupSchedule,
    certificate_alarm,
    certificates::Certificates,
    directory,
    error::ServeError,
    free_space, host,
    listeners::{ListenerTask, ended, hosts, listen_for_clients, listen_for_status, stop_requested},
    memory, peer_key, process,
    reload::ReloadCounters,
    restart, sampler, service_manager, timing_watch,
};
use crate::{
    config::{
        ServeConfig,
        start::{MemberSource, StartingNode},
    },
    member::ServeMember,
    telemetry::exporter::TraceExport,
};
use fairhold_http::{
    Admin, Audit, Authenticator, ClusterHeader, ConnectionLimits, Exposition, ServerInfo, SlowRequests, router, status_router,
};
use fairhold_node::{Node, NodeParts};
use fairhold_peer::{client::TcpPeer, key::PeerKeys, security::PeerSecurity, server::PeerServer};
use fairhold_raft::{MemberAddress, PeerService, Replica, ReplicaConfig};
use fairhold_storage::{Storage, data_dir::DataDir, defect_file::DefectFile, fault::Faults};
use fairhold_trace::Tracer;
use openraft_rt_tokio::TokioRuntime;
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::oneshot, task::JoinHandle, time::timeout};

/// How long the node may take to write the answers in flight when it stops. Waiting requests have their answers by
/// then.
const HTTP_STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long any other service may take to stop.
const SERVICE_STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// What a start has prepared before the server runs.
pub(super) struct Prepared {
    pub(super) admin: Admin,
    pub(super) keys: PeerKeys,
    pub(super) certificates: Certificates,
    pub(super) audit: Audit,
    /// The limits on connections of clients, which a reload can change.
    pub(super) connections: ConnectionLimits,
    pub(super) reloads: ReloadCounters,
    /// Which requests are slow.
    pub(super) slow: SlowRequests,
    /// Sends the spans of requests.
    pub(super) traces: TraceExport,
}

/// A running node.
pub(super) struct Server {
    services: NodeServices,
    http: ListenerTask,
    /// The status listener, if one is configured.
    status: Option<ListenerTask>,
    /// Reload the administrators' token and the peer key when their files change, warn before certificates expire and
    /// while the audit log cannot be written, look for alarms, sample the totals, and tell the service manager how the node is.
    watches: Vec<JoinHandle<()>>,
    /// Follows the files of the certificates.
    certificates: Certificates,
}

/// The services on the threads of Raft and of the clock.
struct NodeServices {
    node: Node<TokioRuntime>,
    replica: Replica<TokioRuntime>,
    peer: Arc<TcpPeer>,
    peers: ListenerTask,
    /// Holds the lock on the data directory. Ends only if the directory belongs to another cluster.
    directory: JoinHandle<ServeError>,
    /// Watches the free disk space.
    free_space: JoinHandle<()>,
    /// Watches the memory of the process.
    memory: Option<JoinHandle<()>>,
    /// Keeps the cluster's timing profile for the next start.
    timing: JoinHandle<()>,
    faults: Faults,
}

impl Server {
    /// Binds both ports, then starts everything. HTTP runs on the runtime of the caller.
    pub(super) async fn start(
        config: &ServeConfig,
        node: &StartingNode,
        storage: Storage,
        prepared: Prepared,
        raft: &Handle,
        clock: &Handle,
    ) -> Result<Server, ServeError> {
        let Prepared { admin, keys, certificates, audit, connections, reloads, slow, traces } = prepared;
        let listener = listen_for_clients(config, &certificates).await?;
        let listener =
            listener.with_limits(config.limits).with_connection_limits(connections).with_hosts(hosts(config, Some(node)));
        let status = listen_for_status(config, hosts(config, Some(node))).await?;
        let mut registry = fairhold_metrics::registry();
        process::register(&mut registry);
        reloads.register(&mut registry);
        storage.register_metrics(&mut registry);
        let syncs = storage.sync_times();
        let starting = NodeServices::start(
            config.clone(),
            node.clone(),
            storage,
            (keys.clone(), certificates.peers().clone()),
            (clock.clone(), traces.tracer()),
        );
        let services = raft.spawn(starting).await.map_err(ended)??;
        services.peer.metrics().register(&mut registry);
        services.replica.register_metrics(&mut registry);
        services.node.register_metrics(&mut registry);
        let own = certificates.own();
        own.register_metrics(&mut registry);
        audit.register_metrics(&mut registry);
        host::set(&config.data, &config.exposures, own.clone(), audit.clone());
        let schedule = BackupSchedule::of(config, node.id, services.node.clone());
        let newest_backup = schedule.as_ref().map(BackupSchedule::newest);
        let sources = MachineSources::new(config, node, syncs.clone(), (own.clone(), audit.clone()), newest_backup);
        let looking = tokio::spawn(alarms::watch(sources, services.node.clone(), services.replica.clone()));
        traces.start(node.id, &mut registry);
        let exposition = Exposition::with_slow_requests(registry, slow);
        let sampling = tokio::spawn(sampler::run(services.node.clone(), syncs, exposition.http()));
        let info = ServerInfo { version: env!("CARGO_PKG_VERSION"), host: host::read, insecure: host::exposures };
        let (stop, stopped) = oneshot::channel();
        let listener = listener.with_metrics(exposition.http()).with_cluster(ClusterHeader::of(&services.node));
        let token_watch = config.admin_token_file.clone().map(|file| admin_token::watch(file, admin.clone()));
        let status = status.map(|listener| {
            let (stop, stopped) = oneshot::channel();
            let routes = status_router(services.node.clone(), info, exposition.clone());
            let serving = listener.with_cluster(ClusterHeader::of(&services.node)).serve(routes, stop_requested(stopped));
            ListenerTask { name: "status", stop, task: tokio::spawn(serving) }
        });
        let providers = certificates.providers().clone();
        let watching = certificate_alarm::watch(own, providers.clone(), services.node.clone());
        let alarm = config.reloads_at_hangup().then(|| tokio::spawn(watching));
        let audit_watch = audit.log().map(|log| tokio::spawn(audit::watch(log.clone(), services.node.clone())));
        let ready = tokio::spawn(service_manager::tell_ready(services.node.clone()));
        let signs_of_life = service_manager::signs_of_life(services.node.clone()).map(tokio::spawn);
        let backups = schedule.map(|schedule| tokio::spawn(schedule.run()));
        let authenticator = Authenticator::new(admin).with_providers(providers);
        let watches = [token_watch, peer_key::watch(&config.peers, keys), alarm, audit_watch, signs_of_life, backups];
        let watches = watches.into_iter().flatten().chain([ready, looking, sampling]).collect();
        let api = router(services.node.clone(), info, config.dashboard.clone(), authenticator, exposition, audit);
        let serving = listener.serve(api, stop_requested(stopped));
        let http = ListenerTask { name: "HTTP", stop, task: tokio::spawn(serving) };
        tracing::info!(
            clients = %config.listen,
            peers = %config.peer_listen,
            status = config.listen_status.as_deref(),
            timing = %config.timing,
            "listening"
        );
        Ok(Server { services, http, status, watches, certificates })
    }

    /// Waits for a failure from which the node cannot recover.
    pub(super) async fn failed(&mut self, config: &ServeConfig) -> ServeError {
        tokio::select! {
            biased;
            reason = self.services.replica.stopped() => {
                directory::mark(&config.data, &reason).await;
                ServeError::Stopped { reason, fault: self.services.faults.first(), data: config.data.display().to_string() }
            }
            failed = &mut self.services.directory => failed.unwrap_or_else(ended),
            result = &mut self.services.peers.task => self.services.peers.ended(result),
            result = &mut self.http.task => self.http.ended(result),
            ended = async {
                match &mut self.status {
                    Some(status) => {
                        let result = (&mut status.task).await;
                        status.ended(result)
                    }
                    None => std::future::pending().await,
                }
            } => ended,
        }
    }

    /// Shuts down in order. First another node becomes the leader: clients that waited here keep their places in the
    /// queue, and find a node that serves them. Then the node writes the answers in flight.
    pub(super) async fn stop(self) {
        let Server { services, http, status, watches, certificates } = self;
        let NodeServices { node, replica, peer, peers, directory, free_space, memory, timing, faults: _ } = services;
        node.announce_shutdown();
        replica.transfer_leadership().await;
        bounded("the node's own work", node.shutdown()).await;
        http.stop(HTTP_STOP_TIMEOUT).await;
        peers.stop(SERVICE_STOP_TIMEOUT).await;
        bounded("raft", replica.shutdown()).await;
        bounded("the connections to other nodes", peer.close()).await;
        if let Some(status) = status {
            status.stop(SERVICE_STOP_TIMEOUT).await;
        }
        free_space.abort();
        if let Some(memory) = memory {
            memory.abort();
        }
        timing.abort();
        directory.abort();
        watches.iter().for_each(JoinHandle::abort);
        drop(certificates);
    }
}

impl NodeServices {
    async fn start(
        config: ServeConfig,
        starting: StartingNode,
        storage: Storage,
        (keys, security): (PeerKeys, PeerSecurity),
        (clock, tracer): (Handle, Tracer),
    ) -> Result<NodeServices, ServeError> {
        let bound = PeerServer::bind(&config.peer_listen).await;
        let server = bound.map_err(|error| ServeError::peer_port(&config.peer_listen, error))?;
        let Storage { data_dir, log, snapshots, faults } = storage;
        snapshots.when_idle(allocator::return_free_memory);
        // A node of a new cluster: neither it nor its data directory knows one.
        let forms = data_dir.cluster().is_none() && !starting.joined;
        let replica_config = ReplicaConfig { tracer, ..replica_config(&config, &starting, &data_dir) };
        let peer_service = PeerService::new(&replica_config);
        let peer = Arc::new(TcpPeer::with_security(Handle::current(), keys.clone(), security.clone()));
        let server = server.with_metrics(peer.metrics()).with_keys(keys).with_security(security);
        peer.set_service(peer_service.service());
        let parts = NodeParts::with_event_ring(config.event_ring_bytes);
        let observer = parts.apply_observer();
        let defects = Arc::new(DefectFile::new(&config.data, restart::restart_in_place));
        let replica =
            Replica::start(replica_config, peer_service, peer.clone(), log, Arc::new(snapshots), observer, defects).await?;
        let (node, clock_task) = Node::start_with_separate_clock(parts, replica.clone());
        // It ends in `node.shutdown`, which waits for it.
        drop(clock.spawn(clock_task));
        let (stop, stopped) = oneshot::channel();
        let serving = server.serve(replica.service(), stop_requested(stopped));
        let peers = ListenerTask { name: "peer", stop, task: tokio::spawn(serving) };
        let directory = tokio::spawn(directory::keep(replica.clone(), data_dir));
        let watched = timing_watch::watch(node.clone(), replica.clone(), config.data.clone(), config.timing, forms);
        let timing = tokio::spawn(watched);
        let free_space = tokio::spawn(free_space::watch(config.data.clone(), node.clone(), replica.clone()));
        node.offer_state_bytes(config.state_bytes_max);
        let memory = memory::limit().map(|limit| tokio::spawn(memory::watch(node.clone(), limit)));
        Ok(NodeServices { node, replica, peer, peers, directory, free_space, memory, timing, faults })
    }
}

pub(super) fn replica_config(config: &ServeConfig, node: &StartingNode, data_dir: &DataDir) -> ReplicaConfig {
    let address = |member: &ServeMember| MemberAddress { url: member.url.clone(), address: member.peer.clone() };
    let members = node.members.iter().map(|(id, member)| (*id, address(member)));
    let replica = ReplicaConfig {
        proposal_bytes: config.proposal_bytes,
        finalize_after: config.finalize_after,
        cluster: data_dir.cluster(),
        // A list in the configuration has addresses to use, also for a node that joined.
        joined: node.joined && node.source == MemberSource::DataDirectory,
        ..ReplicaConfig::new(node.id, members.collect(), data_dir.incarnation())
    };
    replica.with_timing(config.timing)
}

async fn bounded(what: &str, stopping: impl Future<Output = ()>) {
    if timeout(SERVICE_STOP_TIMEOUT, stopping).await.is_err() {
        tracing::warn!("{what} did not stop within {} s", SERVICE_STOP_TIMEOUT.as_secs());
    }
}
