//! The situations that random histories must reach: a rule is tested only if its case occurs.
//!
//! Kinds of commands and answers alone say little: a lowered limit is harmless if the lock has no holder. So each
//! situation is a condition on the state before a command, the command, its answer, and the state after it.

use fairhold_state::{
    State,
    command::{
        Acquire, AdmitNode, Applied, Break, Command, Condition, CreateJoinToken, Event, JoinTokenFault, Operation, Outcome,
        Rejection, SetLock, Transact,
    },
    membership::{Join, JoinToken, Placement},
    read::GrantStatus,
    record::{Contender, NodeRole},
};
use fairhold_types::{EndReason, FencingToken, GrantId, LockName, Mode, NodeId, Path, limits};
use std::collections::BTreeSet;

/// One step of a history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) before: &'a State,
    pub(crate) command: &'a Command,
    pub(crate) applied: &'a Applied,
    pub(crate) after: &'a State,
    /// Every id that was ever held or queued.
    pub(crate) lived: &'a BTreeSet<GrantId>,
    /// Every lock that was ever forgotten.
    pub(crate) forgotten: &'a BTreeSet<LockName>,
}

pub(crate) type Situation = (&'static str, fn(&Scene<'_>) -> bool);

/// The name of each situation, and its condition.
pub(crate) const SITUATIONS: [Situation; 66] = [
    ("a limit is lowered below the permits that are held", |s| {
        s.limit_set().is_some_and(|(lock, _)| s.is_over(lock) && !over(s.before, lock))
    }),
    ("a limit is raised again above its holders", |s| {
        s.limit_set().is_some_and(|(lock, _)| !s.is_over(lock) && over(s.before, lock))
    }),
    ("a limit is lowered while its holders exceed it already", |s| {
        s.limit_set().is_some_and(|(lock, _)| s.is_over(lock) && over(s.before, lock))
    }),
    ("a newcomer joins a lock with more exclusive holders than its limit", |s| {
        s.acquire().is_some_and(|(acquire, _)| over(s.before, &acquire.wants[0].lock))
    }),
    ("a holder releases while the lock exceeds its limit", |s| {
        s.ended().iter().any(|(lock, _)| over(s.before, lock) && s.is_over(lock))
    }),
    ("a downgrade next to another holder, with limit 1 in force", |s| {
        matches!(s.command, Command::Downgrade { grant, .. } if s.live(grant).is_some_and(|holder| {
            holder.mode == Mode::Exclusive && limit(s.before, &holder.lock) == 1 && s.before.lock(&holder.lock).holders.len() > 1
        }))
    }),
    ("a downgrade lets readers in", |s| {
        s.has_event(|event| matches!(event, Event::Downgraded { .. }))
            && s.has_event(|event| matches!(event, Event::Granted { .. }))
    }),
    ("a limit is set while readers hold", |s| {
        s.limit_set().is_some_and(|(lock, limit)| limit > 1 && s.holders(lock).iter().any(|holder| holder.mode == Mode::Shared))
    }),
    ("a limit ends waiters that cannot fit", |s| {
        s.limit_set().is_some() && s.has_event(|event| matches!(event, Event::Ended { reason: EndReason::Broken, .. }))
    }),
    ("a raised limit lets waiters in", |s| {
        s.limit_set().is_some() && s.has_event(|event| matches!(event, Event::Granted { .. }))
    }),
    ("a limit is set back to 1", |s| s.limit_set().is_some_and(|(_, limit)| limit == 1)),
    ("the number of waiters is bounded below the present waiters", |s| {
        s.set_lock().is_some_and(|set| set.max_waiters.is_some_and(|most| (s.after.lock(&set.lock).waiting as u64) > most))
    }),
    ("a queue is full", |s| matches!(s.applied.answer.result, Err(Rejection::QueueFull { .. }))),
    ("a maximum hold is set while the lock is held", |s| {
        s.set_lock().is_some_and(|set| set.max_hold_ms > Some(0) && !s.holders(&set.lock).is_empty())
    }),
    ("a maximum hold is removed while a bounded grant holds", |s| {
        s.set_lock()
            .is_some_and(|set| set.max_hold_ms == Some(0) && s.holders(&set.lock).iter().any(|holder| holder.hold_ms.is_some()))
    }),
    ("of both bounds the lock's is the shorter", |s| s.granted().iter().any(|holder| holder.max_hold_ms > holder.hold_ms)),
    ("of both bounds the request's is the shorter", |s| {
        s.granted()
            .iter()
            .any(|holder| holder.max_hold_ms.is_some() && s.after.lock(&holder.lock).max_hold_ms > holder.max_hold_ms)
    }),
    ("an upgrade takes another bound", |s| {
        s.upgraded().iter().any(|(was, is)| was.hold_ms != is.hold_ms && is.hold_ms.is_some())
    }),
    ("an upgrade loses its bound", |s| s.upgraded().iter().any(|(was, is)| was.hold_ms.is_some() && is.hold_ms.is_none())),
    ("a bounded hold ends", |s| s.end_holds() && s.has_event(|event| matches!(event, Event::Ended { .. })) && !s.cools()),
    ("a bounded hold ends and leaves a lock delay", |s| s.end_holds() && s.cools()),
    ("a verdict on a hold whose token has changed", |s| {
        matches!(s.command, Command::EndHolds { holds, .. } if holds.iter().any(|(grant, token)| {
            let other = |holder: &Contender| holder.token().is_some_and(|has| has != *token);
            s.before.contender(*grant).is_some_and(|holder| holder.hold_ms.is_some() && other(holder))
        }))
    }),
    ("a lock is set by a contender's name", |s| s.set_lock().is_some_and(|set| set.lock.is_reserved())),
    ("a lock is set by the name of a live contender", |s| {
        s.set_lock().is_some_and(|set| is_contender(s.before, &set.lock.path()))
    }),
    ("a lock is acquired by the name of a live contender", |s| {
        let named = |acquire: &Acquire| acquire.wants.iter().any(|want| is_contender(s.before, &want.lock.path()));
        matches!(s.command, Command::Acquire(acquire) if named(acquire))
    }),
    ("a lock is broken or revoked by a contender's name", |s| {
        matches!(s.command, Command::Break(order) if order.lock.is_reserved())
            || matches!(s.command, Command::Revoke(order) if order.lock.is_reserved())
    }),
    ("a lock is broken by a current token", |s| s.broken_by_token() == Some(true)),
    ("a lock is not broken because the token is stale", |s| s.broken_by_token() == Some(false)),
    ("a contender's node is written", |s| s.operations().any(|operation| is_contender(s.before, written(operation)))),
    ("a node is created below a contender's", |s| {
        s.operations().any(|operation| written(operation).parent().is_some_and(|parent| is_contender(s.before, &parent)))
    }),
    ("a contender's node is a condition", |s| {
        let contender = |path: &Path| is_contender(s.before, path);
        let named = |condition: &Condition| {
            let exists = matches!(condition, Condition::Exists { path } if contender(path));
            exists || matches!(condition, Condition::Version { path, .. } if contender(path))
        };
        s.transact().is_some_and(|transact| transact.conditions.iter().any(named))
    }),
    ("a request that does not wait is refused behind waiters", |s| {
        let queued = |acquire: &Acquire| s.before.lock(&acquire.wants[0].lock).waiting > 0;
        let refused = matches!(s.applied.answer.result, Err(Rejection::LockHeld { .. }));
        refused && matches!(s.command, Command::Acquire(acquire) if queued(acquire))
    }),
    ("a newcomer is placed before a waiter by its priority", |s| {
        s.newcomers().iter().any(|new| {
            s.after.lock(&new.lock).waiting > 1
                && s.after.position(&new.lock, new.number).is_some_and(|place| place < s.after.queue(&new.lock).len() as u64)
        })
    }),
    ("a waiter that was overtaken sixteen times is not overtaken again", |s| {
        s.newcomers().iter().any(|new| {
            new.effective_priority < new.priority
                && s.after.queue(&new.lock).iter().any(|entry| entry.contender.overtaken >= limits::OVERTAKEN_MAX)
        })
    }),
    ("a session that expires leaves a lock delay", |s| s.expires() && s.cools()),
    ("a grant that waits for its upgrade expires", |s| s.expires() && s.session_grants().iter().any(|one| one.upgrading)),
    ("a session expires that holds several locks with a delay", |s| {
        s.expires() && s.applied.events.iter().filter(|event| matches!(event, Event::Cooling { .. })).count() > 1
    }),
    ("a cooling lock is broken", |s| s.broken().is_some_and(|lock| holders(s.before, lock).iter().any(|holder| holder.cooling))),
    ("a lock is broken while one of its holders waits for an upgrade", |s| {
        s.broken().is_some_and(|lock| holders(s.before, lock).iter().any(|holder| holder.upgrading))
    }),
    ("several readers lose a lock at once", |s| s.broken().is_some_and(|lock| holders(s.before, lock).len() > 1)),
    ("several holders are asked to release a lock", |s| {
        s.applied.events.iter().filter(|event| matches!(event, Event::Revoked { .. })).count() > 1
    }),
    ("a holder is asked again to release", |s| {
        let asked = |lock| holders(s.before, lock).iter().any(|holder| holder.revoked.is_some() && !holder.cooling);
        matches!(s.command, Command::Revoke(order) if asked(&order.lock))
    }),
    ("an administrator ends a session that holds", |s| {
        matches!(s.command, Command::EndSession { .. }) && s.has_event(|event| matches!(event, Event::Broken { .. }))
    }),
    ("an upgrade waits", |s| matches!((s.command, &s.applied.answer.result), (Command::Upgrade { .. }, Ok(Outcome::Queued(_))))),
    ("an upgrade that waited is done", |s| s.upgraded().iter().any(|(was, _)| was.upgrading)),
    ("an upgrade is abandoned", |s| s.has_event(|event| matches!(event, Event::UpgradeEnded { .. }))),
    ("an upgrade is abandoned, and readers join", |s| {
        s.has_event(|event| matches!(event, Event::UpgradeEnded { .. }))
            && s.has_event(|event| matches!(event, Event::Granted { .. }))
    }),
    ("a second holder requests an upgrade", |s| {
        matches!((s.command, &s.applied.answer.result), (Command::Upgrade { .. }, Err(Rejection::WouldDeadlock { .. })))
    }),
    ("a request would wait for itself", |s| {
        matches!((s.command, &s.applied.answer.result), (Command::Acquire(_), Err(Rejection::WouldDeadlock { .. })))
    }),
    ("a fence that names its grant passes", |s| {
        s.fences(true).any(|(lock, token, grant)| s.before.verify_fence(lock, token, grant).is_ok())
    }),
    ("a fence with the token of another holder is refused", |s| {
        s.fences(true).any(|(lock, token, grant)| {
            s.before.verify_fence(lock, token, grant).is_err() && s.before.verify_fence(lock, token, None).is_ok()
        })
    }),
    ("a fence with a former token is refused", |s| {
        s.fences(false).any(|(lock, token, _)| {
            s.before.lock(lock).last_token >= Some(token) && s.before.verify_fence(lock, token, None).is_err()
        })
    }),
    ("several locks are granted together to a waiter", |s| {
        s.granted().iter().any(|one| !one.others.is_empty() && one.number.0 < s.after.revision().0)
    }),
    ("one of several locks is reserved while its grant waits for another", |s| {
        s.newcomers()
            .iter()
            .any(|new| !new.others.is_empty() && new.granted_at.is_none() && s.after.lock(&new.lock).holders.is_empty())
    }),
    ("a grant is held once more", |s| {
        s.acquire().is_some_and(|(_, one)| one.holds() > 1 && s.has_event(|event| matches!(event, Event::Holds { .. })))
    }),
    ("the first hold is released before the others", |s| {
        let first = |id: &GrantId| s.live(id).is_some_and(|one| one.grant == *id && one.holds() > 1);
        matches!(s.command, Command::Release { grant, .. } if first(grant))
    }),
    ("there is no room for more", |s| matches!(s.applied.answer.result, Err(Rejection::StateFull { .. }))),
    ("a grant is released in a full state", |s| {
        s.before.bytes_max().is_some_and(|most| s.before.bytes() > most)
            && s.has_event(|event| matches!(event, Event::Ended { reason: EndReason::Released, .. }))
    }),
    ("a forgotten acquire is repeated", |s| matches!(s.command, Command::Acquire(acquire) if s.was_forgotten(&acquire.grant))),
    ("a forgotten release is repeated", |s| matches!(s.command, Command::Release { grant, .. } if s.was_forgotten(grant))),
    ("an acquire is repeated after its grant ended", |s| {
        matches!((s.command, &s.applied.answer.result), (Command::Acquire(_), Err(Rejection::GrantEnded { .. })))
    }),
    ("a forgotten lock is used again", |s| {
        s.newcomers().iter().any(|new| s.forgotten.contains(&new.lock) && s.before.node(&new.lock.path()).is_none())
    }),
    ("a verdict on a lock that was used in the meantime", |s| {
        let is_there = |lock: &LockName| s.before.node(&lock.path()).is_some();
        let used_since = |lock, since| is_there(lock) && s.before.idle_since(lock) != Some(since);
        matches!(s.command, Command::ForgetLocks { locks } if locks.iter().any(|(lock, since)| used_since(lock, *since)))
    }),
    ("a change is repeated with its key after another change of mode", |s| {
        let has = |id: &GrantId, mode| s.live(id).is_some_and(|one| one.mode == mode);
        let down = matches!(s.command, Command::Downgrade { grant, key: Some(_), .. } if has(grant, Mode::Exclusive));
        let up = matches!(s.command, Command::Upgrade { grant, key: Some(_), .. } if has(grant, Mode::Shared));
        s.unchanged() && (down || up)
    }),
    ("an attempt gives up after a newer one has replaced it", |s| {
        let newer = |id: &GrantId, attempt| s.live(id).is_some_and(|one| one.attempt_of(id) > attempt);
        matches!(s.command, Command::Withdraw { grant, attempt, .. } | Command::Abandon { grant, attempt, .. }
                if newer(grant, *attempt))
    }),
    ("a session with grants and nodes ends", |s| {
        matches!(s.command, Command::CloseSession { .. } | Command::ExpireSession { .. })
            && s.has_event(|event| matches!(event, Event::Ended { .. }))
            && s.has_event(|event| matches!(event, Event::NodeDeleted { .. }))
    }),
];

