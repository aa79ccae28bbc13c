//! Whether other nodes have told this node that it may never take part again: it was removed, another process runs with
//! a copy of its data directory, or its data directory belongs to another cluster.
//!
//! A node that another one merely does not know yet must not end: only a refusal that names this node, and that no
//! later event can make wrong, counts. `Removed` is such a refusal, because its sender has applied the removal and an
//! id is never used again. `Duplicate` is not: after a quick restart the leader may still remember the process before.
//! So it counts only if the same node repeats it for a while and answers nothing meanwhile.
//!
//! `Cluster` says only that one address leads to another cluster. A member of a healthy cluster may hear it because of
//! one wrong address. So it counts only if every other member's address leads to another cluster for a while, and no
//! node of this node's own cluster has been in contact since its start, in either direction. A member of a healthy
//! cluster is dialled by the others within a lease or dials one of them, so it never ends. Neither does a node that
//! waits for members that are down: they refuse nothing. A node that ends could only become right by other addresses,
//! and those need an operator. It names both clusters, so the operator need not search.

use crate::base::{
    error::{FatalReason, FormationError},
    peer::Refusal,
};
use fairhold_types::{ClusterId, NodeId};
use openraft::Instant;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// For how many leases a node must refuse this one as a duplicate. The leader forgets the process before a restart
/// after one lease.
const DUPLICATE_LEASES: u32 = 10;
/// For how many leases all other members must refuse this node as one of another cluster. It is longer because somebody
/// may be moving the addresses, and nothing is lost meanwhile: the node has no leader.
const FOREIGN_LEASES: u32 = 40;
/// Without a refusal for this many leases, a count of leases starts again. A node that was refused is not dialled for a
/// second, which is less.
const REPEATED_WITHIN_LEASES: u32 = 7;

/// How long a node has refused this one with the same reason.
#[derive(Debug, Clone, Copy)]
struct Refused<I> {
    first: I,
    last: I,
}

impl<I: Instant> Refused<I> {
    fn new(now: I) -> Refused<I> {
        Refused { first: now, last: now }
    }

    /// Records the next refusal.
    fn repeat(&mut self, now: I, lease: Duration) {
        if !self.is_recent(now, lease) {
            self.first = now;
        }
        self.last = now;
    }

    fn is_recent(&self, now: I, lease: Duration) -> bool {
        now.saturating_duration_since(self.last) <= lease * REPEATED_WITHIN_LEASES
    }

    fn has_lasted(&self, leases: u32, now: I, lease: Duration) -> bool {
        now.saturating_duration_since(self.first) >= lease * leases
    }
}

/// How long a node has refused this one as one of another cluster.
#[derive(Debug, Clone, Copy)]
struct RefusedAsForeign<I> {
    /// The clusters of the two nodes. Either node may have refused the other one.
    clusters: (ClusterId, ClusterId),
    since: Refused<I>,
}

impl<I> RefusedAsForeign<I> {
    /// The other node's cluster, if this node's one is `ours`.
    fn theirs(&self, ours: ClusterId) -> Option<ClusterId> {
        match self.clusters {
            (one, other) if one == ours && other != ours => Some(other),
            (other, one) if one == ours && other != ours => Some(other),
            _ => None,
        }
    }
}

/// What other nodes have told this node about itself. `I` is the type of the clock's instants.
pub(crate) struct RemovalNotice<I> {
    id: NodeId,
    lease: Duration,
    /// The nodes that refuse this one as a duplicate, and have answered nothing since.
    duplicate: Mutex<BTreeMap<NodeId, Refused<I>>>,
    /// The nodes that refuse this one as one of another cluster.
    foreign: Mutex<BTreeMap<NodeId, RefusedAsForeign<I>>>,
    /// Whether a node of this node's cluster has been admitted since the start.
    in_contact: AtomicBool,
    reason: OnceLock<FatalReason>,
    noticed: Notify,
}

impl<I: Instant> RemovalNotice<I> {
    /// Nothing yet. `id` is this node.
    pub(crate) fn new(id: NodeId, lease: Duration) -> Self {
        RemovalNotice {
            id,
            lease,
            duplicate: Mutex::new(BTreeMap::new()),
            foreign: Mutex::new(BTreeMap::new()),
            in_contact: AtomicBool::new(false),
            reason: OnceLock::new(),
            noticed: Notify::new(),
        }
    }

    /// Why this node must stop, if it must.
    pub(crate) fn reason(&self) -> Option<FatalReason> {
        self.reason.get().cloned()
    }

