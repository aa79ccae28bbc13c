//! Everything that ends by itself, with its deadline, as a pure structure: what is due now, and which commands are in
//! flight.

use crate::{
    clock::wall_now,
    leader::{
        bounded_holds::BoundedHolds,
        deadlines::Deadlines,
        idle_locks::IdleLocks,
        revision_clock::RevisionClock,
        scheduled::{Scheduled, ScheduledKind},
        session_deadlines::{SessionDeadlines, Touched},
        sweeps::Sweeps,
    },
};
use fairhold_access::token::AccessTokenNumber;
use fairhold_raft::Leadership;
use fairhold_state::{
    State,
    command::{Answer, Event, Outcome},
};
use fairhold_types::{
    GrantNumber, LockName, Revision, SessionNumber, duration,
    limits::{self, VERDICT_OBJECTS_MAX},
    planted::{self, Bug},
    time::WallMillis,
};
use openraft_rt::Instant;
use std::{collections::BTreeSet, time::Duration};

/// Interval at which the current revision is recorded, to know later what is old enough to be forgotten.
const RECORD_EVERY: Duration = Duration::from_secs(5);
/// Interval at which the current revision is recorded for the history.
const RECORD_HISTORY_EVERY: Duration = Duration::from_secs(3_600);

/// All timers of one leadership.
pub(crate) struct Timers<I> {
    leadership: Leadership,
    /// When this leadership began. The timers of the sessions that it found started then, without a keepalive.
    loaded_at: I,
    /// How long the process was paused in total. Pauses do not count: all deadlines are on a clock that stopped during
    /// them.
    paused: Duration,
    sessions: SessionDeadlines<I>,
    /// Scheduled commands that are proposed and not answered yet.
    in_flight: BTreeSet<ScheduledKind>,
    cooling: Deadlines<GrantNumber, I>,
    bounded: BoundedHolds<I>,
    idle: IdleLocks<I>,
    sweeps: Sweeps<I>,
    /// The age of what the state remembers without a session.
    remembered: RevisionClock<I>,
    /// The age of the history.
    history: RevisionClock<I>,
}

impl<I: Instant> Timers<I> {
    /// Every timer starts with its full time.
    pub(crate) fn load(leadership: Leadership, state: &State, now: I) -> Self {
        let mut timers = Timers {
            leadership,
            loaded_at: now,
            paused: Duration::ZERO,
            sessions: SessionDeadlines::new(),
            in_flight: BTreeSet::new(),
            cooling: Deadlines::new(),
            bounded: BoundedHolds::load(state, now),
            idle: IdleLocks::new(),
            sweeps: Sweeps::load(state, now),
            remembered: RevisionClock::new(RECORD_EVERY, limits::TOMBSTONE_KEPT_FOR),
            history: RevisionClock::new(RECORD_HISTORY_EVERY, limits::HISTORY_KEPT_FOR),
        };
        for session in state.sessions() {
            timers.sessions.insert(session.number, timeout_at_load(session.timeout_ms), now);
        }
        for contender in state.cooling() {
            timers.cool(contender.number, contender.lock_delay_ms, now);
        }
        for (lock, since) in state.idle_locks() {
            timers.idle.insert(lock, since, now);
        }
        timers
    }

    pub(crate) fn leadership(&self) -> Leadership {
        self.leadership
    }

    /// The process was paused for this long: all deadlines move by it.
    pub(crate) fn paused_for(&mut self, pause: Duration) {
        self.paused += pause;
    }

    /// This instant on the clock of the deadlines.
    fn on_clock(&self, now: I) -> I {
        now - self.paused
    }

    /// A keepalive arrived.
    pub(crate) fn touch(&mut self, session: SessionNumber, now: I) -> Touched {
        self.sessions.touch(session, self.on_clock(now))
    }

    /// The time since the last keepalive of a session, or since it was opened or got another timeout. Pauses do not count, as
    /// they do not count for its deadline. `None` if this leadership has not heard from it.
    pub(crate) fn heard_ago(&self, session: SessionNumber, now: I) -> Option<Duration> {
        let (deadline, timeout) = self.sessions.deadline(session)?;
        let heard_at = deadline - timeout;
        (heard_at > self.loaded_at).then(|| self.on_clock(now).saturating_duration_since(heard_at))
    }

