//! How a grant ends: given back, withdrawn, abandoned, expired; and the lock delay that may follow.

use crate::{
    State,
    apply::{Change, Effect},
    command::{Event, Outcome, Rejection},
    lock::standing,
    memory::Remembered,
    record::{Contender, Role},
};
use fairhold_types::{
    EndReason, GrantId, GrantNumber, LockName, SessionNumber, limits,
    planted::{self, Bug},
};

/// Who remembers a grant that ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keeper {
    /// Its session, where it has a name and lives on.
    Session,
    /// The table, because the session goes with it.
    Table,
}

impl Change<'_> {
    /// Gives a grant back. An unknown id is remembered as ended, so that an acquire that arrives after it is refused.
    pub(crate) fn release(&mut self, grant: GrantId) -> Result<Effect, Rejection> {
        if let Some(number) = self.state.index.grants.get(&grant).copied() {
            let held = self.contender(number).granted_at.is_some();
            let lock = self.end_contender(number, if held { EndReason::Released } else { EndReason::Withdrawn }, Keeper::Session);
            self.advance(&lock);
            return Ok(Effect::Changed(Outcome::Done));
        }
        if self.state.is_remembered(&grant) || self.state.index.session_keys.contains_key(&grant) {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        self.require_memory()?;
        self.state.memory.remember(grant, self.revision, Remembered::Grant(EndReason::Released));
        Ok(Effect::Changed(Outcome::Done))
    }

    /// A caller that still listens gives up: if it was granted by then, it is told that it holds.
    pub(crate) fn withdraw(&mut self, grant: GrantId, attempt: u64) -> Result<Effect, Rejection> {
        let number = self.live_grant(&grant)?;
        let contender = self.contender(number);
        if contender.attempt > attempt {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        if contender.granted_at.is_some() {
            return Ok(Effect::Unchanged(standing(contender)));
        }
        let lock = self.end_contender(number, EndReason::Withdrawn, Keeper::Session);
        self.advance(&lock);
        Ok(Effect::Changed(Outcome::Done))
    }

    /// A caller went away: its grant ends, queued or just held, unless it has attached again since.
    pub(crate) fn abandon(&mut self, grant: GrantId, attempt: u64) -> Effect {
        let live = self.state.index.grants.get(&grant).copied();
        match live {
            Some(number) if self.contender(number).attempt <= attempt || planted::has(Bug::AbandonsNewerAttempt) => {
                let lock = self.end_contender(number, EndReason::Withdrawn, Keeper::Session);
                self.advance(&lock);
                Effect::Changed(Outcome::Done)
            }
            Some(_) | None => Effect::Unchanged(Outcome::Nothing),
        }
    }

    pub(crate) fn end_cooling(&mut self, lock: &LockName, number: GrantNumber) -> Effect {
        if !self.state.index.cooling.contains(&number) {
            return Effect::Unchanged(Outcome::Nothing);
        }
        let contender = self.take_contender(number);
        assert!(contender.lock == *lock, "grant #{number} cools in {} and not in {lock}", contender.lock);
        self.events.push(Event::Cooled { lock: lock.clone(), grant: number });
        self.advance(lock);
        Effect::Changed(Outcome::Done)
    }

    /// Ends a live grant: its contender, its place and, where it was made for it alone, its session. Says which lock may go on.
    pub(crate) fn end_contender(&mut self, number: GrantNumber, reason: EndReason, keeper: Keeper) -> LockName {
        let contender = self.take_contender(number);
        self.events.push(Event::Ended { lock: contender.lock.clone(), grant: number, session: contender.session, reason });
        self.tell_vacant(&contender);
        self.note_ended(&contender, reason);
        self.remember_ended(&contender, reason, keeper);
        if contender.anonymous && reason != EndReason::Expired {
            self.events.push(Event::SessionClosed { session: contender.session });
            self.remove_session(contender.session);
        }
        contender.lock
    }

    /// Ends a held grant whose session expired, and leaves its contender to block the lock until the delay is over.
    pub(crate) fn cool_contender(&mut self, number: GrantNumber) {
        let path = self.state.index.contenders.get(&number).cloned();
        let contender = self.contender_mut(number);
        contender.cooling = true;
        let gave_up = std::mem::take(&mut contender.upgrading);
        let contender = contender.clone();
        if gave_up {
            self.state.index.set_upgrading(&contender.lock, None);
        }
        if let Some(node) = path.and_then(|path| self.state.tree.get_mut(&path)) {
            node.ephemeral_owner = SessionNumber(0);
        }
        self.state.index.cool(&contender);
        self.remember_ended(&contender, EndReason::Expired, Keeper::Table);
        self.note_ended(&contender, EndReason::Expired);
        let (session, reason) = (contender.session, EndReason::Expired);
        self.events.push(Event::Ended { lock: contender.lock.clone(), grant: number, session, reason });
        self.tell_vacant(&contender);
        self.events.push(Event::Cooling { lock: contender.lock.clone(), grant: number, delay_ms: contender.lock_delay_ms });
    }

    /// The number of a live grant, or how it ended, or that there is none.
    pub(crate) fn live_grant(&self, grant: &GrantId) -> Result<GrantNumber, Rejection> {
        match self.state.index.grants.get(grant) {
            Some(number) => Ok(*number),
            None => {
                Err(self.state.ended_reason(grant).map_or(Rejection::NoGrant, |reason| self.state.grant_ended(grant, reason)))
            }
        }
    }

    pub(crate) fn contender(&self, number: GrantNumber) -> &Contender {
        match self.state.contender(number) {
            Some(contender) => contender,
            None => unreachable!("the index names grant #{number} and the tree has no contender of it"),
        }
    }

    pub(crate) fn contender_mut(&mut self, number: GrantNumber) -> &mut Contender {
        let path = self.state.index.contenders.get(&number);
        match path.and_then(|path| self.state.tree.get_mut(path)).map(|node| &mut node.role) {
            Some(Role::Contender(contender)) => contender,
            Some(Role::Data | Role::Lock(_)) | None => {
                unreachable!("the index names grant #{number} and the tree has no contender of it")
            }
        }
    }

    /// Whether one more id could be remembered when it ends: every live grant has its room reserved, so that ending never
    /// fails.
    pub(crate) fn require_memory(&self) -> Result<(), Rejection> {
        let reserved = self.state.memory.len() + self.state.index.grants.len() + self.state.index.session_keys.len();
        if reserved < limits::REMEMBERED_MAX { Ok(()) } else { Err(Rejection::MemoryFull { max: limits::REMEMBERED_MAX as u64 }) }
    }

    pub(crate) fn take_contender(&mut self, number: GrantNumber) -> Contender {
        let path = self.state.index.contenders.get(&number).cloned();
        let node = path.and_then(|path| self.state.tree.remove(&path, self.revision));
        match node.map(|node| node.role) {
            Some(Role::Contender(contender)) => {
                self.state.index.remove_contender(&contender);
                *contender
            }
            Some(Role::Data | Role::Lock(_)) | None => {
                unreachable!("the index names grant #{number} and the tree has no contender of it")
            }
        }
    }

    fn remember_ended(&mut self, contender: &Contender, reason: EndReason, keeper: Keeper) {
        match keeper {
            Keeper::Session if !contender.anonymous => self.remember_in_session(contender.session, contender.grant, reason),
            Keeper::Session | Keeper::Table => {
                self.state.memory.remember(contender.grant, self.revision, Remembered::Grant(reason));
            }
        }
    }
}

impl State {
    /// How a grant ended, as long as it is remembered.
    pub(crate) fn ended_reason(&self, grant: &GrantId) -> Option<EndReason> {
        if let Some(session) = self.memory.in_session.get(grant).and_then(|number| self.sessions.get(number)) {
            return session.ended.get(grant).copied();
        }
        match self.memory.get(grant)? {
            Remembered::Grant(reason) => Some(*reason),
            Remembered::Broken { .. } => Some(EndReason::Broken),
            Remembered::Session | Remembered::Write { .. } => None,
        }
    }

    /// The refusal of a grant that has ended so.
    pub(crate) fn grant_ended(&self, grant: &GrantId, reason: EndReason) -> Rejection {
        Rejection::GrantEnded { reason, note: self.break_note(grant) }
    }

    fn is_remembered(&self, id: &GrantId) -> bool {
        self.memory.get(id).is_some() || self.memory.in_session.contains_key(id)
    }
}
