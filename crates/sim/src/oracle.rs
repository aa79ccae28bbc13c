//! Hears of every applied change on every node and of every answer that a client got, and asks every invariant about it.

use crate::{
    invariants::{self, Invariant},
    tally::{Probe, Tally},
    tidings::Watched,
    trace,
};
use fairhold_raft::Audience;
use fairhold_state::{State, command::Event, snapshot::ITEM_WEIGHT};
use fairhold_types::{EndReason, FencingToken, LockName, Mode, NodeId, Revision, SessionNumber};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A state of fewer items is looked at as a whole after every change.
const SMALL_ITEMS: u64 = 200;

/// A change, as one node applied it.
pub(crate) struct Applied<'a> {
    /// The node.
    pub(crate) node: NodeId,
    /// When, in true time.
    pub(crate) at: Duration,
    /// Whether no other node applied it before.
    pub(crate) first: bool,
    /// The state after it.
    pub(crate) state: &'a State,
    /// Its revision.
    pub(crate) revision: Revision,
    /// What it told.
    pub(crate) events: &'a [Event],
    /// Whether to look at the whole state: after every change while it is small, and after some while it is large.
    pub(crate) whole: bool,
}

/// What a client was told, or may believe from what it was told.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    /// A linearizable answer. `floor` is the highest revision in any answer that had arrived before this was asked.
    Answered { what: String, floor: Revision, revision: Revision },
    /// A write of a value to a node was acknowledged.
    Wrote { path: String, version: i64, value: String, revision: Revision },
    /// A node with this value is asked for, once.
    Sowing { value: String },
    /// A value was read in the state of a revision.
    Read { path: String, version: i64, value: String, revision: Revision },
    /// A grant was acknowledged as held.
    Held { lock: LockName, number: u64, token: FencingToken },
    /// A write that names a token as its fence was acknowledged; `alone`: its holder excluded all others.
    Fenced { lock: LockName, token: FencingToken, alone: bool, revision: Revision },
    /// A renewal that was sent then was acknowledged.
    Renewed { session: SessionNumber, sent: Duration, ttl: Duration },
    /// A client is about to give back all that a session owns, or an administrator is about to end it.
    LettingGo { session: SessionNumber },
    /// A client is about to give a session another timeout: the earlier ones count no more from then on.
    Retiming { session: SessionNumber, sent: Duration, ttl: Duration },
    /// A client is about to ask for a change of something, by a key.
    Changing { whose: String, key: String, change: Change },
    /// The request with this key is known to be done.
    Settled { key: String },
    /// A grant was released by its id, or the id was released before any acquire used it.
    GaveBack { id: String },
    /// The leader with a token had proclaimed this, as its version of that number.
    Led { election: LockName, token: FencingToken, version: u64, value: String },
    /// A call without faults around it, with its answer or without.
    Called { what: String, sent: Duration, came: Option<Duration>, within: Duration },
    /// An acquire without faults around it, answered with a grant.
    Handed { lock: LockName, token: FencingToken, sent: Duration, came: Duration, within: Duration },
    /// A leader was seen in a term, at that time. `calm`: there has been no fault for a while.
    Term { term: u64, calm: bool, at: Duration },
    /// The time during which a client could believe, by its own clock, that it held a grant.
    Believed { lock: LockName, mode: Mode, token: FencingToken, from: Duration, until: Duration },
    /// The same of permits of a semaphore that has so many.
    Permits { lock: LockName, token: FencingToken, permits: u32, limit: u32, from: Duration, until: Duration },
    /// A machine was paused for `slept`, until `until`. Its node was the leader before the pause, and after it until `led_until`.
    Slept { until: Duration, slept: Duration, led_until: Duration },
    /// A watch began with this, as what is there at a revision.
    WatchBegan { watched: Watched, revision: Revision, there: Vec<String> },
    /// A watch that began after a revision was told this, and that all up to another revision was told.
    WatchTold { watched: Watched, after: Revision, told: Vec<(Revision, String)>, through: Revision },
}

/// A change of something that exists. Of a lock's settings, only those that are given change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A grant shared from then on.
    Downgraded,
    /// A grant alone from then on, or waiting for it.
    Upgraded,
    /// Another time to live.
    Retimed(Duration),
    /// How many permits a lock has, how many may wait for it, and for how many milliseconds it may be held.
    Limited(Option<u32>, Option<u64>, Option<u64>),
}

/// Facts about a run that invariants need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Physics {
    /// How fast the fastest clock runs, in thousandths of the true rate.
    pub(crate) rate_max: u64,
}

struct Inner {
    invariants: Vec<Box<dyn Invariant>>,
    violations: Vec<String>,
    highest: Revision,
    acknowledged: Revision,
    /// Keys of requests that are known to be done.
    settled: BTreeSet<String>,
}

