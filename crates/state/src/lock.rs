//! The lock recipe: who may join a queue, who can be granted, and who comes next.

use crate::{
    State,
    apply::{Change, Effect},
    command::{Acquire, Claimant, Event, HolderFacts, IfBusy, Outcome, Rejection, Want},
    deadlock::{Actor, Request, Wish},
    holds::standing,
    index::{Place, Queue},
    memory::Remembered,
    record::{Contender, LockSettings, Role},
    session::other_request,
    several::new_contender,
    tree::Create,
    value::Value,
};
use fairhold_types::{
    EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, SessionNumber, limits,
    planted::{self, Bug},
    time::WallMillis,
};
use std::collections::BTreeSet;

impl Change<'_> {
    pub(crate) fn acquire(&mut self, acquire: Acquire) -> Result<Effect, Rejection> {
        refuse_unsupported(&acquire)?;
        if let Some(number) = self.state.index.grants.get(&acquire.grant).copied()
            && !planted::has(Bug::GrantsAgain)
        {
            return self.attach(number, &acquire);
        }
        self.refuse_ended(&acquire.grant)?;
        for want in &acquire.wants {
            self.state.refuse_other_use(&want.lock, acquire.value.is_some())?;
        }
        let named = self.find_claimant(&acquire)?;
        let mut busy = None;
        for want in &acquire.wants {
            let limit = self.state.limit_for(want, &acquire)?;
            let place = self.place_in(&want.lock, acquire.priority);
            if busy.is_none() && !self.state.is_free_for(&want.lock, place, want.mode, acquire.permits, limit) {
                busy = Some((&want.lock, place));
            }
        }
        if let Some(number) = named.and_then(|session| self.held_by_the_same(session, &acquire)) {
            return self.hold_again(number, &acquire);
        }
        if let Some((lock, place)) = busy {
            self.refuse_busy(&acquire, lock, place)?;
        }
        let checked = self.refuse_deadlock(&acquire, named, busy.is_none())?;
        self.require_memory()?;
        if named.is_none() {
            self.require_session_room()?;
        }
        Ok(Effect::Changed(self.join(acquire, named, checked)))
    }

    /// Refuses one who would wait for itself in the end, and says whether that was checked; `granted`: it would not wait, but
    /// others would wait for it.
    fn refuse_deadlock(&self, acquire: &Acquire, named: Option<SessionNumber>, granted: bool) -> Result<bool, Rejection> {
        // Nobody waits for one who has no other grant.
        let Some(session) = named.filter(|_| acquire.owner.given) else { return Ok(true) };
        let wants = acquire.wants.iter().map(|want| (want, self.place_in(&want.lock, acquire.priority)));
        let request = Request {
            actor: Actor::Named(session, acquire.owner.text.clone()),
            session,
            owner: &acquire.owner.text,
            number: GrantNumber(self.revision.0),
            wish: Wish::Join { wants: wants.collect(), permits: acquire.permits, granted },
        };
        let searched = self.state.deadlock(&request);
        searched.deadlock.refused()
    }

    /// Where one who comes now with that priority stands: nobody is placed before one who may not be overtaken.
    fn place_in(&self, lock: &LockName, priority: i32) -> Place {
        let last = self.state.index.queues.get(lock).and_then(|queue| queue.barriers.get_max());
        Place::new(last.map_or(priority, |last| priority.min(last.standing())), GrantNumber(self.revision.0))
    }

    /// Puts a new contender into the queue of each lock, and grants it where it can be.
    fn join(&mut self, acquire: Acquire, named: Option<SessionNumber>, deadlock_checked: bool) -> Outcome {
        let (number, at) = (GrantNumber(self.revision.0), acquire.at);
        let session = match (named, &acquire.claimant) {
            (Some(session), _) => session,
            (None, Claimant::Anonymous { timeout_ms }) => self.open_anonymous_session(*timeout_ms, at),
            (None, Claimant::Session(_)) => unreachable!("a named session was found before joining"),
        };
        let value = acquire.value.clone().map_or_else(Value::empty, Value::from);
        for (index, want) in acquire.wants.iter().enumerate() {
            self.open_lock(&want.lock, acquire.limit, at);
            self.state.settings_mut(&want.lock).election = Some(acquire.value.is_some());
            let place = self.place_in(&want.lock, acquire.priority);
            let contender = Contender { deadlock_checked, ..new_contender(&acquire, index, session, named.is_none(), place) };
            self.note_overtaken(&want.lock, place);
            self.place(contender, value.clone());
        }
        self.advance_all(acquire.wants.iter().map(|want| want.lock.clone()));
        standing(self.contender(number), &acquire.grant)
    }

    fn place(&mut self, contender: Contender, value: Value) {
        let (lock, number, session, at) = (contender.lock.clone(), contender.number, contender.session, contender.queued_at);
        let path = lock.path();
        let sequence = self.state.tree.get(&path).map_or(0, |node| node.creates);
        let path = path.child(&format!("{session}-lock-{sequence:010}"));
        self.state.index.add_contender(&contender, path.clone());
        let create =
            Create { kind: crate::record::Kind::Ephemeral, owner: session, value, role: Role::Contender(Box::new(contender)) };
        self.state.tree.create(path, create, self.revision, at);
        self.events.push(Event::Queued { lock, grant: number });
    }

    /// Refuses an id whose grant is over.
    fn refuse_ended(&self, grant: &GrantId) -> Result<(), Rejection> {
        if let Some(reason) = self.state.ended_reason(grant) {
            return Err(self.state.grant_ended(grant, reason));
        }
        let used = self.state.index.session_keys.contains_key(grant);
        match self.state.memory.get(grant) {
            Some(Remembered::Session | Remembered::Write { .. }) => Err(other_request()),
            Some(Remembered::Grant(reason)) => Err(self.state.grant_ended(grant, *reason)),
            Some(Remembered::Broken { .. }) => Err(self.state.grant_ended(grant, EndReason::Broken)),
            None if used => Err(other_request()),
            None => Ok(()),
        }
    }

    /// The named session that claims, or none where the grant is to have one of its own.
    fn find_claimant(&self, acquire: &Acquire) -> Result<Option<SessionNumber>, Rejection> {
        let Claimant::Session(id) = &acquire.claimant else {
            return Ok(None);
        };
        let number = *self.state.index.session_ids.get(id).ok_or(Rejection::NoSession)?;
        let floor = self.state.sessions.get(&number).and_then(|session| session.ended.floor());
        // Ids are ordered by the time of their making: one that is not newer than a forgotten one may be that one.
        if Some(acquire.grant) <= floor { Err(Rejection::Forgotten) } else { Ok(Some(number)) }
    }

    /// Refuses one who does not wait, or for whom there is no room to: `lock` is the first that is not free.
    fn refuse_busy(&self, acquire: &Acquire, lock: &LockName, place: Place) -> Result<(), Rejection> {
        if acquire.if_busy == IfBusy::Refuse {
            return Err(self.state.busy(lock, place));
        }
        let full = |want: &Want| {
            let max =
                self.state.settings(&want.lock).and_then(|settings| settings.max_waiters).unwrap_or(limits::WAITERS_MAX as u64);
            let waiting = self.state.index.queues.get(&want.lock).map_or(0, |queue| queue.waiting.len() as u64);
            (waiting >= max).then_some(max)
        };
        match acquire.wants.iter().find_map(full) {
            Some(max) => Err(Rejection::QueueFull { max }),
            None => Ok(()),
        }
    }

    /// Makes sure that the lock's node is there, and that it has the limit that was named.
    pub(crate) fn open_lock(&mut self, lock: &LockName, limit: Option<u32>, at: WallMillis) {
        let path = lock.path();
        if self.state.tree.get(&path).is_none() {
            self.state.tree.create_parents(&path, Create::lock, self.revision, at);
            self.state.tree.create(path.clone(), Create::lock(), self.revision, at);
        }
        let settings = self.state.settings_mut(lock);
        settings.limit = settings.limit.or(limit);
        settings.used = true;
        self.state.index.locks.insert(lock.clone());
    }

    /// Grants, in order, to all those whose turn has come: one exclusive contender, or a batch of readers, or as many as have
    /// permits; whoever takes several locks takes them together, and then those behind it in the others may go on too.
    pub(crate) fn advance_all(&mut self, locks: impl IntoIterator<Item = LockName>) {
        let mut locks: BTreeSet<LockName> = locks.into_iter().collect();
        while let Some(lock) = locks.pop_first() {
            self.finish_upgrade(&lock);
            while let Some(number) = self.state.first_grantable(&lock) {
                let granted = self.give(number);
                locks.extend(granted.into_iter().filter(|other| *other != lock));
            }
        }
    }

    pub(crate) fn advance(&mut self, lock: &LockName) {
        self.advance_all([lock.clone()]);
    }

    /// Grants all locks of a grant, and says which they are.
    fn give(&mut self, number: GrantNumber) -> Vec<LockName> {
        let (revision, at) = (self.revision, self.at);
        self.alter(number, |contender| {
            assert!(contender.granted_at.is_none(), "grant #{number} was granted twice");
            contender.granted_at = Some(revision);
            contender.held_since = Some(at);
        });
        let locks = self.state.locks_of(number);
        self.bound_hold(number);
        for lock in &locks {
            let granted = self.contender_in(lock, number).clone();
            self.count_granted(&granted);
            let holders = self.state.index.grant(&granted);
            self.state.index_holder(&granted, holders);
            self.note_token(lock, number);
            self.tell_leader(lock);
        }
        locks
    }

    /// Notes that this revision is the token of a holder.
    pub(crate) fn note_token(&mut self, lock: &LockName, number: GrantNumber) {
        let token = FencingToken(if planted::has(Bug::TokenOfTheQueue) { number.0 } else { self.revision.0 });
        let settings = self.state.settings_mut(lock);
        assert!(settings.last_token <= Some(token), "the fencing token of {lock} went back to {token}");
        settings.last_token = Some(token);
        self.events.push(Event::Granted { lock: lock.clone(), grant: number, token });
    }

    /// Removes the node of a lock in which nobody stands since that revision.
    pub(crate) fn forget_lock(&mut self, lock: LockName, since: fairhold_types::Revision) -> Effect {
        if self.state.idle_since(&lock) != Some(since) {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.state.tree.remove(&lock.path(), self.revision);
        self.state.index.locks.remove(&lock);
        self.state.drop_statistics([lock.clone()]);
        self.events.push(Event::LockForgotten { lock });
        Effect::Changed(Outcome::Done)
    }
}

