//! The lock recipe: who may join a queue, who can be granted, and who comes next.

use crate::{
    State,
    apply::{Change, Effect},
    command::{Acquire, Claimant, Event, Held, HolderFacts, IfBusy, Outcome, Queued, Rejection, Want},
    index::{Place, Queue},
    memory::Remembered,
    record::{Contender, LockSettings, Role, Session},
    session::other_request,
    tree::Create,
    value::Value,
};
use fairhold_types::{
    EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, SessionNumber, limits,
    planted::{self, Bug},
};
use std::collections::BTreeSet;

impl Change<'_> {
    pub(crate) fn acquire(&mut self, acquire: Acquire) -> Result<Effect, Rejection> {
        let [want] = acquire.wants.as_slice() else {
            return Err(Rejection::Unsupported { what: "taking several locks at once".to_owned() });
        };
        let want = want.clone();
        refuse_unsupported(&want.lock, &acquire)?;
        if let Some(number) = self.state.index.grants.get(&acquire.grant).copied()
            && !planted::has(Bug::GrantsAgain)
        {
            return self.attach(number, &want, &acquire);
        }
        self.refuse_ended(&acquire.grant)?;
        self.state.refuse_other_use(&want.lock, acquire.value.is_some())?;
        let named = self.find_claimant(&acquire)?;
        let limit = self.state.limit_for(&want, &acquire)?;
        let place = Place::new(acquire.priority, GrantNumber(self.revision.0));
        let free = self.state.is_free_for(&want.lock, place, want.mode, acquire.permits, limit);
        if !free {
            self.refuse_busy(&want.lock, place, acquire.if_busy)?;
        }
        self.require_memory()?;
        if named.is_none() {
            self.require_session_room()?;
        }
        Ok(Effect::Changed(self.join(want, acquire, named)))
    }

    /// Puts a new contender at the end of its queue, and grants it where it can be.
    fn join(&mut self, want: Want, acquire: Acquire, named: Option<SessionNumber>) -> Outcome {
        let (number, lock, at) = (GrantNumber(self.revision.0), want.lock, acquire.at);
        let session = match (named, &acquire.claimant) {
            (Some(session), _) => session,
            (None, Claimant::Anonymous { timeout_ms }) => self.open_anonymous_session(*timeout_ms, at),
            (None, Claimant::Session(_)) => unreachable!("a named session was found before joining"),
        };
        self.open_lock(&lock, &acquire);
        let contender = Contender {
            number,
            grant: acquire.grant,
            lock: lock.clone(),
            session,
            anonymous: named.is_none(),
            mode: want.mode,
            asked: want.mode,
            upgrading: false,
            limit: acquire.limit,
            permits: acquire.permits,
            priority: acquire.priority,
            owner: acquire.owner,
            meta: acquire.meta,
            attempt: 1,
            granted_at: None,
            lock_delay_ms: acquire.lock_delay_ms,
            cooling: false,
            queued_at: at,
            held_since: None,
        };
        let path = lock.path();
        let sequence = self.state.tree.get(&path).map_or(0, |node| node.creates);
        let path = path.child(&format!("{session}-lock-{sequence:010}"));
        self.state.index.add_contender(&contender, path.clone());
        let create = Create {
            kind: crate::record::Kind::Ephemeral,
            owner: session,
            value: acquire.value.map_or_else(Value::empty, Value::from),
            role: Role::Contender(Box::new(contender)),
        };
        self.state.tree.create(path, create, self.revision, at);
        self.events.push(Event::Queued { lock: lock.clone(), grant: number });
        self.advance(&lock);
        standing(self.contender(number))
    }

    /// A caller comes again with the id of a live grant: the same grant, and from now on its attempt is the one that counts.
    fn attach(&mut self, number: GrantNumber, want: &Want, acquire: &Acquire) -> Result<Effect, Rejection> {
        let contender = self.contender(number);
        let session = self.state.sessions.get(&contender.session);
        let election = self.state.is_election(&contender.lock) == Some(true);
        if let Some(field) = first_difference(contender, session, want, acquire, election) {
            return Err(Rejection::IdempotencyMismatch { field: field.to_owned() });
        }
        let contender = self.contender_mut(number);
        contender.attempt += 1;
        let (lock, attempt, outcome) = (contender.lock.clone(), contender.attempt, standing(contender));
        self.events.push(Event::Attached { lock, grant: number, attempt });
        Ok(Effect::Changed(outcome))
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
        let floor = self.state.sessions.get(&number).and_then(|session| session.floor);
        // Ids are ordered by the time of their making: one that is not newer than a forgotten one may be that one.
        if Some(acquire.grant) <= floor { Err(Rejection::Forgotten) } else { Ok(Some(number)) }
    }

    fn refuse_busy(&self, lock: &LockName, place: Place, if_busy: IfBusy) -> Result<(), Rejection> {
        let queue = self.state.index.queues.get(lock).cloned().unwrap_or_default();
        match if_busy {
            IfBusy::Refuse => Err(self.state.busy(&queue, place)),
            IfBusy::Queue if queue.waiting.len() >= limits::WAITERS_MAX => {
                Err(Rejection::QueueFull { max: limits::WAITERS_MAX as u64 })
            }
            IfBusy::Queue => Ok(()),
        }
    }

    /// Makes sure that the lock's node is there, and that it has the limit that was named, and the use.
    fn open_lock(&mut self, lock: &LockName, acquire: &Acquire) {
        let (path, at) = (lock.path(), acquire.at);
        if self.state.tree.get(&path).is_none() {
            self.state.tree.create_parents(&path, Create::lock, self.revision, at);
            self.state.tree.create(path.clone(), Create::lock(), self.revision, at);
        }
        let settings = self.state.settings_mut(lock);
        settings.limit = settings.limit.or(acquire.limit);
        settings.election = Some(acquire.value.is_some());
    }

    /// Grants, in order, to all those whose turn has come: one exclusive contender, or a batch of readers, or as many as have
    /// permits.
    pub(crate) fn advance(&mut self, lock: &LockName) {
        self.finish_upgrade(lock);
        while let Some(place) = self.state.first_grantable(lock) {
            let (number, revision, at) = (place.number(), self.revision, self.at);
            let contender = self.contender_mut(number);
            assert!(contender.granted_at.is_none(), "grant #{number} was granted twice");
            contender.granted_at = Some(revision);
            contender.held_since = Some(at);
            let granted = contender.clone();
            self.count_granted(&granted);
            self.state.index.grant(lock, place);
            self.note_token(lock, number);
            self.tell_leader(lock);
        }
    }

    /// Notes that this revision is the token of a holder.
    pub(crate) fn note_token(&mut self, lock: &LockName, number: GrantNumber) {
        let token = FencingToken(if planted::has(Bug::TokenOfTheQueue) { number.0 } else { self.revision.0 });
        let settings = self.state.settings_mut(lock);
        assert!(settings.last_token <= Some(token), "the fencing token of {lock} went back to {token}");
        settings.last_token = Some(token);
        self.state.index.locks.insert(lock.clone());
        self.events.push(Event::Granted { lock: lock.clone(), grant: number, token });
    }

    pub(crate) fn advance_all(&mut self, locks: BTreeSet<LockName>) {
        for lock in locks {
            self.advance(&lock);
        }
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
    fn first_grantable(&self, lock: &LockName) -> Option<Place> {
        let queue = self.index.queues.get(lock)?;
        let newest = planted::has(Bug::OvertakesWaiters);
        let place = *if newest { queue.waiting.get_max()? } else { queue.waiting.get_min()? };
        let contender = self.contender(place.number())?;
        let limit = self.settings(lock).and_then(LockSettings::limit_in_force).unwrap_or(1);
        self.fits(queue, contender.mode, contender.permits, limit).then_some(place)
    }

    /// Whether those who hold (or cool) leave room for one more.
    fn fits(&self, queue: &Queue, mode: Mode, permits: u32, limit: u32) -> bool {
        let mut holders = queue.holders.iter().filter_map(|number| self.contender(*number));
        match mode {
            // All holders of a lock have one mode, so any of them tells: readers do not have to count one another.
            Mode::Shared if planted::has(Bug::ReadersBesideWriter) => true,
            Mode::Shared if queue.upgrading.is_some() => false,
            Mode::Shared => holders.next().is_none_or(|holder| holder.mode == Mode::Shared),
            Mode::Exclusive if limit == 1 => queue.holders.is_empty(),
            Mode::Exclusive => {
                let held: u64 = holders.map(|holder| u64::from(holder.permits)).sum();
                held + u64::from(permits) <= u64::from(limit) + u64::from(planted::has(Bug::OnePermitTooMany))
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

    fn busy(&self, queue: &Queue, place: Place) -> Rejection {
        let first = queue.holders.get_min().copied().or_else(|| queue.waiting.get_min().map(|place| place.number()));
        let ahead = queue.holders.len() + queue.waiting.range(..place).count();
        match first.and_then(|number| self.contender(number)) {
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

/// What a contender's owner is told of it.
pub(crate) fn standing(contender: &Contender) -> Outcome {
    let (number, session, attempt) = (contender.number, contender.session, contender.attempt);
    match contender.token() {
        Some(token) => Outcome::Held(Held { number, token, session, attempt }),
        None => Outcome::Queued(Queued { number, session, attempt }),
    }
}

/// The first field in which a repeated acquire differs from the grant that it names. How long to wait is not compared, and of a
/// value only whether there is one: the leader may have proclaimed another by now.
fn first_difference(
    contender: &Contender,
    session: Option<&Session>,
    want: &Want,
    acquire: &Acquire,
    election: bool,
) -> Option<&'static str> {
    let same_session = match &acquire.claimant {
        Claimant::Session(id) => session.is_some_and(|session| session.id == Some(*id)),
        Claimant::Anonymous { .. } => contender.anonymous,
    };
    // An owner that was made from the connection may differ when the caller comes again by another one.
    let same_owner =
        contender.owner.given == acquire.owner.given && (!acquire.owner.given || contender.owner.text == acquire.owner.text);
    [
        ("name", contender.lock != want.lock),
        ("mode", contender.asked != want.mode),
        ("value", election != acquire.value.is_some()),
        ("limit", contender.limit != acquire.limit),
        ("permits", contender.permits != acquire.permits),
        ("priority", contender.priority != acquire.priority),
        ("session", !same_session),
        ("owner", !same_owner),
        ("lock_delay", contender.lock_delay_ms != acquire.lock_delay_ms),
        ("meta", contender.meta != acquire.meta),
    ]
    .into_iter()
    .find_map(|(field, differs)| differs.then_some(field))
}

fn refuse_unsupported(lock: &LockName, acquire: &Acquire) -> Result<(), Rejection> {
    let unsupported = [
        ("a lock with a contender's name", lock.as_str().split('/').any(is_contender_name)),
        ("a reentrant hold", acquire.reentrant),
        ("max_hold", acquire.max_hold_ms.is_some()),
        ("an election that is shared", acquire.value.is_some() && acquire.wants.iter().any(|want| want.mode == Mode::Shared)),
        ("an election with a limit", acquire.value.is_some() && acquire.limit.is_some_and(|limit| limit > 1)),
    ];
    match unsupported.into_iter().find(|(_, asked)| *asked) {
        Some((what, _)) => Err(Rejection::Unsupported { what: what.to_owned() }),
        None => Ok(()),
    }
}

/// Whether a level is named as `join` names a contender: a lock there would stand where one stands or may come to stand.
fn is_contender_name(level: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    level.split_once("-lock-").is_some_and(|(session, sequence)| {
        !session.is_empty() && is_number(session) && sequence.len() == 10 && is_number(sequence)
    })
}
