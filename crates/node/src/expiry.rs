//! The leader's clock: who has gone too long without a keepalive, whose lock delay is over, what may be forgotten.
//!
//! Only the leader keeps deadlines, in memory and on the monotonic clock; what travels to the others is its verdict, proposed under
//! the leadership that reached it (a leader that slept and woke must not end anybody's session: etcd#15247). A new leader gives
//! every session and every lock delay its full time again: renewals are not replicated, so it may only err late.

use crate::{clock::wall_now, deadlines::Deadlines};
use fairhold_raft::{Leadership, Replica};
use fairhold_state::{
    State,
    command::{Command, Event},
};
use fairhold_types::{GrantNumber, LockName, Revision, SessionNumber, limits};
use futures_util::{StreamExt, stream};
use openraft_rt::{AsyncRuntime, Instant};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How often the clock looks.
const TICK: Duration = Duration::from_millis(100);
/// A tick that comes later than this found the process paused or starved, and so deaf to keepalives: all deadlines move by as much.
const TICK_LATE: Duration = Duration::from_millis(200);
/// How often it notes the revision, for what may be forgotten.
const MARK_EVERY: Duration = Duration::from_secs(5);
/// Verdicts on their way at one time.
const VERDICTS_IN_FLIGHT_MAX: usize = 64;
/// How long the proof of leadership before a verdict may take.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(1);

/// What a leader has to watch, and nothing on a node that does not lead.
pub(crate) struct LeaderClock<RT: AsyncRuntime> {
    watched: Mutex<Option<Watched<RT::Instant>>>,
}

struct Watched<I> {
    leadership: Leadership,
    sessions: Deadlines<SessionNumber, I>,
    /// Sessions whose expiry is proposed and not answered yet: they get no acknowledgement.
    expiring: BTreeSet<SessionNumber>,
    cooling: Deadlines<GrantNumber, I>,
    cooling_locks: BTreeMap<GrantNumber, LockName>,
    idle: BTreeMap<LockName, (I, Revision)>,
    /// Which revision was current when, oldest first.
    marks: VecDeque<(I, Revision)>,
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

    /// Keeps up with what is applied. It is called with the state locked, so no change slips in between loading it and following it.
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
            expiring: BTreeSet::new(),
            cooling: Deadlines::new(),
            cooling_locks: BTreeMap::new(),
            idle: state.idle_locks().map(|(lock, since)| (lock, (now, since))).collect(),
            marks: VecDeque::from([(now, state.revision())]),
        };
        for session in state.sessions() {
            watched.sessions.insert(session.number, Duration::from_millis(session.timeout_ms), now);
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
            Event::Ended { lock, .. } => self.note_idle(state, lock, now),
            Event::LockForgotten { lock } => {
                self.idle.remove(lock);
                // The level above may have been kept by this one alone.
                if let Some(above) = lock.path().parent().and_then(|path| path.lock_name()) {
                    self.note_idle(state, &above, now);
                }
            }
            Event::Attached { .. } | Event::Granted { .. } | Event::NodeCreated { .. } | Event::NodeChanged { .. } => {}
        }
    }

    fn cool(&mut self, grant: GrantNumber, lock: &LockName, delay_ms: u64, now: I) {
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
    }

    /// Verdicts that need no proof of who is alive: their objects cannot come back.
    fn ripe(&mut self, revision: Revision, oldest_remembered: Option<Revision>, now: I) -> Vec<Command> {
        let at = wall_now();
        let mut verdicts: Vec<Command> = Vec::new();
        for contender in self.cooling.due(now) {
            if let Some(lock) = self.cooling_locks.get(&contender).cloned() {
                verdicts.push(Command::EndCooling { lock, contender, at });
            }
        }
        let idle = self.idle.iter().filter(|(_, (since, _))| now.saturating_duration_since(*since) >= limits::LOCK_IDLE_MAX);
        verdicts.extend(idle.map(|(lock, (_, since))| Command::ForgetLock { lock: lock.clone(), since: *since }));
        if self.marks.back().is_none_or(|(noted, _)| now.saturating_duration_since(*noted) >= MARK_EVERY) {
            self.marks.push_back((now, revision));
        }
        let mut through = None;
        while let Some((noted, revision)) = self.marks.front().copied()
            && now.saturating_duration_since(noted) >= limits::REMEMBERED_FOR
        {
            through = Some(revision);
            self.marks.pop_front();
        }
        if let (Some(through), Some(oldest)) = (through, oldest_remembered)
            && oldest <= through
        {
            verdicts.push(Command::Forget { through });
        }
        verdicts
    }
}

/// Runs the clock for as long as the node runs: begins with each leadership of this node, ends with it.
pub(crate) async fn run<RT: AsyncRuntime>(clock: Arc<LeaderClock<RT>>, replica: Replica<RT>) {
    let mut known = None;
    loop {
        if let Some(leadership) = known {
            // What earlier leaders committed must be applied before it is loaded; what comes later is observed.
            if replica.read_barrier(RT::Instant::now() + BARRIER_TIMEOUT).await.is_ok() {
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

/// Ticks until the leadership is over.
async fn lead<RT: AsyncRuntime>(clock: &LeaderClock<RT>, replica: &Replica<RT>, leadership: Leadership) {
    let mut last = RT::Instant::now();
    while replica.leadership() == Some(leadership) {
        RT::sleep(TICK).await;
        let now = RT::Instant::now();
        let late = now.saturating_duration_since(last + TICK);
        last = now;
        if late >= TICK_LATE {
            tracing::debug!(?late, "the clock was held up, all deadlines move");
            clock.with(|watched| watched.shift(late));
        }
        expire(clock, replica, leadership).await;
        let (revision, span) = replica.read(|state| (state.revision(), state.remembered_span()));
        let oldest = span.map(|(oldest, _)| oldest);
        let verdicts = clock.with(|watched| watched.ripe(revision, oldest, RT::Instant::now())).unwrap_or_default();
        for verdict in verdicts {
            if let Err(error) = replica.propose_alone(verdict, leadership).await {
                // Nothing is lost: whoever leads then reaches the same verdict again.
                tracing::debug!(%error, "a verdict of the clock was not committed");
                break;
            }
        }
    }
}

/// Ends the sessions whose deadline is past, once it is proved that this node still leads and that no keepalive came meanwhile.
async fn expire<RT: AsyncRuntime>(clock: &LeaderClock<RT>, replica: &Replica<RT>, leadership: Leadership) {
    let judged = clock.with(|watched| watched.sessions.due(RT::Instant::now())).unwrap_or_default();
    if judged.is_empty() {
        return;
    }
    if replica.read_barrier(RT::Instant::now() + BARRIER_TIMEOUT).await.is_err() || replica.leadership() != Some(leadership) {
        return;
    }
    let now = RT::Instant::now();
    let still_due = clock.with(|watched| {
        let due: Vec<_> = judged.into_iter().filter(|session| watched.sessions.is_due(*session, now)).collect();
        watched.expiring.extend(due.iter().copied());
        due
    });
    stream::iter(still_due.unwrap_or_default())
        .for_each_concurrent(VERDICTS_IN_FLIGHT_MAX, async |session| {
            let verdict = Command::ExpireSession { session, at: wall_now() };
            match replica.propose_alone(verdict, leadership).await {
                Ok(_) => tracing::info!(session = session.0, "session expired: no keepalive within its timeout"),
                Err(error) => tracing::debug!(%error, session = session.0, "the expiry was not committed"),
            }
            clock.with(|watched| watched.expiring.remove(&session));
        })
        .await;
}
