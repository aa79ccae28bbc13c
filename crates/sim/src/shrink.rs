//! Shrinks a failing scenario: removes faults and clients one by one while the same failure remains.

use crate::{plan::ScenarioPlan, scenario};

/// The maximum number of runs of a search.
const RUNS_MAX: u32 = 60;

/// Removes every part that the failure does not need. A different failure does not count.
pub(crate) fn shortest(plan: &ScenarioPlan, violations: &[String]) -> ScenarioPlan {
    let original = kind(violations);
    let mut runs = 0;
    let mut fails = |plan: &ScenarioPlan| {
        runs += 1;
        runs <= RUNS_MAX && kind(&scenario::run(plan, false).violations) == original
    };
    let mut shortest = plan.clone();
    let mut index = 0;
    while index < shortest.faults.len() {
        let mut shorter = shortest.clone();
        shorter.faults.remove(index);
        if fails(&shorter) { shortest = shorter } else { index += 1 }
    }
    #[cfg(feature = "failpoints")]
    {
        index = 0;
        while index < shortest.failpoints.len() {
            let mut shorter = shortest.clone();
            shorter.failpoints.remove(index);
            if fails(&shorter) { shortest = shorter } else { index += 1 }
        }
    }
    index = 0;
    while index < shortest.clients.len() {
        let mut shorter = shortest.clone();
        drop(shorter.clients.remove(index));
        if fails(&shorter) { shortest = shorter } else { index += 1 }
    }
    shortest
}

/// The first violation without its numbers.
fn kind(violations: &[String]) -> Option<String> {
    violations.first().map(|violation| {
        violation.chars().take_while(|letter| *letter != ':').filter(|letter| !letter.is_ascii_digit()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_differ_only_in_numbers_are_the_same() {
        let text = |text: &str| vec![text.to_owned()];
        assert_eq!(kind(&text("tokens grow: 5 after 6")), kind(&text("tokens grow: 7 after 9")));
        assert_ne!(kind(&text("tokens grow: 5")), kind(&text("nodes agree: 5")));
        assert_eq!(kind(&[]), None);
    }
}
