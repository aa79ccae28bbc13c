//! Views of a lock's queue that do not walk over all of it: its length, a waiter with its neighbours, and the part
//! after any position.

use crate::{
    State,
    queue::Queue,
    record::{Contender, LockSettings},
    service_rank::ServiceRank,
};
use fairhold_types::{FencingToken, GrantNumber, LockName, Mode};
use std::ops::Bound::{self, Excluded, Unbounded};

/// The maximum number of waiting readers that `State::waits_for` passes to find what blocks a reader behind them.
pub const READERS_PASSED_MAX: usize = 64;

/// The position of a contender in its queue. It stays valid when the contender is gone, so a page can begin after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKey {
    /// A holder. Holders are in the order of their numbers.
    Holder(GrantNumber),
    /// A waiter: by effective priority, higher first, then by number.
    Waiter {
        /// The priority that orders the queue.
        effective_priority: i32,
        /// The grant's number.
        number: GrantNumber,
    },
}

impl QueueKey {
    /// The current position of a contender.
    #[must_use]
    pub fn of(contender: &Contender) -> QueueKey {
        match contender.granted_at {
            Some(_) => QueueKey::Holder(contender.number),
            None => QueueKey::Waiter { effective_priority: contender.effective_priority, number: contender.number },
        }
    }
}

/// The contender in the middle of a page of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueAnchor {
    /// A holder or a waiter.
    Grant(GrantNumber),
    /// The last one in the queue.
    Last,
}

/// The summary of a lock, without its contenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockSummary {
    /// The number of holders, cooling ones included.
    pub holders: usize,
    /// The number of waiters.
    pub waiting: usize,
    /// The limit, if one is set; otherwise 1 applies.
    pub limit: Option<u32>,
    /// How many grants may wait, if an administrator set a limit.
    pub max_waiters: Option<u64>,
    /// How long a grant may hold it, in milliseconds, if an administrator set a limit.
    pub max_hold_ms: Option<u64>,
    /// The last token issued, while the lock's node exists.
    pub last_token: Option<FencingToken>,
}

/// What a walk from the middle of a queue needs to know about the contenders before its start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Before<'a> {
    /// How many there are.
    pub count: u64,
    /// The last waiter among them that blocks readers; `None` if there is none, or if the walk starts with a holder.
    pub blocker: Option<&'a Contender>,
}

/// A contender in a lock's queue.
#[derive(Debug)]
pub struct QueueEntry<'a> {
    /// The contender.
    pub contender: &'a Contender,
    /// Its position: the number of grants ahead, including holders, plus 1.
    pub position: u64,
    /// The contender that it waits for; `None` for a holder.
    pub waits_for: Option<&'a Contender>,
}

impl State {
    /// The summary of a lock. A lock that was never used has no contenders.
    #[must_use]
    pub fn lock_summary(&self, name: &LockName) -> LockSummary {
        let settings = self.settings(name);
        let queue = self.queue_of(name);
        LockSummary {
            holders: queue.map_or(0, |queue| queue.holders.len()),
            waiting: queue.map_or(0, |queue| queue.waiting.len()),
            limit: settings.and_then(LockSettings::limit_in_force),
            max_waiters: settings.and_then(|settings| settings.max_waiters),
            max_hold_ms: settings.and_then(|settings| settings.max_hold_ms),
            last_token: settings.and_then(|settings| settings.last_token),
        }
    }

    /// The holder that queued first.
    #[must_use]
    pub fn first_holder(&self, name: &LockName) -> Option<&Contender> {
        self.contender_in(name, *self.queue_of(name)?.holders.get_min()?)
    }

    /// The position of a waiter: the number of contenders ahead of it, holders included, plus 1. Counts from the nearer
    /// end.
    #[must_use]
    pub fn position(&self, name: &LockName, number: GrantNumber) -> Option<u64> {
        let queue = self.queue_of(name)?;
        let rank = ServiceRank::of(self.contender_in(name, number)?);
        queue.waiting.contains(&rank).then(|| (queue.holders.len() + queue.waiting_before(rank)) as u64 + 1)
    }

    /// The contender that a waiter waits for. `None` for a holder, and for a reader with more than `READERS_PASSED_MAX`
    /// waiting readers right before it.
    #[must_use]
    pub fn waits_for(&self, name: &LockName, number: GrantNumber) -> Option<&Contender> {
        let walk = QueueWalk::of(self, name)?;
        let contender = self.contender_in(name, number)?;
        let rank = ServiceRank::of(contender);
        walk.waits_for(contender, || walk.predecessor(rank), || walk.blocker_before(rank))
    }

