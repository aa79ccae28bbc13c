//! Whether waiting would ever end: the circles of those who hold one lock and wait for another.
//!
//! An actor is a named session together with the owner that its caller named. It is let run once it waits for nothing, and then
//! gives back all that it holds; whoever is granted by that may run next. A request is refused exactly when its actor still
//! waits at the end. Nothing is looked at but what can be reached from the requester, so other locks cost nothing.
//!
//! Where the caller named no owner, two grants of a session may belong to two threads that know nothing of one another: then each
//! grant is an actor of its own, and no request for a lock is refused.

use crate::{
    State,
    command::{Blocked, Want},
    index::Place,
    record::{Contender, LockSettings},
};
use fairhold_types::{GrantNumber, LockName, Mode, SessionNumber};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many contenders a search looks at, those that it looks at again counted too. A request for which that is not enough is
/// not checked.
const VISITS_MAX: usize = 4_000;

/// Who waits and releases as one.
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

/// One who stands in a lock, as the search has it.
#[derive(Debug)]
struct Stand {
    actor: Actor,
    session: SessionNumber,
    owner: String,
    number: GrantNumber,
    place: Place,
    mode: Mode,
    permits: u32,
    granted: bool,
    upgrading: bool,
}

/// A lock, as far as it can be reached: those who hold it, then those who wait, in order.
struct Line {
    limit: u32,
    stands: Vec<Stand>,
}

/// How far a lock's queue has to be looked at: its holders, and those who wait up to that place.
type Reach = Option<Place>;

struct Search<'a> {
    state: &'a State,
    request: &'a Request<'a>,
    lines: BTreeMap<LockName, Line>,
    /// The locks of those who wait for several.
    several: BTreeMap<GrantNumber, Vec<LockName>>,
    visits: usize,
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
    /// The circle that the request would close, who asks first in it; nothing where it would close none, or where the search was
    /// given up.
    pub(crate) fn deadlock(&self, request: &Request<'_>) -> Option<Vec<Blocked>> {
        let deeds = self.index.actors.get(&request.actor);
        let may_close = match &request.wish {
            // Nobody waits for one who has nothing yet.
            Wish::Join { granted: false, .. } => deeds.is_some(),
            Wish::Join { granted: true, wants, .. } => {
                let passed = |lock: &LockName| self.index.queues.get(lock).is_some_and(|queue| !queue.waiting.is_empty());
                deeds.is_some_and(|deeds| !deeds.waits.is_empty()) && wants.iter().any(|(want, _)| passed(&want.lock))
            }
            Wish::Upgrade(_) => true,
        };
        if !may_close {
            return None;
        }
        let mut search = Search { state: self, request, lines: BTreeMap::new(), several: BTreeMap::new(), visits: 0 };
        search.reach()?;
        search.let_all_run()?;
        let mut stands = search.lines.values().flat_map(|line| &line.stands);
        let blocked = stands.any(|stand| stand.actor == request.actor && stand.waits());
        blocked.then(|| search.circle())
    }

    /// Who of an actor waits.
    fn waits_of(&self, actor: &Actor) -> Vec<&Contender> {
        match actor {
            Actor::Named(..) => {
                let waits = self.index.actors.get(actor).into_iter().flat_map(|deeds| &deeds.waits);
                waits.filter_map(|number| self.contender(*number)).collect()
            }
            Actor::Alone(number) => {
                let waits = |contender: &&Contender| contender.granted_at.is_none() || contender.upgrading;
                self.contender(*number).filter(waits).into_iter().collect()
            }
        }
    }
}

impl Stand {
    fn of(contender: &Contender) -> Stand {
        Stand {
            actor: Actor::of(contender),
            session: contender.session,
            owner: contender.owner.text.clone(),
            number: contender.number,
            place: Place::of(contender),
            mode: contender.mode,
            permits: contender.permits,
            granted: contender.granted_at.is_some(),
            upgrading: contender.upgrading,
        }
    }

    fn waits(&self) -> bool {
        !self.granted || self.upgrading
    }

    /// Whether it has to wait for the other one, by the rules of a lock with that limit.
    fn waits_for(&self, other: &Stand, limit: u32) -> bool {
        match (self.upgrading, other.granted) {
            (true, granted) => granted,
            (false, false) => other.place < self.place,
            (false, true) => self.mode == Mode::Exclusive || other.mode == Mode::Exclusive || other.upgrading || limit > 1,
        }
    }
}

