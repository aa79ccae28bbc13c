//! Which leaders a cluster had, and which of them the test itself took away. A cluster that elects a new leader for no reason
//! would pass most tests: clients retry. So each change of the leader needs a cause.
//!
//! The leaders stand in the logs of the nodes, so they are also known of nodes that no longer run. The causes stand in what
//! the harness did: it notes each signal, each start, and each request for another leader.

use fairhold_types::time::WallMillis;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, OnceLock},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How often the harness looks whether it runs at all.
const TICK: Duration = Duration::from_millis(20);
/// A tick that is late by less is the scheduler's everyday work.
const LATE: Duration = Duration::from_millis(50);
/// A follower stands when it has heard nothing for the lease of 300 ms and at least 150 ms more, and a leader is heard of each
/// 50 ms. A machine that stood still for less than the lease is no reason for an election.
const LEASE: Duration = Duration::from_millis(300);
/// A stall that was longer ago is no reason.
const STALL_COUNTS_FOR: Duration = Duration::from_secs(2);
/// An election follows within this time after a node is back: it has to start, on a slow disk, and some elections are in vain.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(10);
/// Where two nodes stand for election at once, the one with the higher term deposes the winner, and another election settles it.
/// That is the lease and the longest wait before a vote after it.
const RIVALS_WITHIN: Duration = Duration::from_secs(1);

/// Milliseconds of the clock of this machine, which is that of the logs.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(since.as_millis()).expect("it is before the year 500,000,000")
}

/// A time in which something was not as it should be. Without an end it still lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) until: Option<u64>,
}

impl Span {
    pub(crate) fn from_now() -> Span {
        Span { from: now(), until: None }
    }

    fn meets(&self, from: u64, until: u64) -> bool {
        self.from <= until && self.until.is_none_or(|end| end >= from)
    }
}

/// One term's leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leadership {
    pub(crate) term: u64,
    pub(crate) node: usize,
    /// When the first node logged it.
    pub(crate) since: u64,
}

/// What the test did to the leaders of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// Until then the cluster was being formed; nothing where the test never waited for all of its nodes.
    pub(crate) ready: Option<u64>,
    /// When each node did not run, or was paused, because of the test.
    pub(crate) absences: BTreeMap<usize, Vec<Span>>,
    /// From each request for another leader to its answer.
    pub(crate) requests: Vec<Span>,
    /// Elections that the test said to expect.
    pub(crate) expected: usize,
    /// When the machine stood still, and for how long.
    pub(crate) stalls: Vec<(u64, Duration)>,
}

/// The leaders that the logs of a cluster's nodes name, by term.
pub(crate) fn leaderships(logs: &[(usize, String)]) -> Vec<Leadership> {
    let mut leaders: BTreeMap<u64, Leadership> = BTreeMap::new();
    for (id, text) in logs {
        for found in text.lines().filter_map(|line| leadership(*id, line)) {
            let known = leaders.entry(found.term).or_insert(found);
            known.since = known.since.min(found.since);
        }
    }
    leaders.into_values().collect()
}

/// The leadership that one line of a node's log tells of.
fn leadership(id: usize, line: &str) -> Option<Leadership> {
    let (before, fields) = line.split_once(" leads ")?;
    let since = WallMillis::from_rfc3339(line.split_whitespace().next()?)?.0;
    let field = |name: &str| fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let node = if before.ends_with(" this node") { id } else { field("leader")?.parse().ok()? };
    Some(Leadership { term: field("term")?.parse().ok()?, node, since })
}

