//! What a leader's clock watches, as a pure structure: deadlines, what was judged, and which verdicts are on their way.

use crate::{bounded::BoundedHolds, chore::Chore, deadlines::Deadlines, marks::Marks, sweeps::Sweeps};
use fairhold_raft::Leadership;
use fairhold_state::{State, command::Event};
use fairhold_types::{
    GrantNumber, LockName, Revision, SessionNumber, limits,
    planted::{self, Bug},
};
use openraft_rt::Instant;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How often it notes the revision, for what may be forgotten.
const MARK_EVERY: Duration = Duration::from_secs(5);
/// How often it does so for the history.
const HISTORY_MARK_EVERY: Duration = Duration::from_secs(3_600);
/// Expiries on their way at one time: each is an entry of its own.
const EXPIRIES_IN_FLIGHT_MAX: usize = 1_024;
/// Other verdicts on their way at one time.
const CHORES_IN_FLIGHT_MAX: usize = 64;

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
    chores: BTreeSet<Chore>,
    cooling: Deadlines<GrantNumber, I>,
    cooling_locks: BTreeMap<GrantNumber, LockName>,
    bounded: BoundedHolds<I>,
    idle: Deadlines<LockName, I>,
    idle_since: BTreeMap<LockName, Revision>,
    sweeps: Sweeps<I>,
    /// Which revision was current when, oldest first.
    remembered: Marks<I>,
    /// The same over the time that the history is kept.
    history: Marks<I>,
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
            cooling_locks: BTreeMap::new(),
            bounded: BoundedHolds::load(state, now),
            idle: Deadlines::new(),
            idle_since: BTreeMap::new(),
            sweeps: Sweeps::load(state, now),
            remembered: Marks::new(MARK_EVERY, limits::REMEMBERED_FOR),
            history: Marks::new(HISTORY_MARK_EVERY, limits::HISTORY_KEPT_FOR),
        };
        for session in state.sessions() {
            let timeout_ms = if planted::has(Bug::NewLeaderIsImpatient) { session.timeout_ms / 8 } else { session.timeout_ms };
            verdicts.sessions.insert(session.number, Duration::from_millis(timeout_ms), now);
        }
        for contender in state.cooling() {
            verdicts.cool(contender.number, &contender.lock, contender.lock_delay_ms, now);
        }
        for (lock, since) in state.idle_locks() {
            verdicts.mark_idle(lock, since, now);
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
            Event::Queued { lock, .. } => self.mark_used(lock),
            Event::Cooling { lock, grant, delay_ms } => self.cool(*grant, lock, *delay_ms, now),
            Event::Cooled { lock, grant } => {
                self.cooling.remove(*grant);
                self.cooling_locks.remove(grant);
                self.note_idle(state, lock, now);
            }
            Event::Ended { lock, grant, .. } => {
                self.bounded.remove(*grant);
                self.note_idle(state, lock, now);
            }
            Event::LockSet { lock, .. } => {
                self.mark_used(lock);
                self.note_idle(state, lock, now);
            }
            Event::Granted { grant, .. } => self.bounded.note(state, *grant, now),
            Event::Holds { .. } | Event::Revoked { .. } => {}
            Event::LockForgotten { lock } => {
                self.mark_used(lock);
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

    fn cool(&mut self, grant: GrantNumber, lock: &LockName, delay_ms: u64, now: I) {
        let delay_ms = if planted::has(Bug::DelayEndsAtOnce) { 0 } else { delay_ms };
        self.cooling.insert(grant, Duration::from_millis(delay_ms), now);
        self.cooling_locks.insert(grant, lock.clone());
    }

    fn note_idle(&mut self, state: &State, lock: &LockName, now: I) {
        if let Some(since) = state.idle_since(lock) {
            self.mark_idle(lock.clone(), since, now);
        }
    }

    fn mark_idle(&mut self, lock: LockName, since: Revision, now: I) {
        self.idle.insert(lock.clone(), limits::LOCK_IDLE_MAX, now);
        self.idle_since.insert(lock, since);
    }

    fn mark_used(&mut self, lock: &LockName) {
        if self.idle_since.remove(lock).is_some() {
            self.idle.remove(lock.clone());
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

    /// What else is due, and not on its way, as much as may be.
    pub(crate) fn chores(&mut self, revision: Revision, oldest_remembered: Option<Revision>, now: I) -> Vec<Chore> {
        let heard = self.heard(now);
        let cooled =
            self.cooling.due(heard).into_iter().filter_map(|contender| {
                self.cooling_locks.get(&contender).map(|lock| Chore::EndCooling(contender, lock.clone()))
            });
        let forgotten = self.idle.due_at_most(heard, CHORES_IN_FLIGHT_MAX).into_iter().filter_map(|lock| {
            let since = *self.idle_since.get(&lock)?;
            Some(Chore::ForgetLock(lock, since))
        });
        let ended = self.bounded.due(heard).into_iter().map(|(grant, token)| Chore::EndHold(grant, token));
        let room = CHORES_IN_FLIGHT_MAX.saturating_sub(self.chores.len());
        let mut due: Vec<_> =
            cooled.chain(ended).chain(forgotten).filter(|chore| !self.chores.contains(chore)).take(room).collect();
        due.extend(self.forget(revision, oldest_remembered, now));
        due.extend(self.sweep(heard));
        self.chores.extend(due.iter().cloned());
        due
    }

    /// The nodes whose time is over, while no others are on their way.
    fn sweep(&self, now: I) -> Option<Chore> {
        if self.chores.iter().any(|chore| matches!(chore, Chore::Sweep(_))) {
            return None;
        }
        Some(self.sweeps.due(now)).filter(|nodes| !nodes.is_empty()).map(Chore::Sweep)
    }

    /// What is old enough to be forgotten, while that verdict is not on its way.
    fn forget(&mut self, revision: Revision, oldest_remembered: Option<Revision>, now: I) -> Option<Chore> {
        let passed = self.remembered.passed(now, revision)?;
        let verdict = oldest_remembered.filter(|oldest| *oldest <= passed).map(|_| Chore::Forget(passed));
        verdict.filter(|verdict| !self.chores.contains(verdict))
    }

    /// What is old enough to leave the history, while no such verdict is on its way.
    pub(crate) fn forget_history(&mut self, revision: Revision, oldest: Option<Revision>, now: I) -> Option<Chore> {
        let passed = self.history.passed(now, revision);
        let on_its_way = self.chores.iter().any(|chore| matches!(chore, Chore::ForgetHistory(_)));
        let through = passed.filter(|passed| !on_its_way && oldest.is_some_and(|oldest| oldest <= *passed))?;
        let verdict = Chore::ForgetHistory(through);
        self.chores.insert(verdict.clone());
        Some(verdict)
    }

    /// A chore was answered. What is answered is done, also where the machine found nothing to do.
    pub(crate) fn done(&mut self, chore: &Chore, answered: bool) {
        self.chores.remove(chore);
        if let (true, Chore::ForgetLock(lock, since)) = (answered, chore)
            && self.idle_since.get(lock) == Some(since)
        {
            self.mark_used(lock);
        }
    }
}
