//! Tests of `queue_view`.

use super::*;
use crate::{
    command::{Acquire, Command, IfBusy, Owner, Want},
    request_for_tests::{acquire_in, open_session},
};
use fairhold_types::{GrantId, SessionId, time::WallMillis};

const SESSION: SessionId = SessionId(7);

/// A contender, its position, and the contender that it waits for.
type Shown = (GrantNumber, u64, Option<GrantNumber>);

/// A state, with the same pseudorandom choices in each run.
struct World {
    state: State,
    chance: u64,
    ids: u128,
}

impl World {
    fn new(seed: u64) -> World {
        let mut state = State::new();
        assert!(state.apply(&open_session(SESSION)).answer.result.is_ok());
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
            wants: wants.iter().map(want).collect(),
            limit,
            priority,
            owner: Owner { text: "o".to_owned(), given: false },
            ..acquire_in(SESSION, grant, &[], Mode::Exclusive)
        };
        assert!(self.state.apply(&Command::Acquire(acquire)).answer.result.is_ok());
        grant
    }

    fn upgrade(&mut self, grant: GrantId) {
        // Refused while another upgrade waits, or if the grant is queued. Both cases are wanted.
        drop(self.state.apply(&Command::Upgrade { grant, if_busy: IfBusy::Queue, key: None, at: WallMillis(1) }));
    }

    fn release(&mut self, grant: GrantId) {
        assert!(self.state.apply(&Command::Release { grant, session: None, at: WallMillis(1) }).answer.result.is_ok());
    }
}

fn lock(name: &str) -> LockName {
    LockName::parse(name).unwrap()
}

/// The same by a walk over all contenders: the definition of position and `waits_for`.
fn walked(state: &State, name: &LockName) -> Vec<Shown> {
    let Some(queue) = state.queue_of(name) else { return Vec::new() };
    let mutex = state.settings(name).and_then(LockSettings::limit_in_force).unwrap_or(1) == 1;
    let numbers = queue.holders.iter().copied().chain(queue.waiting.iter().map(|rank| rank.number()));
    let mut entries = Vec::<Shown>::new();
    let mut blocker = None;
    for (position, number) in (1..).zip(numbers) {
        let contender = state.contender_in(name, number).unwrap();
        let waits = contender.granted_at.is_none();
        let waits_for = match contender.mode {
            _ if !waits => None,
            _ if contender.is_multi_lock() && state.can_be_granted(name, number) => {
                state.blocker_elsewhere(contender).map(|other| other.number)
            }
            Mode::Exclusive if mutex => entries.last().map(|(number, _, _)| *number),
            Mode::Exclusive => entries.first().map(|(number, _, _)| *number),
            Mode::Shared => blocker,
        };
        if contender.mode == Mode::Exclusive || contender.upgrading || (waits && contender.is_multi_lock()) {
            blocker = Some(number);
        }
        entries.push((number, position, waits_for));
    }
    entries
}

fn shown(entry: &QueueEntry<'_>) -> Shown {
    (entry.contender.number, entry.position, entry.waits_for.map(|other| other.number))
}

/// All pages of a queue. Each page knows only the key at which the previous one ended.
fn by_pages(state: &State, name: &LockName, limit: usize) -> Vec<Shown> {
    let mut all = Vec::new();
    let mut after = None;
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
fn pages_and_neighbours_agree_with_a_full_walk() {
    let mut waiting = 0;
    let mut blocked = 0;
    let mut elsewhere = 0;
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
                elsewhere += usize::from(waits && contender.is_multi_lock());
            }
        }
    }
    assert!(
        waiting > 500 && blocked > 100 && elsewhere > 50,
        "{waiting} waited, {blocked} of them readers, {elsewhere} for several locks"
    );
}

#[test]
fn a_page_around_a_contender_has_its_neighbours_on_both_sides() {
    let mut world = World::new(3);
    let name = lock("pool");
    let priorities = [0, 5, -5, 0, 5];
    let wanted = priorities.into_iter().cycle().take(20);
    let grants: Vec<GrantId> = wanted.map(|priority| world.acquire(&[("pool", Mode::Exclusive)], Some(4), priority)).collect();
    let state = &world.state;
    let all: Vec<GrantNumber> = state.queue(&name).iter().map(|entry| entry.contender.number).collect();
    assert_eq!((all.len(), state.lock_summary(&name).holders), (20, 4));
    for limit in [1, 2, 3, 7, 19, 20, 1_000] {
        for (at, number) in all.iter().enumerate() {
            let key = state.queue_key(&name, QueueAnchor::Grant(*number)).unwrap();
            let start = state.page_around(&name, key, limit);
            let page = state.queue_after(&name, start, Before::default()).take(limit);
            let page: Vec<GrantNumber> = page.map(|entry| entry.contender.number).collect();
            // Half of the others are behind it, or as many as there are.
            let behind = ((limit - 1) / 2).min(all.len() - 1 - at);
            let first = at.saturating_sub(limit - 1 - behind);
            assert_eq!(page, all[first..(first + limit).min(all.len())], "{limit} around {at}");
        }
    }
    let last = state.queue_key(&name, QueueAnchor::Last);
    assert_eq!(last, state.queue_key(&name, QueueAnchor::Grant(all[19])));
    let elsewhere = lock("a");
    assert_eq!(
        (state.queue_key(&elsewhere, QueueAnchor::Last), state.queue_key(&elsewhere, QueueAnchor::Grant(all[0]))),
        (None, None)
    );
    let gone = QueueAnchor::Grant(all[0]);
    world.release(grants[0]);
    assert_eq!(world.state.queue_key(&name, gone), None, "its grant has ended");
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
fn a_reader_far_behind_a_writer_has_no_known_blocker_but_the_queue_shows_it() {
    let mut world = World::new(1);
    world.acquire(&[("a", Mode::Exclusive)], None, 0);
    for _ in 0..=READERS_PASSED_MAX + 1 {
        world.acquire(&[("a", Mode::Shared)], None, 0);
    }
    let state = &world.state;
    let name = lock("a");
    let queue = state.queue(&name);
    let known: Vec<bool> = queue[1..].iter().map(|entry| state.waits_for(&name, entry.contender.number).is_some()).collect();
    let near = known.iter().take_while(|known| **known).count();
    assert_eq!((near, known.iter().filter(|known| **known).count()), (READERS_PASSED_MAX + 1, READERS_PASSED_MAX + 1));
    let writer = queue[0].contender.number;
    assert!(queue[1..].iter().all(|entry| entry.waits_for.is_some_and(|other| other.number == writer)));
}

/// Readers that need not wait are granted without a queue. Their index of holders must come all the same.
#[test]
fn readers_that_join_at_once_are_indexed_when_there_are_many() {
    let mut world = World::new(1);
    let grants: Vec<GrantId> = (0..40).map(|_| world.acquire(&[("a", Mode::Shared)], None, 0)).collect();
    world.state.check().unwrap();
    let queue = |state: &State| state.queue_of(&lock("a")).map(|queue| (queue.holders.len(), queue.by_holder.is_some()));
    assert_eq!(queue(&world.state), Some((40, true)));
    for grant in grants {
        world.release(grant);
        world.state.check().unwrap();
    }
    assert_eq!(queue(&world.state), None);
}
