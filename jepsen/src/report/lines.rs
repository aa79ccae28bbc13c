//! Lines that the reports of runs and of campaigns have in common.

use crate::{
    check::FaultCoverage,
    history::{Call, History, Outcome},
};
use std::{fmt, ops::AddAssign};

/// The totals of a run or of a campaign.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) operations: usize,
    ok: usize,
    failed: usize,
    unknown: usize,
    grants: usize,
    events: usize,
    leaders: usize,
}

impl Totals {
    /// Of one run.
    pub(crate) fn of(history: &History) -> Totals {
        let count = |outcome: Outcome| history.ops.iter().filter(|op| op.outcome == outcome).count();
        Totals {
            operations: history.ops.len(),
            ok: count(Outcome::Ok),
            failed: count(Outcome::Fail),
            unknown: count(Outcome::Unknown),
            grants: history.ops.iter().filter(|op| op.call == Call::Acquire && op.is_ok()).count(),
            events: history.watches.iter().map(Vec::len).max().unwrap_or(0),
            leaders: history.leaders.len(),
        }
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        let Totals { operations, ok, failed, unknown, grants, events, leaders } = other;
        self.operations += operations;
        self.ok += ok;
        self.failed += failed;
        self.unknown += unknown;
        self.grants += grants;
        self.events += events;
        self.leaders += leaders;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { operations, ok, failed, unknown, grants, events, leaders } = self;
        write!(f, "{operations} operations: {ok} ok, {failed} failed, {unknown} unknown; ")?;
        write!(f, "{grants} grants; {events} events; {leaders} leaders")
    }
}

/// The line about the external resource.
pub(crate) fn resource_line(history: &History) -> String {
    let refused = history.resource.iter().filter(|write| !write.accepted).count();
    format!(
        "resource outside: {} writes, {refused} refused for an old token; without a comparison {} were lost",
        history.resource.len(),
        history.lost_without_fence,
    )
}

/// The heading of the rows about faults, after the first column.
pub(crate) const COVER_HEAD: &str = " times     sent       ok   grants  longest gap";

/// The row of a fault.
pub(crate) fn cover_row(cover: &FaultCoverage) -> String {
    let FaultCoverage { fault, times, sent, succeeded, grants, longest_gap } = cover;
    format!("{:<20} {times:>5} {sent:>8} {succeeded:>8} {grants:>8} {:>9} ms", fault.name(), longest_gap / 1_000)
}
