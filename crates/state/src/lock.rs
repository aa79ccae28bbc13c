//! The lock recipe: which requests may queue, which contenders can be granted, and in which order.

use crate::{
    State,
    actor::Actor,
    change::{Change, Effect},
    command::{Acquire, Claimant, Event, IfBusy, Outcome, Rejection, Want},
    contender::new_contender,
    deadlock::{WaitKind, WaitRequest},
    granting::shorter,
    holds::hold_outcome,
    key_use::{KeyUse, other_request},
    lock_table::LockRecord,
    queue::Queue,
    record::{Contender, LockSettings},
    service_rank::ServiceRank,
    value::Value,
};
use fairhold_types::{
    GrantNumber, LockName, Mode, Revision, SessionNumber, limits,
    planted::{self, Bug},
    time::WallMillis,
};
use std::sync::Arc;

/// As many digits as the number of a contender's node has.
const SEQUENCE_DIGITS: &str = "0000000000";
/// The cost of forgetting a lock, in steps.
const FORGET_STEPS: u64 = 4;

impl Change<'_> {
    /// Grants, queues or refuses. A repeated request attaches to the grant that it created. Every refusal comes before
    /// the first change, in a fixed order: unsupported options, a used id, another use of the lock (a lock or an
    /// election), the session, the limit, a busy lock, a deadlock, too little room, a quota.
    pub(crate) fn acquire(&mut self, acquire: &Acquire) -> Result<Effect, Rejection> {
        refuse_unsupported(acquire)?;
        match self.state.use_of(&acquire.grant) {
            KeyUse::Free => {}
            KeyUse::Grant(_) if grants_again() => {}
            KeyUse::Grant(number) => {
                self.live_grant(&acquire.grant)?;
                return self.attach(number, acquire);
            }
            used @ (KeyUse::Session(_) | KeyUse::Change(_) | KeyUse::Ended(_) | KeyUse::Tombstone(..)) => {
                let ended = used.ended_reason().map(|reason| self.state.grant_ended(&acquire.grant, reason));
                return Err(ended.unwrap_or_else(other_request));
            }
        }
        // Most requests have one lock, which is looked up once.
        let first = self.state.lock_record(&acquire.wants[0].lock);
        let record = |index: usize| if index == 0 { first } else { self.state.lock_record(&acquire.wants[index].lock) };
        for settings in (0..acquire.wants.len()).filter_map(|index| record(index)?.settings()) {
            settings.refuse_other_use(acquire.value.is_some())?;
        }
        let named = self.find_claimant(acquire)?;
        let mut busy = None;
        let mut has_waiters = false;
        let mut hold_ms = acquire.max_hold_ms;
        for (index, want) in acquire.wants.iter().enumerate() {
            let record = record(index);
            let limit = limit_for(record, want, acquire)?;
            let queue = record.and_then(LockRecord::queue);
            let rank = rank_behind(queue, acquire.priority, GrantNumber(self.revision.0));
            has_waiters |= queue.is_some_and(|queue| !queue.waiting.is_empty());
            hold_ms = shorter(hold_ms, record.and_then(LockRecord::settings));
            if busy.is_none() && !self.state.can_grant_at_once(queue, want, rank, acquire.permits, limit) {
                busy = Some((&want.lock, rank));
            }
        }
        if let Some(number) = named.and_then(|session| self.held_by_same_owner(session, acquire)) {
            return self.add_hold(number, acquire);
        }
        if let Some((lock, rank)) = busy {
            self.refuse_busy(acquire, lock, rank)?;
        }
        // A request that neither waits nor makes others wait cannot close a cycle.
        let must_check = busy.is_some() || has_waiters;
        let checked = !must_check || self.refuse_deadlock(acquire, named, busy.is_none())?;
        self.require_tombstone_room()?;
        if named.is_none() {
            self.require_session_room()?;
        }
        self.state.require_quota_of_grant(acquire)?;
        // If nothing waits and nothing is ending, the newcomer is the only one to be granted.
        let at_once = !must_check && self.state.index.ending.is_empty() && self.state.index.breaking.is_empty();
        Ok(Effect::Changed(self.enqueue(acquire, named, checked, at_once.then_some(hold_ms))))
    }

    /// Refuses a request that would cause a deadlock. Returns whether the check was complete. `granted`: the request
    /// itself would not wait, but others would wait for it.
    fn refuse_deadlock(&mut self, acquire: &Acquire, named: Option<SessionNumber>, granted: bool) -> Result<bool, Rejection> {
        // Only a named owner of a named session can wait for itself. Every other request counts as checked.
        let Some(session) = named.filter(|_| acquire.owner.given) else { return Ok(true) };
        let number = GrantNumber(self.revision.0);
        let rank = |want: &Want| rank_behind(self.state.queue_of(&want.lock), acquire.priority, number);
        let request = WaitRequest {
            actor: Actor::Named(session, &acquire.owner.text),
            session,
            owner: &acquire.owner.text,
            number,
            kind: WaitKind::Queue {
                wants: acquire.wants.iter().map(|want| (want, rank(want))).collect(),
                permits: acquire.permits,
                granted,
            },
        };
        let (checked, visits) = self.state.check_deadlock(&request);
        self.add_uncounted_steps(visits as u64);
        checked
    }

    /// Adds a contender to the queue of each lock, and grants what can be granted. A request that need not wait
    /// is granted with the maximum hold time in `at_once`.
    fn enqueue(
        &mut self,
        acquire: &Acquire,
        named: Option<SessionNumber>,
        deadlock_checked: bool,
        at_once: Option<Option<u64>>,
    ) -> Outcome {
        let number = GrantNumber(self.revision.0);
        let at = acquire.at;
        let session = match (named, &acquire.claimant) {
            (Some(session), _) => session,
            (None, Claimant::Anonymous { timeout_ms }) => self.open_anonymous_session(*timeout_ms, at),
            (None, Claimant::Session(_)) => unreachable!("the named session was found before"),
        };
        let value = acquire.value.clone().map_or_else(Value::empty, Value::from);
        let token = self.token_for(number);
        for (index, want) in acquire.wants.iter().enumerate() {
            let (mut unindexed, mut is_new_election) = (false, false);
            let (contender, sequence, was_busy, oldest) = self.open_lock(&want.lock, acquire.limit, at, |record| {
                let rank = rank_behind(record.queue(), acquire.priority, number);
                let mut contender = new_contender(acquire, index, session, named.is_none(), rank);
                contender.deadlock_checked = deadlock_checked;
                let was_busy = record.queue().is_some();
                let oldest = record.queue().and_then(|queue| queue.by_age.get_min()).copied();
                if let Some(settings) = record.settings_mut() {
                    let is_election = acquire.value.is_some();
                    is_new_election = is_election && settings.election != Some(true);
                    settings.election = Some(is_election);
                }
                if let Some(hold_ms) = at_once {
                    contender.hold_ms = hold_ms;
                    contender.granted_at = Some(Revision(number.0));
                    contender.held_since = Some(at);
                    unindexed = record.grant(&contender, token, 0, true).1;
                } else {
                    record.queue_mut().add(&contender);
                }
                (contender, record.add_child(Revision(number.0)), was_busy, oldest)
            });
            if let Some(oldest) = oldest {
                self.count_overtaken(&want.lock, oldest, ServiceRank::of(&contender));
            }
            if is_new_election {
                self.state.index.elections.insert(want.lock.clone());
            }
            self.add_contender(contender, sequence, was_busy, value.clone());
            if unindexed {
                self.state.index_holders(&want.lock);
            }
        }
        panic_if_planted(&acquire.wants[0].lock);
        if at_once.is_some() {
            Arc::make_mut(&mut self.state.totals).granted(0, true);
            acquire.wants.iter().for_each(|want| self.emit_granted(&want.lock, number, token, acquire.value.is_some()));
        } else {
            self.grant_waiters(acquire.wants.iter().map(|want| want.lock.clone()));
        }
        hold_outcome(self.contender(number), &acquire.grant)
    }

    /// Adds a contender to the tree and the indexes. The record of its lock has it already.
    fn add_contender(&mut self, contender: Box<Contender>, sequence: u32, was_busy: bool, value: Value) {
        let State { tree, index, .. } = &mut *self.state;
        let path = contender.lock.path().child(&contender_name(contender.session, sequence));
        if !was_busy {
            index.busy.insert(contender.lock.clone());
        }
        index.add_contender(&contender, &path);
        self.events.push(Event::Queued { lock: contender.lock.clone(), grant: contender.number });
        tree.insert_contender(path, contender, value, self.revision);
    }

    /// The named session that acquires; `None` if the grant gets its own session.
    fn find_claimant(&self, acquire: &Acquire) -> Result<Option<SessionNumber>, Rejection> {
        let Claimant::Session(id) = &acquire.claimant else {
            return Ok(None);
        };
        let number = *self.state.index.session_ids.get(id).ok_or(Rejection::NoSession)?;
        let floor = self.state.sessions.get(&number).and_then(|session| session.ended.floor());
        // Ids are ordered by creation time. An id that is not newer than a forgotten one may be that one. An id that
        // the server made for this request cannot have been used before.
        let may_be_forgotten = acquire.id_given && Some(acquire.grant) <= floor;
        if may_be_forgotten { Err(Rejection::Forgotten) } else { Ok(Some(number)) }
    }

    /// Refuses a request that may not wait, or for which a queue is full. `lock` is the first lock that is not free.
    fn refuse_busy(&self, acquire: &Acquire, lock: &LockName, rank: ServiceRank) -> Result<(), Rejection> {
        if acquire.if_busy == IfBusy::Refuse {
            return Err(self.state.busy(lock, rank));
        }
        let waiting = |want: &Want| self.state.queue_of(&want.lock).map_or(0, |queue| queue.waiting.len() as u64);
        let full = |want: &Want| {
            let max =
                self.state.settings(&want.lock).and_then(|settings| settings.max_waiters).unwrap_or(limits::WAITERS_MAX as u64);
            (waiting(want) >= max).then_some(max)
        };
        acquire.wants.iter().find_map(full).map_or(Ok(()), |max| Err(Rejection::QueueFull { max }))?;
        acquire.wants.iter().try_for_each(|want| self.state.require_quota_of_waiters(&want.lock, waiting(want)))
    }

    /// Creates the lock's node if it is missing, sets its limit if it has none, and changes its record.
    pub(crate) fn open_lock<T>(
        &mut self,
        lock: &LockName,
        limit: Option<u32>,
        at: WallMillis,
        change: impl FnOnce(&mut LockRecord) -> T,
    ) -> T {
        if self.state.settings(lock).is_none() {
            self.state.tree.create_lock(lock.path(), self.revision, at);
        }
        let State { tree, index, .. } = &mut *self.state;
        let changed = tree.locks.update(lock, |record| {
            let settings = record.settings_mut()?;
            settings.limit = settings.limit.or(limit);
            if !std::mem::replace(&mut settings.used, true) {
                index.locks.insert(lock.clone());
            }
            Some(change(record))
        });
        changed.flatten().unwrap_or_else(|| unreachable!("{lock} has no node"))
    }

    /// Removes the nodes of locks that have had no contenders since the given revisions.
    pub(crate) fn forget_locks(&mut self, locks: &[(LockName, Revision)]) -> Effect {
        let mut judged = 0;
        for (lock, since) in locks {
            if !self.has_steps_left() {
                break;
            }
            judged += 1;
            self.count_steps(FORGET_STEPS);
            if self.state.idle_since(lock) != Some(*since) {
                continue;
            }
            self.state.tree.remove(&lock.path(), self.revision);
            self.state.index.locks.remove(lock);
            self.state.index.elections.remove(lock);
            self.events.push(Event::LockForgotten { lock: lock.clone() });
        }
        self.judged(judged)
    }
}

