//! The records that the model expects: each contender, lock, session and number in full, as the machine's own records.
//!
//! The records are built field by field, so a new field does not compile until the model defines its value.

use super::{Entry, Naive, Result, Session};
use fairhold_state::{
    command::{OperationResult, Rejection, WriteKey},
    record::{Contender, Hold, LockSettings},
    statistics::{BUCKETS, HoldHistogram, Statistics},
};
use fairhold_types::{
    EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, Path, Revision, SessionId, SessionNumber, time::WallMillis,
};
use std::collections::BTreeSet;

/// A session: number, id, key, timeout, name, pairs of text, when it was opened, its ended ids, and the floor under
/// them.
pub(crate) type SessionFacts = (
    u64,
    Option<SessionId>,
    Option<GrantId>,
    u64,
    String,
    fairhold_state::command::Meta,
    WallMillis,
    Vec<(GrantId, EndReason)>,
    Option<GrantId>,
);

/// A node below `/locks`: its path, how often it was written, how many children it ever had, its owner, and its value.
pub(crate) type LockNode = (Path, i32, u64, u64, Vec<u8>);

fn add(histogram: &mut HoldHistogram, span: u64) {
    let (mut bucket, mut bound) = (0, 1);
    while span > bound && bucket + 1 < BUCKETS {
        (bucket, bound) = (bucket + 1, bound * 4);
    }
    histogram.counts[bucket] += 1;
    histogram.sum_ms += span;
}

impl Naive {
    /// All existing locks, and those with contenders.
    pub(crate) fn lock_names(&self) -> BTreeSet<LockName> {
        let stood_in = self.entries.iter().map(|entry| entry.lock.clone());
        self.locks.iter().map(|lock| lock.name.clone()).chain(stood_in).collect()
    }

    /// All contenders of a lock: its holders by number, then its waiters in the order of the queue.
    pub(crate) fn line(&self, name: &LockName) -> Vec<&Entry> {
        let mut holders = self.holders(name);
        holders.sort_by_key(|entry| entry.number);
        holders.into_iter().chain(self.waiting(name)).collect()
    }

    /// The machine's record of a contender, except for the keys of its changes.
    pub(crate) fn contender(&self, entry: &Entry) -> Contender {
        let first = entry.together[0].lock == entry.lock;
        let asked = entry.together.iter().find(|want| want.lock == entry.lock).expect("it requested the lock of its entry");
        let more = entry.more.iter().filter(|_| !entry.cooling).map(|(acquire, attempt)| Hold {
            grant: acquire.grant,
            attempt: *attempt,
            want: acquire.wants[0].clone(),
            limit: acquire.limit,
            permits: acquire.permits,
            priority: acquire.priority,
            meta: acquire.meta.clone(),
            lock_delay_ms: acquire.lock_delay_ms,
            max_hold_ms: acquire.max_hold_ms,
        });
        Contender {
            number: GrantNumber(entry.number),
            grant: entry.id,
            lock: entry.lock.clone(),
            others: if first { entry.together[1..].to_vec() } else { Vec::new() },
            secondary: !first,
            session: SessionNumber(entry.session),
            anonymous: entry.anonymous,
            mode: entry.mode,
            requested_mode: asked.mode,
            upgrading: entry.upgrading,
            limit: entry.requested_limit,
            permits: entry.permits,
            priority: entry.priority,
            effective_priority: entry.effective_priority,
            overtaken: entry.overtaken,
            owner: entry.owner.clone(),
            meta: entry.meta.clone(),
            attempt: entry.attempt,
            further_holds: more.collect(),
            first_released: entry.first_released,
            upgrade_attempt: entry.upgrade_attempt,
            upgrade_key: entry.upgrade_key,
            keys: Default::default(),
            // The tests have so few contenders that every search for a deadlock completes.
            deadlock_checked: true,
            granted_at: entry.granted.map(Revision),
            lock_delay_ms: entry.delay,
            max_hold_ms: entry.max_hold,
            hold_ms: entry.bound,
            revoked: entry.revoked.clone(),
            cooling: entry.cooling,
            queued_at: entry.queued,
            held_since: entry.granted.map(|_| entry.since),
            mode_since: entry.mode_since,
        }
    }

    /// The keys of its changes, as a snapshot has them.
    pub(crate) fn keys_of(entry: &Entry) -> serde_json::Value {
        let keys = entry.changes.iter().filter(|_| !entry.cooling);
        let keys: Vec<WriteKey> = keys.map(|(key, fingerprint)| WriteKey { key: *key, fingerprint: *fingerprint }).collect();
        serde_json::json!({ "keys": keys, "floor": entry.changes_floor.filter(|_| !entry.cooling) })
    }

    /// The contender that this waiter waits for.
    pub(crate) fn waits_for(&self, entry: &Entry) -> Option<u64> {
        if entry.granted.is_some() {
            return None;
        }
        let line = self.line(&entry.lock);
        let place = line.iter().position(|other| other.number == entry.number).expect("it is in the queue");
        if entry.together.len() > 1 && self.is_first(entry.number, &entry.lock) {
            let elsewhere = |name: &LockName| *name != entry.lock && !self.is_first(entry.number, name);
            let lock = &entry.together.iter().find(|want| elsewhere(&want.lock))?.lock;
            let line = self.line(lock);
            let place = line.iter().position(|other| other.number == entry.number).expect("it is in the queue");
            // All holders block it. The machine names the first.
            let before =
                if place > 0 && line[place - 1].granted.is_some() { line.first() } else { line.get(place.wrapping_sub(1)) };
            return before.map(|other| other.number);
        }
        let holds_readers_back = |other: &&&Entry| {
            other.mode == Mode::Exclusive || other.upgrading || (other.granted.is_none() && other.together.len() > 1)
        };
        let other = match entry.mode {
            Mode::Exclusive if self.limit(&entry.lock).unwrap_or(1) == 1 => line[..place].last(),
            // Any holder may free a permit. The machine names the first.
            Mode::Exclusive => line[..place].first(),
            Mode::Shared => line[..place].iter().rev().find(holds_readers_back),
        };
        other.map(|other| other.number)
    }

