//! Views: what callers are shown of the state. Ids go to their owners only.

use crate::api::{GrantView, LockInfo, QueueItem, SessionView};
use fairhold_state::{
    State,
    command::HolderFacts,
    read::{GrantStatus, QueueEntry},
    record::{Contender, Session},
};
use fairhold_types::{GrantId, LockName, limits::SESSION_NODES_SHOWN_MAX};
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
        session: contender.session,
        anonymous: contender.anonymous,
        token: contender.token(),
        mode: contender.mode,
        permits: contender.permits,
        owner: contender.owner.text.clone(),
        meta: contender.meta.clone(),
        position: None,
        waits_for: None,
        queued_at: contender.queued_at,
        held_since: contender.held_since,
        expires_in: None,
        leaves_with_caller: None,
    })
}

/// A live grant for its owner, with its place in the queue where it waits.
pub(crate) fn grant_in_queue(state: &State, id: &GrantId) -> Option<GrantView> {
    let mut view = grant_of(state, id)?;
    if view.token.is_none()
        && let Some(entry) = state.queue(&view.lock).into_iter().find(|entry| entry.contender.number == view.number)
    {
        view.position = Some(entry.position);
        view.waits_for = entry.waits_for.map(facts);
    }
    Some(view)
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
        last_token: lock.last_token,
        statistics: state.statistics(name).cloned(),
    }
}

pub(crate) fn queue(state: &State, name: &LockName) -> Vec<QueueItem> {
    let (usual, limit) = (state.usual_hold_ms(name), u64::from(state.lock(name).limit.unwrap_or(1)));
    let of = |entry: QueueEntry<'_>| QueueItem {
        estimate: entry.waits_for.and(usual).map(|usual| estimate(usual, entry.position, limit)),
        ..item(entry.contender, entry.position, entry.waits_for)
    };
    state.queue(name).into_iter().map(of).collect()
}

pub(crate) fn session(state: &State, session: &Session) -> SessionView {
    let grants = state.contenders_of(session.number);
    SessionView {
        number: session.number,
        name: session.name.clone(),
        meta: session.meta.clone(),
        timeout: Duration::from_millis(session.timeout_ms),
        anonymous: session.id.is_none(),
        opened_at: session.opened_at,
        grants: grants.map(|contender| (contender.number, contender.lock.clone(), contender.token())).collect(),
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

/// How long it takes until those ahead have held, as many at a time as may, each for as long as is usual.
fn estimate(usual_ms: u64, position: u64, limit: u64) -> Duration {
    let turns = position.saturating_sub(1).div_ceil(limit.max(1));
    Duration::from_millis(usual_ms.saturating_mul(turns))
}
