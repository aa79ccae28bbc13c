//! No linearizable answer is older than what any client had been told before it was asked for: an answer without proof of
//! leadership would be.

use super::Invariant;
use crate::oracle::Fact;

pub(crate) struct Freshness;

impl Invariant for Freshness {
    fn name(&self) -> &'static str {
        "answers are fresh"
    }

    fn told(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Answered { what, floor, revision } if revision < floor => {
                Err(format!("{what} was answered from revision {revision} after revision {floor} had been told"))
            }
            Fact::Answered { .. }
            | Fact::Wrote { .. }
            | Fact::Read { .. }
            | Fact::Held { .. }
            | Fact::Fenced { .. }
            | Fact::Renewed { .. }
            | Fact::LettingGo { .. }
            | Fact::Believed { .. }
            | Fact::Slept { .. }
            | Fact::WatchBegan { .. }
            | Fact::WatchTold { .. }
            | Fact::Retiming { .. }
            | Fact::Changing { .. }
            | Fact::Settled { .. }
            | Fact::GaveBack { .. }
            | Fact::Led { .. }
            | Fact::Called { .. }
            | Fact::Handed { .. }
            | Fact::Term { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::Revision;

    #[test]
    fn a_stale_answer_is_found() {
        let answered =
            |floor, revision| Fact::Answered { what: "GET".to_owned(), floor: Revision(floor), revision: Revision(revision) };
        assert!(Freshness.told(&answered(5, 4)).is_err());
        assert!(Freshness.told(&answered(5, 5)).is_ok());
    }
}
