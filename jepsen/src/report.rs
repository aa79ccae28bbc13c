//! The report of a run, as text and as a page with a picture.

mod lines;
mod page;
mod text;

pub(crate) use lines::{COVER_HEAD, Totals, cover_row, resource_line};
pub(crate) use page::page;
pub(crate) use text::text;

use crate::{
    check::{Check, FaultCoverage},
    history::History,
};
use std::collections::BTreeMap;

/// The verdict of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No promise was broken, and the run proves it.
    Valid,
    /// The run proves nothing.
    Invalid,
    /// A promise was broken.
    Broken,
}

impl Verdict {
    /// The text of the verdict.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Valid => "VALID",
            Verdict::Invalid => "INVALID",
            Verdict::Broken => "BROKEN",
        }
    }
}

/// The content of a report.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// The command that repeats the run.
    pub(crate) command: String,
    pub(crate) history: &'a History,
    pub(crate) checks: &'a [Check],
    pub(crate) covers: &'a [FaultCoverage],
    /// Why the run proves nothing.
    pub(crate) missing: &'a [String],
    /// Other violations.
    pub(crate) complaints: &'a [String],
    pub(crate) not_covered: &'a BTreeMap<&'static str, String>,
    /// How long the checkers took, in milliseconds.
    pub(crate) check_millis: u128,
}

impl Report<'_> {
    /// The verdict.
    pub(crate) fn verdict(&self) -> Verdict {
        if !self.complaints.is_empty() || self.checks.iter().any(|check| !check.broken.is_empty()) {
            Verdict::Broken
        } else if !self.missing.is_empty() || self.checks.iter().any(|check| !check.undecided.is_empty()) {
            Verdict::Invalid
        } else {
            Verdict::Valid
        }
    }
}
