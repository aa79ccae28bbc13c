//! Writes the history: each holding period, when it ended, and how (`history`).

use crate::{
    State,
    change::{Change, Effect},
    command::{Event, Outcome},
    history::{Ending, HistoryKey, Holding, PastHolding},
    lock_table::LockRecord,
    record::{Contender, Moment},
};
use fairhold_types::{EndReason, FencingToken, GrantNumber, HoldingEnd, LockName, Revision, limits::ESTIMATE_HOLDS};
use std::sync::Arc;

impl Change<'_> {
    /// Records the end of a contender. Only a holder leaves an entry. An election loses its leader.
    pub(crate) fn record_ended(&mut self, contender: &Contender, how: EndReason) {
        let holding = holding_of(contender);
        let held_ms = holding.as_ref().map(|holding| self.held_ms(holding));
        if !contender.secondary {
            Arc::make_mut(&mut self.state.totals).ended(held_ms, how);
        }
        let count = |record: &mut LockRecord| {
            record.statistics_mut().ended(held_ms, how);
            record.settings().is_some_and(|settings| settings.election == Some(true))
        };
        let Some(holding) = holding else {
            self.state.tree.locks.update(&contender.lock, count);
            return;
        };
        if self.record(holding, how.into(), count) == Some(true) {
            self.events.push(Event::Vacated { lock: contender.lock.clone(), grant: contender.number });
        }
    }

    /// Records that a holder changes its mode. It has one lock.
    pub(crate) fn record_changed_mode(&mut self, number: GrantNumber, how: HoldingEnd) {
        if let Some(holding) = holding_of(self.contender(number)) {
            let held_ms = self.held_ms(&holding);
            Arc::make_mut(&mut self.state.totals).changed_mode(held_ms);
            self.record(holding, how, |record| record.statistics_mut().changed_mode(held_ms));
        }
    }

    fn held_ms(&self, holding: &Holding) -> u64 {
        self.at.0.saturating_sub(holding.from.at.0)
    }

    /// Adds an entry to the history of a lock, and makes another change of its record.
    fn record<T>(&mut self, holding: Holding, how: HoldingEnd, also: impl FnOnce(&mut LockRecord) -> T) -> Option<T> {
        let ending = Ending { to: self.moment(), how, by: String::new(), reason: String::new() };
        let result = self.state.tree.locks.insert_entry(PastHolding { holding, ending }, also);
        self.state.tree.locks.trim(self.state.budget.history_bytes_max());
        result
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { revision: self.revision, at: self.at }
    }

    /// Adds who ended the hold, and why, to the entry of this revision.
    pub(crate) fn record_who_ended(&mut self, lock: &LockName, number: GrantNumber, by: &str, reason: &str) {
        let key = HistoryKey { ended: self.revision, number };
        self.state.tree.locks.record_who_ended(lock, key, by, reason);
    }

    pub(crate) fn forget_history(&mut self, through: Revision) -> Effect {
        let forgotten = self.state.tree.locks.forget(through);
        self.add_uncounted_steps(forgotten as u64);
        if forgotten > 0 { Effect::Changed(Outcome::Done) } else { Effect::Unchanged(Outcome::Nothing) }
    }
}

impl State {
    /// The revision at which the oldest entry of the history ended, for `Command::ForgetHistory`.
    #[must_use]
    pub fn oldest_history(&self) -> Option<Revision> {
        self.tree.locks.oldest_end()
    }

    /// The median of the newest `ESTIMATE_HOLDS` holding periods of a lock, in milliseconds, by the times in the
    /// commands. For display: no rule reads it.
    #[must_use]
    pub fn usual_hold_ms(&self, lock: &LockName) -> Option<u64> {
        let newest = self.tree.locks.entries_before(lock, HistoryKey::END).rev().take(ESTIMATE_HOLDS);
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