    /// The settings of a lock.
    pub(crate) fn settings(&self, name: &LockName) -> Option<LockSettings> {
        let lock = self.locks.iter().find(|lock| lock.name == *name)?;
        Some(LockSettings {
            limit: lock.limit,
            last_token: lock.last_token.map(FencingToken),
            election: lock.election,
            used: self.used.contains(name),
            max_waiters: lock.max_waiters,
            max_hold_ms: lock.max_hold,
            kept: lock.kept,
            limited_at: lock.limited.map(Revision),
        })
    }

    pub(crate) fn session_facts(&self) -> Vec<SessionFacts> {
        let mut sessions: Vec<&Session> = self.sessions.iter().collect();
        sessions.sort_by_key(|session| session.number);
        let facts = |session: &Session| {
            let mut ended = session.ended.clone();
            ended.sort_by_key(|(id, _)| *id);
            let (id, key, name, meta) = (session.id, session.key, session.name.clone(), session.meta.clone());
            (session.number, id, key, session.timeout, name, meta, session.opened, ended, session.floor)
        };
        sessions.into_iter().map(facts).collect()
    }

    /// All nodes below `/locks`, in order.
    pub(crate) fn lock_nodes(&self) -> Vec<LockNode> {
        let locks = self.locks.iter().map(|lock| (lock.name.path(), 0, lock.creates, 0, Vec::new()));
        let entries = self.entries.iter().map(|entry| {
            let owner = if entry.cooling { 0 } else { entry.session };
            // Only a candidate has a value, and an election has one lock.
            (entry.path.clone(), entry.version, 0, owner, entry.value.clone().unwrap_or_default())
        });
        let mut nodes: Vec<LockNode> = locks.chain(entries).collect();
        nodes.sort();
        nodes
    }

    /// The version of any node, including those of locks and contenders.
    pub(super) fn version_at(&self, path: &Path) -> Option<i32> {
        let below = || self.lock_nodes().into_iter().find(|node| node.0 == *path).map(|node| node.1);
        self.tree.find(path).map(|node| node.version).or_else(below)
    }

    pub(super) fn check(&self, path: &Path, version: Option<i32>) -> Result<OperationResult> {
        match self.version_at(path) {
            None => Err(Rejection::NoNode { path: path.clone() }),
            Some(current) if version.is_some_and(|version| version != current) => {
                Err(Rejection::VersionMismatch { current: Some(current) })
            }
            Some(version) => Ok(OperationResult::Checked { version }),
        }
    }

    /// Counts a new child of a lock's node, and returns how many it had before.
    pub(super) fn count_child(&mut self, name: &LockName) -> u64 {
        let lock = self.locks.iter_mut().find(|lock| lock.name == *name).expect("it was made before");
        lock.creates += 1;
        lock.creates - 1
    }

    pub(super) fn record_token(&mut self, name: &LockName, token: u64) {
        self.locks.iter_mut().filter(|lock| lock.name == *name).for_each(|lock| lock.last_token = Some(token));
    }

    // Numbers

    /// The statistics of a lock; `None` before its first event.
    pub(crate) fn numbers_of(&self, name: &LockName) -> Option<&Statistics> {
        self.numbers.get(name)
    }

    pub(crate) fn totals(&self) -> &Statistics {
        &self.totals
    }

    /// The statistics of its lock, and the totals if this is the first of its locks.
    fn count(&mut self, entry: &Entry, what: impl Fn(&mut Statistics)) {
        what(self.numbers.entry(entry.lock.clone()).or_default());
        if entry.lock == entry.together[0].lock {
            what(&mut self.totals);
        }
    }

    pub(super) fn count_granted(&mut self, entry: &Entry) {
        let (waited, at_once) = (self.at.0.saturating_sub(entry.queued.0), entry.number == self.now());
        self.count(entry, |numbers| {
            add(&mut numbers.waited, waited);
            numbers.hand_overs += u64::from(!at_once);
        });
    }

    fn held_ms(&self, entry: &Entry) -> u64 {
        self.at.0.saturating_sub(entry.mode_since.map_or(entry.since, |since| since.at).0)
    }

    pub(super) fn count_ended(&mut self, entry: &Entry, how: EndReason) {
        let held = self.held_ms(entry);
        self.count(entry, |numbers| {
            if entry.granted.is_none() {
                numbers.gave_up += 1;
                return;
            }
            add(&mut numbers.held, held);
            match how {
                EndReason::Released => numbers.released += 1,
                EndReason::Expired => numbers.expired += 1,
                EndReason::Broken => numbers.broken += 1,
                EndReason::Withdrawn => numbers.abandoned += 1,
            }
        });
    }

    pub(super) fn count_changed_mode(&mut self, entry: &Entry) {
        let held = self.held_ms(entry);
        self.count(entry, |numbers| {
            add(&mut numbers.held, held);
            numbers.changed_mode += 1;
        });
    }

    /// A lock's statistics disappear with its node and its history, whichever goes last.
    pub(super) fn drop_numbers(&mut self) {
        let (locks, history) = (&self.locks, &self.history);
        self.numbers
            .retain(|name, _| locks.iter().any(|lock| lock.name == *name) || history.iter().any(|holding| holding.lock == *name));
    }
}
