//! The oracle: it receives every applied change of every node and every answer to a client, and checks all invariants.

use crate::{
    facts::{Applied, Fact, Physics},
    invariants::{self, Invariant},
    tally::{Probe, Tally},
    trace,
};
use fairhold_raft::ApplyObserver;
use fairhold_state::{State, command::Event, snapshot::ITEM_WEIGHT};
use fairhold_types::{EndReason, NodeId, Revision};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A state of fewer items is looked at as a whole after every change.
const SMALL_ITEMS: u64 = 200;

struct OracleInner {
    invariants: Vec<Box<dyn Invariant>>,
    violations: Vec<String>,
    highest: Revision,
    acknowledged: Revision,
    /// Keys of requests that are known to be done.
    settled: BTreeSet<String>,
}

/// The judge of one run. Clones are the same judge.
#[derive(Clone)]
pub(crate) struct Oracle(Arc<Mutex<OracleInner>>, Tally);

impl Oracle {
    /// A judge who knows nothing yet.
    pub(crate) fn new(physics: Physics, tally: Tally) -> Oracle {
        let (invariants, violations) = (invariants::all(physics), Vec::new());
        let (highest, acknowledged, settled) = (Revision(0), Revision(0), BTreeSet::new());
        Oracle(Arc::new(Mutex::new(OracleInner { invariants, violations, highest, acknowledged, settled })), tally)
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
    pub(crate) fn witness(
        &self,
        node: NodeId,
        member: bool,
        pace: Duration,
        audience: Arc<dyn ApplyObserver>,
    ) -> Arc<dyn ApplyObserver> {
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

    fn with<T>(&self, act: impl FnOnce(&mut OracleInner) -> T) -> T {
        act(&mut self.0.lock())
    }
}

struct Witness {
    oracle: Oracle,
    node: NodeId,
    member: bool,
    pace: Duration,
    /// Whether it has been told with which state the node begins.
    begun: AtomicBool,
    audience: Arc<dyn ApplyObserver>,
}

impl Witness {
    fn is_let_in(&self, revision: Revision) {
        if !self.member && revision > Revision(0) {
            self.oracle.violation(format!("node {} takes part with a disk that is not its own", self.node));
        }
    }
}

impl ApplyObserver for Witness {
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
