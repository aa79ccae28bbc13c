//! The search: all that stands in the way of a request is collected once, and then every actor is let run that can.

use super::{
    actor_key::ActorKey,
    request::{WaitKind, WaitRequest},
};
use crate::{
    State,
    actor::Actor,
    command::Want,
    place::ServiceRank,
    record::{Contender, LockSettings},
};
use fairhold_types::{GrantNumber, LockName, Mode, SessionNumber, limits::DEADLOCK_VISITS_MAX};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

/// A contender of a lock, as the search sees it.
#[derive(Debug)]
pub(super) struct Stand<'a> {
    pub(super) actor: usize,
    pub(super) line: usize,
    pub(super) session: SessionNumber,
    pub(super) owner: &'a str,
    number: GrantNumber,
    place: ServiceRank,
    pub(super) mode: Mode,
    permits: u32,
    pub(super) granted: bool,
    pub(super) upgrading: bool,
    /// Its actor has run, and gave it back.
    pub(super) gone: bool,
}

impl Stand<'_> {
    pub(super) fn waits(&self) -> bool {
        !self.gone && (!self.granted || self.upgrading)
    }
}

/// A lock's queue, as far as it can be reached.
#[derive(Debug)]
pub(super) struct SearchQueue<'a> {
    pub(super) lock: &'a LockName,
    pub(super) limit: u32,
    /// The holders at the beginning.
    pub(super) holders: Vec<usize>,
    /// The waiters at the beginning, in their order.
    pub(super) waiting: Vec<usize>,
    /// How many of these were granted since.
    pub(super) granted: usize,
    /// Up to where the queue was looked at; nothing: at the holders only.
    through: Option<ServiceRank>,
    /// How many hold it now, how many of those exclusively, and with how many permits together.
    held: usize,
    exclusive: usize,
    permits: u64,
    /// The holder that waits to be the only one.
    upgrading: Option<usize>,
}

#[derive(Debug, Default)]
struct Party {
    stands: Vec<usize>,
    /// How many of these wait.
    waits: usize,
}