/// The limit in force for a new contender.
fn limit_for(record: Option<&LockRecord>, want: &Want, acquire: &Acquire) -> Result<u32, Rejection> {
    let set = record.and_then(LockRecord::settings).and_then(LockSettings::limit_in_force);
    // A lock with contenders but without a limit is a mutex.
    let implied = record.and_then(LockRecord::queue).map(|_| 1);
    let limit = match (set.or(implied), acquire.limit) {
        (Some(limit), Some(requested)) if limit != requested => return Err(Rejection::LimitMismatch { limit }),
        (Some(limit), _) => limit,
        (None, requested) => requested.unwrap_or(1),
    };
    if acquire.permits > limit {
        return Err(Rejection::PermitsOverLimit { permits: acquire.permits, limit });
    }
    if limit > 1 && want.mode == Mode::Shared {
        return Err(Rejection::SharedWithLimit { limit });
    }
    Ok(limit)
}

/// The rank of a newcomer with this priority: behind every waiter that cannot be overtaken.
fn rank_behind(queue: Option<&Queue>, priority: i32, number: GrantNumber) -> ServiceRank {
    let last = queue.and_then(|queue| queue.barriers.get_max());
    ServiceRank::new(last.map_or(priority, |last| priority.min(last.effective_priority())), number)
}