impl Line {
    fn fits(&self, next: &Stand) -> bool {
        let mut holders = self.stands.iter().filter(|stand| stand.granted);
        match next.mode {
            Mode::Shared => holders.all(|holder| holder.mode == Mode::Shared && !holder.upgrading),
            Mode::Exclusive if self.limit == 1 => holders.next().is_none(),
            Mode::Exclusive => {
                let mut held = 0;
                holders.all(|holder| {
                    held += u64::from(holder.permits);
                    holder.mode == Mode::Exclusive
                }) && held + u64::from(next.permits) <= u64::from(self.limit)
            }
        }
    }

    /// The first of those who wait, where there is room for it.
    fn first_ready(&self) -> Option<GrantNumber> {
        self.stands.iter().find(|stand| !stand.granted).filter(|next| self.fits(next)).map(|next| next.number)
    }

    fn grant(&mut self, number: GrantNumber) {
        self.stands.iter_mut().filter(|stand| stand.number == number).for_each(|stand| stand.granted = true);
    }

    /// Lets one be the only holder that waits for that; says whether there was one.
    fn finish_upgrade(&mut self) -> bool {
        let mut holders = self.stands.iter_mut().filter(|stand| stand.granted);
        match (holders.next(), holders.next()) {
            (Some(only), None) if only.upgrading => {
                (only.upgrading, only.mode) = (false, Mode::Exclusive);
                true
            }
            (Some(_) | None, _) => false,
        }
    }
}

