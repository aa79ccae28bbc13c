//! A lock's queue without a walk over all of it: how many stand there, a waiter beside its neighbours, and the rest of the queue
//! behind some place.

use crate::{
    State,
    index::{Place, Queue},
    read::QueueEntry,
    record::{Contender, LockSettings},
};
use fairhold_types::{FencingToken, GrantNumber, LockName, Mode};
use imbl::OrdSet;
use std::ops::Bound::{self, Excluded, Unbounded};

/// How many waiting readers are passed over, at most, to find out for whom one behind them waits.
pub const READERS_PASSED_MAX: usize = 64;

/// Where a contender stands in its queue. It remains a place when the contender has gone, so a page can begin behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKey {
    /// Among the holders, which stand in the order of their numbers.
    Holder(GrantNumber),
    /// Among the waiters: higher standing first, then in the order of their numbers.
    Waiter {
        /// The priority by which it stands.
        standing: i32,
        /// The grant's number.
        number: GrantNumber,
    },
}

impl QueueKey {
    /// Where a contender stands now.
    #[must_use]
    pub fn of(contender: &Contender) -> QueueKey {
        match contender.granted_at {
            Some(_) => QueueKey::Holder(contender.number),
            None => QueueKey::Waiter { standing: contender.standing, number: contender.number },
        }
    }
}

/// A lock without its contenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockSummary {
    /// How many hold it, those that cool included.
    pub holders: usize,
    /// How many wait.
    pub waiting: usize,
    /// The limit that is set; `None`: none was named, and it counts as 1.
    pub limit: Option<u32>,
    /// How many may wait, where an administrator said so.
    pub max_waiters: Option<u64>,
    /// How long a grant may hold it, if an administrator set a limit.
    pub max_hold_ms: Option<u64>,
    /// The token that was given out last, as long as the lock's node lives.
    pub last_token: Option<FencingToken>,
}

/// What a walk that begins in the middle of a queue has to know of the contenders before its beginning.
#[derive(Debug, Clone, Copy, Default)]
pub struct Before<'a> {
    /// How many there are.
    pub count: u64,
    /// The last waiter among them that holds readers back; `None` where there is none, or where the walk begins with a holder.
    pub blocker: Option<&'a Contender>,
}

impl State {
    /// A lock without its contenders; a lock that was never used has nobody.
    #[must_use]
    pub fn lock_summary(&self, name: &LockName) -> LockSummary {
        let (settings, queue) = (self.settings(name), self.index.queues.get(name));
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
        self.contender_in(name, *self.index.queues.get(name)?.holders.get_min()?)
    }

    /// The position of a waiter: the contenders ahead of it, holders included, plus 1. It is counted from the nearer end.
    #[must_use]
    pub fn position(&self, name: &LockName, number: GrantNumber) -> Option<u64> {
        let queue = self.index.queues.get(name)?;
        let place = Place::of(self.contender_in(name, number)?);
        queue.waiting.contains(&place).then(|| (queue.holders.len() + rank(&queue.waiting, place)) as u64 + 1)
    }

    /// The contender whose end lets a waiter go on. Nothing for a holder, nor for a reader with more than `READERS_PASSED_MAX`
    /// waiting readers right before it.
    #[must_use]
    pub fn waits_for(&self, name: &LockName, number: GrantNumber) -> Option<&Contender> {
        let line = Line::of(self, name)?;
        let contender = self.contender_in(name, number)?;
        let place = Place::of(contender);
        line.waits_for(contender, || line.predecessor(place), || line.blocker_before(place))
    }

