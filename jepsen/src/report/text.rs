//! The report as text.

use super::{COVER_HEAD, Report, Totals, cover_row, resource_line};
use crate::check::longest_gap;
use std::fmt::{self, Write};

/// The report, with the verdict in the last line.
pub(crate) fn text(report: &Report<'_>) -> String {
    let mut out = String::new();
    write_text(report, &mut out).expect("writing to a String cannot fail");
    out
}

fn write_text(report: &Report<'_>, out: &mut String) -> fmt::Result {
    let history = report.history;
    let mut successes: Vec<u64> = history.ops.iter().filter(|op| op.is_ok()).map(|op| op.end).collect();
    successes.sort_unstable();
    writeln!(out, "{}", report.command)?;
    writeln!(
        out,
        "{:.1} s: {}; longest gap {} ms",
        seconds(history.length),
        Totals::of(history),
        longest_gap(&successes, 0, history.ops.last().map_or(0, |op| op.start)) / 1_000,
    )?;
    if !history.resource.is_empty() {
        writeln!(out, "{}", resource_line(history))?;
    }
    writeln!(out, "\n{:<20} {COVER_HEAD}", "fault")?;
    for cover in report.covers {
        writeln!(out, "{}", cover_row(cover))?;
    }
    for (fault, why) in report.not_covered {
        writeln!(out, "{fault:<20} not covered here: {why}")?;
    }
    writeln!(out, "\nchecks ({} ms)", report.check_millis)?;
    for check in report.checks {
        let verdict = match (check.broken.len(), check.undecided.len(), check.checked) {
            (0, 0, 0) => "-",
            (0, 0, _) => "holds",
            (0, _, _) => "UNDECIDED",
            (_, _, _) => "BROKEN",
        };
        writeln!(out, "{verdict:<10} {:<28} {:>8} checked: {}", check.name, check.checked, check.promise)?;
        for finding in check.broken.iter().chain(&check.undecided) {
            writeln!(out, "           - {finding}")?;
        }
    }
    for complaint in report.complaints {
        writeln!(out, "BROKEN     {complaint}")?;
    }
    for lack in report.missing {
        writeln!(out, "INVALID    {lack}")?;
    }
    writeln!(out, "\nverdict: {}", report.verdict().word())
}

fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}
