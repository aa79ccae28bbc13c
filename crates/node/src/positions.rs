//! Where everybody stands in a queue: a long one is counted once for all who wait here, and not again for a while, because
//! every count walks all of it.

use crate::{
    api::{Ahead, InTheWay},
    view::{self, Usual},
};
use fairhold_state::State;
use fairhold_types::{GrantNumber, LockName};
use openraft_rt::{AsyncRuntime, Instant};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How many of those ahead are named.
pub(crate) const AHEAD_MAX: usize = 16;
/// A queue with no more waiters than this is counted for everyone who asks.
const SHORT_QUEUE_MAX: usize = 64;
/// How old the count of a longer one may be.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The counts of long queues; at most one for each lock that somebody here asked for within the last second.
pub(crate) struct Positions<RT: AsyncRuntime>(Mutex<BTreeMap<LockName, Counted<RT::Instant>>>);

struct Counted<I> {
    at: I,
    queue: Arc<Standings>,
}

/// A queue, counted.
struct Standings {
    /// The position of each.
    positions: BTreeMap<GrantNumber, u64>,
    /// The first ones, in order.
    first: Vec<Ahead>,
    usual: Usual,
}

impl Standings {
    fn count(state: &State, lock: &LockName) -> Standings {
        let queue = state.queue(lock);
        Standings {
            positions: queue.iter().map(|entry| (entry.contender.number, entry.position)).collect(),
            first: view::first_ahead(queue.iter().take(AHEAD_MAX).map(|entry| entry.contender)),
            usual: Usual::of(state, lock),
        }
    }

    fn of(&self, number: GrantNumber) -> Option<InTheWay> {
        let position = *self.positions.get(&number)?;
        let ahead = self.first.iter().take_while(|ahead| ahead.facts.number != number).cloned().collect();
        Some(InTheWay { position, ahead, estimate: self.usual.estimate(position) })
    }
}

impl<RT: AsyncRuntime> Positions<RT> {
    pub(crate) fn new() -> Self {
        Positions(Mutex::default())
    }

    /// The same for a grant of several locks: in the queue in which most are ahead of it.
    pub(crate) fn of_grant<'a>(
        &self,
        state: &State,
        locks: impl Iterator<Item = &'a LockName>,
        number: GrantNumber,
    ) -> Option<InTheWay> {
        locks.filter_map(|lock| self.of(state, lock, number)).max_by_key(|in_the_way| in_the_way.position)
    }

    /// The position of a grant, and the first of those ahead. In a long queue it may be as old as the last count; a grant that
    /// came after that has it counted anew.
    pub(crate) fn of(&self, state: &State, lock: &LockName, number: GrantNumber) -> Option<InTheWay> {
        if state.lock(lock).waiting <= SHORT_QUEUE_MAX {
            return Standings::count(state, lock).of(number);
        }
        let now = RT::Instant::now();
        let known = {
            let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            counted.retain(|_, counted| now.saturating_duration_since(counted.at) < COUNT_EVERY);
            counted.get(lock).map(|counted| Arc::clone(&counted.queue))
        };
        if let Some(found) = known.and_then(|queue| queue.of(number)) {
            return Some(found);
        }
        let queue = Arc::new(Standings::count(state, lock));
        let found = queue.of(number);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(lock.clone(), Counted { at: now, queue });
        found
    }
}