    /// The queue behind a place; all of it without one. `before` is what is known of the contenders up to that place.
    pub fn queue_after<'a>(
        &'a self,
        name: &LockName,
        after: Option<QueueKey>,
        before: Before<'a>,
    ) -> impl Iterator<Item = QueueEntry<'a>> + Send + use<'a> {
        let (holders, waiting) = ranges(after);
        let line = Line::of(self, name);
        let mut predecessor = None;
        let mut blocker = before.blocker.or_else(|| line?.blocking_holder());
        let contenders = line.into_iter().flat_map(move |line| {
            let holders = line.queue.holders.range(holders).copied();
            let numbers = holders.chain(line.queue.waiting.range(waiting).map(|place| place.number()));
            numbers.filter_map(move |number| line.contender(number))
        });
        (before.count + 1..).zip(contenders).map(move |(position, contender)| {
            let neighbour = || predecessor.or_else(|| line?.predecessor(Place::of(contender)));
            let waits_for = line.and_then(|line| line.waits_for(contender, neighbour, || blocker));
            predecessor = Some(contender);
            if contender.granted_at.is_none() && contender.holds_readers_back() {
                blocker = Some(contender);
            }
            QueueEntry { contender, position, waits_for }
        })
    }

    /// How many stand up to a place, that place included: a number, and those that are left to count one by one.
    pub fn queue_through<'a>(
        &'a self,
        name: &LockName,
        key: QueueKey,
    ) -> (u64, impl Iterator<Item = GrantNumber> + Send + use<'a>) {
        let queue = self.index.queues.get(name);
        let all_holders = queue.map_or(0, |queue| queue.holders.len() as u64);
        let (all, holders, waiting) = match key {
            QueueKey::Holder(number) => (0, Some(..=number), None),
            QueueKey::Waiter { standing, number } => (all_holders, None, Some(..=Place::new(standing, number))),
        };
        let left = queue.into_iter().flat_map(move |queue| {
            let holders = holders.into_iter().flat_map(|range| queue.holders.range(range).copied());
            let waiting = waiting.into_iter().flat_map(|range| queue.waiting.range(range));
            holders.chain(waiting.map(|place| place.number()))
        });
        (all, left)
    }

    /// The waiters up to a place, that place included, the last one first. The first of them that holds readers back is the
    /// blocker of a walk that begins behind that place.
    pub fn waiters_back_from<'a>(
        &'a self,
        name: &LockName,
        key: QueueKey,
    ) -> impl Iterator<Item = &'a Contender> + Send + use<'a> {
        let range = match key {
            QueueKey::Holder(_) => None,
            QueueKey::Waiter { standing, number } => Some(..=Place::new(standing, number)),
        };
        Line::of(self, name).zip(range).into_iter().flat_map(|(line, range)| {
            let places = line.queue.waiting.range(range).rev();
            places.filter_map(move |place| line.contender(place.number()))
        })
    }
}

impl Contender {
    /// Whether readers that stand behind it wait for it: it is a writer, holds shared and is to be upgraded, or waits for
    /// several locks, in one order everywhere.
    #[must_use]
    pub fn holds_readers_back(&self) -> bool {
        self.mode == Mode::Exclusive || self.upgrading || (self.granted_at.is_none() && self.is_of_several())
    }
}

/// A lock in which somebody stands.
#[derive(Clone, Copy)]
struct Line<'a> {
    state: &'a State,
    name: &'a LockName,
    queue: &'a Queue,
    mutex: bool,
}

impl<'a> Line<'a> {
    fn of(state: &'a State, name: &LockName) -> Option<Line<'a>> {
        let (name, queue) = state.index.queues.get_key_value(name)?;
        let mutex = state.settings(name).and_then(LockSettings::limit_in_force).unwrap_or(1) == 1;
        Some(Line { state, name, queue, mutex })
    }

    /// The contender whose end lets this one go on.
    fn waits_for(
        self,
        contender: &'a Contender,
        predecessor: impl FnOnce() -> Option<&'a Contender>,
        blocker: impl FnOnce() -> Option<&'a Contender>,
    ) -> Option<&'a Contender> {
        if contender.granted_at.is_some() {
            return None;
        }
        if contender.is_of_several() && self.state.is_ready(self.name, contender.number) {
            return self.state.blocker_elsewhere(contender);
        }
        match contender.mode {
            Mode::Exclusive if self.mutex => predecessor(),
            // A semaphore's contender waits for whichever release leaves it room; the first holder stands for it.
            Mode::Exclusive => self.first().filter(|first| first.number != contender.number),
            Mode::Shared => blocker(),
        }
    }

