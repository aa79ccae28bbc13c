//! Elections: locks whose grants carry a value. The holder is the leader and may proclaim new values.
//!
//! An election is a lock, so its leader has a fencing token, a queue and a history like every holder. The first use of
//! a name makes it a lock or an election until it is forgotten; the other use is refused. The value is that of the
//! contender's node. One event carries it, with the grant and with each proclamation; the version in it is 0 for a new
//! leader.

use crate::{
    State,
    change::{Change, Effect},
    check::ensure,
    command::{Event, OperationResult, Outcome, Proclaim, Rejection},
    record::{Contender, LockSettings},
    tombstones::Tombstone,
    value::Value,
};
use fairhold_types::{FencingToken, GrantNumber, LockName, Mode, Revision};

/// The leader of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leading<'a> {
    /// The contender that leads.
    pub contender: &'a Contender,
    /// Its fencing token.
    pub token: FencingToken,
    /// The value that it proclaims.
    pub value: &'a Value,
    /// How often it has proclaimed a new value since its grant.
    pub version: i32,
    /// The revision of the value: that of the proclamation or the grant.
    pub since: Revision,
}

impl LockSettings {
    /// Refuses the other use of a name.
    pub(crate) fn refuse_other_use(&self, election: bool) -> Result<(), Rejection> {
        match self.election {
            Some(is_election) if is_election != election => Err(Rejection::OtherUse { election: is_election }),
            Some(_) | None => Ok(()),
        }
    }

    /// The limit in force, if there is one. For an election it is 1, whatever an administrator sets.
    pub(crate) fn limit_in_force(&self) -> Option<u32> {
        if self.election == Some(true) { Some(1) } else { self.limit }
    }
}

impl Change<'_> {
    /// Gives the leader's node a new value and emits it to watchers.
    pub(crate) fn proclaim(&mut self, request: &Proclaim) -> Result<Effect, Rejection> {
        if let Some(outcome) = self.state.earlier_outcome(request.key)? {
            return Ok(Effect::Unchanged(outcome));
        }
        let number = self.state.index.ids.grant(&request.grant);
        let leads =
            |number: &GrantNumber| self.state.election(&request.election).is_some_and(|now| now.contender.number == *number);
        let number = number.filter(leads).ok_or(Rejection::NotLeader)?;
        self.require_tombstone_room()?;
        let before = |state: &State| Some(state.tree.contender(number)?.value.len());
        self.state.require_quota_of_value(&request.election.path(), request.value.len(), before)?;
        let revision = self.revision;
        let at = self.at;
        let Some(node) = self.state.tree.write_contender(number, request.value.clone()) else {
            unreachable!("grant #{number} leads but has no node");
        };
        node.version = node.version.saturating_add(1);
        node.mzxid = revision;
        node.mtime = at;
        let results = vec![OperationResult::Set { version: node.version }];
        let what = Tombstone::Write { fingerprint: request.key.fingerprint, succeeded: true, results: Some(results.clone()) };
        self.state.tombstones.remember(request.key.key, revision, what);
        self.emit_proclaimed(&request.election);
        Ok(Effect::Changed(Outcome::Written { succeeded: true, results, at: revision }))
    }

    /// Emits the current value, if the lock is an election with a leader.
    pub(crate) fn emit_proclaimed(&mut self, lock: &LockName) {
        if let Some(now) = self.state.election(lock) {
            let proclaimed = Event::Proclaimed {
                lock: lock.clone(),
                grant: now.contender.number,
                token: now.token,
                version: now.version,
                value: now.value.clone(),
            };
            self.events.push(proclaimed);
        }
    }
}

impl State {
    /// The leader of an election; `None` if it has none or the name is a lock.
    #[must_use]
    pub fn election(&self, name: &LockName) -> Option<Leading<'_>> {
        if self.is_election(name) != Some(true) {
            return None;
        }
        let number = self.queue_of(name)?.holders.get_min()?;
        let node = self.tree.contender(*number)?;
        let contender = self.contender(*number)?;
        let token = self.token_of(contender)?;
        let since = Revision(token.0).max(node.mzxid);
        Some(Leading { contender, token, value: &node.value, version: node.version, since })
    }

    /// Whether a name is used for an election or for a lock; `None` if it is unused.
    #[must_use]
    pub fn is_election(&self, name: &LockName) -> Option<bool> {
        self.settings(name)?.election
    }

    /// Checks that an election has at most one leader, and that other contenders have no value.
    pub(crate) fn check_election(&self, lock: &LockName) -> Result<(), String> {
        let queue = self.queue_of(lock);
        let election = self.is_election(lock) == Some(true);
        for contender in self.front(lock, usize::MAX) {
            let number = contender.number;
            let node = self.tree.contender(number);
            let has_value = node.is_some_and(|node| !node.value.is_empty() || node.version != 0);
            ensure(election || !has_value, || format!("#{number} of {lock} has a value, but {lock} is not an election"))?;
            let shared = election && contender.mode != Mode::Exclusive;
            ensure(!shared, || format!("#{number} has shared mode in the election {lock}"))?;
        }
        let leads = queue.map_or(0, |queue| queue.holders.len());
        ensure(!election || leads <= 1, || format!("the election {lock} has several leaders"))
    }
}