    /// Whether this node was removed from its cluster.
    pub(crate) fn is_removed(&self) -> bool {
        matches!(self.reason.get(), Some(FatalReason::Removed { .. }))
    }

    /// Waits until this node must stop. Only one task may wait.
    pub(crate) async fn noticed(&self) {
        while self.reason.get().is_none() {
            self.noticed.notified().await;
        }
    }

    /// Records that node `by` refuses this one.
    pub(crate) fn record_refusal(&self, by: NodeId, refusal: &Refusal, now: I) {
        match refusal {
            Refusal::Removed { id, revision } if *id == self.id => {
                self.stop(FatalReason::Removed { id: *id, revision: *revision, by });
            }
            Refusal::Duplicate { id } if *id == self.id => {
                if self.repeats_long_enough(by, now) {
                    self.stop(FatalReason::Duplicate { id: *id, by });
                }
            }
            Refusal::Cluster { theirs, ours } => return self.record_other_cluster(by, (*theirs, *ours), now),
            // About the other node, or it may pass.
            Refusal::Removed { .. }
            | Refusal::Duplicate { .. }
            | Refusal::Version { .. }
            | Refusal::Incarnation { .. }
            | Refusal::Identity { .. }
            | Refusal::Starting
            | Refusal::NotAMember { .. }
            | Refusal::LostEntries(_)
            | Refusal::Key(_) => {}
        }
        self.foreign.lock().remove(&by);
    }

    /// Records that this node and one of its own cluster have admitted each other.
    pub(crate) fn record_contact(&self) {
        self.in_contact.store(true, Relaxed);
    }

    /// Ends this node if each of the other members has refused it long enough as one of another cluster, and it has not
    /// been in contact with any node of its cluster `ours`. `others` is empty if this node needs no other one.
    pub(crate) fn check_foreign(&self, ours: ClusterId, others: &[NodeId], now: I) {
        if self.in_contact.load(Relaxed) {
            return;
        }
        let foreign = self.foreign.lock();
        let theirs = |by: &NodeId| {
            let refused = foreign.get(by)?;
            let counts = refused.since.is_recent(now, self.lease) && refused.since.has_lasted(FOREIGN_LEASES, now, self.lease);
            refused.theirs(ours).filter(|_| counts)
        };
        let all: Option<Vec<ClusterId>> = others.iter().map(theirs).collect();
        if let (Some(&by), Some(&theirs)) = (others.first(), all.as_deref().and_then(<[_]>::first)) {
            self.stop(FormationError::OtherCluster { id: self.id, by, ours, theirs }.into());
        }
    }

    /// Records that node `by` has served a request of this one.
    pub(crate) fn record_answer(&self, by: NodeId) {
        self.duplicate.lock().remove(&by);
    }

    /// The nodes that refuse this one as a duplicate.
    pub(crate) fn refused_as_duplicate_by(&self) -> Vec<NodeId> {
        self.duplicate.lock().keys().copied().collect()
    }

    fn repeats_long_enough(&self, by: NodeId, now: I) -> bool {
        let mut duplicate = self.duplicate.lock();
        let refused = duplicate.entry(by).or_insert(Refused::new(now));
        refused.repeat(now, self.lease);
        refused.has_lasted(DUPLICATE_LEASES, now, self.lease)
    }

    fn record_other_cluster(&self, by: NodeId, clusters: (ClusterId, ClusterId), now: I) {
        let mut foreign = self.foreign.lock();
        let refused = foreign.entry(by).or_insert(RefusedAsForeign { clusters, since: Refused::new(now) });
        refused.clusters = clusters;
        refused.since.repeat(now, self.lease);
    }

