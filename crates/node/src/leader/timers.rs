//! What a leader's clock watches, as a pure structure: deadlines, what was judged, and which verdicts are on their way.

use crate::leader::{
    bounded_holds::BoundedHolds,
    deadlines::Deadlines,
    idle_locks::IdleLocks,
    revision_clock::RevisionClock,
    scheduled::{Scheduled, ScheduledKind},
    sweeps::Sweeps,
};
use fairhold_raft::Leadership;
use fairhold_state::{
    State,
    command::{Answer, Event, Outcome},
};
use fairhold_types::{
    GrantNumber, LockName, Revision, SessionNumber,
    limits::{self, VERDICT_OBJECTS_MAX},
    planted::{self, Bug},
};
use openraft_rt::Instant;
use std::{collections::BTreeSet, time::Duration};

/// How often it notes the revision, for what may be forgotten.
const MARK_EVERY: Duration = Duration::from_secs(5);
/// How often it does so for the history.
const HISTORY_MARK_EVERY: Duration = Duration::from_secs(3_600);
/// Expiries on their way at one time: each is an entry of its own.
const EXPIRIES_IN_FLIGHT_MAX: usize = 1_024;

/// All that may come to its end by itself.
pub(crate) struct Verdicts<I> {
    leadership: Leadership,
    /// For how long in all nobody could be heard. It does not count: all deadlines are on a clock that stood still for as long.
    deaf: Duration,
    sessions: Deadlines<SessionNumber, I>,
    /// Whether a proof of leadership is on its way for sessions that were judged.
    proving: bool,
    /// Sessions that were judged before a proof which has passed: if they are due yet at the next tick, they end.
    condemned: BTreeSet<SessionNumber>,
    /// Sessions whose expiry is proposed and not answered yet: they get no acknowledgement.
    expiring: BTreeSet<SessionNumber>,
    /// Other verdicts that are proposed and not answered yet.
    chores: BTreeSet<ScheduledKind>,
    cooling: Deadlines<GrantNumber, I>,
    bounded: BoundedHolds<I>,
    idle: IdleLocks<I>,
    sweeps: Sweeps<I>,
    /// Which revision was current when, oldest first.
    remembered: RevisionClock<I>,
    /// The same over the time that the history is kept.
    history: RevisionClock<I>,
}

/// What a keepalive came to at the leader's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    /// The deadline was moved; it is as long as that.
    Moved(Duration),
    /// Its expiry is on the way.
    Expiring,
    /// No such session is known to the clock.
    Unknown,
}

impl<I: Instant> Verdicts<I> {
    pub(crate) fn load(leadership: Leadership, state: &State, now: I) -> Self {
        let mut verdicts = Verdicts {
            leadership,
            deaf: Duration::ZERO,
            sessions: Deadlines::new(),
            proving: false,
            condemned: BTreeSet::new(),
            expiring: BTreeSet::new(),
            chores: BTreeSet::new(),
            cooling: Deadlines::new(),
            bounded: BoundedHolds::load(state, now),
            idle: IdleLocks::new(),
            sweeps: Sweeps::load(state, now),
            remembered: RevisionClock::new(MARK_EVERY, limits::REMEMBERED_FOR),
            history: RevisionClock::new(HISTORY_MARK_EVERY, limits::HISTORY_KEPT_FOR),
        };
        for session in state.sessions() {
            let timeout_ms = if planted::has(Bug::NewLeaderIsImpatient) { session.timeout_ms / 8 } else { session.timeout_ms };
            verdicts.sessions.insert(session.number, Duration::from_millis(timeout_ms), now);
        }
        for contender in state.cooling() {
            verdicts.cool(contender.number, contender.lock_delay_ms, now);
        }
        for (lock, since) in state.idle_locks() {
            verdicts.idle.insert(lock, since, now);
        }
        verdicts
    }

    pub(crate) fn leadership(&self) -> Leadership {
        self.leadership
    }

    /// Nobody could be heard for so long.
    pub(crate) fn was_deaf(&mut self, span: Duration) {
        self.deaf += span;
    }

