//! The sum of the parts of a campaign.

use super::Ended;
use crate::{
    check::FaultCoverage,
    log_line,
    nemesis::{FAULTS, Fault},
    report::{Totals, Verdict},
    run::{self, Done, NotRun, Plan},
};
use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    fs,
    time::Duration,
};

/// The maximum number of attempts of a part until it proves something.
const TRIES: u64 = 3;

/// How many things were checked for one promise, and how many were broken or undecided.
#[derive(Debug, Clone, Copy, Default)]
struct Judged {
    checked: usize,
    broken: usize,
    undecided: usize,
}

/// All parts so far.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) totals: Totals,
    seconds: f64,
    checks: BTreeMap<&'static str, Judged>,
    /// The coverage of faults that were injected alone.
    pub(super) alone: BTreeMap<Fault, FaultCoverage>,
    /// Pairs of faults in effect together, sorted, and how often.
    pub(super) pairs: BTreeMap<(Fault, Fault), usize>,
    not_covered: BTreeMap<&'static str, String>,
    parts: Vec<String>,
    /// The reasons why it is invalid or broken.
    findings: Vec<String>,
    broken: bool,
}

impl Sum {
    /// Runs a part and adds it. Returns `None` if it proves nothing; such a part is repeated and does not count.
    pub(super) fn make(&mut self, plan: &Plan) -> Result<Option<Done>, NotRun> {
        let mut why = Vec::new();
        for attempt in 1..=TRIES {
            let mut plan = plan.clone();
            plan.folder.set_file_name(format!("{}.{attempt}", plan.nemesis));
            // A repetition has other timings.
            plan.seed = plan.seed.wrapping_add(attempt);
            let done = match run::run(&plan) {
                Err(NotRun::Failed(failed)) => {
                    log_line(&format!("{}: {failed}", plan.nemesis));
                    why = vec![format!("{}: {failed}", plan.nemesis)];
                    continue;
                }
                done => done?,
            };
            let line = part_line(&plan, &done);
            log_line(&format!("{line}; {} operations before", self.totals.operations));
            self.parts.push(line);
            if done.verdict == Verdict::Invalid {
                why = findings(&plan, &done);
                continue;
            }
            self.add(&done);
            if done.verdict == Verdict::Valid {
                // The history is large and no longer needed.
                for name in ["history.ndjson", "history.edn", "report.html"] {
                    drop(fs::remove_file(plan.folder.join(name)));
                }
            } else {
                self.broken = true;
                self.findings.extend(findings(&plan, &done));
            }
            return Ok(Some(done));
        }
        self.findings.append(&mut why);
        Ok(None)
    }

    fn add(&mut self, done: &Done) {
        let history = &done.history;
        let seconds = Duration::from_micros(history.length).as_secs_f64();
        self.totals += Totals::of(history);
        self.seconds += seconds;
        for check in &done.checks {
            let judged = self.checks.entry(check.name).or_default();
            judged.checked += check.checked;
            judged.broken += check.broken.len();
            judged.undecided += check.undecided.len();
        }
        self.not_covered.extend(done.not_covered.clone());
        self.cover(done);
    }

    fn cover(&mut self, done: &Done) {
        let spans = || done.history.faults.iter().filter(|span| span.effect.is_ok());
        let known = |name: &str| FAULTS.iter().copied().find(|fault| fault.name() == name);
        let mut paired = Vec::new();
        for (index, one) in spans().enumerate() {
            for other in spans().skip(index + 1).filter(|other| one.start <= other.end && other.start <= one.end) {
                let (Some(a), Some(b)) = (known(one.fault), known(other.fault)) else { continue };
                *self.pairs.entry((a.min(b), a.max(b))).or_default() += 1;
                paired.extend([a, b]);
            }
        }
        for cover in done.covers.iter().filter(|cover| cover.times > 0 && !paired.contains(&cover.fault)) {
            let fresh = FaultCoverage { times: 0, sent: 0, succeeded: 0, grants: 0, longest_gap: 0, ..cover.clone() };
            let sum = self.alone.entry(cover.fault).or_insert(fresh);
            sum.times += cover.times;
            sum.sent += cover.sent;
            sum.succeeded += cover.succeeded;
            sum.grants += cover.grants;
            sum.longest_gap = sum.longest_gap.max(cover.longest_gap);
        }
    }

    /// The number of parts.
    pub(super) fn parts_made(&self) -> usize {
        self.parts.len()
    }

    /// Faults that this machine cannot do.
    pub(super) fn cannot_do(&self, fault: Fault) -> bool {
        self.not_covered.contains_key(fault.name())
    }

    /// Adds another reason why it proves too little.
    pub(super) fn add_missing(&mut self, what: String) {
        self.findings.push(format!("INVALID: {what}"));
    }

    /// Adds another violation.
    pub(super) fn add_violation(&mut self, what: String) {
        self.broken = true;
        self.findings.push(format!("BROKEN: {what}"));
    }

    fn verdict(&self) -> Verdict {
        match (self.broken, self.findings.is_empty()) {
            (true, _) => Verdict::Broken,
            (false, false) => Verdict::Invalid,
            (false, true) => Verdict::Valid,
        }
    }

    /// Ends the campaign. `own` is its own part of the report.
    pub(super) fn end(self, command: &str, own: &str) -> Ended {
        let mut text = String::new();
        self.write(command, own, &mut text).expect("writing to a String cannot fail");
        Ended { verdict: self.verdict(), text }
    }

    fn write(&self, command: &str, own: &str, out: &mut String) -> fmt::Result {
        writeln!(out, "{command}")?;
        for part in &self.parts {
            writeln!(out, "{part}")?;
        }
        if !self.parts.is_empty() {
            writeln!(out, "{:.0} s: {}", self.seconds, self.totals)?;
        }
        writeln!(out, "\n{own}")?;
        for (fault, why) in &self.not_covered {
            writeln!(out, "{fault:<20} not covered here: {why}")?;
        }
        if !self.checks.is_empty() {
            writeln!(out, "checks")?;
        }
        for (name, judged) in &self.checks {
            let Judged { checked, broken, undecided } = judged;
            writeln!(out, "{name:<28} {checked:>9} checked, {broken} broken, {undecided} undecided")?;
        }
        for finding in &self.findings {
            writeln!(out, "{finding}")?;
        }
        writeln!(out, "\nverdict: {}", self.verdict().word())
    }
}

/// One line about a part.
fn part_line(plan: &Plan, done: &Done) -> String {
    let seconds = Duration::from_micros(done.history.length).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "for people, with no digits behind the point")]
    let rate = done.history.ops.len() as f64 / seconds;
    format!(
        "{:<10} {} nodes, {:>3} clients {seconds:>6.0} s {:>9} operations {rate:>6.0}/s  {}",
        plan.nemesis,
        plan.nodes,
        plan.clients * u64::try_from(plan.workloads.len()).unwrap_or(u64::MAX),
        done.history.ops.len(),
        if done.verdict == Verdict::Invalid { "INVALID: made again, and not counted" } else { done.verdict.word() },
    )
}

/// What made a part invalid or broken.
fn findings(plan: &Plan, done: &Done) -> Vec<String> {
    let is_finding =
        |line: &&str| ["BROKEN", "INVALID", "UNDECIDED", "           - "].iter().any(|begin| line.starts_with(begin));
    done.text.lines().filter(is_finding).map(|line| format!("{}: {line}", plan.nemesis)).collect()
}