    /// The contenders after a key, or all. `before` describes the contenders up to that key.
    pub fn queue_after<'a>(
        &'a self,
        name: &LockName,
        after: Option<QueueKey>,
        before: Before<'a>,
    ) -> impl Iterator<Item = QueueEntry<'a>> + Send + use<'a> {
        let walk = QueueWalk::of(self, name);
        let mut predecessor = None;
        let mut blocker = before.blocker.or_else(|| walk?.blocking_holder());
        let contenders = self.contenders_after(name, after);
        (before.count + 1..).zip(contenders).map(move |(position, contender)| {
            let neighbour = || predecessor.or_else(|| walk?.predecessor(ServiceRank::of(contender)));
            let waits_for = walk.and_then(|walk| walk.waits_for(contender, neighbour, || blocker));
            predecessor = Some(contender);
            if contender.granted_at.is_none() && contender.holds_readers_back() {
                blocker = Some(contender);
            }
            QueueEntry { contender, position, waits_for }
        })
    }

    /// The contenders after a key, or all, without their positions.
    pub(crate) fn contenders_after<'a>(
        &'a self,
        name: &LockName,
        after: Option<QueueKey>,
    ) -> impl Iterator<Item = &'a Contender> + Send + use<'a> {
        let (holders, waiting) = ranges(after);
        QueueWalk::of(self, name).into_iter().flat_map(move |walk| {
            let holders = walk.queue.holders.range(holders).copied();
            let numbers = holders.chain(walk.queue.waiting.range(waiting).map(|rank| rank.number()));
            numbers.filter_map(move |number| walk.contender(number))
        })
    }

    /// The position of a contender in the lock's queue; `None` if it is not there, or has ended.
    #[must_use]
    pub fn queue_key(&self, name: &LockName, anchor: QueueAnchor) -> Option<QueueKey> {
        let queue = self.queue_of(name)?;
        let contender = match anchor {
            QueueAnchor::Grant(number) => self.contender_in(name, number).filter(|contender| !self.is_dead(contender)),
            QueueAnchor::Last => {
                let waiter = queue.waiting.get_max().map(|rank| rank.number());
                self.contender_in(name, waiter.or_else(|| queue.holders.get_max().copied())?)
            }
        };
        contender.map(QueueKey::of)
    }

    /// Where the page of `limit` contenders around this key begins: after the returned key, or with the first contender if
    /// it is `None`. If few contenders are behind the key, the page has more of those ahead of it.
    #[must_use]
    pub fn page_around(&self, name: &LockName, key: QueueKey, limit: usize) -> Option<QueueKey> {
        let queue = self.queue_of(name)?;
        let others = limit.saturating_sub(1);
        let (holders, waiting) = ranges(Some(key));
        let behind = queue.holders.range(holders).map(|_| ()).chain(queue.waiting.range(waiting).map(|_| ()));
        let behind = behind.take(others / 2).count();
        let (holders, waiting) = match key {
            QueueKey::Holder(number) => (queue.holders.range(..number), None),
            QueueKey::Waiter { effective_priority, number } => {
                (queue.holders.range(..), Some(queue.waiting.range(..ServiceRank::new(effective_priority, number))))
            }
        };
        let waiters = waiting
            .into_iter()
            .flat_map(Iterator::rev)
            .map(|rank| QueueKey::Waiter { effective_priority: rank.effective_priority(), number: rank.number() });
        waiters.chain(holders.rev().map(|number| QueueKey::Holder(*number))).nth(others - behind)
    }

    /// The number of contenders up to and including a key: the returned number, plus the length of the iterator, which
    /// the caller counts.
    pub fn queue_through<'a>(
        &'a self,
        name: &LockName,
        key: QueueKey,
    ) -> (u64, impl Iterator<Item = GrantNumber> + Send + use<'a>) {
        let queue = self.queue_of(name);
        let all_holders = queue.map_or(0, |queue| queue.holders.len() as u64);
        let (all, holders, waiting) = match key {
            QueueKey::Holder(number) => (0, Some(..=number), None),
            QueueKey::Waiter { effective_priority, number } => {
                (all_holders, None, Some(..=ServiceRank::new(effective_priority, number)))
            }
        };
        let left = queue.into_iter().flat_map(move |queue| {
            let holders = holders.into_iter().flat_map(|range| queue.holders.range(range).copied());
            let waiting = waiting.into_iter().flat_map(|range| queue.waiting.range(range));
            holders.chain(waiting.map(|rank| rank.number()))
        });
        (all, left)
    }

    /// The waiters up to and including a key, the last one first. The first of them that blocks readers is the blocker
    /// of a walk that starts after that key.
    pub fn waiters_back_from<'a>(
        &'a self,
        name: &LockName,
        key: QueueKey,
    ) -> impl Iterator<Item = &'a Contender> + Send + use<'a> {
        let range = match key {
            QueueKey::Holder(_) => None,
            QueueKey::Waiter { effective_priority, number } => Some(..=ServiceRank::new(effective_priority, number)),
        };
        QueueWalk::of(self, name).zip(range).into_iter().flat_map(|(walk, range)| {
            let places = walk.queue.waiting.range(range).rev();
            places.filter_map(move |rank| walk.contender(rank.number()))
        })
    }
}