    /// Whether an expiry of the session is proposed and not answered yet.
    pub(crate) fn is_expiring(&self, session: SessionNumber) -> bool {
        self.sessions.is_expiring(session)
    }

    /// The sessions that are due: their expiry needs a confirmation of the leadership.
    pub(crate) fn take_due(&mut self, now: I) -> Vec<SessionNumber> {
        self.sessions.take_due(self.on_clock(now))
    }

    /// The confirmation for these sessions has succeeded or failed.
    pub(crate) fn confirm(&mut self, due: Vec<SessionNumber>, leads: bool) {
        self.sessions.confirm(due, leads);
    }

    /// The confirmed sessions that are still due: their expiry is proposed now.
    pub(crate) fn take_expirable(&mut self, now: I) -> Vec<SessionNumber> {
        self.sessions.take_expirable(self.on_clock(now))
    }

    /// The expiry of a session was answered, or has failed.
    pub(crate) fn expiry_answered(&mut self, session: SessionNumber) {
        self.sessions.answered(session);
    }

    /// Follows a change. `state` is the state after it.
    pub(crate) fn observe(&mut self, state: &State, event: &Event, now: I) {
        let now = self.on_clock(now);
        match event {
            Event::SessionOpened { session, timeout_ms } | Event::SessionRetimed { session, timeout_ms } => {
                self.sessions.insert(*session, Duration::from_millis(*timeout_ms), now);
            }
            Event::SessionClosed { session } | Event::SessionExpired { session } => self.sessions.remove(*session),
            Event::Queued { lock, .. } => self.idle.remove(lock),
            Event::Cooling { grant, delay_ms, .. } => self.cool(*grant, *delay_ms, now),
            Event::Cooled { lock, grant } => {
                self.cooling.remove(*grant);
                self.record_idle(state, lock, now);
            }
            Event::Ended { lock, grant, .. } => {
                self.bounded.remove(*grant);
                self.record_idle(state, lock, now);
            }
            Event::LockSet { lock, .. } => {
                self.idle.remove(lock);
                self.record_idle(state, lock, now);
            }
            Event::Granted { grant, .. } => self.bounded.granted(state, *grant, now),
            Event::Holds { .. } | Event::Revoked { .. } => {}
            Event::LockForgotten { lock } => {
                self.idle.remove(lock);
                // This lock may have been the only one that kept the level above in use.
                if let Some(above) = lock.path().parent().and_then(|path| path.lock_name()) {
                    self.record_idle(state, &above, now);
                }
            }
            Event::Attached { .. } | Event::Broken { .. } => {}
            Event::Downgraded { .. } | Event::Upgrading { .. } | Event::UpgradeEnded { .. } => {}
            Event::Proclaimed { .. } | Event::Vacated { .. } | Event::Cluster(_) => {}
            Event::NodeCreated { .. } | Event::NodeChanged { .. } | Event::NodeDeleted { .. } | Event::ChildrenChanged { .. } => {
                self.sweeps.observe(state, event, now)
            }
        }
    }

    fn cool(&mut self, grant: GrantNumber, delay_ms: u64, now: I) {
        self.cooling.insert(grant, lock_delay(delay_ms), now);
    }

    fn record_idle(&mut self, state: &State, lock: &LockName, now: I) {
        if let Some(since) = state.idle_since(lock) {
            self.idle.insert(lock.clone(), since, now);
        }
    }

    /// The scheduled commands that are due, one of each kind unless that kind is in flight.
    pub(crate) fn take_scheduled(&mut self, facts: &StateFacts, now: I) -> Vec<Scheduled> {
        let on_clock = self.on_clock(now);
        let cooled = self.cooling.due_up_to(on_clock, VERDICT_OBJECTS_MAX);
        let ended = self.bounded.due_up_to(on_clock, VERDICT_OBJECTS_MAX);
        let forgotten = self.idle.due(facts.budget, on_clock);
        let swept = self.sweeps.due(on_clock);
        // Both calls also record the current revision, so they happen every time.
        let remembered = self.remembered.passed(now, facts.revision);
        let history = self.history.passed(now, facts.revision);
        let old =
            |passed: Option<Revision>, oldest: Option<Revision>| passed.filter(|passed| oldest.is_some_and(|it| it <= *passed));
        let scheduled = [
            (!cooled.is_empty()).then_some(Scheduled::EndCooling(cooled)),
            (!ended.is_empty()).then_some(Scheduled::EndHolds(ended)),
            (!forgotten.is_empty()).then_some(Scheduled::ForgetLocks(forgotten)),
            (!swept.is_empty()).then_some(Scheduled::Sweep(swept)),
            old(remembered, facts.oldest_remembered).map(Scheduled::Forget),
            old(history, facts.oldest_history).map(Scheduled::ForgetHistory),
            (!facts.expired_tokens.is_empty()).then(|| Scheduled::ExpireTokens(facts.expired_tokens.clone())),
            facts.is_pending.then_some(Scheduled::Continue),
        ];
        scheduled.into_iter().flatten().filter(|command| self.in_flight.insert(command.kind())).collect()
    }

