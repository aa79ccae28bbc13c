//! One exhaustive match from command to rule, and the one place where a revision is given out.

use crate::{
    State,
    command::{Answer, Applied, Command, Event, Outcome, Rejection},
};
use fairhold_types::{LockName, Revision, time::WallMillis};
use std::collections::BTreeSet;

/// A command at work: the state, the revision that it gets if it changes anything, and what happened so far.
pub(crate) struct Change<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) revision: Revision,
    pub(crate) at: WallMillis,
    pub(crate) events: Vec<Event>,
    /// How many nodes recursive deletes have removed.
    pub(crate) removed: usize,
    /// How many nodes were created.
    pub(crate) created: usize,
    /// Locks of which it was told that an administrator took them. Hardly a command has any, and each would drop an empty set.
    pub(crate) broken: Option<BTreeSet<LockName>>,
    /// What it has cost so far, in steps of about a microsecond.
    steps: u64,
    /// Those of them that are counted against what one command may do; the rest has bounds of its own.
    counted: u64,
}

/// What a rule did.
pub(crate) enum Effect {
    /// The state is another, and the command takes its revision.
    Changed(Outcome),
    /// The state is the same: the command was repeated, late or without an object.
    Unchanged(Outcome),
}

impl State {
    /// Applies one command. Same state and same command: same answer, same events, same next state, on every node and for ever.
    ///
    /// A `Rejection` has changed nothing. Panics only where an invariant of the state itself is broken: going on would spread
    /// it.
    pub fn apply(&mut self, command: Command) -> Applied {
        let revision = self.revision.next();
        let judgement = self.judgement(&command);
        let mut change = Change {
            state: self,
            revision,
            at: command.at(),
            // Nearly every command has some, and growing from none costs more.
            events: Vec::with_capacity(4),
            removed: 0,
            created: 0,
            broken: None,
            steps: 1,
            counted: 0,
        };
        let effect = change.run(command);
        let (mut events, steps) = (change.events, change.steps);
        let effect = match judgement {
            Some(judgement) if matches!(effect, Ok(Effect::Changed(_))) => self.judge(*judgement).and(effect),
            Some(_) | None => effect,
        };
        if effect.is_err() {
            events.clear();
        }
        let result = match effect {
            Ok(Effect::Changed(outcome)) => {
                self.revision = revision;
                Ok(outcome)
            }
            Ok(Effect::Unchanged(outcome)) => {
                assert!(events.is_empty(), "a command that changed nothing has events");
                Ok(outcome)
            }
            Err(rejection) => {
                assert!(events.is_empty(), "a refused command has events");
                Err(rejection)
            }
        };
        Applied { answer: Answer { result, revision: self.revision }, events, steps }
    }
}

impl Change<'_> {
    fn run(&mut self, command: Command) -> Result<Effect, Rejection> {
        match command {
            Command::FormCluster { cluster } => Ok(self.form_cluster(cluster)),
            Command::OpenSession(open) => self.open_session(open),
            Command::CloseSession { session, at: _ } => self.close_session(session),
            Command::ExpireSession { session, at: _ } => Ok(self.expire_session(session)),
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::Withdraw { grant, attempt, at: _ } => self.withdraw(grant, attempt),
            Command::Abandon { grant, attempt, at: _ } => Ok(self.abandon(grant, attempt)),
            Command::Release { grant, session, at: _ } => self.release(grant, session),
            Command::SetGrantTimeout { grant, timeout_ms, key, at: _ } => self.set_grant_timeout(grant, timeout_ms, key),
            Command::EndCooling { grants, at: _ } => Ok(self.end_cooling(&grants)),
            Command::Forget { through } => Ok(self.forget(through)),
            Command::ForgetLocks { locks } => Ok(self.forget_locks(locks)),
            Command::Transact(transact) => self.transact(transact),
            Command::Break(order) => self.break_lock(order),
            Command::EndSession { session, by, reason, at: _ } => self.end_session(session, by, reason),
            Command::Sweep { nodes, at: _ } => Ok(self.sweep(nodes)),
            Command::Proclaim(order) => self.proclaim(order),
            Command::ForgetHistory { through } => Ok(self.forget_history(through)),
            Command::Downgrade { grant, key, at: _ } => self.downgrade(grant, key),
            Command::Upgrade { grant, if_busy, key, at: _ } => self.upgrade(grant, if_busy, key),
            Command::EndUpgrade { grant, attempt, at: _ } => self.end_upgrade(grant, attempt),
            Command::SetLock(order) => self.set_lock(order),
            Command::Revoke(order) => self.revoke(order),
            Command::EndHolds { holds, at: _ } => Ok(self.end_holds(&holds)),
            Command::Continue { at: _ } => Ok(self.go_on()),
            Command::NoteKey { key, at: _ } => self.note_key(key),
            Command::NoteCapacity { node, bytes } => Ok(self.note_capacity(node, bytes)),
        }
    }

    /// Counts work that has a bound of its own.
    pub(crate) fn note_steps(&mut self, steps: u64) {
        self.steps += steps;
    }

    /// Counts work of which one command may do so much only.
    pub(crate) fn step(&mut self, steps: u64) {
        self.steps += steps;
        self.counted += steps;
    }

    /// Whether the command may do more.
    pub(crate) fn has_room(&self) -> bool {
        self.counted < self.state.piece_steps
    }

    /// Whether it may end more, and then still grant what is free by that.
    pub(crate) fn has_room_to_end(&self) -> bool {
        self.counted < (self.state.piece_steps * 3 / 4).max(1)
    }

    /// The answer to a verdict on many objects.
    pub(crate) fn judged(&self, objects: usize) -> Effect {
        let outcome = Outcome::Judged { objects: objects as u64 };
        if self.events.is_empty() { Effect::Unchanged(outcome) } else { Effect::Changed(outcome) }
    }

    fn form_cluster(&mut self, cluster: fairhold_types::ClusterId) -> Effect {
        if self.state.cluster.is_some() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.state.cluster = Some(cluster);
        Effect::Changed(Outcome::Done)
    }

    fn forget(&mut self, through: Revision) -> Effect {
        let forgotten = self.state.memory.forget(through);
        self.note_steps(forgotten as u64);
        if forgotten > 0 { Effect::Changed(Outcome::Done) } else { Effect::Unchanged(Outcome::Nothing) }
    }
}
