//! The oracle: it receives every applied change of every node and every answer to a client, and checks all invariants.

use crate::{
    coverage::{Coverage, Probe},
    facts::{Applied, Fact, Physics},
    invariants::{self, Invariant},
    trace,
};
use fairhold_raft::ApplyObserver;
use fairhold_state::{
    State,
    command::{Command, Event, Rejection},
    snapshot::ITEM_WEIGHT,
};
use fairhold_types::{ClusterId, ClusterVersion, EndReason, NodeId, Revision};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A state with fewer items is checked as a whole after every change.
const SMALL_ITEMS: u64 = 200;

struct OracleInner {
    invariants: Vec<Box<dyn Invariant>>,
    violations: Vec<String>,
    highest: Revision,
    acknowledged: Revision,
    version: ClusterVersion,
    /// The keys of requests with a known outcome.
    settled: BTreeSet<String>,
    /// The nodes that have applied the name of the cluster.
    knowing: BTreeMap<NodeId, ClusterId>,
    /// The nodes whose removal or replacement was requested.
    leaving: BTreeSet<NodeId>,
}

impl OracleInner {
    /// Notes what a node knows about the cluster and its members.
    fn note_members(&mut self, node: NodeId, state: &State) {
        self.knowing.extend(state.cluster().map(|cluster| (node, cluster)));
        let membership = state.membership();
        self.leaving.extend(membership.removals().map(|(node, _)| node));
        self.leaving.extend(membership.joins().filter_map(|(_, join)| join.replaces));
    }
}

/// The oracle of one run. Clones are the same oracle.
#[derive(Clone)]
pub(crate) struct Oracle(Arc<Mutex<OracleInner>>, Coverage);

impl Oracle {
    /// An oracle before the run.
    pub(crate) fn new(physics: Physics, coverage: Coverage) -> Oracle {
        let inner = OracleInner {
            invariants: invariants::all(physics),
            violations: Vec::new(),
            highest: Revision(0),
            acknowledged: Revision(0),
            version: ClusterVersion::FIRST,
            settled: BTreeSet::new(),
            knowing: BTreeMap::new(),
            leaving: BTreeSet::new(),
        };
        Oracle(Arc::new(Mutex::new(inner)), coverage)
    }

    /// Records a violation.
    pub(crate) fn violation(&self, what: String) {
        trace::event(&format!("VIOLATION {what}"));
        self.with(|inner| inner.violations.push(what));
    }

    /// All violations so far.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.with(|inner| inner.violations.clone())
    }

    /// The highest revision that any client has received.
    pub(crate) fn acknowledged(&self) -> Revision {
        self.with(|inner| inner.acknowledged)
    }

    /// The highest revision that any node has applied.
    pub(crate) fn newest(&self) -> Revision {
        self.with(|inner| inner.highest)
    }

    /// The highest cluster version that any node has applied.
    pub(crate) fn cluster_version(&self) -> ClusterVersion {
        self.with(|inner| inner.version)
    }

    /// The cluster, if this node has applied its name.
    pub(crate) fn cluster_known_by(&self, node: NodeId) -> Option<ClusterId> {
        self.with(|inner| inner.knowing.get(&node).copied())
    }

    /// Whether the removal or the replacement of this node was requested.
    pub(crate) fn may_leave(&self, node: NodeId) -> bool {
        self.with(|inner| inner.leaving.contains(&node))
    }

    /// Whether the outcome of the request with that key is known.
    pub(crate) fn has_settled(&self, key: &str) -> bool {
        self.with(|inner| inner.settled.contains(key))
    }

    /// Checks a fact.
    pub(crate) fn observe(&self, fact: &Fact) {
        if let Fact::Settled { key } = fact {
            self.with(|inner| inner.settled.insert(key.clone()));
        }
        if let Fact::Answered { revision, .. } = fact {
            self.with(|inner| inner.acknowledged = inner.acknowledged.max(*revision));
        }
        self.check(|invariant| invariant.observe(fact));
    }

    /// Checks the final state.
    pub(crate) fn finished(&self, state: &State) {
        self.check(|invariant| invariant.finished(state));
    }

    /// Wraps a node's apply observer, to check each change first. A node that is not a member must receive no change.
    /// `pace` is the time of each step of its state machine.
    pub(crate) fn observer(
        &self,
        node: NodeId,
        member: bool,
        pace: Duration,
        inner: Arc<dyn ApplyObserver>,
    ) -> Arc<dyn ApplyObserver> {
        Arc::new(WitnessingObserver { oracle: self.clone(), node, member, pace, has_started: AtomicBool::new(false), inner })
    }

    fn check(&self, mut check_one: impl FnMut(&mut dyn Invariant) -> Result<(), String>) {
        let found = self.with(|inner| {
            let asked = inner.invariants.iter_mut().map(|invariant| (invariant.name(), check_one(invariant.as_mut())));
            asked.filter_map(|(name, result)| result.err().map(|error| format!("{name}: {error}"))).collect::<Vec<_>>()
        });
        found.into_iter().for_each(|violation| self.violation(violation));
    }

    fn on_applied(&self, node: NodeId, state: &State, revision: Revision, events: &[Event]) {
        let first = self.with(|inner| {
            let first = revision > inner.highest;
            inner.highest = inner.highest.max(revision);
            inner.version = inner.version.max(state.cluster_version());
            inner.note_members(node, state);
            first
        });
        if first {
            trace::event(&format!("revision {revision}: {events:?}"));
            self.count(events);
        }
        let items = state.snapshot_weight() / ITEM_WEIGHT;
        let whole = revision.0.is_multiple_of(1 + items / SMALL_ITEMS);
        let applied = Applied { node, at: trace::since_start(), first, state, revision, events, whole };
        self.check(|invariant| invariant.applied(&applied));
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

    fn with<T>(&self, action: impl FnOnce(&mut OracleInner) -> T) -> T {
        action(&mut self.0.lock())
    }
}

struct WitnessingObserver {
    oracle: Oracle,
    node: NodeId,
    member: bool,
    pace: Duration,
    /// Whether it has received the node's first state.
    has_started: AtomicBool,
    inner: Arc<dyn ApplyObserver>,
}

impl WitnessingObserver {
    fn check_membership(&self, revision: Revision) {
        if !self.member && revision > Revision(0) {
            self.oracle.violation(format!("node {} takes part with another disk than its own", self.node));
        }
    }
}

impl ApplyObserver for WitnessingObserver {
    fn applied(&self, state: &State, revision: Revision, events: &[Event]) {
        self.check_membership(revision);
        self.oracle.on_applied(self.node, state, revision, events);
        self.inner.applied(state, revision, events);
    }

    fn refused(&self, command: &Command, rejection: &Rejection) {
        self.inner.refused(command, rejection);
    }

    fn replaced(&self, state: &State) {
        self.check_membership(state.revision());
        if self.member {
            self.oracle.with(|inner| inner.note_members(self.node, state));
        }
        let has_started = self.has_started.swap(true, Ordering::Relaxed);
        if has_started && state.revision() > Revision(0) {
            self.oracle.1.probe(Probe::StateReplaced);
        }
        self.inner.replaced(state);
    }

    fn pace(&self, steps: u64) -> Duration {
        self.pace * u32::try_from(steps).unwrap_or(u32::MAX)
    }
}
