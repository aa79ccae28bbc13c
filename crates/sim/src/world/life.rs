//! The life of a node: how it starts, why it ends, and how its machine is restarted.

use super::{
    RunningNode, World,
    slot::{address_of, url_of},
    witness::WitnessedService,
};
use crate::{
    coverage::Probe,
    disk::{Disk, SetMembers},
    facts::{Fact, MembersSet},
    host::Host,
    trace,
};
use fairhold_http::{Audit, Authenticator, Dashboard, Exposition, ServerInfo, router};
use fairhold_node::{Node, NodeParts};
use fairhold_raft::{
    FatalReason, MemberAddress, PeerService, Program, Replica, ReplicaConfig, StartError, defect::NoDefectStore,
};
use fairhold_types::{NodeId, SupportedVersions, dto::Host as HostView};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long a node that ended on its own stays down.
const DOWN_FOR: Duration = Duration::from_millis(500);
/// Entries kept behind a snapshot.
const LOG_KEPT: u64 = 3;

impl World {
    /// The configuration of a node. One of the first members is configured with all of them; any other node knows those that
    /// the cluster named when it joined.
    fn config(&self, id: NodeId, disk: &Disk) -> ReplicaConfig {
        let (joined, changes, lives) = {
            let inner = self.locked();
            let slot = inner.slots.get(&id);
            (slot.and_then(|slot| slot.joined.clone()), inner.address_changes, slot.map_or(0, |slot| slot.lives))
        };
        let founder = |id: u64| {
            let name = format!("n{id}");
            (id, MemberAddress { url: url_of(&name), address: address_of(&name, changes) })
        };
        let members = match &joined {
            Some(joined) => joined
                .members
                .iter()
                .map(|(id, url, address)| (*id, MemberAddress { url: url.clone(), address: address.clone() }))
                .collect(),
            None => (1..=self.founders).map(founder).collect(),
        };
        let mut config = ReplicaConfig::new(id, members, disk.incarnation);
        // A node writes the id of its cluster to its disk as soon as it knows it.
        let known = self.oracle.cluster_known_by(id).filter(|_| self.has_own_disk(id));
        config.cluster = joined.as_ref().map(|joined| joined.cluster).or(known);
        config.joined = joined.is_some();
        config.snapshot_every = self.snapshot_every;
        config.log_kept = LOG_KEPT;
        config.boot = id << 32 | lives;
        if self.is_older(id) {
            config.program = Program { version: Some("older".to_owned()), supports: SupportedVersions::UNTOLD };
            // It does not tell.
            config.boot = 0;
        }
        config
    }

    /// Reports the members that entries of a node's log set.
    fn members_watch(&self, id: NodeId) -> SetMembers {
        let inner = Arc::downgrade(&self.inner);
        let oracle = self.oracle.clone();
        let coverage = self.coverage.clone();
        Arc::new(move |(log_id, members), before| {
            let Some(inner) = inner.upgrade() else { return };
            if before.as_ref().is_some_and(|((term, _), before)| before.is_joint() && !members.is_joint() && *term != log_id.0) {
                coverage.probe(Probe::JointEnded);
            }
            let before = before.map(|(_, before)| before);
            let now = trace::since_start();
            let machines: BTreeMap<NodeId, (Disk, Duration)> = {
                let inner = inner.lock();
                let off_for = |since: Option<Duration>| since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
                inner.slots.iter().map(|(id, slot)| (*id, (slot.disk.clone(), off_for(slot.off_since)))).collect()
            };
            let flushed = machines.iter().filter_map(|(id, (disk, _))| Some((*id, disk.last_kept()?))).collect();
            let off_for = machines.into_iter().map(|(id, (_, off_for))| (id, off_for)).collect();
            let set = MembersSet { node: id, log_id, members, before, flushed, off_for };
            oracle.observe(&Fact::MembersSet(Box::new(set)));
        })
    }

    fn peer_address(&self, id: NodeId) -> String {
        let inner = self.locked();
        inner.slots.get(&id).map_or_else(String::new, |slot| slot.address(inner.address_changes))
    }