    /// A keepalive came.
    pub(crate) fn touch(&mut self, session: SessionNumber, now: I) -> Touched {
        if self.is_expiring(session) {
            return Touched::Expiring;
        }
        let now = self.heard(now);
        self.sessions.touch(session, now).map_or(Touched::Unknown, Touched::Moved)
    }

    /// Whether its expiry is proposed and not answered yet.
    pub(crate) fn is_expiring(&self, session: SessionNumber) -> bool {
        self.expiring.contains(&session)
    }

    /// Its expiry was answered.
    pub(crate) fn expiry_done(&mut self, session: SessionNumber) {
        self.expiring.remove(&session);
    }

    /// That instant on the clock of the deadlines.
    fn heard(&self, now: I) -> I {
        now - self.deaf
    }

    pub(crate) fn observe(&mut self, state: &State, event: &Event, now: I) {
        let now = self.heard(now);
        match event {
            Event::SessionOpened { session, timeout_ms } | Event::SessionRetimed { session, timeout_ms } => {
                self.sessions.insert(*session, Duration::from_millis(*timeout_ms), now);
            }
            Event::SessionClosed { session } | Event::SessionExpired { session } => self.sessions.remove(*session),
            Event::Queued { lock, .. } => self.idle.remove(lock),
            Event::Cooling { grant, delay_ms, .. } => self.cool(*grant, *delay_ms, now),
            Event::Cooled { lock, grant } => {
                self.cooling.remove(*grant);
                self.note_idle(state, lock, now);
            }
            Event::Ended { lock, grant, .. } => {
                self.bounded.remove(*grant);
                self.note_idle(state, lock, now);
            }
            Event::LockSet { lock, .. } => {
                self.idle.remove(lock);
                self.note_idle(state, lock, now);
            }
            Event::Granted { grant, .. } => self.bounded.note(state, *grant, now),
            Event::Holds { .. } | Event::Revoked { .. } => {}
            Event::LockForgotten { lock } => {
                self.idle.remove(lock);
                // The level above may have been kept by this one alone.
                if let Some(above) = lock.path().parent().and_then(|path| path.lock_name()) {
                    self.note_idle(state, &above, now);
                }
            }
            Event::Attached { .. } | Event::Broken { .. } => {}
            Event::Downgraded { .. } | Event::Upgrading { .. } | Event::UpgradeEnded { .. } => {}
            Event::Proclaimed { .. } | Event::Vacated { .. } => {}
            Event::NodeCreated { .. } | Event::NodeChanged { .. } | Event::NodeDeleted { .. } | Event::ChildrenChanged { .. } => {
                self.sweeps.observe(state, event, now)
            }
        }
    }

    fn cool(&mut self, grant: GrantNumber, delay_ms: u64, now: I) {
        let delay_ms = if planted::has(Bug::DelayEndsAtOnce) { 0 } else { delay_ms };
        self.cooling.insert(grant, Duration::from_millis(delay_ms), now);
    }

    fn note_idle(&mut self, state: &State, lock: &LockName, now: I) {
        if let Some(since) = state.idle_since(lock) {
            self.idle.insert(lock.clone(), since, now);
        }
    }

    /// Sessions that are due for the first time, to be proved; none while a proof is on its way.
    pub(crate) fn judge(&mut self, now: I) -> Vec<SessionNumber> {
        if self.proving {
            return Vec::new();
        }
        let judged: Vec<_> =
            self.sessions.due(self.heard(now)).into_iter().filter(|session| !self.expiring.contains(session)).collect();
        self.proving = !judged.is_empty();
        judged
    }

    /// The proof of leadership for judged sessions is there, or failed.
    pub(crate) fn prove(&mut self, judged: Vec<SessionNumber>, proved: bool) {
        self.proving = false;
        if proved {
            self.condemned.extend(judged);
        }
    }

    /// Condemned sessions that are due yet, as many as may be on their way; the others are judged again.
    pub(crate) fn execute(&mut self, now: I) -> Vec<SessionNumber> {
        let room = EXPIRIES_IN_FLIGHT_MAX.saturating_sub(self.expiring.len());
        let (condemned, now) = (std::mem::take(&mut self.condemned), self.heard(now));
        let due: Vec<_> = condemned.into_iter().filter(|session| self.sessions.is_due(*session, now)).take(room).collect();
        self.expiring.extend(due.iter().copied());
        due
    }

