//! Views: what callers see of the state. Only owners see ids.

use crate::{
    api::{GrantView, LockInfo, OwnedAfter, PageQuery, QueueItem, QueuePosition, QueueView, SessionView},
    clock::wall_now,
    views::estimate::{WaitEstimator, facts},
};
use fairhold_state::{
    State,
    command::{HolderFacts, Want},
    queue_view::{Before, QueueEntry, QueueKey},
    read::GrantStatus,
    record::{Contender, SessionRecord},
};
use fairhold_types::{GrantId, GrantNumber, LockName, limits::QUEUE_ROW_MAX};
use std::time::Duration;

#[cfg(test)]
mod cost;
mod estimate;
pub(crate) mod positions;

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
        token: state.token_of(contender),
        mode: contender.mode,
        permits: contender.permits,
        owner: contender.owner.text.clone(),
        meta: contender.meta.clone(),
        queue_position: None,
        waits_for: None,
        deadlock_checked: contender.deadlock_checked,
        queued_at: contender.queued_at,
        held_since: contender.held_since,
        expires_in: None,
        attempt_to_abandon: None,
    })
}

/// A live grant for its owner, with its place in the queue if it waits.
pub(crate) fn grant_in_queue(state: &State, id: &GrantId) -> Option<GrantView> {
    let mut view = grant_of(state, id)?;
    if view.token.is_none() {
        let locks = state.locks_of(view.number);
        if let Some((lock, position)) = positions::farthest(state, locks.iter(), view.number) {
            view.waits_for = state.waits_for(lock, view.number).map(facts);
            view.queue_position = Some(positions::of(state, lock, position));
        }
    }
    Some(view)
}

/// The contenders ahead of a caller that does not wait, `ahead` of them, in the lock with this holder.
pub(crate) fn front<'a>(
    state: &State,
    mut locks: impl Iterator<Item = &'a LockName> + Clone,
    holder: &HolderFacts,
    ahead: u64,
) -> QueuePosition {
    let has_holder = |lock: &&LockName| state.front(lock, 1).any(|first| first.number == holder.number);
    let lock = locks.clone().find(has_holder).or_else(|| locks.next());
    lock.map_or_else(QueuePosition::default, |lock| positions::of(state, lock, ahead.saturating_add(1)))
}

/// The first holder of a lock.
pub(crate) fn holder(state: &State, lock: &LockName) -> Option<HolderFacts> {
    state.first_holder(lock).map(facts)
}

/// A lock with the first page of its holders.
pub(crate) fn lock(state: &State, name: &LockName) -> LockInfo {
    lock_page(state, name, PageQuery::first(), 0)
}

/// A lock with a page of its holders, which begins after `count` others.
pub(crate) fn lock_page(state: &State, name: &LockName, page: PageQuery<GrantNumber>, count: u64) -> LockInfo {
    let lock = state.lock_summary(name);
    let entries = state.queue_after(name, page.after.map(QueueKey::Holder), Before { count, blocker: None });
    let holders = entries.take_while(|entry| entry.contender.granted_at.is_some());
    let (holders, has_more) = page.collect(holders);
    LockInfo {
        next: holders.last().filter(|_| has_more).map(|last| last.contender.number),
        holders: live(state, &holders).map(|entry| item(entry, None)).collect(),
        holder_count: lock.holders as u64,
        waiting: lock.waiting as u64,
        limit: lock.limit.unwrap_or(1),
        max_waiters: lock.max_waiters,
        max_hold: lock.max_hold_ms.map(Duration::from_millis),
        last_token: lock.last_token,
        statistics: state.statistics(name).cloned(),
    }
}

/// The contenders of a page that have not ended. Those that have ended are removed in pieces, and are not shown in the
/// meantime.
fn live<'e, 'a>(state: &'e State, entries: &'e [QueueEntry<'a>]) -> impl Iterator<Item = &'e QueueEntry<'a>> {
    entries.iter().filter(|entry| !state.is_dead(entry.contender))
}

/// A page of a lock's queue, with all locks of grants of several. `before` describes the contenders ahead of it.
pub(crate) fn queue_page(state: &State, name: &LockName, page: PageQuery<QueueKey>, before: Before<'_>) -> QueueView {
    let lock = state.lock_summary(name);
    let estimator = WaitEstimator::of(state, name, wall_now());
    let (entries, has_more) = page.collect(state.queue_after(name, page.after, before));
    let shown = |entry: &QueueEntry<'_>| QueueItem {
        locks: several_locks(state, entry.contender),
        ..item(entry, entry.waits_for.and(estimator.estimate(entry.position)))
    };
    QueueView {
        items: live(state, &entries).map(shown).collect(),
        next: entries.last().filter(|_| has_more).map(|last| QueueKey::of(last.contender)),
        holder_count: lock.holders as u64,
        waiting: lock.waiting as u64,
        usual_hold: estimator.usual_hold(),
    }
}

/// A session with a page of its grants and nodes.
pub(crate) fn session(state: &State, session: &SessionRecord, page: &PageQuery<OwnedAfter>) -> SessionView {
    let after = page.after.clone().unwrap_or_default();
    let (grants, more_grants) = page.collect(state.grants_after(session.number, after.grant));
    let (nodes, more_nodes) = page.collect(state.ephemerals_after(session.number, after.node.as_ref()).cloned());
    let last = || OwnedAfter {
        grant: grants.last().map(|(key, _, _)| *key).or(after.grant),
        node: nodes.last().cloned().or(after.node.clone()),
    };
    SessionView {
        number: session.number,
        name: session.name.to_string(),
        meta: session.meta.clone(),
        timeout: Duration::from_millis(session.timeout_ms),
        anonymous: session.id.is_none(),
        opened_at: session.opened_at,
        heard_ago: None,
        next: (more_grants || more_nodes).then(last),
        grants: grants
            .iter()
            .filter(|(_, grant, _)| !state.is_dead(grant))
            .map(|(_, grant, lock)| (grant.number, (*lock).clone(), state.token_of(grant)))
            .collect(),
        grant_count: Some(state.grant_count(session.number)),
        ephemeral_count: Some(state.ephemeral_count(session.number)),
        ephemeral_nodes: nodes,
    }
}

fn item(entry: &QueueEntry<'_>, estimate: Option<Duration>) -> QueueItem {
    let contender = entry.contender;
    QueueItem {
        number: contender.number,
        session: contender.session,
        position: entry.position,
        token: contender.token(),
        cooling: contender.cooling,
        mode: contender.mode,
        permits: contender.permits,
        owner: contender.owner.text.clone(),
        meta: contender.meta.clone(),
        queued_at: contender.queued_at,
        held_since: contender.held_since,
        waits_for: entry.waits_for.map(|other| (other.number, other.owner.text.clone())),
        estimate,
        locks: Vec::new(),
    }
}

/// The first locks of a contender's grant, if it has several.
fn several_locks(state: &State, contender: &Contender) -> Vec<Want> {
    let first = state.contender(contender.number).filter(|_| contender.is_multi_lock());
    let locks = first.into_iter().flat_map(|first| {
        let own = Want { lock: first.lock.clone(), mode: first.mode };
        std::iter::once(own).chain(first.others.iter().cloned())
    });
    locks.take(QUEUE_ROW_MAX).collect()
}
