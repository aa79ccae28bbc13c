//! Findings as text: lines for people, without colours; or one JSON object.

use super::finding::{Finding, Grade, worst};
use serde::Serialize;

#[derive(Serialize)]
struct DoctorReport<'a> {
    /// The worst of all.
    grade: Grade,
    findings: &'a [Finding],
}

fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Ok => "ok",
        Grade::Warn => "warn",
        Grade::Fail => "fail",
    }
}

/// A line for each finding, what to do below it, and how many there are of each kind.
pub(super) fn table(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!("{:<5} {:<11} {}\n", word(finding.grade), finding.check, finding.seen));
        if let Some(advice) = &finding.advice {
            text.push_str(&format!("{:<17} -> {advice}\n", ""));
        }
    }
    let count = |grade| findings.iter().filter(|finding| finding.grade == grade).count();
    text.push_str(&format!("{} ok, {} warn, {} fail\n", count(Grade::Ok), count(Grade::Warn), count(Grade::Fail)));
    text
}

/// The same for programs.
pub(super) fn json(findings: &[Finding]) -> String {
    let report = DoctorReport { grade: worst(findings), findings };
    // Nothing in it can fail to be JSON: texts and names of variants.
    let mut text = serde_json::to_string(&report).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        let finding = |grade, advice: Option<&str>| Finding {
            grade,
            check: "disk",
            seen: "what was seen".to_owned(),
            advice: advice.map(str::to_owned),
        };
        vec![finding(Grade::Ok, None), finding(Grade::Warn, Some("what to do"))]
    }

    #[test]
    fn what_to_do_stands_below_what_was_seen() {
        let lines = ["ok    disk        what was seen", "warn  disk        what was seen", "                  -> what to do"];
        assert_eq!(table(&findings()), format!("{}\n1 ok, 1 warn, 0 fail\n", lines.join("\n")));
    }

    #[test]
    fn programs_get_the_same() {
        let json: serde_json::Value = serde_json::from_str(&json(&findings())).unwrap();
        assert_eq!((&json["grade"], &json["findings"][1]["do"]), (&"warn".into(), &"what to do".into()));
        assert_eq!(json["findings"][0].get("do"), None);
    }
}
