//! Tracks how long the cluster has been without faults: from then on, each call is answered soon, and no new term begins.

use crate::{host::TRUE_RATE, plan::StoryPlan, trace};
use fairhold_types::limits::PIECE_STEPS;
use parking_lot::{Mutex, MutexGuard};
use std::{sync::Arc, time::Duration};

/// How long a cluster may be busy with the last fault after its end.
const AFTERMATH: Duration = Duration::from_secs(5);
/// A call that need not wait for a lock is answered within this time, if the disks are fast.
const SOON: Duration = Duration::from_secs(1);
/// How many flushes may follow one another before a call is answered: a forwarded command may wait for a place on its way to
/// the leader, and there for a place in the log, each until two flushes on two nodes are done. A piece of the machine's work may
/// come before each of them.
const FLUSHES: u32 = 12;
/// How many messages and answers may follow one another: one of the client; one to the leader, for which a forwarded command may
/// wait for a place as above, so two more; one to the followers, with two more for a place there; and one to connect.
const ROUND_TRIPS: u32 = 8;
/// If flushes make calls slower than this, the nodes' own timeouts end them first, so there is nothing to judge.
const SOON_MAX: Duration = Duration::from_millis(2_500);

struct CalmInner {
    troubles: u32,
    since: Duration,
}

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Calm {
    inner: Arc<Mutex<CalmInner>>,
    /// The plan has no fault that lasts for the whole story.
    fair: bool,
    soon: Duration,
}

impl Calm {
    /// What a plan allows to be promised.
    pub(crate) fn new(plan: &StoryPlan) -> Calm {
        let fair = plan.rates.iter().all(|rate| *rate == TRUE_RATE) && plan.weather.break_one_in == 0;
        let work = plan.pace * u32::try_from(PIECE_STEPS).unwrap_or(u32::MAX);
        let soon = SOON + (plan.flushes.at_least + work) * FLUSHES + plan.round_trip * ROUND_TRIPS;
        let fair = fair && soon <= SOON_MAX && !plan.is_too_far_apart();
        #[cfg(feature = "failpoints")]
        let fair = fair && plan.points.is_empty();
        let inner = Arc::new(Mutex::new(CalmInner { troubles: 0, since: Duration::ZERO }));
        Calm { inner, fair, soon }
    }

    /// Within what time a call is answered that need not wait for a lock.
    pub(crate) fn soon(&self) -> Duration {
        self.soon
    }

    /// Something begins to be wrong.
    pub(crate) fn begin_trouble(&self) {
        self.locked().troubles += 1;
    }

    /// It is over.
    pub(crate) fn end_trouble(&self) {
        let mut inner = self.locked();
        inner.troubles -= 1;
        inner.since = trace::since_start();
    }

    /// Something happened just now, such as the start of a machine.
    pub(crate) fn disturb(&self) {
        self.locked().since = trace::since_start();
    }

    /// Whether all is well, and was from some time before `then` on.
    pub(crate) fn since(&self, then: Duration) -> bool {
        let inner = self.locked();
        self.fair && inner.troubles == 0 && inner.since + AFTERMATH <= then
    }

    fn locked(&self) -> MutexGuard<'_, CalmInner> {
        self.inner.lock()
    }
}