    fn contender(self, number: GrantNumber) -> Option<&'a Contender> {
        self.state.contender_in(self.name, number)
    }

    fn first(self) -> Option<&'a Contender> {
        let number = self.queue.holders.get_min().copied().or_else(|| self.queue.waiting.get_min().map(|place| place.number()));
        self.contender(number?)
    }

    /// The one right before a waiter.
    fn predecessor(self, place: Place) -> Option<&'a Contender> {
        let waiter = self.queue.waiting.range(..place).next_back().map(|place| place.number());
        self.contender(waiter.or_else(|| self.queue.holders.get_max().copied())?)
    }

    /// The last one before a waiter that holds readers back, looked for among the nearest only.
    fn blocker_before(self, place: Place) -> Option<&'a Contender> {
        let mut before = self.queue.waiting.range(..place).rev().filter_map(|place| self.contender(place.number()));
        let blocker = before.by_ref().take(READERS_PASSED_MAX).find(|waiter| waiter.holds_readers_back());
        match (blocker, before.next()) {
            (Some(blocker), _) => Some(blocker),
            (None, Some(_)) => None,
            (None, None) => self.blocking_holder(),
        }
    }

    /// Holders are all readers, or all not: so one of them tells, unless one is to be upgraded.
    fn blocking_holder(self) -> Option<&'a Contender> {
        let number = self.queue.upgrading.or_else(|| self.queue.holders.get_max().copied());
        self.contender(number?).filter(|holder| holder.holds_readers_back())
    }
}

/// How many stand before a place, which is one of them.
fn rank(waiting: &OrdSet<Place>, place: Place) -> usize {
    let (mut before, mut behind) = (waiting.range(..place), waiting.range(place..));
    let mut steps = 0;
    loop {
        if before.next().is_none() {
            return steps;
        }
        if behind.next().is_none() {
            return waiting.len() - steps;
        }
        steps += 1;
    }
}

type Range<T> = (Bound<T>, Bound<T>);

