//! Records the history while it happens.

use super::{Call, Event, FaultSpan, Found, History, Leadership, Op, Outcome, ResourceWrite, Rest, StreamEvent, pair};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeSet, HashSet},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// The history so far.
#[derive(Debug)]
pub(crate) struct Recorder {
    began: Instant,
    /// The last timestamp issued.
    last: AtomicU64,
    history: Mutex<History>,
}

/// An operation without an answer yet. If it is dropped without an answer, its outcome stays unknown.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// Its index in the history.
    pub(crate) index: usize,
    /// When it was sent, in microseconds since the run began.
    pub(crate) start: u64,
}

impl Recorder {
    /// Starts now, with this number of watches.
    pub(crate) fn new(watches: usize) -> Recorder {
        let history = History { watches: vec![Vec::new(); watches], ..History::default() };
        Recorder { began: Instant::now(), last: AtomicU64::new(0), history: Mutex::new(history) }
    }

    /// Microseconds since the run began.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The same, but later than every earlier timestamp, so that a history has one order.
    fn moment(&self) -> u64 {
        let now = self.now();
        let before = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(now.max(last + 1)));
        before.map_or(now, |last| now.max(last + 1))
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // The guarded data is consistent after every statement that can panic.
        self.history.lock()
    }

    /// Records a call before its first byte is sent.
    pub(crate) fn invoke(&self, process: u64, node: usize, call: Call, key: &str, describe: impl FnOnce(&mut Op)) -> Running {
        let mut history = self.history();
        let (index, start) = (history.ops.len(), self.moment());
        let mut op = Op {
            index,
            process,
            node,
            call,
            key: key.to_owned(),
            start,
            end: u64::MAX,
            outcome: Outcome::Unknown,
            grant: None,
            shared: false,
            permits: None,
            limit: None,
            ttl: None,
            number: None,
            token: None,
            revision: None,
            version: None,
            value: None,
            batch: None,
            session: None,
            fences: Vec::new(),
            succeeded: None,
            rights: None,
            error: None,
        };
        describe(&mut op);
        history.ops.push(op);
        Running { index, start }
    }

    /// Records the answer, or its absence.
    pub(crate) fn complete(&self, running: &Running, outcome: Outcome, describe: impl FnOnce(&mut Op)) {
        let now = self.moment();
        let mut history = self.history();
        let op = &mut history.ops[running.index];
        (op.end, op.outcome) = (now, outcome);
        describe(op);
    }

    /// Records an event of a watch.
    pub(crate) fn record_event(&self, watch: usize, mut event: Event) {
        let mut history = self.history();
        let place = history.watches[watch].len();
        // All watches should show the same events: each is stored once.
        let same = history.watches.iter().filter_map(|events| events.get(place)).find(|other| other.line == event.line);
        if let Some(same) = same {
            event.line = same.line.clone();
        }
        history.watches[watch].push(event);
    }

    /// Records an event of a user's watch.
    pub(crate) fn stream_event(&self, event: StreamEvent) {
        self.history().streams.push(event);
    }

    /// The last revision of a watch, and how many events it has shown at that revision.
    pub(crate) fn last_revision(&self, watch: usize) -> (u64, usize) {
        let history = self.history();
        let last = history.watches[watch].last().map_or(0, |event| event.revision);
        let same_revision = history.watches[watch].iter().rev().take_while(|event| event.revision == last).count();
        (last, same_revision)
    }

    /// Records a write at the external resource, accepted or refused.
    pub(crate) fn resource(&self, write: ResourceWrite) {
        self.history().resource.push(write);
    }

    /// The keys of all acknowledged writes, except ephemeral nodes.
    pub(crate) fn written(&self) -> Vec<String> {
        let history = self.history();
        let done = || history.ops.iter().filter(|op| op.is_ok());
        let written = done().filter(|op| op.call.writes_for_good()).map(|op| op.key.clone());
        let pairs = done().filter(|op| op.succeeded == Some(true)).flat_map(|op| pair(&op.key));
        written.chain(pairs).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Records a node of the tree at the end.
    pub(crate) fn found(&self, found: Found) {
        self.history().found.push(found);
    }

    /// Records a fault that has ended.
    pub(crate) fn fault(&self, span: FaultSpan) {
        self.history().faults.push(span);
    }

    /// Records that a node reports itself as the leader.
    pub(crate) fn leads(&self, node: usize, term: u64) {
        let at = self.now();
        let mut history = self.history();
        if history.leaders.last().is_none_or(|last| (last.node, last.term) != (node, term)) {
            history.leaders.push(Leadership { at, node, term });
        }
    }

    /// Whether one of the nodes was observed as the leader then, or at any time since.
    pub(crate) fn led_since(&self, nodes: &[usize], time: u64) -> bool {
        let history = self.history();
        let since = history.leaders.partition_point(|leader| leader.at <= time).saturating_sub(1);
        history.leaders[since..].iter().any(|leader| nodes.contains(&leader.node))
    }

    /// How many sessions and grants have not ended, by the watch that got furthest.
    pub(crate) fn living(&self) -> usize {
        let history = self.history();
        let mut living: HashSet<(bool, u64)> = HashSet::new();
        for event in history.longest_watch() {
            let (lock, number, session) = (event.text("lock"), event.number("number"), event.number("session"));
            let Some(id) = number.filter(|_| lock.is_some()).or(session) else { continue };
            match event.kind() {
                "opened" | "queued" => drop(living.insert((lock.is_some(), id))),
                "ended" => drop(living.remove(&(lock.is_some(), id))),
                _other => {}
            }
        }
        living.len()
    }

    /// Records that the nodes have converged.
    pub(crate) fn rests(&self, rest: Rest) {
        self.history().rest = Some(rest);
    }

    /// How many operations have succeeded since that time.
    pub(crate) fn successes_since(&self, time: u64) -> usize {
        self.history().ops.iter().rev().take_while(|op| op.start >= time).filter(|op| op.is_ok()).count()
    }

    /// Returns the history.
    pub(crate) fn finish(&self, lost_without_fence: u64) -> History {
        let length = self.moment();
        let mut history = std::mem::take(&mut *self.history());
        history.lost_without_fence = lost_without_fence;
        history.length = length;
        history
    }
}