impl State {
    /// The limit that a new contender finds in force.
    fn limit_for(&self, want: &Want, acquire: &Acquire) -> Result<u32, Rejection> {
        let set = self.settings(&want.lock).and_then(LockSettings::limit_in_force);
        // Those who stand in a lock without a limit took it for a mutex.
        let implied = self.index.queues.contains_key(&want.lock).then_some(1);
        let limit = match (set.or(implied), acquire.limit) {
            (Some(limit), Some(asked)) if limit != asked => return Err(Rejection::LimitMismatch { limit }),
            (Some(limit), _) => limit,
            (None, asked) => asked.unwrap_or(1),
        };
        if acquire.permits > limit {
            return Err(Rejection::PermitsOverLimit { permits: acquire.permits, limit });
        }
        if limit > 1 && want.mode == Mode::Shared {
            return Err(Rejection::SharedWithLimit { limit });
        }
        Ok(limit)
    }

    /// Whether a newcomer at that place would be granted at once: nobody waits before it, and those who hold leave room.
    fn is_free_for(&self, lock: &LockName, place: Place, mode: Mode, permits: u32, limit: u32) -> bool {
        let Some(queue) = self.index.queues.get(lock) else {
            return true;
        };
        let first = queue.waiting.get_min().is_none_or(|first| place < *first) || planted::has(Bug::OvertakesWaiters);
        first && self.fits(queue, mode, permits, limit)
    }