    /// The command for the next piece of the work that the state has left over, unless one is in flight.
    pub(crate) fn take_continue(&mut self) -> Option<Scheduled> {
        self.in_flight.insert(ScheduledKind::Continue).then_some(Scheduled::Continue)
    }

    /// A scheduled command was answered, or its outcome is unknown (`None`). Returns whether another one of its kind
    /// may follow at once.
    ///
    /// Objects that the command covered are not due again, even if it changed nothing. Those that it had no room for
    /// still are.
    pub(crate) fn answered(&mut self, command: &Scheduled, answer: Option<&Answer>) -> bool {
        self.in_flight.remove(&command.kind());
        let objects = match answer.map(|answer| &answer.result) {
            Some(Ok(Outcome::Judged { objects })) => usize::try_from(*objects).unwrap_or(usize::MAX),
            Some(Ok(Outcome::Done)) => return true,
            Some(_) | None => return false,
        };
        match command {
            Scheduled::EndCooling(grants) => grants.iter().take(objects).for_each(|grant| self.cooling.remove(*grant)),
            Scheduled::EndHolds(holds) => {
                holds.iter().take(objects).for_each(|(grant, token)| self.bounded.answered(*grant, *token));
            }
            Scheduled::ForgetLocks(locks) => {
                for (lock, since) in locks.iter().take(objects) {
                    if self.idle.is_since(lock, *since) {
                        self.idle.remove(lock);
                    }
                }
            }
            Scheduled::Forget(_)
            | Scheduled::Sweep(_)
            | Scheduled::ForgetHistory(_)
            | Scheduled::ExpireTokens(_)
            | Scheduled::Continue => {}
        }
        objects > 0
    }
}

/// What `take_scheduled` needs to know about the state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StateFacts {
    pub(crate) revision: Revision,
    /// The oldest entry that the state remembers without a session.
    pub(crate) oldest_remembered: Option<Revision>,
    /// The oldest entry of the history.
    pub(crate) oldest_history: Option<Revision>,
    /// Tokens that expired at least `EXPIRED_TOKEN_KEPT_FOR` ago, as many as one command may name.
    pub(crate) expired_tokens: Vec<AccessTokenNumber>,
    /// Whether work is left for `Command::ContinuePendingWork`.
    pub(crate) is_pending: bool,
    /// The state's budget in bytes.
    pub(crate) budget: Option<u64>,
}

impl StateFacts {
    pub(crate) fn of(state: &State) -> StateFacts {
        StateFacts {
            revision: state.revision(),
            oldest_remembered: state.remembered_span().map(|(oldest, _)| oldest),
            oldest_history: state.oldest_history(),
            expired_tokens: expired_tokens(state, wall_now()),
            is_pending: state.has_pending(),
            budget: state.bytes_max(),
        }
    }
}

/// Tokens are judged by wall clocks, so that an administrator can say when a token ends. Until they are removed, a refused
/// caller learns that its token has expired.
fn expired_tokens(state: &State, now: WallMillis) -> Vec<AccessTokenNumber> {
    let before = WallMillis(now.0.saturating_sub(duration::millis(limits::EXPIRED_TOKEN_KEPT_FOR)));
    state.access().expired_before(before).take(VERDICT_OBJECTS_MAX).collect()
}

/// The timeout of a session that a new leader finds.
fn timeout_at_load(timeout_ms: u64) -> Duration {
    Duration::from_millis(if planted::has(Bug::NewLeaderIsImpatient) { timeout_ms / 8 } else { timeout_ms })
}

fn lock_delay(delay_ms: u64) -> Duration {
    Duration::from_millis(if planted::has(Bug::DelayEndsAtOnce) { 0 } else { delay_ms })
}

#[cfg(test)]
mod tests;