/// The same for histories about members.
pub(crate) const OF_MEMBERS: [Situation; 23] = [
    ("a repeated request finds its join token", |s| {
        matches!(s.outcome(), Some(Outcome::JoinTokenCreated { repeated: true, .. }))
    }),
    ("a repeated request finds its join token after its key was forgotten", |s| {
        let key = s.create_join_token().and_then(|create| create.key);
        key.is_some_and(|key| s.before.was_written(key) == Ok(false))
            && matches!(s.outcome(), Some(Outcome::JoinTokenCreated { repeated: true, .. }))
    }),
    ("a request is repeated after its join token was revoked", |s| {
        s.create_join_token().is_some() && matches!(s.fault(), Some(JoinTokenFault::Unknown))
    }),
    ("an expired join token is forgotten", |s| {
        s.create_join_token().is_some() && s.after.membership().tokens().count() < s.before.membership().tokens().count()
    }),
    ("a join token that a node has used is revoked", |s| {
        matches!(s.command, Command::RevokeJoinToken { number, .. }
            if s.before.membership().token(*number).is_some_and(|token| token.used_by.is_some()))
    }),
    ("a secret is wrong", |s| {
        s.admit().is_some_and(|admit| s.token(admit).is_some()) && matches!(s.fault(), Some(JoinTokenFault::Unknown))
    }),
    ("a join token has expired", |s| matches!(s.fault(), Some(JoinTokenFault::Expired))),
    ("another directory has used a join token", |s| matches!(s.fault(), Some(JoinTokenFault::Used { .. }))),
    ("a node that has been removed shows its join token", |s| {
        matches!(s.fault(), Some(JoinTokenFault::Used { .. }))
            && s.admit().and_then(|admit| s.token(admit)?.used_by.filter(|(_, user)| *user == admit.incarnation)).is_some()
    }),
    ("a node that came and went shows another join token", |s| matches!(s.fault(), Some(JoinTokenFault::Removed { .. }))),
    ("a member is being replaced already", |s| {
        let replaces = s.admit().and_then(|admit| admit.replaces);
        matches!(s.fault(), Some(JoinTokenFault::NoReplacement))
            && replaces.is_some_and(|node| s.before.membership().replacement_of(node).is_some())
    }),
    ("the member to replace is gone", |s| {
        let replaces = s.admit().and_then(|admit| admit.replaces);
        matches!(s.fault(), Some(JoinTokenFault::NoReplacement))
            && replaces.is_some_and(|node| s.before.membership().removed_node(node).is_some())
    }),
    ("a standing join token finds nothing to replace", |s| {
        matches!(s.fault(), Some(JoinTokenFault::NoReplacement))
            && s.admit().and_then(|admit| s.token(admit)).is_some_and(|token| token.standing)
    }),
    ("a standing join token admits a second node", |s| {
        let second = |admit: &AdmitNode| s.before.membership().joins().any(|(_, join)| join.token == admit.token);
        s.is_admitted() && !s.unchanged() && s.admit().is_some_and(second)
    }),
    ("a node that is joining shows its join token again", |s| {
        s.is_admitted() && s.unchanged() && s.admit().is_some_and(|admit| s.joining(admit).is_some())
    }),
    ("a node that is joining shows another join token", |s| {
        s.is_admitted()
            && s.unchanged()
            && s.admit().is_some_and(|admit| s.joining(admit).is_some_and(|join| join.token != admit.token))
    }),
    ("a node whose join is done shows its join token again", |s| {
        s.is_admitted() && s.unchanged() && s.admit().is_some_and(|admit| s.joining(admit).is_none())
    }),
    ("an expired join token answers the node that used it", |s| {
        let expired = |admit: &AdmitNode| s.token(admit).is_some_and(|token| token.is_expired(admit.at));
        s.is_admitted() && s.unchanged() && s.admit().is_some_and(expired)
    }),
    ("the leader knows a higher id than the state", |s| {
        s.is_admitted() && s.admit().is_some_and(|admit| admit.ids_through > s.before.membership().ids_through())
    }),
    ("a node is removed while it is joining", |s| s.removed().is_some_and(|node| s.before.membership().join(node).is_some())),
    ("a replaced member is removed", |s| s.removed().is_some_and(|node| s.before.membership().replacement_of(node).is_some())),
    ("a member with a placement is removed", |s| {
        let membership = s.before.membership();
        s.removed().is_some_and(|node| membership.placement(node) != Placement::default() && membership.has_set_address(node))
    }),
    (
        "a node that has been removed gets settings",
        |s| matches!(s.command, Command::SetMember(set) if s.before.membership().removed_node(set.node).is_some()),
    ),
];

