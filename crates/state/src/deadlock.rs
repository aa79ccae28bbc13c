//! Deadlock detection: cycles of actors that hold one lock and wait for another.
//!
//! An actor is a named session together with the owner that its caller named. The search lets an actor run once it
//! waits for nothing; it then releases everything it holds, and the actors that get these grants may run next. A
//! request is refused exactly if its actor still waits at the end. The search visits only what it can reach from the
//! request, so other locks cost nothing. A search that would visit more than `DEADLOCK_VISITS_MAX` contenders is given
//! up, and the grant records that.
//!
//! If the caller names no owner, two grants of a session may belong to two independent threads. Then each grant is
//! its own actor, and no request for a lock is refused.

mod actor_key;
mod cycle;
mod request;
mod search;

use crate::{
    State,
    command::{Blocked, Rejection},
};
use fairhold_types::LockName;
pub(crate) use request::{WaitKind, WaitRequest};
use search::Search;

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deadlock {
    /// The request would not wait forever.
    None,
    /// The request would wait forever. Each actor waits for the next, and the last for the first, which is the
    /// requester.
    Cycle(Vec<Blocked>),
    /// The search would have visited more than one command may.
    NotChecked,
}

impl Deadlock {
    /// Refuses a cycle. Otherwise returns whether the search was complete.
    pub(crate) fn refused(self) -> Result<bool, Rejection> {
        match self {
            Deadlock::None => Ok(true),
            Deadlock::Cycle(cycle) => Err(Rejection::WouldDeadlock { cycle }),
            Deadlock::NotChecked => Ok(false),
        }
    }
}

/// The result of a search, and its cost.
#[derive(Debug)]
pub(crate) struct Searched {
    pub(crate) deadlock: Deadlock,
    /// How many contenders and queues it visited.
    pub(crate) visits: usize,
}

impl State {
    /// Whether the request would cause a deadlock.
    pub(crate) fn deadlock(&self, request: &WaitRequest<'_>) -> Searched {
        let actor = self.index.actors.get(&request.actor);
        let last = |lock: &LockName| self.queue_of(lock).and_then(|queue| queue.waiting.get_max());
        let may_close_cycle = match &request.kind {
            // No actor waits for one without a grant, except a waiter that the request would overtake.
            WaitKind::Queue { granted: false, wants, .. } => {
                actor.is_some() || wants.iter().any(|(want, rank)| last(&want.lock).is_some_and(|last| rank < last))
            }
            WaitKind::Queue { granted: true, wants, .. } => {
                let has_waiters = |lock: &LockName| self.queue_of(lock).is_some_and(|queue| !queue.waiting.is_empty());
                actor.is_some_and(|actor| !actor.waiting.is_empty()) && wants.iter().any(|(want, _)| has_waiters(&want.lock))
            }
            WaitKind::Upgrade(_) => true,
        };
        if !may_close_cycle {
            return Searched { deadlock: Deadlock::None, visits: 0 };
        }
        let mut search = Search::new(self, request);
        let deadlock = match search.collect() {
            None => Deadlock::NotChecked,
            Some(()) => {
                search.run_all();
                if search.is_blocked() { Deadlock::Cycle(search.cycle()) } else { Deadlock::None }
            }
        };
        Searched { deadlock, visits: search.visits() }
    }
}