impl State {
    /// The record of a lock.
    #[inline]
    pub(crate) fn lock_record(&self, lock: &LockName) -> Option<&LockRecord> {
        self.tree.locks.get(lock.as_str())
    }

    /// The queue of a lock, if it has contenders.
    pub(crate) fn queue_of(&self, lock: &LockName) -> Option<&Queue> {
        self.lock_record(lock)?.queue()
    }

    /// The settings of a lock, if it has a node.
    pub(crate) fn settings(&self, lock: &LockName) -> Option<&LockSettings> {
        self.lock_record(lock)?.settings()
    }

    fn busy(&self, lock: &LockName, rank: ServiceRank) -> Rejection {
        let Some(queue) = self.queue_of(lock) else { unreachable!("a lock that is not free has a queue") };
        let first = queue.holders.get_min().copied().or_else(|| queue.waiting.get_min().map(|rank| rank.number()));
        let ahead = queue.holders.len() + queue.waiting_before(rank);
        match first.and_then(|number| self.contender_in(lock, number)) {
            Some(first) => Rejection::LockHeld { holder: self.holder_facts(first), ahead: ahead as u64 },
            None => unreachable!("a lock that is not free has a contender"),
        }
    }
}

/// The name of a contender's node: `<session number>-lock-<ten digits>`, as in ZooKeeper's recipe.
fn contender_name(session: SessionNumber, sequence: u32) -> String {
    let mut session_digits = itoa::Buffer::new();
    let mut digits = itoa::Buffer::new();
    let session = session_digits.format(session.0);
    let sequence = digits.format(sequence);
    let mut name = String::with_capacity(session.len() + "-lock-".len() + SEQUENCE_DIGITS.len());
    name.push_str(session);
    name.push_str("-lock-");
    name.push_str(&SEQUENCE_DIGITS[sequence.len()..]);
    name.push_str(sequence);
    name
}