fn limit(state: &State, lock: &LockName) -> u32 {
    state.lock(lock).limit.unwrap_or(1)
}

fn holders<'a>(state: &'a State, lock: &LockName) -> Vec<&'a Contender> {
    state.lock(lock).holders
}

/// Whether more permits are held exclusively than the limit.
fn over(state: &State, lock: &LockName) -> bool {
    let exclusive = holders(state, lock).into_iter().filter(|holder| holder.mode == Mode::Exclusive);
    exclusive.map(|holder| u64::from(holder.permits)).sum::<u64>() > u64::from(limit(state, lock))
}

fn is_contender(state: &State, path: &Path) -> bool {
    matches!(state.node(path).map(|node| &node.role), Some(NodeRole::Contender(_)))
}

/// The node that an operation names, or the parent of the node that it creates.
fn written(operation: &Operation) -> &Path {
    match operation {
        Operation::Put { path, .. }
        | Operation::Create { path, .. }
        | Operation::CreateSequential { parent: path, .. }
        | Operation::Set { path, .. }
        | Operation::Delete { path, .. }
        | Operation::Check { path, .. } => path,
    }
}

impl<'a> Scene<'a> {
    fn outcome(&self) -> Option<&'a Outcome> {
        self.applied.answer.result.as_ref().ok()
    }

    fn fault(&self) -> Option<&'a JoinTokenFault> {
        if let Err(Rejection::JoinToken(fault)) = &self.applied.answer.result { Some(fault) } else { None }
    }

    fn create_join_token(&self) -> Option<&'a CreateJoinToken> {
        if let Command::CreateJoinToken(create) = self.command { Some(create) } else { None }
    }

    fn admit(&self) -> Option<&'a AdmitNode> {
        if let Command::AdmitNode(admit) = self.command { Some(admit) } else { None }
    }

    fn is_admitted(&self) -> bool {
        matches!(self.outcome(), Some(Outcome::Admitted { .. }))
    }

    /// The join token that a node shows.
    fn token(&self, admit: &AdmitNode) -> Option<&'a JoinToken> {
        self.before.membership().token(admit.token)
    }

    /// The pending join of a node that shows a join token.
    fn joining(&self, admit: &AdmitNode) -> Option<&'a Join> {
        self.before.membership().join_of(admit.incarnation).map(|(_, join)| join)
    }

    /// The node that is removed from now on.
    fn removed(&self) -> Option<NodeId> {
        let is_new = |node: &NodeId| self.before.membership().removed_node(*node).is_none();
        if let Command::RecordRemoval { node, .. } = self.command { Some(*node).filter(is_new) } else { None }
    }

    fn has_event(&self, which: impl Fn(&Event) -> bool) -> bool {
        self.applied.events.iter().any(which)
    }

    fn unchanged(&self) -> bool {
        self.applied.answer.result.is_ok() && self.before.revision() == self.after.revision()
    }

    fn is_over(&self, lock: &LockName) -> bool {
        over(self.after, lock)
    }

    fn holders(&self, lock: &LockName) -> Vec<&'a Contender> {
        holders(self.after, lock)
    }

    /// A grant as it was before.
    fn live(&self, id: &GrantId) -> Option<&'a Contender> {
        match self.before.grant(id) {
            GrantStatus::Live(contender) => Some(contender),
            GrantStatus::Ended(_) | GrantStatus::Unknown => None,
        }
    }

    fn was_forgotten(&self, id: &GrantId) -> bool {
        self.lived.contains(id) && matches!(self.before.grant(id), GrantStatus::Unknown)
    }

    fn set_lock(&self) -> Option<&'a SetLock> {
        if let Command::SetLock(set) = self.command { Some(set) } else { None }
    }

    /// The lock whose limit changed, and the new limit.
    fn limit_set(&self) -> Option<(&'a LockName, u32)> {
        let set = self.set_lock()?;
        let (is, was) = (limit(self.after, &set.lock), limit(self.before, &set.lock));
        (is != was).then_some((&set.lock, is))
    }

    /// An acquire that was not refused, and its contender.
    fn acquire(&self) -> Option<(&'a Acquire, &'a Contender)> {
        let Command::Acquire(acquire) = self.command else { return None };
        match self.after.grant(&acquire.grant) {
            GrantStatus::Live(contender) if self.applied.answer.result.is_ok() => Some((acquire, contender)),
            GrantStatus::Live(_) | GrantStatus::Ended(_) | GrantStatus::Unknown => None,
        }
    }

    fn granted(&self) -> Vec<&'a Contender> {
        let granted = self.applied.events.iter().filter_map(|event| {
            if let Event::Granted { lock, grant, .. } = event { self.after.contender_in(lock, *grant) } else { None }
        });
        granted.collect()
    }

    /// The contenders that this command added.
    fn newcomers(&self) -> Vec<&'a Contender> {
        let queued = self.applied.events.iter().filter_map(|event| {
            if let Event::Queued { lock, grant } = event { self.after.contender_in(lock, *grant) } else { None }
        });
        queued.collect()
    }

    /// Contenders that changed from shared to exclusive: before and after.
    fn upgraded(&self) -> Vec<(&'a Contender, &'a Contender)> {
        let before = |is: &'a Contender| Some((self.before.contender_in(&is.lock, is.number)?, is));
        self.granted().into_iter().filter_map(before).filter(|(was, _)| was.granted_at.is_some()).collect()
    }

    fn ended(&self) -> Vec<(&'a LockName, EndReason)> {
        let ended = self
            .applied
            .events
            .iter()
            .filter_map(|event| if let Event::Ended { lock, reason, .. } = event { Some((lock, *reason)) } else { None });
        ended.collect()
    }

    fn end_holds(&self) -> bool {
        matches!(self.command, Command::EndHolds { .. })
    }

    fn expires(&self) -> bool {
        matches!(self.command, Command::ExpireSession { .. })
    }

    fn cools(&self) -> bool {
        self.has_event(|event| matches!(event, Event::Cooling { .. }))
    }

    fn session_grants(&self) -> Vec<&'a Contender> {
        let Command::ExpireSession { session, .. } = self.command else { return Vec::new() };
        self.before.contenders_of(*session).collect()
    }

    fn broken(&self) -> Option<&'a LockName> {
        let Command::Break(order) = self.command else { return None };
        (self.before.revision() != self.after.revision()).then_some(&order.lock)
    }

    /// Whether a command that names a token took effect; `None` for other commands and for a repeated one.
    fn broken_by_token(&self) -> Option<bool> {
        let Command::Break(Break { lock, token: Some(token), .. }) = self.command else { return None };
        match self.before.verify_fence(lock, *token, None) {
            Ok(()) => self.broken().map(|_| true),
            Err(_) => self.broken().is_none().then_some(false),
        }
    }

    fn transact(&self) -> Option<&'a Transact> {
        if let Command::Transact(transact) = self.command { Some(transact) } else { None }
    }

    fn operations(&self) -> impl Iterator<Item = &'a Operation> {
        self.transact().into_iter().flat_map(|transact| transact.then.iter().chain(transact.otherwise.iter().flatten()))
    }

    /// The fences of a transaction: those that name a grant, or those that do not.
    fn fences(&self, named: bool) -> impl Iterator<Item = (&'a LockName, FencingToken, Option<&'a GrantId>)> {
        let conditions = self.transact().into_iter().flat_map(|transact| &transact.conditions);
        conditions.filter_map(move |condition| {
            let Condition::Fence { lock, token, grant } = condition else { return None };
            (grant.is_some() == named).then_some((lock, *token, grant.as_ref()))
        })
    }
}