    /// The first of those who wait, where it can be granted now.
    fn first_grantable(&self, lock: &LockName) -> Option<GrantNumber> {
        let waiting = &self.index.queues.get(lock)?.waiting;
        let newest = planted::has(Bug::OvertakesWaiters);
        let number = if newest { waiting.get_max()? } else { waiting.get_min()? }.number();
        if !self.is_ready(lock, number) {
            return None;
        }
        let alone = self.contender_in(lock, number).is_some_and(|contender| !contender.is_of_several());
        let together = || self.locks_of(number).iter().all(|other| other == lock || self.is_ready(other, number));
        (alone || together()).then_some(number)
    }

    /// Whether it waits as the first, and those who hold leave it room: one that has several locks is reserved then, as long as
    /// it is not so in all of them.
    pub(crate) fn is_ready(&self, lock: &LockName, number: GrantNumber) -> bool {
        let Some(queue) = self.index.queues.get(lock) else { return false };
        let Some(contender) = self.contender_in(lock, number) else { return false };
        let limit = self.settings(lock).and_then(LockSettings::limit_in_force).unwrap_or(1);
        let first = queue.waiting.get_min().is_some_and(|place| place.number() == number);
        (first || planted::has(Bug::OvertakesWaiters)) && self.fits(queue, contender.mode, contender.permits, limit)
    }

