//! One finding of the doctor, and its grade.

use fairhold_types::text::terminal_safe;
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

impl Finding {
    /// All findings are made here. A text may be of a server, which may be no node of a cluster: it must not control a
    /// terminal, or look like several findings.
    fn new(grade: Grade, check: &'static str, seen: String, advice: Option<String>) -> Finding {
        let safe = |text: String| terminal_safe(&text).into_owned();
        Finding { grade, check, seen: safe(seen), advice: advice.map(safe) }
    }
}

pub(crate) fn ok(check: &'static str, seen: impl Into<String>) -> Finding {
    Finding::new(Grade::Ok, check, seen.into(), None)
}

pub(crate) fn warn(check: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding::new(Grade::Warn, check, seen.into(), Some(advice.into()))
}

pub(crate) fn fail(check: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding::new(Grade::Fail, check, seen.into(), Some(advice.into()))
}

/// The worst grade.
#[must_use]
pub fn worst(findings: &[Finding]) -> Grade {
    findings.iter().map(|finding| finding.grade).max().unwrap_or(Grade::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_server_cannot_control_a_terminal_or_add_a_row() {
        let hostile = "\u{1b}]0;pwned\u{7}\u{1b}[2J\nok    leader      all is well";
        for finding in [ok("alarm", hostile), warn("alarm", hostile, hostile), fail("alarm", hostile, hostile)] {
            let advice = finding.advice.unwrap_or_default();
            assert!(!finding.seen.contains(char::is_control) && !advice.contains(char::is_control), "{}", finding.seen);
            assert!(finding.seen.starts_with("\\u{1b}]0;pwned\\u{7}"), "{}", finding.seen);
        }
    }
}
