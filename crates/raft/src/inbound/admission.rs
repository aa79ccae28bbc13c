//! Decides which nodes this node talks with.
//!
//! A node may be behind: it was off for a week, or it joined a moment ago and reads the log from its beginning.
//! Meanwhile the members may all have been replaced, and the leader that brings it up to date is no member as far as it
//! knows. So a node of this cluster that is no member here is admitted, as in Raft's dissertation (section 4.1), unless
//! this node knows for certain that it never will be one again. Certain is what this node has applied: openraft also
//! shows membership changes that are not committed, and those may be undone.

use crate::{
    base::{
        config::ReplicaConfig,
        peer::{ConnectionSide, Introduction, Refusal, is_wiped},
    },
    core::{Core, status::silent_for},
};
use fairhold_types::{
    ClusterId, Incarnation, NodeId, Revision,
    planted::{self, Bug},
};
use openraft::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// With this many known nodes, all that are no members are forgotten: on a net without keys, anyone may claim any id.
const KNOWN_MAX: usize = 256;

/// How a node last introduced itself.
#[derive(Debug, Clone, Copy)]
struct Introduced {
    incarnation: Incarnation,
    cluster: Option<ClusterId>,
    /// Whether it understands the refusals of wire version 4.
    speaks_version_4: bool,
}

impl Introduced {
    fn new(introduction: &Introduction) -> Introduced {
        let Introduction { incarnation, cluster, .. } = *introduction;
        Introduced { incarnation, cluster, speaks_version_4: introduction.speaks_version_4() }
    }

    /// The refusal as this node understands it.
    fn understood(self, id: NodeId, refusal: Refusal) -> Refusal {
        let is_newer = matches!(refusal, Refusal::Removed { .. } | Refusal::Duplicate { .. });
        if is_newer && !self.speaks_version_4 { Refusal::NotAMember { id } } else { refusal }
    }
}

/// Why a node is refused.
#[derive(Debug)]
pub(super) struct Refused {
    /// The reason, for this node's log.
    pub(super) reason: Refusal,
    /// The reason as it is sent: an older program does not know every one.
    pub(super) sent: Refusal,
}

/// Decides which nodes this node talks with.
pub(super) struct Admission {
    /// The cluster to which the data directory was bound at the start.
    bound_to: Option<ClusterId>,
    /// The nodes that may connect until this node knows a membership.
    configured: BTreeSet<NodeId>,
    /// The admitted nodes.
    introduced: Mutex<BTreeMap<NodeId, Introduced>>,
}

impl Admission {
    pub(super) fn new(config: &ReplicaConfig) -> Admission {
        Admission {
            bound_to: config.cluster,
            configured: config.members.keys().copied().collect(),
            introduced: Mutex::new(BTreeMap::new()),
        }
    }

    /// The nodes that the configuration names.
    pub(super) fn configured(&self) -> &BTreeSet<NodeId> {
        &self.configured
    }

    /// Whether the data directory was bound to a cluster at the start.
    pub(super) fn is_bound(&self) -> bool {
        self.bound_to.is_some()
    }

    /// The cluster of this node, if it has one.
    pub(super) fn cluster<RT: AsyncRuntime>(&self, core: &Core<RT>) -> Option<ClusterId> {
        core.shared.read().cluster().or(self.bound_to)
    }

    /// Checks a node that opens a connection, or that answers one.
    pub(super) fn check_introduction<RT: AsyncRuntime>(
        &self,
        core: &Core<RT>,
        other: &Introduction,
        side: ConnectionSide,
    ) -> Result<(), Refused> {
        let introduced = Introduced::new(other);
        let decision = self
            .check_cluster(core, introduced)
            .and_then(|()| self.check_node(core, other.id, introduced))
            .and_then(|()| check_boot(core, other, side));
        match decision {
            Ok(()) => {
                self.forget_strangers(core);
                self.introduced.lock().insert(other.id, introduced);
                Ok(())
            }
            Err(reason) => Err(Refused { sent: introduced.understood(other.id, reason.clone()), reason }),
        }
    }

    /// Checks a sender again: its connection may be older than this node's knowledge of the members, or of the leader's
    /// process.
    pub(super) fn check_sender<RT: AsyncRuntime>(&self, core: &Core<RT>, from: NodeId, boot: u64) -> Result<(), Refused> {
        let Some(introduced) = self.introduced.lock().get(&from).copied() else {
            let reason = Refusal::NotAMember { id: from };
            return Err(Refused { sent: reason.clone(), reason });
        };
        let decision = self
            .check_node(core, from, introduced)
            .and_then(|()| check_process(core, from, boot))
            .and_then(|()| check_leader_process(core, from, boot));
        decision.map_err(|reason| Refused { sent: introduced.understood(from, reason.clone()), reason })
    }

