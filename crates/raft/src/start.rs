//! How a replica starts: it loads the snapshot, opens the log, starts its tasks, and forms the cluster in the
//! background.

use crate::{
    background::{
        disk_reports, known_processes, leader_log, removal_watch, round_trip_watch, set_addresses,
        snapshots::{purge_log, take_snapshots},
    },
    base::{
        config::ReplicaConfig,
        error::{FatalReason, FormationError, StartError},
        member_addresses::MemberAddresses,
        peer::{Peer, Target},
        types::Types,
    },
    core::{
        Core, Links, RaftOf, contact::Contact, disk_room::DiskRoom, processes::Processes, programs::Programs,
        removal_notice::RemovalNotice, snapshot_schedule::Schedule, status::incarnations,
    },
    inbound::peer_service::PeerService,
    leadership::{elections::Elections, finalizer, formation, reconciler},
    machine::{
        apply::{ApplyObserver, Machine},
        defect::{DefectStore, Defects},
        snapshot::SnapshotStore,
    },
    metrics,
    outbound::network::Network,
    propose::{self, batcher},
    queues::Queues,
    read::{self, barrier},
    replica::{Formation, Replica},
};
use fairhold_types::failpoint;
use openraft::{
    AsyncRuntime, alias::WatchReceiverOf, async_runtime::watch::WatchSender, raft::Raft, storage::RaftLogStorage,
    type_config::TypeConfigExt,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};
use tokio::sync::{Mutex, Notify};

impl<RT: AsyncRuntime> Replica<RT> {
    /// Starts with the newest snapshot and the log, and forms or joins the cluster in the background.
    ///
    /// Start the transport's server over `peer_service.service()` soon after: the other nodes request this node's
    /// introduction.
    pub async fn start<L>(
        config: ReplicaConfig,
        peer_service: Arc<PeerService<RT>>,
        peer: Arc<dyn Peer>,
        log: L,
        snapshots: Arc<dyn SnapshotStore>,
        observer: Arc<dyn ApplyObserver>,
        defects: Arc<dyn DefectStore>,
    ) -> Result<Replica<RT>, StartError>
    where
        L: RaftLogStorage<Types<RT>>,
    {
        check_config(&config)?;
        let openraft_config = config.openraft().map_err(|error| StartError::Config(error.to_string()))?;
        let defects = Defects::load(defects).map_err(StartError::Defects)?;
        let machine = Machine::<RT>::load(snapshots.clone(), observer, defects, &config).await?;
        let shared = machine.shared.clone();
        failpoint!(RaftStartOpen, RT).map_err(|error| StartError::Log(error.to_string()))?;
        // To a node that joined, the configured addresses are only those where it looks for its cluster.
        let configured = if config.joined { BTreeMap::new() } else { config.members.clone() };
        let addresses = MemberAddresses::new(&configured);
        let lease = Duration::from_millis(config.election_timeout_ms.1);
        let notice = Arc::new(RemovalNotice::new(config.id, lease));
        let links = Arc::new(Links::new(peer, notice.clone()));
        let network = Network::<RT> { id: config.id, addresses: addresses.clone(), links: links.clone() };
        let raft: RaftOf<RT> = Raft::new(config.id, Arc::new(openraft_config), network, log, machine).await.map_err(|error| {
            match shared.failure.get() {
                Some(FatalReason::Inconsistent(why)) => StartError::Inconsistent(why.clone()),
                Some(FatalReason::Unsupported(version)) => StartError::Unsupported(*version),
                Some(_) | None => StartError::Log(error.to_string()),
            }
        })?;
        // openraft publishes its metrics before it answers; until then they are those of a node without a log.
        let vote = raft.with_raft_state(|state| *state.vote_ref()).await.map_err(|error| StartError::Log(error.to_string()))?;

        let core = Arc::new(Core {
            id: config.id,
            raft,
            shared,
            links,
            snapshots,
            schedule: Schedule::of(&config),
            leader_handler: OnceLock::new(),
            member_handler: OnceLock::new(),
            admissions: Mutex::new(()),
            lease,
            addresses,
            contact: Contact::new(vote.leader_id.term, config.time_scale()),
            program: config.program.clone(),
            programs: Programs::default(),
            processes: Processes::new(config.id, config.boot),
            lost: OnceLock::new(),
            disk_room: DiskRoom::new(),
            notice,
            reconcile: Notify::new(),
            time_scale: config.time_scale(),
            tracer: config.tracer.clone(),
        });
        set_addresses::look(&core);
        if let Err(error) = check_incarnation(&core, &config) {
            core.stop().await;
            return Err(error.into());
        }
        let (proposals, batcher_queue) = propose::queue::new(config.proposal_bytes);
        let (barriers, barrier_queue) = read::queue::new();
        let queues = Queues { proposals, barriers };
        drop(RT::spawn(batcher::run(batcher_queue, core.clone())));
        drop(RT::spawn(barrier::run(barrier_queue, core.clone())));
        spawn_tasks(&core, &queues, &config);
        let formation = begin_forming(&core, config);
        if let Err(error) = failpoint!(RaftStartServe, RT) {
            core.stop().await;
            return Err(StartError::Log(error.to_string()));
        }
        if !peer_service.open(&core, queues.clone()) {
            core.stop().await;
            return Err(StartError::Config("another replica was started with this peer service".to_owned()));
        }
        Ok(Replica { core, queues, peer_service, formation })
    }
}