fn refuse_unsupported(acquire: &Acquire) -> Result<(), Rejection> {
    let wants = &acquire.wants;
    let too_many = wants.len() > limits::LOCKS_PER_ACQUIRE_MAX;
    let named_before = |at: usize| wants[..at].iter().any(|other| other.lock == wants[at].lock);
    let twice = !too_many && (1..wants.len()).any(named_before);
    let election = acquire.value.is_some();
    let unsupported = [
        ("a lock with a contender's name", wants.iter().any(|want| want.lock.is_reserved())),
        ("taking no lock, or one twice", wants.is_empty() || twice),
        ("taking so many locks at once", too_many),
        ("a reentrant hold of several locks", acquire.reentrant && wants.len() > 1),
        ("an election of several names", election && wants.len() > 1),
        ("a reentrant hold of an election", election && acquire.reentrant),
        ("an election that is shared", election && wants.iter().any(|want| want.mode == Mode::Shared)),
        ("an election with a limit", election && acquire.limit.is_some_and(|limit| limit > 1)),
    ];
    match unsupported.into_iter().find(|(_, requested)| *requested) {
        Some((what, _)) => Err(Rejection::Unsupported { what: what.to_owned() }),
        None => Ok(()),
    }
}

/// The planted panic, in the middle of a change.
fn panic_if_planted(lock: &LockName) {
    assert!(!planted::panics(lock.as_str()), "a planted panic in the middle of a change");
}

/// Always false, except with the planted bug: a repeated acquire makes a new grant.
fn grants_again() -> bool {
    planted::has(Bug::GrantsAgain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_contenders_node_has_ten_digits_and_is_reserved() {
        for (session, sequence, name) in [
            (1, 0, "1-lock-0000000000"),
            (42, 7, "42-lock-0000000007"),
            (u64::MAX, u32::MAX, "18446744073709551615-lock-4294967295"),
        ] {
            let made = contender_name(SessionNumber(session), sequence);
            assert_eq!(made, name);
            assert!(LockName::parse(&made).unwrap().is_reserved(), "no lock may have the name {made}");
        }
    }
}
