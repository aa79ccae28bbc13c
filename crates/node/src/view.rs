//! Views: what callers are shown of the state. Ids go to their owners only.

use crate::{
    api::{Ahead, GrantView, InTheWay, LockInfo, QueueItem, SessionView},
    positions::{AHEAD_MAX, Positions},
};
use fairhold_state::{
    State,
    command::{HolderFacts, Meta},
    read::{GrantStatus, QueueEntry},
    record::{Contender, Session},
};
use fairhold_types::{GrantId, LockName, limits::SESSION_NODES_SHOWN_MAX};
use openraft_rt::AsyncRuntime;
use std::time::Duration;

/// A live grant for its owner, without its place in the queue.
pub(crate) fn grant_of(state: &State, id: &GrantId) -> Option<GrantView> {
    let GrantStatus::Live(contender) = state.grant(id) else {
        return None;
    };
    Some(GrantView {
        id: *id,
        number: contender.number,
        lock: contender.lock.clone(),
        others: contender.others.clone(),
        holds: contender.holds() as u64,
        revoked: contender.revoked.clone(),
        session: contender.session,
        anonymous: contender.anonymous,
        token: contender.token(),
        mode: contender.mode,
        permits: contender.permits,
        owner: contender.owner.text.clone(),
        meta: contender.meta.clone(),
        in_the_way: None,
        waits_for: None,
        queued_at: contender.queued_at,
        held_since: contender.held_since,
        expires_in: None,
        leaves_with_caller: None,
    })
}

/// A live grant for its owner, with its place in the queue where it waits.
pub(crate) fn grant_in_queue<RT: AsyncRuntime>(state: &State, id: &GrantId, positions: &Positions<RT>) -> Option<GrantView> {
    let mut view = grant_of(state, id)?;
    if view.token.is_none() {
        let locks = state.locks_of(view.number);
        view.in_the_way = positions.of_grant(state, locks.iter(), view.number);
        let in_queue = |lock| state.queue(lock).into_iter().find(|entry| entry.contender.number == view.number);
        let entry = locks.iter().filter_map(in_queue).max_by_key(|entry| entry.position);
        view.waits_for = entry.and_then(|entry| entry.waits_for).map(facts);
    }
    Some(view)
}

/// Who would stand ahead of one who does not wait, of so many in all: in the lock of which it was told that holder.
pub(crate) fn front<'a>(
    state: &State,
    mut locks: impl Iterator<Item = &'a LockName> + Clone,
    holder: &HolderFacts,
    ahead: u64,
) -> InTheWay {
    let is_it = |lock: &&LockName| state.front(lock, 1).any(|first| first.number == holder.number);
    let Some(lock) = locks.clone().find(is_it).or_else(|| locks.next()) else { return InTheWay::default() };
    let position = ahead.saturating_add(1);
    let count = usize::try_from(ahead).unwrap_or(usize::MAX).min(AHEAD_MAX);
    InTheWay { position, ahead: first_ahead(state.front(lock, count)), estimate: Usual::of(state, lock).estimate(position) }
}

/// Those ahead, as a caller is told of them.
pub(crate) fn first_ahead<'a>(contenders: impl Iterator<Item = &'a Contender>) -> Vec<Ahead> {
    let with_meta = |(place, contender): (usize, &Contender)| Ahead {
        facts: facts(contender),
        meta: if place == 0 { contender.meta.clone() } else { Meta::default() },
    };
    contenders.enumerate().map(with_meta).collect()
}

/// The first of those who hold a lock.
pub(crate) fn holder(state: &State, lock: &LockName) -> Option<HolderFacts> {
    state.lock(lock).holders.first().map(|holder| facts(holder))
}

pub(crate) fn lock(state: &State, name: &LockName) -> LockInfo {
    let lock = state.lock(name);
    let holders = (1..).zip(&lock.holders).map(|(position, contender)| item(contender, position, None));
    LockInfo {
        holders: holders.collect(),
        waiting: lock.waiting as u64,
        limit: lock.limit.unwrap_or(1),
        max_waiters: lock.max_waiters,
        max_hold: lock.max_hold_ms.map(Duration::from_millis),
        last_token: lock.last_token,
        statistics: state.statistics(name).cloned(),
    }
}

pub(crate) fn queue(state: &State, name: &LockName) -> Vec<QueueItem> {
    let usual = Usual::of(state, name);
    let of = |entry: QueueEntry<'_>| QueueItem {
        estimate: entry.waits_for.and(usual.estimate(entry.position)),
        ..item(entry.contender, entry.position, entry.waits_for)
    };
    state.queue(name).into_iter().map(of).collect()
}

pub(crate) fn session(state: &State, session: &Session) -> SessionView {
    let grants = state.contenders_of(session.number).flat_map(|contender| {
        let locks = state.locks_of(contender.number).into_iter();
        locks.map(|lock| (contender.number, lock, contender.token()))
    });
    SessionView {
        number: session.number,
        name: session.name.to_string(),
        meta: session.meta.clone(),
        timeout: Duration::from_millis(session.timeout_ms),
        anonymous: session.id.is_none(),
        opened_at: session.opened_at,
        grants: grants.collect(),
        ephemeral_nodes: state.ephemerals_of(session.number).take(SESSION_NODES_SHOWN_MAX).cloned().collect(),
        ephemeral_count: state.ephemeral_count(session.number),
    }
}

pub(crate) fn facts(contender: &Contender) -> HolderFacts {
    HolderFacts {
        number: contender.number,
        owner: contender.owner.text.clone(),
        token: contender.token(),
        since: contender.held_since.unwrap_or(contender.queued_at),
    }
}

fn item(contender: &Contender, position: u64, waits_for: Option<&Contender>) -> QueueItem {
    QueueItem {
        number: contender.number,
        session: contender.session,
        position,
        token: contender.token(),
        cooling: contender.cooling,
        mode: contender.mode,
        permits: contender.permits,
        owner: contender.owner.text.clone(),
        meta: contender.meta.clone(),
        queued_at: contender.queued_at,
        held_since: contender.held_since,
        waits_for: waits_for.map(|other| (other.number, other.owner.text.clone())),
        estimate: None,
    }
}

/// What is usual in a lock, of which estimates are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usual {
    hold_ms: Option<u64>,
    limit: u64,
}

impl Usual {
    pub(crate) fn of(state: &State, lock: &LockName) -> Usual {
        Usual { hold_ms: state.usual_hold_ms(lock), limit: state.lock(lock).limit.unwrap_or(1).max(1).into() }
    }

    /// How long it takes until those ahead have held, as many at a time as may, each for as long as is usual; nothing where
    /// nobody has held yet.
    pub(crate) fn estimate(self, position: u64) -> Option<Duration> {
        let turns = position.saturating_sub(1).div_ceil(self.limit);
        self.hold_ms.map(|hold_ms| Duration::from_millis(hold_ms.saturating_mul(turns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_counts_turns_of_as_many_as_may_hold_together() {
        let usual = |hold_ms, limit| Usual { hold_ms, limit };
        for (position, seconds) in [(1, 0), (2, 10), (4, 30)] {
            assert_eq!(usual(Some(10_000), 1).estimate(position), Some(Duration::from_secs(seconds)), "{position}");
        }
        for (position, seconds) in [(3, 10), (4, 10), (5, 20)] {
            assert_eq!(usual(Some(10_000), 3).estimate(position), Some(Duration::from_secs(seconds)), "{position}");
        }
        assert_eq!(usual(None, 1).estimate(2), None);
    }
}