/// The holders and the waiters behind a place.
fn ranges(after: Option<QueueKey>) -> (Range<GrantNumber>, Range<Place>) {
    match after {
        None => ((Unbounded, Unbounded), (Unbounded, Unbounded)),
        Some(QueueKey::Holder(number)) => ((Excluded(number), Unbounded), (Unbounded, Unbounded)),
        Some(QueueKey::Waiter { standing, number }) => {
            let none = Excluded(GrantNumber(u64::MAX));
            ((none, Unbounded), (Excluded(Place::new(standing, number)), Unbounded))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Acquire, Claimant, Command, IfBusy, Meta, OpenSession, Owner, Want};
    use fairhold_types::{GrantId, SessionId, time::WallMillis};

    const SESSION: SessionId = SessionId(7);

    /// A contender, its position, and the contender that it waits for.
    type Shown = (GrantNumber, u64, Option<GrantNumber>);

    /// A state, and the same chances in each run.
    struct World {
        state: State,
        chance: u64,
        ids: u128,
    }

    impl World {
        fn new(seed: u64) -> World {
            let mut state = State::new();
            let (name, meta, at) = (String::new(), Meta::new(), WallMillis(1));
            let opened =
                state.apply(Command::OpenSession(OpenSession { key: None, id: SESSION, timeout_ms: 10_000, name, meta, at }));
            assert!(opened.answer.result.is_ok());
            World { state, chance: seed, ids: 0 }
        }

        fn below(&mut self, most: u64) -> u64 {
            self.chance = self.chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.chance >> 33) % most
        }

        fn acquire(&mut self, wants: &[(&str, Mode)], limit: Option<u32>, priority: i32) -> GrantId {
            self.ids += 1;
            let grant = GrantId::from_ulid(self.ids << 64);
            let want = |(name, mode): &(&str, Mode)| Want { lock: lock(name), mode: *mode };
            let acquire = Acquire {
                grant,
                id_given: true,
                wants: wants.iter().map(want).collect(),
                claimant: Claimant::Session(SESSION),
                if_busy: IfBusy::Queue,
                limit,
                permits: 1,
                priority,
                owner: Owner { text: "o".to_owned(), given: false },
                meta: Meta::new(),
                lock_delay_ms: 0,
                reentrant: false,
                max_hold_ms: None,
                value: None,
                at: WallMillis(1),
            };
            assert!(self.state.apply(Command::Acquire(acquire)).answer.result.is_ok());
            grant
        }

        fn upgrade(&mut self, grant: GrantId) {
            // A second one is refused, as is one that waits: both are tried.
            drop(self.state.apply(Command::Upgrade { grant, if_busy: IfBusy::Queue, key: None, at: WallMillis(1) }));
        }

        fn release(&mut self, grant: GrantId) {
            assert!(self.state.apply(Command::Release { grant, session: None, at: WallMillis(1) }).answer.result.is_ok());
        }
    }

    fn lock(name: &str) -> LockName {
        LockName::parse(name).unwrap()
    }

    /// The same by a walk over everybody: what a place in a queue means.
    fn walked(state: &State, name: &LockName) -> Vec<Shown> {
        let Some(queue) = state.index.queues.get(name) else { return Vec::new() };
        let mutex = state.settings(name).and_then(LockSettings::limit_in_force).unwrap_or(1) == 1;
        let numbers = queue.holders.iter().copied().chain(queue.waiting.iter().map(|place| place.number()));
        let (mut entries, mut blocker) = (Vec::<Shown>::new(), None);
        for (position, number) in (1..).zip(numbers) {
            let contender = state.contender_in(name, number).unwrap();
            let waits = contender.granted_at.is_none();
            let waits_for = match contender.mode {
                _ if !waits => None,
                _ if contender.is_of_several() && state.is_ready(name, number) => {
                    state.blocker_elsewhere(contender).map(|other| other.number)
                }
                Mode::Exclusive if mutex => entries.last().map(|(number, _, _)| *number),
                Mode::Exclusive => entries.first().map(|(number, _, _)| *number),
                Mode::Shared => blocker,
            };
            if contender.mode == Mode::Exclusive || contender.upgrading || (waits && contender.is_of_several()) {
                blocker = Some(number);
            }
            entries.push((number, position, waits_for));
        }
        entries
    }

    fn shown(entry: &QueueEntry<'_>) -> Shown {
        (entry.contender.number, entry.position, entry.waits_for.map(|other| other.number))
    }

    /// All of a queue, so many at a time, each page with nothing but the place where the one before ended.
    fn by_pages(state: &State, name: &LockName, limit: usize) -> Vec<Shown> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let before = after.map_or_else(Before::default, |key| {
                let (counted, left) = state.queue_through(name, key);
                let blocker = state.waiters_back_from(name, key).find(|waiter| waiter.holds_readers_back());
                Before { count: counted + left.count() as u64, blocker }
            });
            let page: Vec<_> = state.queue_after(name, after, before).take(limit).collect();
            let Some(last) = page.last() else { return all };
            after = Some(QueueKey::of(last.contender));
            all.extend(page.iter().map(shown));
        }
    }

    #[test]
    fn pages_and_neighbours_say_what_a_walk_over_everybody_says() {
        let (mut waiting, mut blocked, mut elsewhere) = (0, 0, 0);
        for seed in 0..60 {
            let mut world = World::new(seed);
            let mut grants = Vec::new();
            for _ in 0..40 {
                let mode = if world.below(2) == 0 { Mode::Shared } else { Mode::Exclusive };
                let priority = i32::try_from(world.below(3)).unwrap() - 1;
                grants.push(match world.below(8) {
                    0 => world.acquire(&[("a", mode), ("b", mode)], None, priority),
                    1 => world.acquire(&[("b", mode)], None, priority),
                    2 => world.acquire(&[("pool", Mode::Exclusive)], Some(3), priority),
                    _ => world.acquire(&[("a", mode)], None, priority),
                });
                if world.below(4) == 0 {
                    let chosen = usize::try_from(world.below(grants.len() as u64)).unwrap();
                    world.release(grants.swap_remove(chosen));
                }
                if world.below(6) == 0 && !grants.is_empty() {
                    let chosen = usize::try_from(world.below(grants.len() as u64)).unwrap();
                    world.upgrade(grants[chosen]);
                }
            }
            world.state.check().unwrap();
            for name in [lock("a"), lock("b"), lock("pool"), lock("never")] {
                let state = &world.state;
                let all = walked(state, &name);
                assert_eq!(state.queue(&name).iter().map(shown).collect::<Vec<_>>(), all, "seed {seed}, {name}");
                for limit in [1, 2, 7] {
                    assert_eq!(by_pages(state, &name, limit), all, "seed {seed}, {name}, {limit} at a time");
                }
                let summary = state.lock_summary(&name);
                assert_eq!(summary.holders + summary.waiting, all.len());
                assert_eq!(
                    state.first_holder(&name).map(|first| first.number),
                    all.first().map(|first| first.0).filter(|_| summary.holders > 0)
                );
                for (number, position, waits_for) in all {
                    let contender = state.contender_in(&name, number).unwrap();
                    let waits = contender.granted_at.is_none();
                    assert_eq!(state.position(&name, number), waits.then_some(position), "seed {seed}, #{number} of {name}");
                    assert_eq!(state.waits_for(&name, number).map(|other| other.number), waits_for, "seed {seed}, #{number}");
                    waiting += usize::from(waits);
                    blocked += usize::from(contender.mode == Mode::Shared && waits_for.is_some());
                    elsewhere += usize::from(waits && contender.is_of_several());
                }
            }
        }
        assert!(waiting > 500 && blocked > 100 && elsewhere > 50, "{waiting} waited, {blocked} readers, {elsewhere} of several");
    }

    #[test]
    fn a_cursor_stays_valid_when_its_entry_has_gone() {
        let mut world = World::new(1);
        let grants: Vec<GrantId> = (0..9).map(|_| world.acquire(&[("a", Mode::Exclusive)], None, 0)).collect();
        let name = lock("a");
        let all: Vec<GrantNumber> = world.state.queue(&name).iter().map(|entry| entry.contender.number).collect();
        let key = QueueKey::of(world.state.queue(&name)[3].contender);
        for gone in [2, 3, 4] {
            world.release(grants[gone]);
        }
        let (counted, left) = world.state.queue_through(&name, key);
        let count = counted + left.count() as u64;
        assert_eq!(count, 2);
        let rest: Vec<_> = world.state.queue_after(&name, Some(key), Before { count, blocker: None }).collect();
        let rest: Vec<_> = rest.iter().map(shown).collect();
        assert_eq!(
            rest,
            [(all[5], 3, Some(all[1])), (all[6], 4, Some(all[5])), (all[7], 5, Some(all[6])), (all[8], 6, Some(all[7]))]
        );
    }

    #[test]
    fn a_reader_far_behind_a_writer_is_not_told_for_whom_it_waits_but_its_queue_tells() {
        let mut world = World::new(1);
        world.acquire(&[("a", Mode::Exclusive)], None, 0);
        for _ in 0..=READERS_PASSED_MAX + 1 {
            world.acquire(&[("a", Mode::Shared)], None, 0);
        }
        let (state, name) = (&world.state, lock("a"));
        let queue = state.queue(&name);
        let told: Vec<bool> = queue[1..].iter().map(|entry| state.waits_for(&name, entry.contender.number).is_some()).collect();
        let near = told.iter().take_while(|told| **told).count();
        assert_eq!((near, told.iter().filter(|told| **told).count()), (READERS_PASSED_MAX + 1, READERS_PASSED_MAX + 1));
        let writer = queue[0].contender.number;
        assert!(queue[1..].iter().all(|entry| entry.waits_for.is_some_and(|other| other.number == writer)));
    }
}
