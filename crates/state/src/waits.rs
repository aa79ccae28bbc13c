//! The tree of waits, for people. A root holds what others wait for, and waits for nobody itself.
//!
//! A lock stands below its first holder, and its waiters stand below the lock in the order of its queue. If it has no holder,
//! because its first waiter still waits for another lock, its queue stands below that waiter.

use crate::{
    State,
    actor::Actor,
    lock_table::LockRecord,
    lock_walk::LockWalk,
    queue_view::{Before, QueueEntry},
    record::Contender,
};
use fairhold_types::{FencingToken, GrantNumber, LockName, SessionNumber, time::WallMillis};
use std::{collections::BTreeMap, fmt};

mod tree;

/// How many contenders a look visits. It leaves out the others.
pub const WAITS_SCANNED_MAX: usize = 20_000;

/// Which part of the tree to show: with everything, what is on the way to the named waiters and holders, and below them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitsQuery {
    /// Only what concerns this owner.
    pub owner: Option<String>,
    /// Only what concerns this lock.
    pub lock: Option<LockName>,
    /// Only what concerns this session.
    pub session: Option<SessionNumber>,
    /// The maximum number of rows.
    pub limit: usize,
}

/// A lock that a contender holds while others wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedLock {
    /// The lock.
    pub lock: LockName,
    /// The grant.
    pub number: GrantNumber,
    /// Its token; `None` while it cools, or if it is only the first in line.
    pub token: Option<FencingToken>,
    /// Since when it has held the lock, or waited for it.
    pub since: WallMillis,
    /// How many holders the lock has.
    pub holders: usize,
    /// How many wait for the lock.
    pub waiting: usize,
}

/// What a row waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedBy {
    /// The lock.
    pub lock: LockName,
    /// The grant.
    pub number: GrantNumber,
    /// Its position in the queue.
    pub position: u64,
    /// Since when it has waited.
    pub since: WallMillis,
}

/// A row of the tree. The rows are in the order in which a reader reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitRow {
    /// How far below its root it is.
    pub depth: usize,
    /// The owner.
    pub owner: String,
    /// The session, unless it was made for this grant alone.
    pub session: Option<SessionNumber>,
    /// What it waits for; `None` for a root.
    pub waits: Option<AwaitedBy>,
    /// The first of the locks that others wait for, by name.
    pub holds: Vec<AwaitedLock>,
    /// How many further locks they wait for.
    pub holds_left_out: usize,
    /// How many waits there are below a root, directly or not.
    pub blocks: usize,
    /// Since when the longest of them has waited.
    pub blocks_since: Option<WallMillis>,
    /// Whether what is below it stands at an earlier row.
    pub repeated: bool,
}

/// The tree, or its first rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitTree {
    /// The rows.
    pub rows: Vec<WaitRow>,
    /// How many rows of the part that was asked for are left out.
    pub left_out: usize,
    /// Whether every contender was visited.
    pub complete: bool,
}

/// A lock with waiters.
#[derive(Debug)]
struct AwaitedQueue<'a> {
    lock: &'a LockName,
    /// The contender that stands for all who are ahead of the waiters.
    first: &'a Contender,
    holders: usize,
    /// Actor, contender and position of the others, in order.
    waiters: Vec<(usize, &'a Contender, u64)>,
}

#[derive(Debug)]
struct WaitActor<'a> {
    contender: &'a Contender,
    /// The queues in which it comes first.
    queues: Vec<usize>,
    /// The actor at the top of the first queue in which it waits.
    parent: Option<usize>,
    /// The root of its parent's tree.
    root: usize,
    blocks: usize,
    blocks_since: Option<WallMillis>,
}

/// Collects the queues with waiters. It visits a given number of contenders at a time, so that the caller can let other tasks
/// run in between.
pub struct WaitWalk<'a> {
    state: &'a State,
    visible: Option<&'a (dyn Fn(&LockName) -> bool + Sync)>,
    names: Box<dyn Iterator<Item = &'a LockName> + Send + 'a>,
    records: LockWalk<'a>,
    open: Option<(AwaitedQueue<'a>, Box<dyn Iterator<Item = QueueEntry<'a>> + Send + 'a>)>,
    ids: BTreeMap<Actor<'a>, usize>,
    actors: Vec<WaitActor<'a>>,
    queues: Vec<AwaitedQueue<'a>>,
    scanned: usize,
    complete: bool,
}