impl Search<'_> {
    fn visit(&mut self, count: usize) -> Option<()> {
        self.visits += count;
        (self.visits <= VISITS_MAX).then_some(())
    }

    /// Collects all locks for which those wait who stand in the way, and those who stand in theirs.
    fn reach(&mut self) -> Option<()> {
        let (state, request) = (self.state, self.request);
        let mut ahead: VecDeque<(LockName, Reach)> = match &request.wish {
            Wish::Join { wants, .. } => wants.iter().map(|(want, place)| (want.lock.clone(), Some(*place))).collect(),
            Wish::Upgrade(lock) => [((*lock).clone(), None)].into(),
        };
        if let Wish::Join { wants, .. } = &request.wish
            && wants.len() > 1
        {
            self.several.insert(request.number, wants.iter().map(|(want, _)| want.lock.clone()).collect());
        }
        let mut known = BTreeSet::from([request.actor.clone()]);
        self.add_waits(&request.actor, &mut ahead);
        let mut far: BTreeMap<LockName, Reach> = BTreeMap::new();
        while let Some((lock, reach)) = ahead.pop_front() {
            if far.get(&lock).is_some_and(|known| *known >= reach) {
                continue;
            }
            let line = self.line(state, &lock, reach)?;
            for stand in &line.stands {
                if known.insert(stand.actor.clone()) {
                    self.add_waits(&stand.actor, &mut ahead);
                }
            }
            far.insert(lock.clone(), reach);
            self.lines.insert(lock, line);
        }
        Some(())
    }

    /// Adds where an actor waits to what is to be looked at.
    fn add_waits(&mut self, actor: &Actor, ahead: &mut VecDeque<(LockName, Reach)>) {
        for contender in self.state.waits_of(actor) {
            if contender.granted_at.is_some() {
                ahead.push_back((contender.lock.clone(), None));
                continue;
            }
            let locks = self.state.locks_of(contender.number);
            for lock in &locks {
                let place = self.state.contender_in(lock, contender.number).map(Place::of);
                ahead.push_back((lock.clone(), place));
            }
            if locks.len() > 1 {
                self.several.insert(contender.number, locks);
            }
        }
    }

    /// A lock's line up to that place, with the request in it where it belongs. One that cools goes by itself, and is left out.
    fn line(&mut self, state: &State, lock: &LockName, reach: Reach) -> Option<Line> {
        let queue = state.index.queues.get(lock);
        let holders = queue.into_iter().flat_map(|queue| &queue.holders).copied();
        let waiting = queue.into_iter().flat_map(|queue| &queue.waiting).take_while(|place| reach >= Some(**place));
        // One more than may be visited is enough to know that it is too much.
        let room = VISITS_MAX + 1 - self.visits;
        let numbers = holders.chain(waiting.map(|place| place.number())).take(room);
        let contenders = numbers.filter_map(|number| state.contender_in(lock, number)).filter(|contender| !contender.cooling);
        let mut stands: Vec<Stand> = contenders.map(Stand::of).collect();
        self.visit(stands.len() + 1)?;
        let limit = state.settings(lock).and_then(LockSettings::limit_in_force).unwrap_or(1);
        self.add_request(lock, &mut stands);
        Some(Line { limit, stands })
    }

    fn add_request(&self, lock: &LockName, stands: &mut Vec<Stand>) {
        let request = self.request;
        match &request.wish {
            Wish::Upgrade(upgraded) => {
                let is_it = |stand: &&mut Stand| *upgraded == lock && stand.number == request.number;
                stands.iter_mut().filter(is_it).for_each(|stand| stand.upgrading = true);
            }
            Wish::Join { wants, permits, granted } => {
                let Some((want, place)) = wants.iter().find(|(want, _)| want.lock == *lock) else { return };
                let is_behind = |stand: &Stand| !stand.granted && stand.place > *place;
                let at = stands.iter().position(is_behind).unwrap_or(stands.len());
                let request = Stand {
                    actor: request.actor.clone(),
                    session: request.session,
                    owner: request.owner.to_owned(),
                    number: request.number,
                    place: *place,
                    mode: want.mode,
                    permits: *permits,
                    granted: *granted,
                    upgrading: false,
                };
                stands.insert(at, request);
            }
        }
    }

    /// Lets every actor run that waits for nothing, again and again, until nothing moves any more.
    fn let_all_run(&mut self) -> Option<()> {
        loop {
            let count: usize = self.lines.values().map(|line| line.stands.len() + 1).sum();
            self.visit(count)?;
            let mut moved = self.grant_all();
            let stands = self.lines.values().flat_map(|line| &line.stands);
            let blocked: BTreeSet<Actor> = stands.filter(|stand| stand.waits()).map(|stand| stand.actor.clone()).collect();
            for line in self.lines.values_mut() {
                let before = line.stands.len();
                line.stands.retain(|stand| blocked.contains(&stand.actor));
                moved |= line.stands.len() != before;
            }
            if !moved {
                return Some(());
            }
        }
    }

    /// Grants to those whose turn has come, by the rules of the queues; says whether there was anybody.
    fn grant_all(&mut self) -> bool {
        let locks: Vec<LockName> = self.lines.keys().cloned().collect();
        let mut moved = false;
        for lock in locks {
            moved |= self.lines.get_mut(&lock).is_some_and(Line::finish_upgrade);
            while let Some(next) = self.lines.get(&lock).and_then(Line::first_ready) {
                let alone = vec![lock.clone()];
                let together = self.several.get(&next).unwrap_or(&alone);
                let ready = |lock: &LockName| self.lines.get(lock).is_some_and(|line| line.first_ready() == Some(next));
                if !together.iter().all(ready) {
                    break;
                }
                for lock in together {
                    if let Some(line) = self.lines.get_mut(lock) {
                        line.grant(next);
                    }
                }
                moved = true;
            }
        }
        moved
    }

    /// The shortest way from the requester back to itself, among those who are left.
    fn circle(&self) -> Vec<Blocked> {
        let mut from: BTreeMap<&Actor, (&Actor, Blocked)> = BTreeMap::new();
        let mut next = VecDeque::from([&self.request.actor]);
        while let Some(actor) = next.pop_front() {
            for (lock, line) in &self.lines {
                for stand in line.stands.iter().filter(|stand| stand.actor == *actor && stand.waits()) {
                    let others = line.stands.iter().filter(|other| !std::ptr::eq(*other, stand));
                    for other in others.filter(|other| stand.waits_for(other, line.limit)) {
                        let link = Blocked { session: stand.session, owner: stand.owner.clone(), lock: lock.clone() };
                        if other.actor == self.request.actor {
                            return way_to(&from, &self.request.actor, actor, link);
                        }
                        if !from.contains_key(&other.actor) {
                            from.insert(&other.actor, (actor, link));
                            next.push_back(&other.actor);
                        }
                    }
                }
            }
        }
        // It stands behind a circle of others, which a lowered limit may have closed.
        let request = self.request;
        let waits = self.lines.iter().find(|(_, line)| line.stands.iter().any(|stand| stand.number == request.number));
        let lock = waits.map(|(lock, _)| lock.clone());
        lock.into_iter().map(|lock| Blocked { session: request.session, owner: request.owner.to_owned(), lock }).collect()
    }
}

fn way_to(from: &BTreeMap<&Actor, (&Actor, Blocked)>, first: &Actor, last: &Actor, link: Blocked) -> Vec<Blocked> {
    let (mut way, mut at) = (vec![link], last);
    while at != first
        && let Some((before, link)) = from.get(at)
    {
        way.push(link.clone());
        at = before;
    }
    way.reverse();
    way
}
