//! Tracks how long the cluster has been without faults: from then on, each call is answered soon, and no new term
//! begins.

use crate::{host::TRUE_RATE, plan::ScenarioPlan, trace};
use fairhold_types::limits::COMMAND_STEPS_MAX;
use parking_lot::{Mutex, MutexGuard};
use std::{sync::Arc, time::Duration};

/// How long a cluster may be busy with the last fault after it ends.
const AFTERMATH: Duration = Duration::from_secs(5);
/// A call that does not wait for a lock is answered within this time, if the disks are fast.
const SOON: Duration = Duration::from_secs(1);
/// The maximum number of flushes in sequence before a call is answered: a forwarded command may queue for a slot in
/// flight to the leader, and there for a slot in the log. Each slot frees when two flushes on two nodes are done. A
/// step of the state machine's work may come before each flush.
const FLUSHES: u32 = 12;
/// The maximum number of round trips in sequence: one of the client; one to the leader, plus two while a forwarded
/// command queues as above; one to the followers, plus two for a slot there; and one to connect.
const ROUND_TRIPS: u32 = 8;
/// If flushes make calls slower than this, the nodes' own timeouts end them first, so nothing can be checked.
const SOON_MAX: Duration = Duration::from_millis(2_500);

struct CalmInner {
    faults: u32,
    /// How many changes of the members are in progress.
    changes: u32,
    since: Duration,
    /// When the last change of the members ended.
    changed: Duration,
}

/// Whether faults are in effect, and when the last one ended. Clones share the state.
#[derive(Clone)]
pub(crate) struct Calm {
    inner: Arc<Mutex<CalmInner>>,
    /// The plan has no fault that lasts for the whole scenario.
    fair: bool,
    soon: Duration,
}

impl Calm {
    /// Derives from a plan the promises that apply without faults.
    pub(crate) fn new(plan: &ScenarioPlan) -> Calm {
        let fair = plan.rates.iter().all(|rate| *rate == TRUE_RATE) && plan.network.break_one_in == 0;
        let work = plan.pace * u32::try_from(COMMAND_STEPS_MAX).unwrap_or(u32::MAX);
        let soon = SOON + (plan.flushes.at_least + work) * FLUSHES + plan.round_trip * ROUND_TRIPS;
        let fair = fair && soon <= SOON_MAX && !plan.is_too_far_apart();
        #[cfg(feature = "failpoints")]
        let fair = fair && plan.failpoints.is_empty();
        let inner = Arc::new(Mutex::new(CalmInner { faults: 0, changes: 0, since: Duration::ZERO, changed: Duration::ZERO }));
        Calm { inner, fair, soon }
    }

    /// The time within which a call that does not wait for a lock is answered.
    pub(crate) fn soon(&self) -> Duration {
        self.soon
    }

    /// A fault begins.
    pub(crate) fn begin_fault(&self) {
        self.locked().faults += 1;
    }

    /// A fault ends.
    pub(crate) fn end_fault(&self) {
        let mut inner = self.locked();
        inner.faults -= 1;
        inner.since = trace::since_start();
    }

    /// An operator begins a change of the members.
    pub(crate) fn begin_change(&self) {
        self.locked().changes += 1;
    }

    /// The change is complete.
    pub(crate) fn end_change(&self) {
        let mut inner = self.locked();
        inner.changes -= 1;
        inner.changed = trace::since_start();
    }

    /// Whether there is no fault now, and has been none for some time. The members may be changing.
    pub(crate) fn is_without_faults(&self) -> bool {
        let inner = self.locked();
        self.fair && inner.faults == 0 && inner.since + AFTERMATH <= trace::since_start()
    }

    /// Records a disturbance of the cluster, such as the start of a machine.
    pub(crate) fn disturb(&self) {
        self.locked().since = trace::since_start();
    }

    /// Whether there is no fault now, and has been none since some time before `then`.
    pub(crate) fn since(&self, then: Duration) -> bool {
        let inner = self.locked();
        self.fair && inner.faults + inner.changes == 0 && inner.since.max(inner.changed) + AFTERMATH <= then
    }

    fn locked(&self) -> MutexGuard<'_, CalmInner> {
        self.inner.lock()
    }
}
