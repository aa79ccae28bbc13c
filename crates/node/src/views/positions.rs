//! The position of a waiter, and the contenders ahead of it. Each request counts it from the nearer end of the queue.

use crate::{
    api::QueuePosition,
    clock::wall_now,
    views::estimate::{self, WaitEstimator},
};
use fairhold_state::State;
use fairhold_types::{GrantNumber, LockName};

/// How many of the contenders ahead are listed.
pub(crate) const AHEAD_MAX: usize = 16;

/// The lock of a waiting grant with the most contenders ahead, and its position there.
pub(crate) fn farthest<'a>(
    state: &State,
    locks: impl Iterator<Item = &'a LockName>,
    number: GrantNumber,
) -> Option<(&'a LockName, u64)> {
    let positions = locks.filter_map(|lock| Some((lock, state.position(lock, number)?)));
    positions.max_by_key(|(_, position)| *position)
}

/// The contenders ahead of a waiting grant, in the lock with the most of them.
pub(crate) fn of_grant<'a>(
    state: &State,
    locks: impl Iterator<Item = &'a LockName>,
    number: GrantNumber,
) -> Option<QueuePosition> {
    farthest(state, locks, number).map(|(lock, position)| of(state, lock, position))
}

/// The contenders ahead of a position in a lock's queue.
pub(crate) fn of(state: &State, lock: &LockName, position: u64) -> QueuePosition {
    let count = usize::try_from(position.saturating_sub(1)).unwrap_or(usize::MAX).min(AHEAD_MAX);
    QueuePosition {
        position,
        ahead: estimate::first_ahead(state.front(lock, count)),
        estimate: WaitEstimator::of(state, lock, wall_now()).estimate(position),
    }
}

/// The other holders of a lock, for a holder that waits to be the only one.
pub(crate) fn of_upgrade(state: &State, lock: &LockName, number: GrantNumber) -> QueuePosition {
    let others = state.front(lock, AHEAD_MAX + 1).filter(|holder| holder.number != number && holder.granted_at.is_some());
    let position = state.lock_summary(lock).holders.max(1) as u64;
    QueuePosition { position, ahead: estimate::first_ahead(others.take(AHEAD_MAX)), estimate: None }
}
