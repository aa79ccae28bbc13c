//! One exhaustive match from command to rule, and the one place where a revision is given out.

use crate::{
    State,
    command::{Answer, Applied, Command, Event, Outcome, Rejection},
};
use fairhold_types::{Revision, time::WallMillis};

/// A command at work: the state, the revision that it gets if it changes anything, and what happened so far.
pub(crate) struct Change<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) revision: Revision,
    pub(crate) at: WallMillis,
    pub(crate) events: Vec<Event>,
    /// How many nodes recursive deletes have removed.
    pub(crate) removed: usize,
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
        let mut change = Change { state: self, revision, at: command.at(), events: Vec::new(), removed: 0 };
        let effect = change.run(command);
        let events = change.events;
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
        Applied { answer: Answer { result, revision: self.revision }, events }
    }
}

impl Change<'_> {
    fn run(&mut self, command: Command) -> Result<Effect, Rejection> {
        match command {
            Command::FormCluster { cluster } => Ok(self.form_cluster(cluster)),
            Command::OpenSession(open) => self.open_session(open),
            Command::CloseSession { session, at: _ } => self.close_session(session),
            Command::ExpireSession { session, at: _ } => self.expire_session(session),
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::Withdraw { grant, attempt, at: _ } => self.withdraw(grant, attempt),
            Command::Abandon { grant, attempt, at: _ } => Ok(self.abandon(grant, attempt)),
            Command::Release { grant, at: _ } => self.release(grant),
            Command::SetGrantTimeout { grant, timeout_ms } => self.set_grant_timeout(grant, timeout_ms),
            Command::EndCooling { lock, contender, at: _ } => Ok(self.end_cooling(&lock, contender)),
            Command::Forget { through } => Ok(self.forget(through)),
            Command::ForgetLock { lock, since } => Ok(self.forget_lock(lock, since)),
            Command::Transact(transact) => self.transact(transact),
            Command::Break(order) => self.break_lock(order),
            Command::EndSession { session, by, reason, at: _ } => self.end_session(session, &by, &reason),
            Command::Sweep { nodes, at: _ } => Ok(self.sweep(nodes)),
            Command::Proclaim(order) => self.proclaim(order),
            Command::ForgetHistory { through } => Ok(self.forget_history(through)),
            Command::Downgrade { grant, at: _ } => self.downgrade(grant),
            Command::Upgrade { grant, if_busy, at: _ } => self.upgrade(grant, if_busy),
            Command::EndUpgrade { grant, at: _ } => self.end_upgrade(grant),
            Command::SetLock(order) => self.set_lock(order),
            Command::Revoke(order) => Ok(self.revoke(order)),
            Command::EndHold { grant, token, at: _ } => Ok(self.end_bounded(grant, token)),
        }
    }

    fn form_cluster(&mut self, cluster: fairhold_types::ClusterId) -> Effect {
        if self.state.cluster.is_some() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.state.cluster = Some(cluster);
        Effect::Changed(Outcome::Done)
    }

    fn forget(&mut self, through: Revision) -> Effect {
        if self.state.memory.forget(through) { Effect::Changed(Outcome::Done) } else { Effect::Unchanged(Outcome::Nothing) }
    }
}