/// Forms or joins the cluster in the background.
fn begin_forming<RT: AsyncRuntime>(core: &Arc<Core<RT>>, config: ReplicaConfig) -> WatchReceiverOf<Types<RT>, Formation> {
    let (report, formation) = Types::<RT>::watch_channel(None);
    let forming = formation::form(core.clone(), config);
    let member = core.clone();
    drop(RT::spawn(async move {
        let result = forming.await;
        member.with_metrics(|metrics| member.addresses.log_differences(metrics.membership_config.nodes()));
        // The receiver may be gone; then the result is dropped.
        report.send(Some(result)).ok();
    }));
    formation
}

/// Starts the tasks that run for as long as the replica does.
fn spawn_tasks<RT: AsyncRuntime>(core: &Arc<Core<RT>>, queues: &Queues, config: &ReplicaConfig) {
    drop(RT::spawn(Elections::new(core.clone(), config.election_timeout_ms).run()));
    drop(RT::spawn(round_trip_watch::run(core.clone(), Duration::from_millis(config.heartbeat_ms))));
    drop(RT::spawn(leader_log::run(core.clone())));
    drop(RT::spawn(known_processes::run(core.clone())));
    drop(RT::spawn(metrics::count_elections(core.clone())));
    drop(RT::spawn(take_snapshots(core.clone())));
    drop(RT::spawn(purge_log(core.clone())));
    drop(RT::spawn(disk_reports::run(core.clone())));
    drop(RT::spawn(set_addresses::run(core.clone())));
    drop(RT::spawn(removal_watch::run(core.clone(), greeted(config), config.cluster)));
    drop(RT::spawn(formation::name_cluster(core.clone(), queues.clone(), config.timing)));
    drop(RT::spawn(reconciler::run(core.clone(), queues.clone())));
    if let Some(after) = config.finalize_after {
        drop(RT::spawn(finalizer::run(core.clone(), queues.clone(), after)));
    }
}

impl<RT: AsyncRuntime> Replica<RT> {
    /// Whether the local state is from after this node became a member. Before, a node that joined a running cluster applies
    /// its history.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.core.shared.has_joined.load(Ordering::Acquire)
    }
}

/// The nodes to ask about this node before it knows any members. A node that belongs to no cluster yet asks none.
fn greeted(config: &ReplicaConfig) -> Vec<Target> {
    let others = config.members.iter().filter(|(id, _)| **id != config.id && config.cluster.is_some());
    others.map(|(&id, member)| Target { id, address: member.address.clone(), incarnation: None }).collect()
}

fn check_config(config: &ReplicaConfig) -> Result<(), StartError> {
    if config.cluster.is_some() {
        return Ok(());
    }
    if config.joined {
        return Err(StartError::Config("a node that joined must know its cluster".to_owned()));
    }
    if !config.members.contains_key(&config.id) {
        return Err(StartError::Config(format!("the list of members lacks this node, node {}", config.id)));
    }
    Ok(())
}

/// Fails if the log lists this node with another data directory: the log belongs to another node.
fn check_incarnation<RT: AsyncRuntime>(core: &Core<RT>, config: &ReplicaConfig) -> Result<(), FormationError> {
    match core.with_metrics(incarnations).get(&config.id) {
        Some(&expected) if expected != config.incarnation => {
            Err(FormationError::Wiped { id: config.id, expected, found: config.incarnation })
        }
        Some(_) | None => Ok(()),
    }
}
