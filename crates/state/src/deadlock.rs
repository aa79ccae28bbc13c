//! Whether waiting would ever end: the cycles of those who hold one lock and wait for another.
//!
//! An actor is a named session together with the owner that its caller named. It is let run once it waits for nothing, and then
//! gives back all that it holds; whatever is granted by that may run next. A request is refused exactly when its actor still
//! waits at the end. Nothing is looked at but what can be reached from the request, so other locks cost nothing; and a search
//! that reaches more than `DEADLOCK_VISITS_MAX` contenders is given up, which the grant then says.
//!
//! Where the caller named no owner, two grants of a session may belong to two threads that know nothing of one another: then each
//! grant is an actor of its own, and no request for a lock is refused.

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

/// What a search came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deadlock {
    /// The waiting ends.
    None,
    /// The waiting would never end: each waits for the next, and the last for the first, which is the request.
    Cycle(Vec<Blocked>),
    /// More would have to be looked at than one command may.
    NotChecked,
}

impl Deadlock {
    /// Refuses what would wait for itself; else says whether that was checked.
    pub(crate) fn refused(self) -> Result<bool, Rejection> {
        match self {
            Deadlock::None => Ok(true),
            Deadlock::Cycle(cycle) => Err(Rejection::WouldDeadlock { cycle }),
            Deadlock::NotChecked => Ok(false),
        }
    }
}

/// What a search came to, and what it cost.
#[derive(Debug)]
pub(crate) struct Searched {
    pub(crate) deadlock: Deadlock,
    /// How many contenders and queues were looked at.
    pub(crate) visits: usize,
}

impl State {
    /// Whether the request would wait for itself in the end.
    pub(crate) fn deadlock(&self, request: &WaitRequest<'_>) -> Searched {
        let actor = self.index.actors.get(&request.actor);
        let last = |lock: &LockName| self.index.queues.get(lock).and_then(|queue| queue.waiting.get_max());
        let may_close = match &request.kind {
            // Nobody waits for an actor without a grant, except those that its request is placed before.
            WaitKind::Queue { granted: false, wants, .. } => {
                actor.is_some() || wants.iter().any(|(want, rank)| last(&want.lock).is_some_and(|last| rank < last))
            }
            WaitKind::Queue { granted: true, wants, .. } => {
                let passed = |lock: &LockName| self.index.queues.get(lock).is_some_and(|queue| !queue.waiting.is_empty());
                actor.is_some_and(|actor| !actor.waiting.is_empty()) && wants.iter().any(|(want, _)| passed(&want.lock))
            }
            WaitKind::Upgrade(_) => true,
        };
        if !may_close {
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
