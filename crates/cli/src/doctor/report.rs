//! The report: lines for people, without colours, or one JSON object.

use fairhold_health::finding::{Finding, Grade, worst};
use serde::Serialize;

#[derive(Serialize)]
struct DoctorReport<'a> {
    /// The worst grade.
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

/// A line for each finding with its advice below, and the counts by grade.
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

/// The findings as one JSON object.
pub(super) fn json(findings: &[Finding]) -> String {
    let report = DoctorReport { grade: worst(findings), findings };
    // Serialising cannot fail: the report has only strings and enum names.
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
    fn advice_is_below_its_finding() {
        let lines = ["ok    disk        what was seen", "warn  disk        what was seen", "                  -> what to do"];
        assert_eq!(table(&findings()), format!("{}\n1 ok, 1 warn, 0 fail\n", lines.join("\n")));
    }

    #[test]
    fn json_has_the_same_findings() {
        let json: serde_json::Value = serde_json::from_str(&json(&findings())).unwrap();
        assert_eq!((&json["grade"], &json["findings"][1]["do"]), (&"warn".into(), &"what to do".into()));
        assert_eq!(json["findings"][0].get("do"), None);
    }
}