impl Contender {
    /// Whether readers behind it wait for it: it is exclusive, an upgrading holder, or a multi-lock waiter, whose place
    /// must be the same in every queue.
    #[must_use]
    pub fn holds_readers_back(&self) -> bool {
        self.mode == Mode::Exclusive || self.upgrading || (self.granted_at.is_none() && self.is_multi_lock())
    }
}

/// A lock with contenders.
#[derive(Clone, Copy)]
struct QueueWalk<'a> {
    state: &'a State,
    name: &'a LockName,
    queue: &'a Queue,
    mutex: bool,
}

impl<'a> QueueWalk<'a> {
    fn of(state: &'a State, name: &LockName) -> Option<QueueWalk<'a>> {
        let (name, record) = state.tree.locks.entry(name)?;
        Some(QueueWalk { state, name, queue: record.queue()?, mutex: record.limit() == 1 })
    }

    /// The contender that this one waits for.
    fn waits_for(
        self,
        contender: &'a Contender,
        predecessor: impl FnOnce() -> Option<&'a Contender>,
        blocker: impl FnOnce() -> Option<&'a Contender>,
    ) -> Option<&'a Contender> {
        if contender.granted_at.is_some() {
            return None;
        }
        if contender.is_multi_lock() && self.state.can_be_granted(self.name, contender.number) {
            return self.state.blocker_elsewhere(contender);
        }
        match contender.mode {
            Mode::Exclusive if self.mutex => predecessor(),
            // A semaphore's contender waits for any release that leaves enough permits. The first holder represents
            // them.
            Mode::Exclusive => self.first().filter(|first| first.number != contender.number),
            Mode::Shared => blocker(),
        }
    }

    fn contender(self, number: GrantNumber) -> Option<&'a Contender> {
        self.state.contender_in(self.name, number)
    }

    fn first(self) -> Option<&'a Contender> {
        let number = self.queue.holders.get_min().copied().or_else(|| self.queue.waiting.get_min().map(|rank| rank.number()));
        self.contender(number?)
    }

    /// The contender right before a waiter.
    fn predecessor(self, rank: ServiceRank) -> Option<&'a Contender> {
        let waiter = self.queue.waiting.range(..rank).next_back().map(|rank| rank.number());
        self.contender(waiter.or_else(|| self.queue.holders.get_max().copied())?)
    }

    /// The last contender before a waiter that blocks readers, searched among the nearest only.
    fn blocker_before(self, rank: ServiceRank) -> Option<&'a Contender> {
        let mut before = self.queue.waiting.range(..rank).rev().filter_map(|rank| self.contender(rank.number()));
        let blocker = before.by_ref().take(READERS_PASSED_MAX).find(|waiter| waiter.holds_readers_back());
        match (blocker, before.next()) {
            (Some(blocker), _) => Some(blocker),
            (None, Some(_)) => None,
            (None, None) => self.blocking_holder(),
        }
    }

    /// Either all holders are readers or none is. So one of them is enough, unless one is upgrading.
    fn blocking_holder(self) -> Option<&'a Contender> {
        let number = self.queue.upgrading.or_else(|| self.queue.holders.get_max().copied());
        self.contender(number?).filter(|holder| holder.holds_readers_back())
    }
}

type Range<T> = (Bound<T>, Bound<T>);

/// The ranges of the holders and the waiters after a key.
fn ranges(after: Option<QueueKey>) -> (Range<GrantNumber>, Range<ServiceRank>) {
    match after {
        None => ((Unbounded, Unbounded), (Unbounded, Unbounded)),
        Some(QueueKey::Holder(number)) => ((Excluded(number), Unbounded), (Unbounded, Unbounded)),
        Some(QueueKey::Waiter { effective_priority, number }) => {
            let none = Excluded(GrantNumber(u64::MAX));
            ((none, Unbounded), (Excluded(ServiceRank::new(effective_priority, number)), Unbounded))
        }
    }
}

#[cfg(test)]
mod tests;
