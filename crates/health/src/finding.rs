//! One finding of the doctor, and its grade.

use serde::Serialize;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// No problem.
    Ok,
    /// It works, but may fail later, or misleads people.
    Warn,
    /// It does not work, or one more failure stops the service.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// The stable name of the check.
    pub check: &'static str,
    /// What was seen.
    pub seen: String,
    /// What to do.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

pub(crate) fn ok(check: &'static str, seen: impl Into<String>) -> Finding {
    Finding { grade: Grade::Ok, check, seen: seen.into(), advice: None }
}

pub(crate) fn warn(check: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { grade: Grade::Warn, check, seen: seen.into(), advice: Some(advice.into()) }
}

pub(crate) fn fail(check: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { grade: Grade::Fail, check, seen: seen.into(), advice: Some(advice.into()) }
}

/// The worst grade.
#[must_use]
pub fn worst(findings: &[Finding]) -> Grade {
    findings.iter().map(|finding| finding.grade).max().unwrap_or(Grade::Ok)
}