impl fmt::Debug for WaitWalk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} queues of {} actors", self.queues.len(), self.actors.len())
    }
}

impl State {
    /// A walk over everything that waits.
    #[must_use]
    pub fn wait_walk(&self) -> WaitWalk<'_> {
        // No lock has a waiter if no grant waits.
        let busy = (self.index.waiting > 0).then(|| self.index.busy.iter());
        WaitWalk {
            state: self,
            visible: None,
            names: Box::new(busy.into_iter().flatten()),
            records: LockWalk::new(&self.tree.locks),
            open: None,
            ids: BTreeMap::new(),
            actors: Vec::new(),
            queues: Vec::new(),
            scanned: 0,
            complete: false,
        }
    }
}

impl<'a> WaitWalk<'a> {
    /// The same of only these locks.
    #[must_use]
    pub fn only(self, visible: &'a (dyn Fn(&LockName) -> bool + Sync)) -> WaitWalk<'a> {
        WaitWalk { visible: Some(visible), ..self }
    }

    /// Visits `count` more contenders, or locks without waiters. Returns whether it has visited all, or as many as it may.
    pub fn visit(&mut self, count: usize) -> bool {
        for _ in 0..count {
            if self.scanned == WAITS_SCANNED_MAX {
                self.close();
                return true;
            }
            if self.step() {
                self.complete = true;
                return true;
            }
        }
        false
    }

    /// Visits one contender or lock. Returns whether there is no other.
    fn step(&mut self) -> bool {
        let entry = self.open.as_mut().map(|(_, entries)| entries.next());
        match entry {
            Some(Some(entry)) => {
                self.scanned += 1;
                self.add(&entry);
            }
            Some(None) => self.close(),
            None => {
                let Some(lock) = self.names.next() else { return true };
                self.open(lock);
            }
        }
        false
    }

    fn open(&mut self, lock: &'a LockName) {
        let queue = self.records.get(lock).and_then(LockRecord::queue).filter(|queue| !queue.waiting.is_empty());
        let Some(queue) = queue.filter(|_| self.visible.is_none_or(|is_visible| is_visible(lock))) else { return };
        let mut entries = self.state.queue_after(lock, None, Before::default());
        if let Some(first) = entries.next() {
            let holders = queue.holders.len();
            let awaited = AwaitedQueue { lock, first: first.contender, holders, waiters: Vec::new() };
            self.open = Some((awaited, Box::new(entries)));
        }
    }

    fn add(&mut self, entry: &QueueEntry<'a>) {
        let contender = entry.contender;
        if contender.granted_at.is_some() || self.state.is_dead(contender) {
            return;
        }
        let actor = self.actor(contender);
        if let Some((queue, _)) = &mut self.open {
            queue.waiters.push((actor, contender, entry.position));
        }
    }

    fn close(&mut self) {
        let Some((queue, _)) = self.open.take() else { return };
        if queue.waiters.is_empty() {
            return;
        }
        let first = self.actor(queue.first);
        let index = self.queues.len();
        self.actors[first].queues.push(index);
        for (actor, _, _) in &queue.waiters {
            // An actor that waits for itself is the first of its own queue.
            let parent = (*actor != first).then_some(first);
            let waiter = &mut self.actors[*actor];
            waiter.parent = waiter.parent.or(parent);
        }
        self.queues.push(queue);
    }

    fn actor(&mut self, contender: &'a Contender) -> usize {
        let next = self.actors.len();
        let id = *self.ids.entry(Actor::of(contender)).or_insert(next);
        if id == next {
            let actor = WaitActor { contender, queues: Vec::new(), parent: None, root: id, blocks: 0, blocks_since: None };
            self.actors.push(actor);
        }
        id
    }
}

#[cfg(test)]
mod tests;
