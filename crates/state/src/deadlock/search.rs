//! Searches for a deadlock in two steps. The first collects all contenders that could block the request. The second
//! runs every actor that waits for nothing, until none is left.

use super::request::{WaitKind, WaitRequest};
use crate::{
    State,
    actor::Actor,
    command::Want,
    record::{Contender, LockSettings},
    service_rank::ServiceRank,
};
use fairhold_types::{GrantNumber, LockName, Mode, SessionNumber, limits::DEADLOCK_VISITS_MAX};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

/// A contender of a lock, as the search sees it.
#[derive(Debug)]
pub(super) struct SearchEntry<'a> {
    pub(super) actor: usize,
    pub(super) queue: usize,
    pub(super) session: SessionNumber,
    pub(super) owner: &'a str,
    number: GrantNumber,
    rank: ServiceRank,
    pub(super) mode: Mode,
    permits: u32,
    pub(super) granted: bool,
    pub(super) upgrading: bool,
    /// Its actor has run and released it.
    pub(super) released: bool,
}

impl SearchEntry<'_> {
    pub(super) fn waits(&self) -> bool {
        !self.released && (!self.granted || self.upgrading)
    }
}

/// The part of a lock's queue that the request can reach.
#[derive(Debug)]
pub(super) struct SearchQueue<'a> {
    pub(super) lock: &'a LockName,
    pub(super) limit: u32,
    /// The holders at the start.
    pub(super) holders: Vec<usize>,
    /// The waiters at the start, in order.
    pub(super) waiting: Vec<usize>,
    /// How many entries at the front of `waiting` the search has granted.
    pub(super) granted_count: usize,
    /// The search has collected the waiters up to this rank; `None` if it collects only the holders.
    through: Option<ServiceRank>,
    /// The number of current holders.
    held: usize,
    /// The number of current exclusive holders.
    exclusive: usize,
    /// The total permits of the current holders.
    permits: u64,
    /// The holder that waits to be upgraded.
    upgrading: Option<usize>,
}

#[derive(Debug, Default)]
struct ActorState {
    entries: Vec<usize>,
    /// How many of `entries` wait.
    waiting: usize,
}

