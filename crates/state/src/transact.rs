//! Writes to the tree: conditions first, then operations. All or nothing, at one revision.

use crate::{
    State,
    change::{Change, Effect},
    command::{Condition, Operation, OperationResult, Outcome, Part, Rejection, SessionKey, Transact, WriteKey},
    tombstones::Tombstone,
    weight::results_weight,
};
use fairhold_types::{
    limits::RESULTS_KEPT_BYTES,
    planted::{self, Bug},
};

impl Change<'_> {
    pub(crate) fn transact(&mut self, transact: &Transact) -> Result<Effect, Rejection> {
        if let Some(key) = transact.key {
            if let Some(outcome) = self.state.earlier_outcome(key)?
                && !writes_again()
            {
                return Ok(Effect::Unchanged(outcome));
            }
            self.require_tombstone_room()?;
        }
        self.add_uncounted_steps(transact.conditions.len() as u64);
        let failed = transact.conditions.iter().zip(0_u32..).find_map(|(condition, index)| {
            let reason = self.state.verify(condition).err()?;
            Some(Rejection::Step { part: Part::Conditions, index, reason: Box::new(reason) })
        });
        let (part, operations) = match (failed, &transact.otherwise) {
            (None, _) => (Part::Then, &transact.then),
            (Some(_), Some(otherwise)) => (Part::Otherwise, otherwise),
            (Some(rejection), None) => return Err(rejection),
        };
        let succeeded = part == Part::Then;
        let results = self.operate_all(part, operations)?;
        if let Some(WriteKey { key, fingerprint }) = transact.key {
            // A retry must not act twice. If the results are too large to keep, its answer has none.
            let kept = (results_weight(&results) <= RESULTS_KEPT_BYTES).then(|| results.clone());
            let remembered = Tombstone::Write { fingerprint, succeeded, results: kept };
            self.state.tombstones.remember(key, self.revision, remembered);
        } else if self.events.is_empty() {
            return Ok(Effect::Unchanged(Outcome::Written { succeeded, results, at: self.state.revision }));
        }
        Ok(Effect::Changed(Outcome::Written { succeeded, results, at: self.revision }))
    }

    /// Does all operations or none. An operation sees the changes of the earlier ones. The first refusal reverts them
    /// all.
    fn operate_all(&mut self, part: Part, operations: &[Operation]) -> Result<Vec<OperationResult>, Rejection> {
        // A refused operation has changed nothing, so a single one needs no copy for the rollback.
        let saved = (operations.len() > 1).then(|| self.state.clone());
        let mut results = Vec::with_capacity(operations.len());
        for (operation, index) in operations.iter().zip(0_u32..) {
            match self.operate(operation.clone()) {
                Ok(result) => results.push(result),
                Err(reason) => {
                    if let Some(saved) = saved {
                        *self.state = saved;
                    }
                    self.events.clear();
                    return Err(Rejection::Step { part, index, reason: Box::new(reason) });
                }
            }
        }
        Ok(results)
    }
}

impl State {
    /// Refuses if the condition does not hold.
    fn verify(&self, condition: &Condition) -> Result<(), Rejection> {
        match condition {
            Condition::Fence { lock, token, grant } => self.verify_fence(lock, *token, grant.as_ref()),
            Condition::Version { path, version } => {
                let current = self.node(path).map(|node| node.version);
                if current == *version { Ok(()) } else { Err(Rejection::VersionMismatch { current }) }
            }
            Condition::Exists { path } => self.node(path).map(|_| ()).ok_or(Rejection::VersionMismatch { current: None }),
            Condition::Session { session } => {
                let open = match session {
                    SessionKey::Id(id) => self.index.session_ids.contains_key(id),
                    SessionKey::Number(number) => self.sessions.contains_key(number),
                };
                if open { Ok(()) } else { Err(Rejection::NoSession) }
            }
        }
    }
}

/// Always false, except with the planted bug.
fn writes_again() -> bool {
    planted::has(Bug::WritesAgain)
}
