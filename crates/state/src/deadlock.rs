//! Whether waiting would ever end: the cycles of those who hold one lock and wait for another.
//!
//! An actor is a named session together with the owner that its caller named. It is let run once it waits for nothing, and then
//! gives back all that it holds; whatever is granted by that may run next. A request is refused exactly when its actor still
//! waits at the end. Nothing is looked at but what can be reached from the request, so other locks cost nothing; and a search
//! that reaches more than `DEADLOCK_VISITS_MAX` contenders is given up, which the grant then says.
//!
//! Where the caller named no owner, two grants of a session may belong to two threads that know nothing of one another: then each
//! grant is an actor of its own, and no request for a lock is refused.

mod cycle;
mod search;

use crate::{
    State,
    command::{Blocked, Rejection, Want},
    index::Place,
    record::Contender,
};
use fairhold_types::{GrantNumber, LockName, SessionNumber};
use search::Search;

/// What waits and releases as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    /// A session's owner, by name.
    Named(SessionNumber, String),
    /// A grant by itself.
    Alone(GrantNumber),
}

/// What a named actor does, all locks together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Deeds {
    /// How many live grants it has.
    pub(crate) grants: usize,
    /// Those of them that wait, to be granted or to be the only holder.
    pub(crate) waits: imbl::OrdSet<GrantNumber>,
}

/// A request that may have to wait.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) actor: Actor,
    pub(crate) session: SessionNumber,
    pub(crate) owner: &'a str,
    pub(crate) number: GrantNumber,
    pub(crate) wish: Wish<'a>,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Wish<'a> {
    /// A place in each queue; `granted`: all of them are free, and those behind it are who has to wait for it.
    Join { wants: Vec<(&'a Want, Place)>, permits: u32, granted: bool },
    /// To be the only one of those who share a lock.
    Upgrade(&'a LockName),
}

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

impl Actor {
    pub(crate) fn of(contender: &Contender) -> Actor {
        if contender.owner.given && !contender.anonymous {
            Actor::Named(contender.session, contender.owner.text.clone())
        } else {
            Actor::Alone(contender.number)
        }
    }
}

impl State {
    /// Whether the request would wait for itself in the end.
    pub(crate) fn deadlock(&self, request: &Request<'_>) -> Searched {
        let deeds = self.index.actors.get(&request.actor);
        let last = |lock: &LockName| self.index.queues.get(lock).and_then(|queue| queue.waiting.get_max());
        let may_close = match &request.wish {
            // Nobody waits for an actor without a grant, except those that its request is placed before.
            Wish::Join { granted: false, wants, .. } => {
                deeds.is_some() || wants.iter().any(|(want, place)| last(&want.lock).is_some_and(|last| place < last))
            }
            Wish::Join { granted: true, wants, .. } => {
                let passed = |lock: &LockName| self.index.queues.get(lock).is_some_and(|queue| !queue.waiting.is_empty());
                deeds.is_some_and(|deeds| !deeds.waits.is_empty()) && wants.iter().any(|(want, _)| passed(&want.lock))
            }
            Wish::Upgrade(_) => true,
        };
        if !may_close {
            return Searched { deadlock: Deadlock::None, visits: 0 };
        }
        let mut search = Search::new(self, request);
        let deadlock = match search.reach() {
            None => Deadlock::NotChecked,
            Some(()) => {
                search.let_all_run();
                if search.is_blocked() { Deadlock::Cycle(search.cycle()) } else { Deadlock::None }
            }
        };
        Searched { deadlock, visits: search.visits() }
    }
}
