//! Every grant and every session ends: after all renewals stop, none remains.

use super::invariant::Invariant;
use fairhold_state::State;

pub(crate) struct Endings;

impl Invariant for Endings {
    fn name(&self) -> &'static str {
        "every grant ends"
    }

    fn finished(&mut self, state: &State) -> Result<(), String> {
        let census = state.census();
        if census.held + census.waiting + census.cooling + census.sessions > 0 {
            return Err(format!("this is left: {census:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_state::command::{Command, Meta, OpenSession};
    use fairhold_types::{SessionId, time::WallMillis};

    #[test]
    fn a_remaining_session_is_found() {
        let mut state = State::new();
        assert!(Endings.finished(&state).is_ok());
        let (name, meta, at) = (String::new(), Meta::new(), WallMillis(0));
        let open = OpenSession { key: None, id: SessionId(1), timeout_ms: 1_000, name, meta, at };
        state.apply(&Command::OpenSession(open));
        assert!(Endings.finished(&state).is_err());
    }
}
