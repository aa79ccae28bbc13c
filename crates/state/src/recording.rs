//! Writes the history: each holding period, when it ended, and how (`history`).

use crate::{
    State,
    change::{Change, Effect},
    command::Outcome,
    history::{Ending, HistoryKey, Holding, PastHolding},
    record::{Contender, Moment},
};
use fairhold_types::{EndReason, FencingToken, GrantNumber, HoldingEnd, LockName, Revision, limits::ESTIMATE_HOLDS};
use std::sync::Arc;

impl Change<'_> {
    /// Records the end of a contender. One that never held leaves no entry.
    pub(crate) fn record_ended(&mut self, contender: &Contender, how: EndReason) {
        let holding = holding_of(contender);
        self.count_ended(contender, holding.as_ref(), how);
        if let Some(holding) = holding {
            self.record(holding, how.into());
        }
    }

    /// Records that a holder changes its mode.
    pub(crate) fn record_changed_mode(&mut self, number: GrantNumber, how: HoldingEnd) {
        if let Some(holding) = holding_of(self.contender(number)) {
            self.count_changed_mode(&holding);
            self.record(holding, how);
        }
    }

    fn record(&mut self, holding: Holding, how: HoldingEnd) {
        let ending = Ending { to: self.moment(), how, by: String::new(), reason: String::new() };
        self.state.history.insert(Arc::new(PastHolding { holding, ending }));
        let dropped = self.state.history.trim(self.state.budget.history_bytes_max());
        self.state.drop_statistics(dropped);
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { revision: self.revision, at: self.at }
    }

    /// Adds who ended the hold, and why, to the entry of this revision.
    pub(crate) fn record_who_ended(&mut self, lock: &LockName, number: GrantNumber, by: &str, reason: &str) {
        let key = HistoryKey { ended: self.revision, number };
        self.state.history.record_who_ended(lock, key, by, reason);
    }

    pub(crate) fn forget_history(&mut self, through: Revision) -> Effect {
        let forgotten = self.state.history.forget(through);
        self.add_uncounted_steps(forgotten.len() as u64);
        if forgotten.is_empty() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.state.drop_statistics(forgotten);
        Effect::Changed(Outcome::Done)
    }
}

impl State {
    /// The revision at which the oldest entry of the history ended, for `Command::ForgetHistory`.
    #[must_use]
    pub fn oldest_history(&self) -> Option<Revision> {
        self.history.oldest_end()
    }

    /// The median of the newest `ESTIMATE_HOLDS` holding periods of a lock, in milliseconds, by the times in the
    /// commands. For display: no rule reads it.
    #[must_use]
    pub fn usual_hold_ms(&self, lock: &LockName) -> Option<u64> {
        let newest = self.history.of_lock(lock).rev().take(ESTIMATE_HOLDS);
        let mut holds: Vec<u64> = newest.map(|(_, past)| past.ending.to.at.0.saturating_sub(past.holding.from.at.0)).collect();
        holds.sort_unstable();
        holds.get(holds.len() / 2).copied()
    }
}

/// Since when a granted contender has held in its current mode.
pub(crate) fn holding_since(contender: &Contender) -> Option<Moment> {
    let revision = contender.granted_at?;
    let granted = Moment { revision, at: contender.held_since.unwrap_or(contender.queued_at) };
    Some(contender.mode_since.unwrap_or(granted))
}

/// The current holding period of a granted contender.
pub(crate) fn holding_of(contender: &Contender) -> Option<Holding> {
    let revision = contender.granted_at?;
    let from = holding_since(contender)?;
    Some(Holding {
        lock: contender.lock.clone(),
        number: contender.number,
        session: contender.session,
        owner: contender.owner.text.clone(),
        mode: contender.mode,
        permits: contender.permits,
        token: FencingToken(revision.0),
        queued_at: contender.queued_at,
        from,
    })
}
