//! The leader's clock: who has gone too long without a keepalive, whose lock delay is over, what may be forgotten.
//!
//! Only the leader keeps deadlines, in memory and on the monotonic clock; what travels to the others is its verdict, proposed
//! under the leadership that reached it (a leader that slept and woke must not end anybody's session: etcd#15247). A new
//! leader gives every session and every lock delay its full time again: renewals are not replicated, so it may only err late.

use crate::{bounded::BoundedHolds, chore::Chore, clock::wall_now, deadlines::Deadlines, marks::Marks, sweeps::Sweeps};
use fairhold_raft::{Leadership, Replica, error::NotProposed};
use fairhold_state::{
    State,
    command::{Command, Event},
};
use fairhold_types::{
    GrantNumber, LockName, Revision, SessionNumber, failpoint, limits,
    planted::{self, Bug},
};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use openraft_rt::{AsyncRuntime, Instant};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How often the clock looks.
const TICK: Duration = Duration::from_millis(100);
/// A tick that comes later than this found the process paused or starved, and so deaf to keepalives: all deadlines move by as
/// much.
const TICK_LATE: Duration = Duration::from_millis(200);
/// How often it notes the revision, for what may be forgotten.
const MARK_EVERY: Duration = Duration::from_secs(5);
/// How often it does so for the history.
const HISTORY_MARK_EVERY: Duration = Duration::from_secs(3_600);
/// Expiries on their way at one time: each is an entry of its own.
const EXPIRIES_IN_FLIGHT_MAX: usize = 1_024;
/// Other verdicts on their way at one time.
const CHORES_IN_FLIGHT_MAX: usize = 64;
/// How long the proof of leadership before a verdict may take.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(1);

/// What a leader has to watch, and nothing on a node that does not lead.
pub(crate) struct LeaderClock<RT: AsyncRuntime> {
    watched: Mutex<Option<Watched<RT::Instant>>>,
}

struct Watched<I> {
    leadership: Leadership,
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
    idle: BTreeMap<LockName, (I, Revision)>,
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

impl<RT: AsyncRuntime> LeaderClock<RT> {
    pub(crate) fn new() -> Self {
        LeaderClock { watched: Mutex::new(None) }
    }

    /// Keeps up with what is applied. It is called with the state locked, so no change slips in between loading it and
    /// following it.
    pub(crate) fn observe(&self, state: &State, events: &[Event]) {
        if let Some(watched) = self.watched().as_mut() {
            let now = RT::Instant::now();
            events.iter().for_each(|event| watched.observe(state, event, now));
        }
    }

    /// Moves a session's deadline, if that leadership is the one that this clock serves.
    pub(crate) fn touch(&self, leadership: Leadership, session: SessionNumber) -> Option<Touched> {
        let mut watched = self.watched();
        let watched = watched.as_mut().filter(|watched| watched.leadership == leadership)?;
        if watched.expiring.contains(&session) {
            return Some(Touched::Expiring);
        }
        Some(watched.sessions.touch(session, RT::Instant::now()).map_or(Touched::Unknown, Touched::Moved))
    }

    /// Whether an expiry of the session is on the way, or the clock serves another leadership by now.
    pub(crate) fn is_doubtful(&self, leadership: Leadership, session: SessionNumber) -> bool {
        let watched = self.watched();
        watched.as_ref().is_none_or(|watched| watched.leadership != leadership || watched.expiring.contains(&session))
    }

    fn begin(&self, leadership: Leadership, state: &State) {
        *self.watched() = Some(Watched::load(leadership, state, RT::Instant::now()));
    }

    fn end(&self) {
        *self.watched() = None;
    }

    fn with<T>(&self, work: impl FnOnce(&mut Watched<RT::Instant>) -> T) -> Option<T> {
        self.watched().as_mut().map(work)
    }

    fn watched(&self) -> MutexGuard<'_, Option<Watched<RT::Instant>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I: Instant> Watched<I> {
    fn load(leadership: Leadership, state: &State, now: I) -> Self {
        let mut watched = Watched {
            leadership,
            sessions: Deadlines::new(),
            proving: false,
            condemned: BTreeSet::new(),
            expiring: BTreeSet::new(),
            chores: BTreeSet::new(),
            cooling: Deadlines::new(),
            cooling_locks: BTreeMap::new(),
            bounded: BoundedHolds::load(state, now),
            idle: state.idle_locks().map(|(lock, since)| (lock, (now, since))).collect(),
            sweeps: Sweeps::load(state, now),
            remembered: Marks::new(MARK_EVERY, limits::REMEMBERED_FOR),
            history: Marks::new(HISTORY_MARK_EVERY, limits::HISTORY_KEPT_FOR),
        };
        for session in state.sessions() {
            let timeout_ms = if planted::has(Bug::NewLeaderIsImpatient) { session.timeout_ms / 8 } else { session.timeout_ms };
            watched.sessions.insert(session.number, Duration::from_millis(timeout_ms), now);
        }
        for contender in state.cooling() {
            watched.cool(contender.number, &contender.lock, contender.lock_delay_ms, now);
        }
        watched
    }