pub(super) struct Search<'a> {
    state: &'a State,
    request: &'a WaitRequest<'a>,
    actor_ids: BTreeMap<Actor<'a>, usize>,
    actors: Vec<ActorState>,
    pub(super) entries: Vec<SearchEntry<'a>>,
    pub(super) queues: Vec<SearchQueue<'a>>,
    by_lock: BTreeMap<&'a LockName, usize>,
    /// The entries of each grant that waits for several locks.
    multi_lock: BTreeMap<GrantNumber, Vec<usize>>,
    /// Queues in which the next waiter may be grantable.
    to_recheck: VecDeque<usize>,
    visits: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(state: &'a State, request: &'a WaitRequest<'a>) -> Search<'a> {
        Search {
            state,
            request,
            actor_ids: BTreeMap::from([(request.actor, Search::REQUESTER)]),
            actors: vec![ActorState::default()],
            entries: Vec::new(),
            queues: Vec::new(),
            by_lock: BTreeMap::new(),
            multi_lock: BTreeMap::new(),
            to_recheck: VecDeque::new(),
            visits: 0,
        }
    }

    /// The index of the requesting actor in `actors`.
    pub(super) const REQUESTER: usize = 0;

    pub(super) fn visits(&self) -> usize {
        self.visits
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.actors[Search::REQUESTER].waiting > 0
    }

    pub(super) fn actor_count(&self) -> usize {
        self.actors.len()
    }

    pub(super) fn entries_of(&self, actor: usize) -> &[usize] {
        &self.actors[actor].entries
    }

    /// Counts a visit. `None` if the search has used up its visits.
    fn visit(&mut self) -> Option<()> {
        self.visits += 1;
        (self.visits <= DEADLOCK_VISITS_MAX).then_some(())
    }

    /// Collects the contenders that can block the request, then the contenders that can block these, and so on. `None`
    /// if there are more than the search may visit.
    pub(super) fn collect(&mut self) -> Option<()> {
        let request = self.request;
        let mut to_visit: VecDeque<(&'a LockName, Option<ServiceRank>)> = match &request.kind {
            WaitKind::Queue { wants, .. } => wants.iter().map(|(want, rank)| (&want.lock, Some(*rank))).collect(),
            WaitKind::Upgrade(lock) => [(*lock, None)].into(),
        };
        self.add_waits(request.actor, None, &mut to_visit)?;
        while let Some((lock, through)) = to_visit.pop_front() {
            let (queue, is_new_queue) = self.find_or_add_queue(lock)?;
            let collected = self.queues[queue].through;
            if !is_new_queue && collected >= through {
                continue;
            }
            self.queues[queue].through = through;
            let state = self.state;
            let Some(contenders) = state.queue_of(lock) else { continue };
            let holders = contenders.holders.iter().filter(|_| is_new_queue).copied();
            let begin = collected.map_or(Bound::Unbounded, Bound::Excluded);
            let waiting = through.into_iter().flat_map(|through| contenders.waiting.range((begin, Bound::Included(through))));
            for number in holders.chain(waiting.map(|rank| rank.number())) {
                self.visit()?;
                let contender =
                    state.contender_in(lock, number).filter(|contender| !contender.cooling && !state.is_dead(contender));
                let Some(contender) = contender else { continue };
                let (actor, is_new_actor) = self.find_or_add_actor(Actor::of(contender));
                self.add(queue, actor, contender);
                if is_new_actor {
                    let found_by = Some(contender).filter(|contender| contender.granted_at.is_none());
                    self.add_waits(Actor::of(contender), found_by, &mut to_visit)?;
                }
            }
        }
        self.add_request();
        Some(())
    }

    /// The queue of a lock, and whether it is new to the search.
    fn find_or_add_queue(&mut self, lock: &'a LockName) -> Option<(usize, bool)> {
        if let Some(queue) = self.by_lock.get(lock) {
            return Some((*queue, false));
        }
        self.visit()?;
        let limit = self.state.settings(lock).and_then(LockSettings::limit_in_force).unwrap_or(1);
        let queue = self.queues.len();
        self.queues.push(SearchQueue {
            lock,
            limit,
            holders: Vec::new(),
            waiting: Vec::new(),
            granted_count: 0,
            through: None,
            held: 0,
            exclusive: 0,
            permits: 0,
            upgrading: None,
        });
        self.by_lock.insert(lock, queue);
        Some((queue, true))
    }

    /// An actor, and whether it is new to the search.
    fn find_or_add_actor(&mut self, key: Actor<'a>) -> (usize, bool) {
        let next = self.actors.len();
        let actor = *self.actor_ids.entry(key).or_insert(next);
        if actor == next {
            self.actors.push(ActorState::default());
        }
        (actor, actor == next)
    }

    fn add(&mut self, queue: usize, actor: usize, contender: &'a Contender) {
        let upgraded = matches!(&self.request.kind, WaitKind::Upgrade(lock) if **lock == contender.lock);
        self.add_entry(SearchEntry {
            actor,
            queue,
            session: contender.session,
            owner: &contender.owner.text,
            number: contender.number,
            rank: ServiceRank::of(contender),
            mode: contender.mode,
            permits: contender.permits,
            granted: contender.granted_at.is_some(),
            upgrading: contender.upgrading || (upgraded && contender.number == self.request.number),
            released: false,
        });
        if contender.granted_at.is_none() && contender.is_multi_lock() {
            self.multi_lock.entry(contender.number).or_default().push(self.entries.len() - 1);
        }
    }

    fn add_entry(&mut self, entry: SearchEntry<'a>) {
        let index = self.entries.len();
        let queue = &mut self.queues[entry.queue];
        if entry.granted {
            queue.holders.push(index);
            queue.held += 1;
            queue.exclusive += usize::from(entry.mode == Mode::Exclusive);
            queue.permits += u64::from(entry.permits);
            queue.upgrading = if entry.upgrading { Some(index) } else { queue.upgrading };
        } else {
            // The search adds waiters in order, except the request, which it adds last.
            let at = queue.waiting.partition_point(|before| self.entries[*before].rank < entry.rank);
            queue.waiting.insert(at, index);
        }
        let actor_state = &mut self.actors[entry.actor];
        actor_state.entries.push(index);
        actor_state.waiting += usize::from(entry.waits());
        self.entries.push(entry);
    }

    /// Appends to `to_visit` the queues in which an actor waits. `found_by` is the waiting contender that led the
    /// search to the actor.
    fn add_waits(
        &mut self,
        actor: Actor<'a>,
        found_by: Option<&Contender>,
        to_visit: &mut VecDeque<(&'a LockName, Option<ServiceRank>)>,
    ) -> Option<()> {
        let state = self.state;
        let waits: Box<dyn Iterator<Item = GrantNumber> + 'a> = match actor {
            Actor::Named(session, owner) => {
                let known = state.index.actors.get(&(session, owner.to_owned()));
                // Most actors wait in one queue only: the queue in which the search found them.
                let counted = usize::from(found_by.is_some_and(|contender| !contender.is_multi_lock()));
                let elsewhere = known.filter(|actor| actor.waiting.len() > counted);
                Box::new(elsewhere.into_iter().flat_map(|actor| &actor.waiting).copied())
            }
            Actor::Unnamed(number) => Box::new(std::iter::once(number)),
        };
        let waits = waits.filter_map(|number| state.contender(number));
        let queued_at = waits.flat_map(|contender| {
            let upgrades = contender.granted_at.is_some() && contender.upgrading;
            let is_queued = contender.granted_at.is_none();
            let queued = contender
                .locks()
                .filter(move |_| is_queued)
                .map(|lock| (lock, state.contender_in(lock, contender.number).map(ServiceRank::of)));
            queued.chain(upgrades.then_some((&contender.lock, None)))
        });
        for (index, queue) in queued_at.enumerate() {
            // The visit that found the actor covers its first queue.
            if index > 0 {
                self.visit()?;
            }
            to_visit.push_back(queue);
        }
        Some(())
    }

    /// Adds the request to its queues.
    fn add_request(&mut self) {
        let request = self.request;
        let WaitKind::Queue { wants, permits, granted } = &request.kind else { return };
        for (Want { lock, mode }, rank) in wants.iter().map(|(want, rank)| (*want, *rank)) {
            let Some(queue) = self.by_lock.get(lock).copied() else { continue };
            self.add_entry(SearchEntry {
                actor: Search::REQUESTER,
                queue,
                session: request.session,
                owner: request.owner,
                number: request.number,
                rank,
                mode: *mode,
                permits: *permits,
                granted: *granted,
                upgrading: false,
                released: false,
            });
            if wants.len() > 1 && !granted {
                self.multi_lock.entry(request.number).or_default().push(self.entries.len() - 1);
            }
        }
    }

    /// Runs every actor that waits for nothing, until nothing changes. It releases each entry at most once, so it costs
    /// no more than the collection.
    pub(super) fn run_all(&mut self) {
        self.to_recheck = (0..self.queues.len()).collect();
        for actor in 0..self.actors.len() {
            if self.actors[actor].waiting == 0 {
                self.run(actor);
            }
        }
        while let Some(queue) = self.to_recheck.pop_front() {
            self.finish_upgrade(queue);
            while let Some(next) = self.next_granted(queue) {
                for entry in next {
                    self.grant(entry);
                }
            }
        }
    }

    /// Releases everything that an actor holds, because it waits for nothing.
    fn run(&mut self, actor: usize) {
        for entry in std::mem::take(&mut self.actors[actor].entries) {
            let entry = &mut self.entries[entry];
            entry.released = true;
            let queue = &mut self.queues[entry.queue];
            queue.held -= 1;
            queue.exclusive -= usize::from(entry.mode == Mode::Exclusive);
            queue.permits -= u64::from(entry.permits);
            self.to_recheck.push_back(entry.queue);
        }
    }

    fn end_wait(&mut self, actor: usize) {
        let actor_state = &mut self.actors[actor];
        actor_state.waiting -= 1;
        if actor_state.waiting == 0 {
            self.run(actor);
        }
    }

    /// Makes the upgrading holder exclusive once it is the only holder.
    fn finish_upgrade(&mut self, queue: usize) {
        let queue = &mut self.queues[queue];
        let Some(upgrading) = queue.upgrading.filter(|_| queue.held == 1) else { return };
        queue.upgrading = None;
        queue.exclusive = 1;
        let entry = &mut self.entries[upgrading];
        entry.upgrading = false;
        entry.mode = Mode::Exclusive;
        let actor = entry.actor;
        self.end_wait(actor);
    }

    /// The entries of the first waiter, if all its queues can grant it.
    fn next_granted(&self, queue: usize) -> Option<Vec<usize>> {
        let first = self.first_ready(queue)?;
        let Some(siblings) = self.multi_lock.get(&self.entries[first].number) else { return Some(vec![first]) };
        let ready = |entry: &usize| self.first_ready(self.entries[*entry].queue) == Some(*entry);
        siblings.iter().all(ready).then(|| siblings.clone())
    }

    fn first_ready(&self, queue: usize) -> Option<usize> {
        let queue = &self.queues[queue];
        let first = *queue.waiting.get(queue.granted_count)?;
        let entry = &self.entries[first];
        let is_compatible = match entry.mode {
            Mode::Shared => queue.exclusive == 0 && queue.upgrading.is_none(),
            Mode::Exclusive if queue.limit == 1 => queue.held == 0,
            Mode::Exclusive => {
                queue.exclusive == queue.held && queue.permits + u64::from(entry.permits) <= u64::from(queue.limit)
            }
        };
        is_compatible.then_some(first)
    }

    fn grant(&mut self, entry: usize) {
        let entry = &mut self.entries[entry];
        entry.granted = true;
        let queue = &mut self.queues[entry.queue];
        queue.granted_count += 1;
        queue.held += 1;
        queue.exclusive += usize::from(entry.mode == Mode::Exclusive);
        queue.permits += u64::from(entry.permits);
        self.to_recheck.push_back(entry.queue);
        let actor = entry.actor;
        self.end_wait(actor);
    }
}
