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

mod cycle;
mod request;
mod search;

use crate::{State, command::Rejection};
use fairhold_types::LockName;
pub(crate) use request::{WaitKind, WaitRequest};
use search::Search;

impl State {
    /// Refuses a request that would cause a deadlock. Otherwise returns whether the search was complete: it is given up
    /// if it would visit more than one command may. Also returns how many contenders and queues it visited.
    pub(crate) fn check_deadlock(&self, request: &WaitRequest<'_>) -> (Result<bool, Rejection>, usize) {
        let actor = request.actor.key().and_then(|key| self.index.actors.get(&key));
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
            return (Ok(true), 0);
        }
        let mut search = Search::new(self, request);
        let complete = search.collect().is_some();
        if complete {
            search.run_all();
        }
        let refused = complete && search.is_blocked();
        let checked = if refused { Err(Rejection::WouldDeadlock { cycle: search.cycle() }) } else { Ok(complete) };
        (checked, search.visits())
    }
}