impl Deeds {
    /// Whether the test kept the leader or a majority from their work between two times.
    fn was_away(&self, led: usize, since: u64, until: u64, nodes: usize) -> bool {
        let from = since.max(until.saturating_sub(millis(FOLLOWS_WITHIN)));
        let absent = |id: usize| self.absences.get(&id).into_iter().flatten().filter(|span| span.meets(from, until));
        let leader_was_away = absent(led).next().is_some();
        // Where a majority is away, a leader steps down. It is away from the moment at which the last of them went.
        let mut instants = self.absences.values().flatten().map(|span| span.from.max(from)).filter(|instant| *instant <= until);
        let majority_was_away = instants.any(|instant| {
            let away = self.absences.values().filter(|spans| spans.iter().any(|span| span.meets(instant, instant)));
            away.count() > nodes / 2
        });
        leader_was_away || majority_was_away
    }

    /// For how long the machine stood still shortly before that time.
    fn stood_still(&self, until: u64) -> Duration {
        let from = until.saturating_sub(millis(STALL_COUNTS_FOR));
        self.stalls.iter().filter(|(at, late)| *at <= until && at + millis(*late) >= from).map(|(_, late)| *late).sum()
    }

    /// The elections for which the test gave no reason, each in words; with what else was seen of it.
    pub(crate) fn unexplained(&self, leaders: &[Leadership], nodes: usize) -> Vec<String> {
        let (mut expected, mut requests, mut complaints) = (self.expected, self.requests.clone(), Vec::new());
        // Whether the last election had a cause, and nodes may still stand because of it.
        let mut rivals = false;
        for pair in leaders.windows(2) {
            let (last, next) = (pair[0], pair[1]);
            if next.since <= self.ready.unwrap_or(0) || self.was_away(last.node, last.since, next.since, nodes) {
                rivals = true;
                continue;
            }
            if std::mem::take(&mut rivals) && next.since.saturating_sub(last.since) < millis(RIVALS_WITHIN) {
                crate::harness::report(&format!("two nodes stood at once: node {} leads in term {}", next.node, next.term));
                continue;
            }
            // A request brings one other leader.
            if let Some(request) = requests.iter().position(|request| request.meets(last.since, next.since)) {
                requests.remove(request);
                continue;
            }
            let still = self.stood_still(next.since);
            if still >= LEASE {
                crate::harness::report(&format!(
                    "node {} leads in term {}, since the machine stood still for {still:.0?} before that",
                    next.node, next.term
                ));
                continue;
            }
            if expected > 0 {
                expected -= 1;
                continue;
            }
            complaints.push(format!(
                "node {} led in term {} for {:.1} s and lost it: node {} leads in term {} since {}. The machine stood still for \
                 {still:.0?} before that.",
                last.node,
                last.term,
                Duration::from_millis(next.since - last.since.min(next.since)).as_secs_f64(),
                next.node,
                next.term,
                WallMillis(next.since).to_rfc3339(),
            ));
        }
        complaints
    }
}

/// What a test says that fails because of them.
pub(crate) fn in_words(complaints: &[String]) -> String {
    let mut text = String::from("something happened for which the test gave no reason:\n");
    for complaint in complaints {
        writeln!(text, "- {complaint}").expect("a text takes what is written to it");
    }
    let hint = "The logs above say what those nodes noticed just before. A test that causes elections by other means than a \
                signal, a restart or `POST /v1/cluster/leader` says so: `Cluster::expects_elections`.";
    text + hint
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a short time")
}

static STALLS: Mutex<Vec<(u64, Duration)>> = Mutex::new(Vec::new());

/// Begins to note when this process gets no processor, which says that the machine stands still: a thread that only sleeps is
/// the first to run among the busy.
pub(crate) fn watch_the_machine() {
    static WATCHING: OnceLock<()> = OnceLock::new();
    WATCHING.get_or_init(|| {
        thread::spawn(|| {
            loop {
                let (at, begun) = (now(), Instant::now());
                thread::park_timeout(TICK);
                let late = begun.elapsed().saturating_sub(TICK);
                if late >= LATE {
                    STALLS.lock().expect("only this thread writes").push((at, late));
                }
            }
        });
    });
}

/// When the machine stood still, since it is watched.
pub(crate) fn stalls() -> Vec<(u64, Duration)> {
    STALLS.lock().expect("only the watching thread writes").clone()
}