    /// Runs a node from its start to its end.
    pub(super) async fn serve(self, id: NodeId, host: Arc<Host>, disk: Disk) {
        let config = self.config(id, &disk);
        let peer_service = PeerService::new(&config);
        let parts = NodeParts::with_event_ring(self.ring_bytes);
        let apply_observer = self.oracle.observer(id, self.has_own_disk(id), self.pace, parts.apply_observer());
        let peer = self.net.peer(Arc::clone(&host), peer_service.service());
        if !disk.has_monotonic_terms() {
            self.oracle
                .violation(format!("terms grow: in the log of node {id} an entry has a lower term than the one before it"));
        }
        let log = disk.mount(&host, self.members_watch(id));
        let started =
            Replica::start(config, peer_service, peer, log.clone(), Arc::new(log), apply_observer, Arc::new(NoDefectStore)).await;
        let replica = match started {
            Ok(replica) => replica,
            Err(StartError::Unsupported(_)) if self.replace_older_program(id) => return self.restart_later(id, &host),
            Err(error) => {
                if !disk.has_failed() && self.has_own_disk(id) && !self.is_spoiled(&host) {
                    self.oracle.violation(format!("node {id} cannot start: {error}"));
                }
                return self.restart_later(id, &host);
            }
        };
        let node = Node::start(parts, replica.clone());
        if let Some(bytes) = self.state_bytes {
            // Node 1 has the smallest capacity, and the others must follow it.
            node.offer_state_bytes(bytes * id);
        }
        let info = ServerInfo { version: "simulated", host: HostView::default, insecure: Vec::new };
        let authenticator = Authenticator::new(self.admin.clone());
        let api = router(node.clone(), info, Dashboard::Off, authenticator, Exposition::default(), Audit::off());
        self.net.attach(self.peer_address(id), Arc::clone(&host), Arc::new(WitnessedService::new(&self, id, replica.service())));
        if let Some(slot) = self.locked().slots.get_mut(&id) {
            slot.running = Some(RunningNode { replica: replica.clone(), node, api });
        }
        let reason = replica.stopped().await;
        trace::event(&format!("node {id} stopped: {reason}"));
        match reason {
            FatalReason::Stopped => {}
            FatalReason::Unsupported(_) if self.replace_older_program(id) => {}
            FatalReason::Unsupported(error) => self.oracle.violation(format!("node {id} cannot take part: {error}")),
            FatalReason::Failed(_) if disk.has_failed() => {}
            FatalReason::Failed(_) | FatalReason::Formation(_) if self.is_spoiled(&host) => {}
            FatalReason::Failed(error) | FatalReason::Inconsistent(error) => {
                self.oracle.violation(format!("node {id} failed: {error}"))
            }
            FatalReason::Removed { .. } if self.oracle.may_leave(id) => {
                self.coverage.probe(Probe::RemovedNodeTold);
                return self.retire_later(id, &host);
            }
            FatalReason::Removed { by, .. } => {
                self.oracle.violation(format!("node {id} was told by node {by} that it was removed, but nobody asked for it"));
            }
            FatalReason::Duplicate { by, .. } => {
                self.oracle.violation(format!("node {id} was told by node {by} that it runs twice, but it does not"));
            }
            FatalReason::Formation(_) if !self.has_own_disk(id) => self.coverage.probe(Probe::WipedMemberGone),
            FatalReason::Formation(_) if self.oracle.may_leave(id) => return self.retire_later(id, &host),
            FatalReason::Formation(error) => self.oracle.violation(format!("node {id} cannot take part: {error}")),
            FatalReason::LostEntries(_) if self.has_backup(id) => {
                self.coverage.probe(Probe::LostEntriesSeen);
                // Its data directory is marked, so the node would not start again.
                self.crash(id);
                return;
            }
            FatalReason::LostEntries(lost) => self.oracle.violation(format!("node {id} wrongly reports lost entries: {lost}")),
        }
        self.restart_later(id, &host);
    }

    /// Switches off the machine of a node that has ended, and switches it on again after a while.
    fn restart_later(&self, id: NodeId, host: &Arc<Host>) {
        let (world, name) = (self.clone(), host.name());
        // Spawned outside the machine, which is about to end.
        drop(SimRuntime::spawn(async move {
            if world.host(id).is_some_and(|host| host.name() == name) {
                world.crash(id);
                SimRuntime::sleep(DOWN_FOR).await;
                world.start(id);
            }
        }));
    }

    /// Switches off the machine of a node that was removed, for ever.
    fn retire_later(&self, id: NodeId, host: &Arc<Host>) {
        let (world, name) = (self.clone(), host.name());
        // Spawned outside the machine, which is about to end.
        drop(SimRuntime::spawn(async move {
            if world.host(id).is_some_and(|host| host.name() == name) {
                world.retire(id);
            }
        }));
    }

    /// Crashes the machine at once, and switches it on again after a while.
    #[cfg(feature = "failpoints")]
    pub(crate) fn crash_and_restart(&self, id: NodeId, host: &Arc<Host>) {
        if self.host(id).is_some_and(|current| current.name() == host.name()) {
            self.crash(id);
            let world = self.clone();
            drop(SimRuntime::spawn(async move {
                SimRuntime::sleep(DOWN_FOR).await;
                world.start(id);
            }));
        }
    }

    /// Shuts a node down gracefully, as for an upgrade.
    pub(crate) async fn stop(&self, id: NodeId) -> bool {
        let (Some(host), Some(running)) = (self.host(id), self.running(id)) else { return false };
        let stopping = host.spawn(async move {
            running.node.announce_shutdown();
            running.replica.transfer_leadership().await;
            running.node.shutdown().await;
            running.replica.shutdown().await;
        });
        // A crash may interrupt it.
        drop(SimRuntime::timeout(Duration::from_secs(10), stopping).await);
        true
    }
}
