//! The leaders that a cluster had, and which of them the test itself removed. A cluster that elects a new leader for no
//! reason would pass most tests, because clients retry. So each change of the leader needs a cause.
//!
//! The leaders come from the logs of the nodes, so those of stopped nodes are known too. The causes come from the
//! harness: it records each signal, each start, and each request for another leader.

use fairhold_types::time::WallMillis;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, OnceLock},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How often the harness checks whether it gets processor time.
const TICK: Duration = Duration::from_millis(20);
/// A shorter delay of a tick is normal scheduling.
const LATE: Duration = Duration::from_millis(50);
/// A follower starts an election when it has received nothing for the lease of 300 ms and at least 150 ms more; a
/// leader sends something every 50 ms. A machine that stalled for less than the lease explains no election.
const LEASE: Duration = Duration::from_millis(300);
/// An older stall explains no election.
const STALL_COUNTS_FOR: Duration = Duration::from_secs(2);
/// An election follows within this time after a node returns: it must start, perhaps on a slow disk, and some elections
/// fail.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(10);
/// If two nodes start an election at once, the one with the higher term deposes the winner, and another election
/// decides. That takes the lease, and then the longest wait before a vote.
const RIVALS_WITHIN: Duration = Duration::from_secs(1);

/// This machine's clock in milliseconds, which the logs also use.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(since.as_millis()).expect("it is before the year 500,000,000")
}

/// A period in which something was wrong. Without an end, it still lasts.
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

/// The leader of one term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leadership {
    pub(crate) term: u64,
    pub(crate) node: usize,
    /// When the first log named it.
    pub(crate) since: u64,
}

/// The causes of leader changes in one cluster, as far as the harness knows them.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    /// Until this time the cluster was being formed; `None` if the test never waited for all of its nodes.
    pub(crate) ready: Option<u64>,
    /// The periods in which each node did not run or was paused, because of the test.
    pub(crate) absences: BTreeMap<usize, Vec<Span>>,
    /// From each request for another leader to its answer.
    pub(crate) requests: Vec<Span>,
    /// Elections that the test declared as expected.
    pub(crate) expected: usize,
    /// When the machine stalled, and for how long.
    pub(crate) stalls: Vec<(u64, Duration)>,
}

/// The leaders named in the logs of a cluster's nodes, by term.
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

/// The leadership that a line of a node's log reports.
fn leadership(id: usize, line: &str) -> Option<Leadership> {
    let (before, fields) = line.split_once(" leads ")?;
    let since = WallMillis::from_rfc3339(line.split_whitespace().next()?)?.0;
    let field = |name: &str| fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let node = if before.ends_with(" this node") { id } else { field("leader")?.parse().ok()? };
    Some(Leadership { term: field("term")?.parse().ok()?, node, since })
}

impl Causes {
    /// Whether the test kept the leader or a majority from working between two times.
    fn was_away(&self, led: usize, since: u64, until: u64, nodes: usize) -> bool {
        let from = since.max(until.saturating_sub(millis(FOLLOWS_WITHIN)));
        let absent = |id: usize| self.absences.get(&id).into_iter().flatten().filter(|span| span.meets(from, until));
        let leader_was_away = absent(led).next().is_some();
        // If a majority is away, a leader steps down. The majority is away once the last of its
        // nodes is away.
        let mut instants = self.absences.values().flatten().map(|span| span.from.max(from)).filter(|instant| *instant <= until);
        let majority_was_away = instants.any(|instant| {
            let away = self.absences.values().filter(|spans| spans.iter().any(|span| span.meets(instant, instant)));
            away.count() > nodes / 2
        });
        leader_was_away || majority_was_away
    }

    /// How long the machine stalled shortly before this time.
    fn stalled_for(&self, until: u64) -> Duration {
        let from = until.saturating_sub(millis(STALL_COUNTS_FOR));
        self.stalls.iter().filter(|(at, late)| *at <= until && at + millis(*late) >= from).map(|(_, late)| *late).sum()
    }

    /// Describes each election that has no known cause.
    pub(crate) fn unexplained(&self, leaders: &[Leadership], nodes: usize) -> Vec<String> {
        let (mut expected, mut requests, mut complaints) = (self.expected, self.requests.clone(), Vec::new());
        // Whether the last election had a cause; if so, nodes may still be candidates because of it.
        let mut rivals = false;
        for pair in leaders.windows(2) {
            let (last, next) = (pair[0], pair[1]);
            if next.since <= self.ready.unwrap_or(0) || self.was_away(last.node, last.since, next.since, nodes) {
                rivals = true;
                continue;
            }
            if std::mem::take(&mut rivals) && next.since.saturating_sub(last.since) < millis(RIVALS_WITHIN) {
                crate::harness::report(&format!(
                    "two nodes were candidates at once: node {} leads in term {}",
                    next.node, next.term
                ));
                continue;
            }
            // A request explains one other leader.
            if let Some(request) = requests.iter().position(|request| request.meets(last.since, next.since)) {
                requests.remove(request);
                continue;
            }
            let still = self.stalled_for(next.since);
            if still >= LEASE {
                crate::harness::report(&format!(
                    "node {} leads in term {}, because the machine stalled for {still:.0?} before that",
                    next.node, next.term
                ));
                continue;
            }
            if expected > 0 {
                expected -= 1;
                continue;
            }
            complaints.push(format!(
                "node {} led in term {} for {:.1} s and lost it: node {} leads in term {} since {}. The machine stalled for \
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

/// The failure message for these complaints.
pub(crate) fn in_words(complaints: &[String]) -> String {
    let mut text = String::from("something happened that the test did not cause:\n");
    for complaint in complaints {
        writeln!(text, "- {complaint}").expect("writing to a string succeeds");
    }
    let hint = "The logs above show what those nodes noticed just before. A test that causes elections by other means than a \
                signal, a restart or `POST /v1/cluster/leader` must declare them by `Cluster::expect_elections`.";
    text + hint
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a short time")
}

static STALLS: Mutex<Vec<(u64, Duration)>> = Mutex::new(Vec::new());

/// Starts to record when this process gets no processor, because then the machine stalls: a thread that only sleeps
/// runs before busy ones.
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

/// The stalls of the machine since the recording began.
pub(crate) fn stalls() -> Vec<(u64, Duration)> {
    STALLS.lock().expect("only the watching thread writes").clone()
}