/// The judge of one run. Clones are the same judge.
#[derive(Clone)]
pub(crate) struct Oracle(Arc<Mutex<Inner>>, Tally);

impl Oracle {
    /// A judge who knows nothing yet.
    pub(crate) fn new(physics: Physics, tally: Tally) -> Oracle {
        let (invariants, violations) = (invariants::all(physics), Vec::new());
        let (highest, acknowledged, settled) = (Revision(0), Revision(0), BTreeSet::new());
        Oracle(Arc::new(Mutex::new(Inner { invariants, violations, highest, acknowledged, settled })), tally)
    }

    /// Something that must never be was seen.
    pub(crate) fn violation(&self, what: String) {
        trace::event(&format!("VIOLATION {what}"));
        self.with(|inner| inner.violations.push(what));
    }

    /// All that must never be and was.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.with(|inner| inner.violations.clone())
    }

    /// The highest revision that any client has been told.
    pub(crate) fn acknowledged(&self) -> Revision {
        self.with(|inner| inner.acknowledged)
    }

    /// Whether what was asked for by that key is known to be done.
    pub(crate) fn has_settled(&self, key: &str) -> bool {
        self.with(|inner| inner.settled.contains(key))
    }

    /// A client was told something.
    pub(crate) fn told(&self, fact: &Fact) {
        if let Fact::Settled { key } = fact {
            self.with(|inner| inner.settled.insert(key.clone()));
        }
        if let Fact::Answered { revision, .. } = fact {
            self.with(|inner| inner.acknowledged = inner.acknowledged.max(*revision));
        }
        self.ask(|invariant| invariant.told(fact));
    }

    /// Everything has ended: this is the state that is left.
    pub(crate) fn finished(&self, state: &State) {
        self.ask(|invariant| invariant.finished(state));
    }

    /// Listens to a node, before the node itself does. A node that is not a member must not learn anything.
    /// Each step of the machine takes so long there.
    pub(crate) fn witness(&self, node: NodeId, member: bool, pace: Duration, audience: Arc<dyn Audience>) -> Arc<dyn Audience> {
        Arc::new(Witness { oracle: self.clone(), node, member, pace, begun: AtomicBool::new(false), audience })
    }

    fn ask(&self, mut question: impl FnMut(&mut dyn Invariant) -> Result<(), String>) {
        let found = self.with(|inner| {
            let asked = inner.invariants.iter_mut().map(|invariant| (invariant.name(), question(invariant.as_mut())));
            asked.filter_map(|(name, result)| result.err().map(|error| format!("{name}: {error}"))).collect::<Vec<_>>()
        });
        found.into_iter().for_each(|violation| self.violation(violation));
    }

    fn heard(&self, node: NodeId, state: &State, revision: Revision, events: &[Event]) {
        let first = self.with(|inner| {
            let first = revision > inner.highest;
            inner.highest = inner.highest.max(revision);
            first
        });
        if first {
            trace::event(&format!("revision {revision}: {events:?}"));
            self.count(events);
        }
        let items = state.snapshot_weight() / ITEM_WEIGHT;
        let whole = revision.0.is_multiple_of(1 + items / SMALL_ITEMS);
        let applied = Applied { node, at: trace::since_start(), first, state, revision, events, whole };
        self.ask(|invariant| invariant.applied(&applied));
    }

    fn count(&self, events: &[Event]) {
        for event in events {
            self.1.event(&format!("{event:?}"));
            if let Event::SessionExpired { .. } = event {
                self.1.probe(Probe::SessionExpired);
            }
            if let Event::Cooling { .. } = event {
                self.1.probe(Probe::Cooling);
            }
            if let Event::Ended { reason: EndReason::Broken, .. } = event {
                self.1.probe(Probe::GrantBroken);
            }
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Witness {
    oracle: Oracle,
    node: NodeId,
    member: bool,
    pace: Duration,
    /// Whether it has been told with which state the node begins.
    begun: AtomicBool,
    audience: Arc<dyn Audience>,
}

impl Witness {
    fn is_let_in(&self, revision: Revision) {
        if !self.member && revision > Revision(0) {
            self.oracle.violation(format!("node {} takes part with a disk that is not its own", self.node));
        }
    }
}

impl Audience for Witness {
    fn applied(&self, state: &State, revision: Revision, events: &[Event]) {
        self.is_let_in(revision);
        self.oracle.heard(self.node, state, revision, events);
        self.audience.applied(state, revision, events);
    }

    fn replaced(&self, state: &State) {
        self.is_let_in(state.revision());
        let begun = self.begun.swap(true, Ordering::Relaxed);
        if begun && state.revision() > Revision(0) {
            self.oracle.1.probe(Probe::StateReplaced);
        }
        self.audience.replaced(state);
    }

    fn pace(&self, steps: u64) -> Duration {
        self.pace * u32::try_from(steps).unwrap_or(u32::MAX)
    }
}
