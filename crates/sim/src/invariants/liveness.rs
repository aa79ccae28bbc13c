//! Without faults, each call is answered soon, no new term begins, and the next holder of a lock learns of it soon.

use super::invariant::Invariant;
use crate::facts::{Applied, Fact};
use fairhold_state::command::Event;
use fairhold_types::{FencingToken, LockName};
use std::{collections::BTreeMap, time::Duration};

#[derive(Default)]
pub(crate) struct Liveness {
    granted: BTreeMap<(LockName, FencingToken), Duration>,
    term: u64,
}

fn called(what: &str, sent: Duration, received: Option<Duration>, within: Duration) -> Result<(), String> {
    match received {
        Some(received) if received <= sent + within => Ok(()),
        Some(received) => Err(format!("{what} was sent at {sent:?} and answered at {received:?}")),
        None => Err(format!("{what} was sent at {sent:?} and not answered")),
    }
}

impl Liveness {
    /// A client that waited for a lock learns in time that it holds it.
    fn check_handover(&self, fact: &Fact) -> Result<(), String> {
        let Fact::AcquireAnswered { lock, token, sent, received, within } = fact else { return Ok(()) };
        let granted = self.granted.get(&(lock.clone(), *token)).copied().unwrap_or_default();
        if *sent <= granted && *received > granted + *within {
            return Err(format!(
                "{lock} was granted with token {token} at {granted:?}, and its holder learned it at {received:?}"
            ));
        }
        Ok(())
    }
}

impl Invariant for Liveness {
    fn name(&self) -> &'static str {
        "without faults, nobody waits"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        if !applied.first {
            return Ok(());
        }
        for event in applied.events {
            if let Event::Granted { lock, token, .. } = event {
                self.granted.insert((lock.clone(), *token), applied.at);
            }
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        if let Fact::Called { what, sent, received, within } = fact {
            return called(what, *sent, *received, *within);
        }
        self.check_handover(fact)?;
        let Fact::Term { term, calm, .. } = fact else { return Ok(()) };
        let before = std::mem::replace(&mut self.term, *term);
        if *calm && before > 0 && before != *term {
            return Err(format!("term {term} follows term {before}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn a_late_or_missing_answer_is_found() {
        let called = |received| Fact::Called { what: "a read".to_owned(), sent: second(1), received, within: second(2) };
        assert!(Liveness::default().observe(&called(Some(second(3)))).is_ok());
        assert!(Liveness::default().observe(&called(Some(second(4)))).is_err());
        assert!(Liveness::default().observe(&called(None)).is_err());
    }

    #[test]
    fn a_new_term_without_faults_is_found() {
        let mut liveness = Liveness::default();
        assert!(liveness.observe(&Fact::Term { term: 3, calm: true, at: second(3) }).is_ok(), "the first one");
        assert!(liveness.observe(&Fact::Term { term: 3, calm: true, at: second(3) }).is_ok());
        assert!(liveness.observe(&Fact::Term { term: 4, calm: false, at: second(4) }).is_ok());
        assert!(liveness.observe(&Fact::Term { term: 5, calm: true, at: second(5) }).is_err());
    }

    #[test]
    fn a_holder_that_learns_late_is_found() {
        let (lock, token) = (LockName::parse("a").unwrap(), FencingToken(5));
        let granted = BTreeMap::from([((lock.clone(), token), second(10))]);
        let mut liveness = Liveness { granted, term: 1 };
        let (within, lock) = (second(1), &lock);
        let handover = |sent, received| Fact::AcquireAnswered {
            lock: lock.clone(),
            token,
            sent: second(sent),
            received: second(received),
            within,
        };
        assert!(liveness.observe(&handover(8, 11)).is_ok());
        assert!(liveness.observe(&handover(8, 12)).is_err(), "it waited, and a wake-up was lost");
        assert!(liveness.observe(&handover(13, 14)).is_ok(), "it sent its request only then");
    }
}