    /// Whether those who hold (or cool) leave room for one more.
    fn fits(&self, queue: &Queue, mode: Mode, permits: u32, limit: u32) -> bool {
        match mode {
            Mode::Shared if planted::has(Bug::ReadersBesideWriter) => true,
            Mode::Shared => queue.upgrading.is_none() && queue.exclusive == 0,
            Mode::Exclusive if limit == 1 => queue.holders.is_empty(),
            Mode::Exclusive => {
                let room = u64::from(limit) + u64::from(planted::has(Bug::OnePermitTooMany));
                // Those who share it are from before it got a limit.
                queue.exclusive == queue.holders.len() && queue.permits + u64::from(permits) <= room
            }
        }
    }

    pub(crate) fn holder_facts(&self, holder: &Contender) -> HolderFacts {
        HolderFacts {
            number: holder.number,
            owner: holder.owner.text.clone(),
            token: holder.token(),
            since: holder.held_since.unwrap_or(holder.queued_at),
        }
    }

    fn busy(&self, lock: &LockName, place: Place) -> Rejection {
        let Some(queue) = self.index.queues.get(lock) else { unreachable!("a lock that is not free has a queue") };
        let first = queue.holders.get_min().copied().or_else(|| queue.waiting.get_min().map(|place| place.number()));
        let ahead = queue.holders.len() + queue.waiting.range(..place).count();
        match first.and_then(|number| self.contender_in(lock, number)) {
            Some(first) => Rejection::LockHeld { holder: self.holder_facts(first), ahead: ahead as u64 },
            None => unreachable!("a lock that is not free has somebody in it"),
        }
    }

    pub(crate) fn settings(&self, lock: &LockName) -> Option<&LockSettings> {
        match &self.tree.get(&lock.path())?.role {
            Role::Lock(settings) => Some(settings),
            Role::Data | Role::Contender(_) => None,
        }
    }

    pub(crate) fn settings_mut(&mut self, lock: &LockName) -> &mut LockSettings {
        match self.tree.get_mut(&lock.path()).map(|node| &mut node.role) {
            Some(Role::Lock(settings)) => settings,
            Some(Role::Data | Role::Contender(_)) | None => unreachable!("{lock} has contenders and no lock node"),
        }
    }
}

fn refuse_unsupported(acquire: &Acquire) -> Result<(), Rejection> {
    let names: BTreeSet<&LockName> = acquire.wants.iter().map(|want| &want.lock).collect();
    let election = acquire.value.is_some();
    let unsupported = [
        ("a lock with a contender's name", names.iter().any(|name| name.is_reserved())),
        ("taking no lock, or one twice", names.is_empty() || names.len() != acquire.wants.len()),
        ("taking so many locks at once", names.len() > limits::LOCKS_TOGETHER_MAX),
        ("a reentrant hold of several locks", acquire.reentrant && acquire.wants.len() > 1),
        ("an election of several names", election && acquire.wants.len() > 1),
        ("a reentrant hold of an election", election && acquire.reentrant),
        ("an election that is shared", election && acquire.wants.iter().any(|want| want.mode == Mode::Shared)),
        ("an election with a limit", election && acquire.limit.is_some_and(|limit| limit > 1)),
    ];
    match unsupported.into_iter().find(|(_, asked)| *asked) {
        Some((what, _)) => Err(Rejection::Unsupported { what: what.to_owned() }),
        None => Ok(()),
    }
}
