//! No linearizable answer is older than any answer that a client received before the request. Without
//! confirmed leadership, an answer could be.

use super::invariant::Invariant;
use crate::facts::Fact;

pub(crate) struct Freshness;

impl Invariant for Freshness {
    fn name(&self) -> &'static str {
        "answers are fresh"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Answered { what, floor, revision } = fact else { return Ok(()) };
        if revision < floor {
            return Err(format!(
                "{what} was answered from revision {revision} although a client had received revision {floor} before"
            ));
        }
        Ok(())
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
        assert!(Freshness.observe(&answered(5, 4)).is_err());
        assert!(Freshness.observe(&answered(5, 5)).is_ok());
    }
}
