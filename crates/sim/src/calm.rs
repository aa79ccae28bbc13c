//! Since when nothing has been wrong in the world: from then on calls are answered soon, and nobody stands for election.

use crate::{host::TRUE_RATE, plan::Plan, trace};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// So long after the last trouble a cluster may still be busy with it.
const AFTERMATH: Duration = Duration::from_secs(5);
/// A call that may be answered at once is answered within this time.
pub(crate) const SOON: Duration = Duration::from_secs(1);

struct Inner {
    troubles: u32,
    since: Duration,
}

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Calm {
    inner: Arc<Mutex<Inner>>,
    /// The plan has nothing that is wrong all the time.
    fair: bool,
}

impl Calm {
    /// What a plan allows to be promised.
    pub(crate) fn new(plan: &Plan) -> Calm {
        let fair = plan.rates.iter().all(|rate| *rate == TRUE_RATE) && plan.weather.break_one_in == 0;
        // Where each flush is slow, calls wait for one another.
        let fair = fair && plan.flushes.at_least.is_zero();
        #[cfg(feature = "failpoints")]
        let fair = fair && plan.points.is_empty();
        let inner = Arc::new(Mutex::new(Inner { troubles: 0, since: Duration::ZERO }));
        Calm { inner, fair }
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

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
