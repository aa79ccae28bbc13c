//! One finding of the doctor, and how bad it is.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Grade {
    /// It is well.
    Ok,
    /// It works, and will not for ever, or misleads.
    Warn,
    /// It does not work, or one more failure ends the service.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// How bad it is.
    pub(super) grade: Grade,
    /// What was looked at, by a name that stays the same.
    pub(super) check: &'static str,
    /// What was seen.
    pub(super) seen: String,
    /// What to do.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

pub(super) fn ok(check: &'static str, seen: impl Into<String>) -> Finding {
    Finding { grade: Grade::Ok, check, seen: seen.into(), advice: None }
}

pub(super) fn warn(check: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { grade: Grade::Warn, check, seen: seen.into(), advice: Some(advice.into()) }
}

pub(super) fn fail(check: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { grade: Grade::Fail, check, seen: seen.into(), advice: Some(advice.into()) }
}

/// The worst of all.
pub(super) fn worst(findings: &[Finding]) -> Grade {
    findings.iter().map(|finding| finding.grade).max().unwrap_or(Grade::Ok)
}