    fn observe(&mut self, state: &State, event: &Event, now: I) {
        match event {
            Event::SessionOpened { session, timeout_ms } | Event::SessionRetimed { session, timeout_ms } => {
                self.sessions.insert(*session, Duration::from_millis(*timeout_ms), now);
            }
            Event::SessionClosed { session } | Event::SessionExpired { session } => self.sessions.remove(*session),
            Event::Queued { lock, .. } => {
                self.idle.remove(lock);
            }
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

    fn cool(&mut self, grant: GrantNumber, lock: &LockName, delay_ms: u64, now: I) {
        let delay_ms = if planted::has(Bug::DelayEndsAtOnce) { 0 } else { delay_ms };
        self.cooling.insert(grant, Duration::from_millis(delay_ms), now);
        self.cooling_locks.insert(grant, lock.clone());
    }

    fn note_idle(&mut self, state: &State, lock: &LockName, now: I) {
        if let Some(since) = state.idle_since(lock) {
            self.idle.insert(lock.clone(), (now, since));
        }
    }

    fn shift(&mut self, by: Duration) {
        self.sessions.shift(by);
        self.cooling.shift(by);
        self.bounded.shift(by);
        self.sweeps.shift(by);
    }

    /// Sessions that are due for the first time, to be proved; none while a proof is on its way.
    fn judge(&mut self, now: I) -> Vec<SessionNumber> {
        if self.proving {
            return Vec::new();
        }
        let judged: Vec<_> = self.sessions.due(now).into_iter().filter(|session| !self.expiring.contains(session)).collect();
        self.proving = !judged.is_empty();
        judged
    }

    /// Condemned sessions that are due yet, as many as may be on their way; the others are judged again.
    fn execute(&mut self, now: I) -> Vec<SessionNumber> {
        let room = EXPIRIES_IN_FLIGHT_MAX.saturating_sub(self.expiring.len());
        let condemned = std::mem::take(&mut self.condemned);
        let due: Vec<_> = condemned.into_iter().filter(|session| self.sessions.is_due(*session, now)).take(room).collect();
        self.expiring.extend(due.iter().copied());
        due
    }

    /// What else is due, and not on its way, as much as may be.
    fn chores(&mut self, revision: Revision, oldest_remembered: Option<Revision>, now: I) -> Vec<Chore> {
        let cooled =
            self.cooling.due(now).into_iter().filter_map(|contender| {
                self.cooling_locks.get(&contender).map(|lock| Chore::EndCooling(contender, lock.clone()))
            });
        let idle = self.idle.iter().filter(|(_, (since, _))| now.saturating_duration_since(*since) >= limits::LOCK_IDLE_MAX);
        let forgotten = idle.map(|(lock, (_, since))| Chore::ForgetLock(lock.clone(), *since));
        let ended = self.bounded.due(now).into_iter().map(|(grant, token)| Chore::EndHold(grant, token));
        let room = CHORES_IN_FLIGHT_MAX.saturating_sub(self.chores.len());
        let mut due: Vec<_> =
            cooled.chain(ended).chain(forgotten).filter(|chore| !self.chores.contains(chore)).take(room).collect();
        due.extend(self.forget(revision, oldest_remembered, now));
        due.extend(self.sweep(now));
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
    fn forget_history(&mut self, revision: Revision, oldest: Option<Revision>, now: I) -> Option<Chore> {
        let passed = self.history.passed(now, revision);
        let on_its_way = self.chores.iter().any(|chore| matches!(chore, Chore::ForgetHistory(_)));
        let through = passed.filter(|passed| !on_its_way && oldest.is_some_and(|oldest| oldest <= *passed))?;
        let verdict = Chore::ForgetHistory(through);
        self.chores.insert(verdict.clone());
        Some(verdict)
    }

    /// A chore was answered. What is answered is done, also where the machine found nothing to do.
    fn done(&mut self, chore: &Chore, answered: bool) {
        self.chores.remove(chore);
        if let (true, Chore::ForgetLock(lock, since)) = (answered, chore)
            && self.idle.get(lock).is_some_and(|(_, noted)| noted == since)
        {
            self.idle.remove(lock);
        }
    }
}

/// Runs the clock for as long as the node runs: begins with each leadership of this node, ends with it.
pub(crate) async fn run<RT: AsyncRuntime>(clock: Arc<LeaderClock<RT>>, replica: Replica<RT>) {
    let mut known = None;
    loop {
        if let Some(leadership) = known {
            // What earlier leaders committed must be applied before it is loaded; what comes later is observed.
            let caught_up = replica.read_barrier(RT::Instant::now() + BARRIER_TIMEOUT).await.is_ok();
            if caught_up && failpoint!(NodeClockBegin, RT).is_ok() {
                replica.read(|state| clock.begin(leadership, state));
                lead(&clock, &replica, leadership).await;
                clock.end();
            }
        }
        if known.is_some() && known == replica.leadership() {
            RT::sleep(TICK).await;
            continue;
        }
        known = replica.leadership_change(known).await;
    }
}

/// Ticks until the leadership is over. What a tick decides is carried out beside the next ones, so that no work holds up the
/// clock.
async fn lead<RT: AsyncRuntime>(clock: &LeaderClock<RT>, replica: &Replica<RT>, leadership: Leadership) {
    let mut work: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
    let mut last = RT::Instant::now();
    let mut tick = Box::pin(RT::sleep(TICK));
    while replica.leadership() == Some(leadership) {
        tokio::select! {
            biased;
            () = &mut tick => {}
            Some(()) = work.next(), if !work.is_empty() => continue,
        }
        let now = RT::Instant::now();
        let late = now.saturating_duration_since(last + TICK);
        (last, tick) = (now, Box::pin(RT::sleep(TICK)));
        let (revision, span, oldest) = replica.read(|state| (state.revision(), state.remembered_span(), state.oldest_history()));
        let decided = clock.with(|watched| {
            if late >= TICK_LATE && !planted::has(Bug::PauseIsCounted) {
                tracing::debug!(?late, "the clock was held up, all deadlines move");
                watched.shift(late);
            }
            let mut chores = watched.chores(revision, span.map(|(oldest, _)| oldest), now);
            chores.extend(watched.forget_history(revision, oldest, now));
            (watched.execute(now), watched.judge(now), chores)
        });
        let Some((condemned, judged, chores)) = decided else { return };
        work.extend(condemned.into_iter().map(|session| expire(clock, replica, leadership, session).boxed()));
        work.extend(chores.into_iter().map(|chore| carry_out(clock, replica, leadership, chore).boxed()));
        if !judged.is_empty() {
            work.push(prove(clock, replica, leadership, judged).boxed());
        }
    }
}

/// Proves, after the judgement, that this node still leads. The next tick looks again at who is due: it moves all deadlines
/// first if the process was held up meanwhile, and has every keepalive that came before.
async fn prove<RT: AsyncRuntime>(
    clock: &LeaderClock<RT>,
    replica: &Replica<RT>,
    leadership: Leadership,
    judged: Vec<SessionNumber>,
) {
    let blind = planted::has(Bug::ExpiresByOldLeader);
    let fails = failpoint!(NodeExpiryProve, RT).is_err();
    let proved = blind || (!fails && replica.read_barrier(RT::Instant::now() + BARRIER_TIMEOUT).await.is_ok());
    let leads = replica.leadership() == Some(leadership);
    clock.with(|watched| {
        watched.proving = false;
        if proved && leads {
            watched.condemned.extend(judged);
        }
    });
}

async fn expire<RT: AsyncRuntime>(
    clock: &LeaderClock<RT>,
    replica: &Replica<RT>,
    leadership: Leadership,
    session: SessionNumber,
) {
    let verdict = Command::ExpireSession { session, at: wall_now() };
    let proposed = if failpoint!(NodeExpiryPropose, RT).is_err() {
        Err(NotProposed::NoLeader.into())
    } else if planted::has(Bug::ExpiresByOldLeader) {
        replica.propose(verdict, RT::Instant::now() + BARRIER_TIMEOUT * 5).await
    } else {
        replica.propose_alone(verdict, leadership).await
    };
    match proposed {
        Ok(_) => tracing::info!(session = session.0, "session expired: no keepalive within its timeout"),
        Err(error) => tracing::debug!(%error, session = session.0, "the expiry was not committed"),
    }
    if let Err(error) = failpoint!(NodeExpiryDone, RT) {
        tracing::debug!(%error, "nothing is lost: the expiry was answered");
    }
    clock.with(|watched| watched.expiring.remove(&session));
}

async fn carry_out<RT: AsyncRuntime>(clock: &LeaderClock<RT>, replica: &Replica<RT>, leadership: Leadership, chore: Chore) {
    let answer = match failpoint!(NodeChorePropose, RT) {
        Ok(()) => replica.propose_alone(chore.command(), leadership).await,
        Err(_) => Err(NotProposed::NoLeader.into()),
    };
    if let Err(error) = &answer {
        // Nothing is lost: whoever leads then reaches the same verdict again.
        tracing::debug!(%error, ?chore, "a verdict of the clock was not committed");
    }
    clock.with(|watched| watched.done(&chore, answer.is_ok()));
}
