//! Whether other nodes have told this node that it may never take part again: it was removed, or another process runs
//! with a copy of its data directory.
//!
//! A node that another one merely does not know yet must not end: only a refusal that names this node, and that no
//! later event can make wrong, counts. `Removed` is such a refusal, because its sender has applied the removal and an
//! id is never used again. `Duplicate` is not: after a quick restart the leader may still remember the process before.
//! So it counts only if the same node repeats it for a while and answers nothing meanwhile.

use crate::base::{error::FatalReason, peer::Refusal};
use fairhold_types::NodeId;
use openraft::Instant;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::OnceLock, time::Duration};
use tokio::sync::Notify;

/// For how many leases a node must refuse this one as a duplicate. The leader forgets the process before a restart
/// after one lease.
const DUPLICATE_LEASES: u32 = 10;
/// Without a refusal for this many leases, the count of `DUPLICATE_LEASES` starts again. A node that was refused is not
/// dialled for a second, which is less.
const REPEATED_WITHIN_LEASES: u32 = 7;

/// How long a node has refused this one as a duplicate.
#[derive(Debug, Clone, Copy)]
struct Refused<I> {
    first: I,
    last: I,
}

/// What other nodes have told this node about itself. `I` is the type of the clock's instants.
pub(crate) struct RemovalNotice<I> {
    id: NodeId,
    lease: Duration,
    /// The nodes that refuse this one as a duplicate, and have answered nothing since.
    duplicate: Mutex<BTreeMap<NodeId, Refused<I>>>,
    reason: OnceLock<FatalReason>,
    noticed: Notify,
}

impl<I: Instant> RemovalNotice<I> {
    /// Nothing yet. `id` is this node.
    pub(crate) fn new(id: NodeId, lease: Duration) -> Self {
        RemovalNotice { id, lease, duplicate: Mutex::new(BTreeMap::new()), reason: OnceLock::new(), noticed: Notify::new() }
    }

    /// Why this node must stop, if it must.
    pub(crate) fn reason(&self) -> Option<FatalReason> {
        self.reason.get().cloned()
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
            // About the other node, or it may pass.
            Refusal::Removed { .. }
            | Refusal::Duplicate { .. }
            | Refusal::Version { .. }
            | Refusal::Cluster { .. }
            | Refusal::Incarnation { .. }
            | Refusal::Identity { .. }
            | Refusal::Starting
            | Refusal::NotAMember { .. }
            | Refusal::LostEntries(_)
            | Refusal::Key(_) => {}
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
        let refused = duplicate.entry(by).or_insert(Refused { first: now, last: now });
        if now.saturating_duration_since(refused.last) > self.lease * REPEATED_WITHIN_LEASES {
            refused.first = now;
        }
        refused.last = now;
        now.saturating_duration_since(refused.first) >= self.lease * DUPLICATE_LEASES
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
}