    /// What else is due, one of each kind that is not on its way.
    pub(crate) fn chores(&mut self, due: &Due, now: I) -> Vec<Scheduled> {
        let heard = self.heard(now);
        let cooled = self.cooling.due_at_most(heard, VERDICT_OBJECTS_MAX);
        let ended = self.bounded.due_at_most(heard, VERDICT_OBJECTS_MAX);
        let forgotten = self.idle.due(due.budget, heard);
        let swept = self.sweeps.due(heard);
        // These two note the present revision on their way, so they are asked each time.
        let remembered = self.remembered.passed(now, due.revision);
        let history = self.history.passed(now, due.revision);
        let old =
            |passed: Option<Revision>, oldest: Option<Revision>| passed.filter(|passed| oldest.is_some_and(|it| it <= *passed));
        let chores = [
            (!cooled.is_empty()).then_some(Scheduled::EndCooling(cooled)),
            (!ended.is_empty()).then_some(Scheduled::EndHolds(ended)),
            (!forgotten.is_empty()).then_some(Scheduled::ForgetLocks(forgotten)),
            (!swept.is_empty()).then_some(Scheduled::Sweep(swept)),
            old(remembered, due.oldest_remembered).map(Scheduled::Forget),
            old(history, due.oldest_history).map(Scheduled::ForgetHistory),
            due.is_pending.then_some(Scheduled::Continue),
        ];
        chores.into_iter().flatten().filter(|chore| self.chores.insert(chore.kind())).collect()
    }

    /// The next piece of what is pending in the state, where none is on its way.
    pub(crate) fn next_piece(&mut self) -> Option<Scheduled> {
        self.chores.insert(ScheduledKind::Continue).then_some(Scheduled::Continue)
    }

    /// A chore was answered, or nobody knows what became of it. Says whether there may be more to do of its kind at once.
    ///
    /// What a verdict judged is not judged again, also where the machine found nothing to do; what it had no room for is.
    pub(crate) fn done(&mut self, chore: &Scheduled, answer: Option<&Answer>) -> bool {
        self.chores.remove(&chore.kind());
        let objects = match answer.map(|answer| &answer.result) {
            Some(Ok(Outcome::Judged { objects })) => usize::try_from(*objects).unwrap_or(usize::MAX),
            Some(Ok(Outcome::Done)) => return true,
            Some(_) | None => return false,
        };
        match chore {
            Scheduled::EndCooling(grants) => grants.iter().take(objects).for_each(|grant| self.cooling.remove(*grant)),
            Scheduled::EndHolds(holds) => {
                holds.iter().take(objects).for_each(|(grant, token)| self.bounded.judged(*grant, *token));
            }
            Scheduled::ForgetLocks(locks) => {
                for (lock, since) in locks.iter().take(objects) {
                    if self.idle.is_since(lock, *since) {
                        self.idle.remove(lock);
                    }
                }
            }
            Scheduled::Forget(_) | Scheduled::Sweep(_) | Scheduled::ForgetHistory(_) | Scheduled::Continue => {}
        }
        objects > 0
    }
}

/// What the state says of what may be due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Its revision.
    pub(crate) revision: Revision,
    /// The oldest thing that it remembers without a session.
    pub(crate) oldest_remembered: Option<Revision>,
    /// The oldest thing in its history.
    pub(crate) oldest_history: Option<Revision>,
    /// Whether work is left for `Command::Continue`.
    pub(crate) is_pending: bool,
    /// How many bytes it may count.
    pub(crate) budget: Option<u64>,
}

impl Due {
    pub(crate) fn of(state: &State) -> Due {
        Due {
            revision: state.revision(),
            oldest_remembered: state.remembered_span().map(|(oldest, _)| oldest),
            oldest_history: state.oldest_history(),
            is_pending: state.has_pending(),
            budget: state.bytes_max(),
        }
    }
}

#[cfg(test)]
mod tests;
