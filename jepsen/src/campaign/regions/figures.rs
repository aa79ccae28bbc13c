//! How long calls took, by the region of the client.

use super::{
    super::measure::percentile,
    map::{LEARNER, Profile, VOTERS},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    time::{Duration, Instant},
};

/// The calls that are measured, in the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    Write,
    Acquire,
    /// From the release in another region to the answer of the next holder, in this region.
    HandOver,
    LinearizableRead,
    Keepalive,
    LocalRead,
    /// From the acknowledgement of a write in the leader's region to a local read that shows it.
    Visible,
}

const MEASURES: [Measure; 7] = [
    Measure::Write,
    Measure::Acquire,
    Measure::HandOver,
    Measure::LinearizableRead,
    Measure::Keepalive,
    Measure::LocalRead,
    Measure::Visible,
];

/// A call that failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) sent: Instant,
    pub(super) answered: Instant,
    pub(super) what: String,
}

/// The figures of a period, collected by all clients.
#[derive(Debug, Default)]
pub(super) struct Figures(Mutex<Collected>);

#[derive(Debug, Default)]
struct Collected {
    /// Whether the period lasts.
    open: bool,
    /// In microseconds.
    samples: BTreeMap<(usize, Measure), Vec<u64>>,
    failures: Vec<Failure>,
}

impl Figures {
    /// The period begins.
    pub(super) fn open(&self) {
        self.0.lock().open = true;
    }

    /// The period ends: what comes later does not count.
    pub(super) fn close(&self) {
        self.0.lock().open = false;
    }

    /// Adds a call that succeeded.
    pub(super) fn add(&self, machine: usize, measure: Measure, took: Duration) {
        let mut collected = self.0.lock();
        if collected.open {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            collected.samples.entry((machine, measure)).or_default().push(micros);
        }
    }

    /// Adds a call that failed.
    pub(super) fn add_failure(&self, failure: Failure) {
        let mut collected = self.0.lock();
        if collected.open {
            collected.failures.push(failure);
        }
    }

    /// The calls that failed.
    pub(super) fn failures(&self) -> Vec<Failure> {
        self.0.lock().failures.clone()
    }

    /// How many calls succeeded.
    pub(super) fn count(&self) -> usize {
        self.0.lock().samples.values().map(Vec::len).sum()
    }

    /// What was never measured, and should have been.
    pub(super) fn missing(&self, profile: Profile) -> Vec<String> {
        let collected = self.0.lock();
        let wanted = (1..=LEARNER).flat_map(|machine| MEASURES.iter().map(move |measure| (machine, *measure)));
        let absent = wanted.filter(|(machine, measure)| {
            let possible = *machine <= VOTERS || measure.is_of_learner();
            possible && !collected.samples.contains_key(&(*machine, *measure))
        });
        absent.map(|(machine, measure)| format!("{}: no {}", profile.region(machine), measure.title())).collect()
    }

    /// The table: for each region and call, the median and the 99th percentile in milliseconds. `title` is above the
    /// regions.
    pub(super) fn write(&self, title: &str, profile: Profile, leader: usize, out: &mut String) -> fmt::Result {
        let mut collected = self.0.lock();
        let titles: Vec<&str> = MEASURES.iter().map(|measure| measure.title()).collect();
        writeln!(out, "| {title} | to the leader and back | {} |", titles.join(" | "))?;
        writeln!(out, "|---|---|{}", "---|".repeat(MEASURES.len()))?;
        for machine in 1..=LEARNER {
            let role = match machine {
                _ if machine == leader => " (leader)",
                LEARNER => " (learner)",
                _ => "",
            };
            let trip = profile.round_trip(machine, leader).as_millis();
            write!(out, "| {}{role} | {trip} |", profile.region(machine))?;
            for measure in MEASURES {
                match collected.samples.get_mut(&(machine, measure)) {
                    Some(samples) => {
                        samples.sort_unstable();
                        write!(out, " {} / {} |", millis(percentile(samples, 50)), millis(percentile(samples, 99)))?;
                    }
                    None => write!(out, " |")?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

impl Measure {
    fn title(self) -> &'static str {
        match self {
            Measure::Write => "write",
            Measure::Acquire => "acquire",
            Measure::HandOver => "hand-over from another region",
            Measure::LinearizableRead => "linearizable read",
            Measure::Keepalive => "keepalive",
            Measure::LocalRead => "local read",
            Measure::Visible => "acknowledged write visible",
        }
    }

    /// Whether clients next to the learner make it.
    fn is_of_learner(self) -> bool {
        matches!(self, Measure::Write | Measure::LinearizableRead | Measure::LocalRead | Measure::Visible)
    }
}

/// Microseconds as milliseconds: with a digit after the point if there are less than ten.
pub(super) fn millis(micros: u64) -> String {
    let tenths = (micros + 50) / 100;
    if tenths < 100 { format!("{}.{}", tenths / 10, tenths % 10) } else { ((micros + 500) / 1_000).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_two_digits_or_more() {
        assert_eq!([0, 49, 340, 9_940, 9_960, 41_500].map(millis), ["0.0", "0.0", "0.3", "9.9", "10", "42"]);
    }

    #[test]
    fn only_the_period_counts_and_what_it_lacks_is_named() {
        let figures = Figures::default();
        figures.add(1, Measure::Write, Duration::from_millis(90));
        figures.open();
        figures.add(1, Measure::Write, Duration::from_millis(40));
        figures.close();
        figures.add(1, Measure::Write, Duration::from_millis(80));
        assert_eq!(figures.count(), 1);
        let missing = figures.missing(Profile::Wan);
        assert_eq!(missing.len(), VOTERS * MEASURES.len() + 4 - 1);
        assert!(missing.contains(&"Tokyo: no write".to_owned()) && !missing.contains(&"Seoul: no write".to_owned()));
        let mut table = String::new();
        figures.write("client in", Profile::Wan, 1, &mut table).unwrap();
        assert!(table.contains("| Seoul (leader) | 0 | 40 / 40 |"), "{table}");
    }
}