    /// Whether both nodes know their cluster, and it is the same.
    fn is_of_our_cluster<RT: AsyncRuntime>(&self, core: &Core<RT>, other: Introduced) -> bool {
        other.cluster.is_some() && other.cluster == self.cluster(core)
    }

    fn check_cluster<RT: AsyncRuntime>(&self, core: &Core<RT>, other: Introduced) -> Result<(), Refusal> {
        match (self.cluster(core), other.cluster) {
            (Some(ours), Some(theirs)) if ours != theirs => Err(Refusal::Cluster { theirs, ours }),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    /// Checks a node of this cluster. For a member, this does not wait for the state: every request comes here, and a
    /// large command may hold the state's lock for a while.
    fn check_node<RT: AsyncRuntime>(&self, core: &Core<RT>, id: NodeId, other: Introduced) -> Result<(), Refusal> {
        match membership_of(core, id) {
            MembershipOf::Member(expected) if is_wiped(expected, other.incarnation) => {
                Err(Refusal::Incarnation { id, expected, found: other.incarnation })
            }
            MembershipOf::Member(_) => Ok(()),
            MembershipOf::NotAMember => check_outsider(core, id, other.incarnation, self.is_of_our_cluster(core, other)),
            MembershipOf::Unknown if self.configured.contains(&id) || self.is_of_our_cluster(core, other) => Ok(()),
            // A node that joined does not know yet who belongs to its cluster. The other one may try again.
            MembershipOf::Unknown if self.is_bound() => Err(Refusal::Starting),
            MembershipOf::Unknown => Err(Refusal::NotAMember { id }),
        }
    }

    /// Forgets the nodes that are no members, if there are too many.
    fn forget_strangers<RT: AsyncRuntime>(&self, core: &Core<RT>) {
        let mut introduced = self.introduced.lock();
        if introduced.len() < KNOWN_MAX {
            return;
        }
        let members: BTreeSet<NodeId> =
            core.with_metrics(|metrics| metrics.membership_config.nodes().map(|(id, _)| *id).collect());
        introduced.retain(|id, _| members.contains(id));
        core.processes.retain(&members);
        core.programs.retain(&members);
    }
}

/// What a node is, as far as this node knows.
enum MembershipOf {
    /// A member with this data directory.
    Member(Incarnation),
    /// No member.
    NotAMember,
    /// This node does not know any members yet.
    Unknown,
}

fn membership_of<RT: AsyncRuntime>(core: &Core<RT>, id: NodeId) -> MembershipOf {
    core.with_metrics(|metrics| {
        let members = &metrics.membership_config;
        match members.get_node(&id) {
            Some(member) => MembershipOf::Member(member.incarnation),
            None if members.nodes().next().is_some() => MembershipOf::NotAMember,
            None => MembershipOf::Unknown,
        }
    })
}

/// Checks a node that is no member, as far as this node knows.
fn check_outsider<RT: AsyncRuntime>(
    core: &Core<RT>,
    id: NodeId,
    found: Incarnation,
    is_of_our_cluster: bool,
) -> Result<(), Refusal> {
    if let Some(revision) = gone_since(core, id, found, is_of_our_cluster).filter(|_| !forgets_removals()) {
        return Err(Refusal::Removed { id, revision });
    }
    let joining = core.shared.read().membership().join(id).map(|join| join.incarnation);
    match joining {
        // Each id is given to one data directory.
        Some(expected) if expected != found => Err(Refusal::Incarnation { id, expected, found }),
        // It may be a member by now, and even lead.
        Some(_) | None if is_of_our_cluster => Ok(()),
        // It was given this id a moment ago, and does not say yet that it belongs to this cluster.
        Some(_) => Err(Refusal::Starting),
        None => Err(Refusal::NotAMember { id }),
    }
}

/// A revision at which this node was gone for ever; `None` if that is not certain. A node that hears it ends, so it
/// must also be certain that the node is one of this cluster: its cluster or its data directory shows it.
fn gone_since<RT: AsyncRuntime>(core: &Core<RT>, id: NodeId, found: Incarnation, is_of_our_cluster: bool) -> Option<Revision> {
    let seen = {
        let state = core.shared.read();
        // The leader records a removal once it is committed.
        if let Some(removed) = state.membership().removed_node(id) {
            return (is_of_our_cluster || removed.incarnation == Some(found)).then_some(removed.revision);
        }
        (is_of_our_cluster && state.membership().is_gone(id, false)).then(|| state.revision())?
    };
    // The id was given to a node that does not join any more, so it was a member before this state. Whether it still is
    // one says a committed membership that is not older than the state.
    let progress = core.shared.progress.get();
    let is_certain = progress.revision >= seen
        && core.with_metrics(|metrics| {
            let committed = &metrics.committed_membership_config;
            let covers_state = metrics.last_applied.map(|id| id.index) >= progress.applied;
            covers_state && committed.nodes().next().is_some() && committed.get_node(&id).is_none()
        });
    is_certain.then_some(seen)
}

/// Refuses a process that dials if another one runs with a copy of its data directory. The leader knows it if that
/// process answers its heartbeats at the address of the member. The other nodes know it if that process leads.
fn check_boot<RT: AsyncRuntime>(core: &Core<RT>, other: &Introduction, side: ConnectionSide) -> Result<(), Refusal> {
    match side {
        ConnectionSide::Dialled => {
            core.processes.record(other.id, other.boot);
            Ok(())
        }
        ConnectionSide::Accepted => {
            check_process(core, other.id, other.boot)?;
            check_leader_process(core, other.id, other.boot)
        }
    }
}

/// Refuses a process if another one answers the leader at the address of the member. The leader checks each request: a
/// copy may have connected while its original was paused.
fn check_process<RT: AsyncRuntime>(core: &Core<RT>, id: NodeId, boot: u64) -> Result<(), Refusal> {
    let known = core.processes.of(id);
    let silent = || core.with_metrics(|metrics| silent_for(metrics, id));
    if is_duplicate(known, boot, silent, core.lease) { Err(Refusal::Duplicate { id }) } else { Ok(()) }
}

/// Whether a process that dials is not the one that answers the leader's heartbeats. After a restart the process before
/// it may have answered until a moment ago, so its answers count for one lease. 0 is an unknown number.
fn is_duplicate(dialled: Option<u64>, boot: u64, silent: impl FnOnce() -> Option<Duration>, lease: Duration) -> bool {
    let differs = dialled.is_some_and(|dialled| dialled != boot && dialled != 0 && boot != 0);
    differs && silent().is_some_and(|silent| silent <= lease)
}

/// Refuses a process while another one of the same node leads: it would be a copy of the leader. A leader that restarts
/// leads again only after an election, so it is refused for one lease at most. What counts is the process that sends
/// the leader's messages. The address of the member does not count: the leader may have another one now, and must not
/// be refused.
fn check_leader_process<RT: AsyncRuntime>(core: &Core<RT>, id: NodeId, boot: u64) -> Result<(), Refusal> {
    match core.contact.leads_with_another_process(id, boot, core.lease, RT::Instant::now()) {
        true => Err(Refusal::Duplicate { id }),
        false => Ok(()),
    }
}

/// Always false, except with the planted bug.
fn forgets_removals() -> bool {
    planted::has(Bug::ForgetsRemovals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::SupportedVersions;

    const LEASE: Duration = Duration::from_millis(300);

    #[test]
    fn a_second_process_is_refused_while_the_first_one_answers() {
        let answered = |ago: Option<u64>| move || ago.map(Duration::from_millis);
        assert!(is_duplicate(Some(7), 8, answered(Some(300)), LEASE));
        assert!(!is_duplicate(Some(7), 7, answered(Some(0)), LEASE), "the same process");
        assert!(!is_duplicate(Some(7), 8, answered(Some(301)), LEASE), "the first one is silent");
        assert!(!is_duplicate(Some(7), 8, answered(None), LEASE), "this node does not lead");
        assert!(!is_duplicate(None, 8, answered(Some(0)), LEASE), "no process is known");
        assert!(!is_duplicate(Some(0), 8, answered(Some(0)), LEASE), "it ran an older program");
        assert!(!is_duplicate(Some(7), 0, answered(Some(0)), LEASE), "it runs an older program");
    }

    #[test]
    fn an_older_program_hears_a_refusal_that_it_knows() {
        let introduction = |boot| Introduction {
            id: 4,
            cluster: None,
            incarnation: Incarnation(4),
            empty: false,
            members: Vec::new(),
            program: None,
            supports: SupportedVersions::UNTOLD,
            boot,
        };
        let removed = Refusal::Removed { id: 4, revision: Revision(9) };
        let sent = |boot, refusal: &Refusal| Introduced::new(&introduction(boot)).understood(4, refusal.clone());
        assert_eq!(sent(1, &removed), removed);
        assert_eq!(sent(0, &removed), Refusal::NotAMember { id: 4 });
        assert_eq!(sent(0, &Refusal::Duplicate { id: 4 }), Refusal::NotAMember { id: 4 });
        assert_eq!(sent(0, &Refusal::Starting), Refusal::Starting);
    }
}