pub(super) struct Search<'a> {
    state: &'a State,
    request: &'a WaitRequest<'a>,
    known: BTreeMap<ActorKey<'a>, usize>,
    parties: Vec<Party>,
    pub(super) stands: Vec<Stand<'a>>,
    pub(super) lines: Vec<SearchQueue<'a>>,
    by_lock: BTreeMap<&'a LockName, usize>,
    /// The stands of grants that wait for several locks.
    several: BTreeMap<GrantNumber, Vec<usize>>,
    /// Lines in which somebody may be granted.
    stirred: VecDeque<usize>,
    visits: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(state: &'a State, request: &'a WaitRequest<'a>) -> Search<'a> {
        Search {
            state,
            request,
            known: BTreeMap::from([(ActorKey::of_request(request), Search::REQUEST)]),
            parties: vec![Party::default()],
            stands: Vec::new(),
            lines: Vec::new(),
            by_lock: BTreeMap::new(),
            several: BTreeMap::new(),
            stirred: VecDeque::new(),
            visits: 0,
        }
    }

    /// The actor that asks.
    pub(super) const REQUEST: usize = 0;

    pub(super) fn visits(&self) -> usize {
        self.visits
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.parties[Search::REQUEST].waits > 0
    }

    pub(super) fn actors(&self) -> usize {
        self.parties.len()
    }

    pub(super) fn stands_of(&self, actor: usize) -> &[usize] {
        &self.parties[actor].stands
    }

    fn visit(&mut self) -> Option<()> {
        self.visits += 1;
        (self.visits <= DEADLOCK_VISITS_MAX).then_some(())
    }

    /// Collects all locks for which those wait who stand in the way, and those who stand in theirs; nothing where that is more
    /// than may be looked at.
    pub(super) fn reach(&mut self) -> Option<()> {
        let request = self.request;
        let mut ahead: VecDeque<(&'a LockName, Option<ServiceRank>)> = match &request.wish {
            WaitKind::Join { wants, .. } => wants.iter().map(|(want, place)| (&want.lock, Some(*place))).collect(),
            WaitKind::Upgrade(lock) => [(*lock, None)].into(),
        };
        self.add_waits(ActorKey::of_request(request), None, &mut ahead)?;
        while let Some((lock, through)) = ahead.pop_front() {
            let (line, first) = self.line(lock)?;
            let from = self.lines[line].through;
            if !first && from >= through {
                continue;
            }
            self.lines[line].through = through;
            let state = self.state;
            let Some(queue) = state.index.queues.get(lock) else { continue };
            let holders = queue.holders.iter().filter(|_| first).copied();
            let begin = from.map_or(Bound::Unbounded, Bound::Excluded);
            let waiting = through.into_iter().flat_map(|through| queue.waiting.range((begin, Bound::Included(through))));
            for number in holders.chain(waiting.map(|place| place.number())) {
                self.visit()?;
                let contender =
                    state.contender_in(lock, number).filter(|contender| !contender.cooling && !state.is_dead(contender));
                let Some(contender) = contender else { continue };
                let (actor, newly_met) = self.actor(ActorKey::of(contender));
                self.add(line, actor, contender);
                if newly_met {
                    let met = Some(contender).filter(|met| met.granted_at.is_none());
                    self.add_waits(ActorKey::of(contender), met, &mut ahead)?;
                }
            }
        }
        self.add_request();
        Some(())
    }

    /// A lock's line; says whether it was not known before.
    fn line(&mut self, lock: &'a LockName) -> Option<(usize, bool)> {
        if let Some(line) = self.by_lock.get(lock) {
            return Some((*line, false));
        }
        self.visit()?;
        let limit = self.state.settings(lock).and_then(LockSettings::limit_in_force).unwrap_or(1);
        let (holders, waiting, upgrading) = (Vec::new(), Vec::new(), None);
        let (granted, held, exclusive, permits) = (0, 0, 0, 0);
        let line = self.lines.len();
        self.lines.push(SearchQueue {
            lock,
            limit,
            holders,
            waiting,
            granted,
            through: None,
            held,
            exclusive,
            permits,
            upgrading,
        });
        self.by_lock.insert(lock, line);
        Some((line, true))
    }

    /// An actor; says whether it was not known before.
    fn actor(&mut self, key: ActorKey<'a>) -> (usize, bool) {
        let next = self.parties.len();
        let actor = *self.known.entry(key).or_insert(next);
        if actor == next {
            self.parties.push(Party::default());
        }
        (actor, actor == next)
    }

    fn add(&mut self, line: usize, actor: usize, contender: &'a Contender) {
        let upgraded = matches!(&self.request.wish, WaitKind::Upgrade(lock) if **lock == contender.lock);
        self.add_stand(Stand {
            actor,
            line,
            session: contender.session,
            owner: &contender.owner.text,
            number: contender.number,
            place: ServiceRank::of(contender),
            mode: contender.mode,
            permits: contender.permits,
            granted: contender.granted_at.is_some(),
            upgrading: contender.upgrading || (upgraded && contender.number == self.request.number),
            gone: false,
        });
        if contender.granted_at.is_none() && contender.is_of_several() {
            self.several.entry(contender.number).or_default().push(self.stands.len() - 1);
        }
    }

    fn add_stand(&mut self, stand: Stand<'a>) {
        let number = self.stands.len();
        let line = &mut self.lines[stand.line];
        if stand.granted {
            line.holders.push(number);
            line.held += 1;
            line.exclusive += usize::from(stand.mode == Mode::Exclusive);
            line.permits += u64::from(stand.permits);
            line.upgrading = if stand.upgrading { Some(number) } else { line.upgrading };
        } else {
            // It is in order but for the request, which comes last and finds its place.
            let at = line.waiting.partition_point(|before| self.stands[*before].place < stand.place);
            line.waiting.insert(at, number);
        }
        let party = &mut self.parties[stand.actor];
        party.stands.push(number);
        party.waits += usize::from(stand.waits());
        self.stands.push(stand);
    }

    /// Adds where an actor waits to what is to be looked at.
    /// `met`: as which contender it was met, where that one waits.
    fn add_waits(
        &mut self,
        actor: ActorKey<'a>,
        met: Option<&Contender>,
        ahead: &mut VecDeque<(&'a LockName, Option<ServiceRank>)>,
    ) -> Option<()> {
        let state = self.state;
        let waits: Box<dyn Iterator<Item = GrantNumber> + 'a> = match actor {
            ActorKey::Named(session, owner) => {
                let deeds = state.index.actors.get(&Actor::Named(session, owner.to_owned()));
                // Most wait at one place, which is where they were met.
                let elsewhere =
                    deeds.filter(|deeds| deeds.waits.len() > usize::from(met.is_some_and(|met| !met.is_of_several())));
                Box::new(elsewhere.into_iter().flat_map(|deeds| &deeds.waits).copied())
            }
            ActorKey::Alone(number) => Box::new(std::iter::once(number)),
        };
        let waits = waits.filter_map(|number| state.contender(number));
        let places = waits.flat_map(|contender| {
            let upgrades = contender.granted_at.is_some() && contender.upgrading;
            let waits = contender.granted_at.is_none();
            let locks = std::iter::once(&contender.lock).chain(contender.others.iter().map(|want| &want.lock));
            let queued =
                locks.filter(move |_| waits).map(|lock| (lock, state.contender_in(lock, contender.number).map(ServiceRank::of)));
            queued.chain(upgrades.then_some((&contender.lock, None)))
        });
        for (index, place) in places.enumerate() {
            // The first is where it was met.
            if index > 0 {
                self.visit()?;
            }
            ahead.push_back(place);
        }
        Some(())
    }

    /// Puts the request into the lines where it belongs.
    fn add_request(&mut self) {
        let request = self.request;
        let WaitKind::Join { wants, permits, granted } = &request.wish else { return };
        for (Want { lock, mode }, place) in wants.iter().map(|(want, place)| (*want, *place)) {
            let Some(line) = self.by_lock.get(lock).copied() else { continue };
            self.add_stand(Stand {
                actor: Search::REQUEST,
                line,
                session: request.session,
                owner: request.owner,
                number: request.number,
                place,
                mode: *mode,
                permits: *permits,
                granted: *granted,
                upgrading: false,
                gone: false,
            });
            if wants.len() > 1 && !granted {
                self.several.entry(request.number).or_default().push(self.stands.len() - 1);
            }
        }
    }

    /// Lets every actor run that waits for nothing, until nothing moves any more. Each stand goes once, so it costs as much as
    /// was collected.
    pub(super) fn let_all_run(&mut self) {
        self.stirred = (0..self.lines.len()).collect();
        for actor in 0..self.parties.len() {
            if self.parties[actor].waits == 0 {
                self.run(actor);
            }
        }
        while let Some(line) = self.stirred.pop_front() {
            self.finish_upgrade(line);
            while let Some(next) = self.next_granted(line) {
                for stand in next {
                    self.grant(stand);
                }
            }
        }
    }

    /// An actor that waits for nothing gives back all that it holds.
    fn run(&mut self, actor: usize) {
        for stand in std::mem::take(&mut self.parties[actor].stands) {
            let stand = &mut self.stands[stand];
            stand.gone = true;
            let line = &mut self.lines[stand.line];
            line.held -= 1;
            line.exclusive -= usize::from(stand.mode == Mode::Exclusive);
            line.permits -= u64::from(stand.permits);
            self.stirred.push_back(stand.line);
        }
    }

    fn stops_waiting(&mut self, actor: usize) {
        let party = &mut self.parties[actor];
        party.waits -= 1;
        if party.waits == 0 {
            self.run(actor);
        }
    }

    /// Lets one be the only holder that waits for that, once it is.
    fn finish_upgrade(&mut self, line: usize) {
        let line = &mut self.lines[line];
        let Some(upgrading) = line.upgrading.filter(|_| line.held == 1) else { return };
        line.upgrading = None;
        line.exclusive = 1;
        let stand = &mut self.stands[upgrading];
        (stand.upgrading, stand.mode) = (false, Mode::Exclusive);
        let actor = stand.actor;
        self.stops_waiting(actor);
    }

    /// The first of those who wait, in all its lines, where it can be granted in each.
    fn next_granted(&self, line: usize) -> Option<Vec<usize>> {
        let first = self.first_ready(line)?;
        let Some(together) = self.several.get(&self.stands[first].number) else { return Some(vec![first]) };
        let ready = |stand: &usize| self.first_ready(self.stands[*stand].line) == Some(*stand);
        together.iter().all(ready).then(|| together.clone())
    }

    fn first_ready(&self, line: usize) -> Option<usize> {
        let line = &self.lines[line];
        let first = *line.waiting.get(line.granted)?;
        let stand = &self.stands[first];
        let fits = match stand.mode {
            Mode::Shared => line.exclusive == 0 && line.upgrading.is_none(),
            Mode::Exclusive if line.limit == 1 => line.held == 0,
            Mode::Exclusive => line.exclusive == line.held && line.permits + u64::from(stand.permits) <= u64::from(line.limit),
        };
        fits.then_some(first)
    }

    fn grant(&mut self, stand: usize) {
        let stand = &mut self.stands[stand];
        stand.granted = true;
        let line = &mut self.lines[stand.line];
        line.granted += 1;
        line.held += 1;
        line.exclusive += usize::from(stand.mode == Mode::Exclusive);
        line.permits += u64::from(stand.permits);
        self.stirred.push_back(stand.line);
        let actor = stand.actor;
        self.stops_waiting(actor);
    }
}