    fn stop(&self, reason: FatalReason) {
        // The first reason counts.
        if self.reason.set(reason).is_ok() {
            self.noticed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{Incarnation, Revision};
    use openraft::AsyncRuntime;
    use openraft_rt_tokio::TokioRuntime;

    const LEASE: Duration = Duration::from_millis(300);
    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    fn notice() -> RemovalNotice<Moment> {
        RemovalNotice::new(4, LEASE)
    }

    fn now() -> Moment {
        Instant::now()
    }

    #[test]
    fn a_removal_counts_at_once_and_only_for_this_node() {
        let notice = notice();
        let now = now();
        let removed = |id| Refusal::Removed { id, revision: Revision(90) };
        notice.record_refusal(2, &removed(5), now);
        assert_eq!(notice.reason(), None, "another node was removed");
        notice.record_refusal(2, &removed(4), now);
        let reason = FatalReason::Removed { id: 4, revision: Revision(90), by: 2 };
        assert_eq!(notice.reason(), Some(reason.clone()));
        notice.record_refusal(3, &removed(4), now);
        assert_eq!(notice.reason(), Some(reason), "the first one counts");
    }

    #[test]
    fn refusals_that_may_pass_never_count() {
        let notice = notice();
        let now = now();
        let wiped = Refusal::Incarnation { id: 4, expected: Incarnation(1), found: Incarnation(2) };
        let identity = Refusal::Identity { expected: 4, found: 7 };
        for refusal in [Refusal::Starting, Refusal::NotAMember { id: 4 }, wiped, identity] {
            for leases in 0..100 {
                notice.record_refusal(2, &refusal, now + LEASE * leases);
            }
        }
        assert_eq!(notice.reason(), None);
    }

    #[test]
    fn a_duplicate_counts_only_if_one_node_repeats_it_and_answers_nothing_meanwhile() {
        let notice = notice();
        let now = now();
        let duplicate = Refusal::Duplicate { id: 4 };
        let refuse = |by, leases| notice.record_refusal(by, &duplicate, now + LEASE * leases);
        refuse(2, 0);
        refuse(2, 4);
        refuse(3, 9);
        notice.record_answer(2);
        refuse(2, 9);
        refuse(3, 10);
        assert_eq!(notice.reason(), None, "node 2 has answered, and node 3 has only begun");
        assert_eq!(notice.refused_as_duplicate_by(), [2, 3]);
        refuse(2, 100);
        refuse(2, 105);
        assert_eq!(notice.reason(), None, "there was a long pause");
        refuse(2, 110);
        assert_eq!(notice.reason(), Some(FatalReason::Duplicate { id: 4, by: 2 }));
    }

    const OURS: ClusterId = ClusterId(1);
    const THEIRS: ClusterId = ClusterId(2);

    /// Nodes 2 and 3 refuse this node as one of another cluster, every fourth lease until this one.
    fn refused_by_both(notice: &RemovalNotice<Moment>, now: Moment, leases: u32) {
        for at in (0..=leases).step_by(4) {
            notice.record_refusal(2, &Refusal::Cluster { theirs: OURS, ours: THEIRS }, now + LEASE * at);
            // This node refuses the other one.
            notice.record_refusal(3, &Refusal::Cluster { theirs: THEIRS, ours: OURS }, now + LEASE * at);
        }
    }

    #[test]
    fn a_node_of_another_cluster_ends_once_every_other_member_has_refused_it_for_a_while() {
        let notice = notice();
        let now = now();
        refused_by_both(&notice, now, 36);
        notice.check_foreign(OURS, &[2, 3], now + LEASE * 39);
        assert_eq!(notice.reason(), None, "somebody may be moving the addresses");
        notice.check_foreign(OURS, &[], now + LEASE * 40);
        assert_eq!(notice.reason(), None, "it needs no other node");
        notice.check_foreign(OURS, &[2, 3], now + LEASE * 40);
        let reason = FormationError::OtherCluster { id: 4, by: 2, ours: OURS, theirs: THEIRS }.into();
        assert_eq!(notice.reason(), Some(reason));
    }

    #[test]
    fn one_wrong_address_never_ends_a_node() {
        let now = now();
        let later = now + LEASE * 80;
        let not_ended = |why: &str, others: &[NodeId], before: fn(&RemovalNotice<Moment>, Moment)| {
            let notice = notice();
            refused_by_both(&notice, now, 80);
            before(&notice, later);
            notice.check_foreign(OURS, others, later);
            assert_eq!(notice.reason(), None, "{why}");
        };
        not_ended("node 5 is down", &[2, 3, 5], |_, _| ());
        not_ended("node 3 is starting", &[2, 3], |notice, now| notice.record_refusal(3, &Refusal::Starting, now));
        not_ended("node 5 has dialled, or has answered", &[2, 3], |notice, _| notice.record_contact());
        let of_two_others = Refusal::Cluster { theirs: ClusterId(7), ours: THEIRS };
        let notice = notice();
        (0..=80).step_by(4).for_each(|at| notice.record_refusal(2, &of_two_others, now + LEASE * at));
        notice.check_foreign(OURS, &[2], later);
        assert_eq!(notice.reason(), None, "that is not about this node's cluster");
        refused_by_both(&notice, now, 80);
        notice.check_foreign(OURS, &[2, 3], later + LEASE * 8);
        assert_eq!(notice.reason(), None, "they have not refused it lately");
    }
}
