//! Grants with a `max_hold`. The leader's clock counts it from the grant, or from the start of its leadership.

use crate::leader::deadlines::Deadlines;
use fairhold_state::{State, record::Contender};
use fairhold_types::{FencingToken, GrantNumber};
use std::{collections::BTreeMap, ops::Add, time::Duration};

pub(crate) struct BoundedHolds<I> {
    deadlines: Deadlines<GrantNumber, I>,
    tokens: BTreeMap<GrantNumber, FencingToken>,
}

impl<I: Copy + Ord + Add<Duration, Output = I>> BoundedHolds<I> {
    /// A new leader gives each grant its full time again: none ends early.
    pub(crate) fn load(state: &State, now: I) -> BoundedHolds<I> {
        let mut holds = BoundedHolds { deadlines: Deadlines::new(), tokens: BTreeMap::new() };
        state.bounded_holds().for_each(|holder| holds.add(holder, now));
        holds
    }

    /// A grant was granted, for the first time or with a new token.
    pub(crate) fn granted(&mut self, state: &State, grant: GrantNumber, now: I) {
        if let Some(holder) = state.contender(grant) {
            self.add(holder, now);
        }
    }

    fn add(&mut self, holder: &Contender, now: I) {
        if let (Some(hold_ms), Some(token)) = (holder.hold_ms, holder.token()) {
            self.deadlines.insert(holder.number, Duration::from_millis(hold_ms), now);
            self.tokens.insert(holder.number, token);
        }
    }

    /// A command for this hold was answered: the hold has ended.
    pub(crate) fn answered(&mut self, grant: GrantNumber, token: FencingToken) {
        if self.tokens.get(&grant) == Some(&token) {
            self.remove(grant);
        }
    }

    pub(crate) fn remove(&mut self, grant: GrantNumber) {
        if self.tokens.remove(&grant).is_some() {
            self.deadlines.remove(grant);
        }
    }

    /// The grants that have reached their `max_hold`, at most this many.
    pub(crate) fn due_up_to(&mut self, now: I, max: usize) -> Vec<(GrantNumber, FencingToken)> {
        let due = self.deadlines.due_up_to(now, max).into_iter();
        due.filter_map(|grant| self.tokens.get(&grant).map(|token| (grant, *token))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_clock::AtOffset;

    const HOLD: Duration = Duration::from_secs(3);

    fn holds() -> BoundedHolds<AtOffset> {
        let mut deadlines = Deadlines::new();
        let grant = GrantNumber(7);
        deadlines.insert(grant, HOLD, AtOffset(0));
        BoundedHolds { deadlines, tokens: BTreeMap::from([(grant, FencingToken(7))]) }
    }

    #[test]
    fn a_hold_is_due_until_its_command_is_answered() {
        let now = AtOffset(3);
        let due = vec![(GrantNumber(7), FencingToken(7))];
        let mut holds = holds();
        assert_eq!(holds.due_up_to(AtOffset(2), 9), []);
        assert_eq!(holds.due_up_to(now, 9), due);
        holds.answered(GrantNumber(7), FencingToken(6));
        assert_eq!(holds.due_up_to(now, 9), due, "that command was for an earlier hold");
        holds.answered(GrantNumber(7), FencingToken(7));
        assert_eq!(holds.due_up_to(now, 9), []);
    }

    #[test]
    fn a_hold_that_has_ended_leaves_nothing_behind() {
        let now = AtOffset(3);
        let mut holds = holds();
        holds.remove(GrantNumber(8));
        assert_eq!((holds.tokens.len(), holds.deadlines.due_up_to(now, 9).len()), (1, 1));
        holds.remove(GrantNumber(7));
        assert_eq!((holds.tokens.len(), holds.deadlines.due_up_to(now, 9).len()), (0, 0));
    }
}
