//! Delivery: wakes the requests that wait at this node, from what is applied here.
//!
//! A request registers first and looks at the state then; events come before the state can be read again. So whatever happens
//! after the look wakes it, and nothing that happened before is missed. The wake-up carries nothing: the woken one looks again.

use crate::{
    base::metrics::NodeMetrics,
    feed::{change::Changes, dispatcher::Watchers},
    leader::clock::LeaderClock,
};
use fairhold_raft::ApplyObserver;
use fairhold_state::{State, command::Event};
use fairhold_types::{GrantNumber, Revision};
use openraft_rt::AsyncRuntime;
use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::oneshot;

/// The waiters of this node, and what the leader's clock must know.
pub(crate) struct Hub<RT: AsyncRuntime> {
    parked: Mutex<Parked>,
    clock: Arc<LeaderClock<RT>>,
    pub(crate) metrics: NodeMetrics<RT::Instant>,
    pub(crate) watchers: Arc<Watchers>,
}

#[derive(Default)]
struct Parked {
    next: u64,
    waiters: BTreeMap<(GrantNumber, u64), oneshot::Sender<()>>,
}

/// A request's place among those that are woken; dropping it gives the place up.
pub(crate) struct Waiter<RT: AsyncRuntime> {
    hub: Arc<Hub<RT>>,
    key: (GrantNumber, u64),
    woken: oneshot::Receiver<()>,
}

impl<RT: AsyncRuntime> Waiter<RT> {
    /// Waits until something happened to the grant.
    pub(crate) async fn woken(&mut self) {
        // The sender is gone only when it was used, or when the hub itself went: either way it is time to look.
        let _gone_or_woken = (&mut self.woken).await;
    }
}

impl<RT: AsyncRuntime> Drop for Waiter<RT> {
    fn drop(&mut self) {
        self.hub.parked().waiters.remove(&self.key);
    }
}

impl<RT: AsyncRuntime> Hub<RT> {
    pub(crate) fn new(clock: Arc<LeaderClock<RT>>, ring_bytes: u64) -> Hub<RT> {
        let watchers = Arc::new(Watchers::new(ring_bytes));
        Hub { parked: Mutex::default(), clock, metrics: NodeMetrics::default(), watchers }
    }

    /// Takes a place among those that are woken when something happens to the grant.
    pub(crate) fn park(self: &Arc<Self>, grant: GrantNumber) -> Waiter<RT> {
        let (wake, woken) = oneshot::channel();
        let mut parked = self.parked();
        parked.next += 1;
        let key = (grant, parked.next);
        parked.waiters.insert(key, wake);
        drop(parked);
        Waiter { hub: Arc::clone(self), key, woken }
    }

    /// Wakes all, so that each looks again.
    pub(crate) fn wake_all(&self) {
        let waiters = std::mem::take(&mut self.parked().waiters);
        self.wake(waiters.into_values());
    }

    /// How many grants were given since this node started, and how many waiting requests were woken here, for whatever reason.
    pub(crate) fn counters(&self) -> (u64, u64) {
        (self.metrics.granted.get(), self.metrics.wakeups.get())
    }

    /// How many requests wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.parked().waiters.len()
    }

    /// Wakes those who wait for one grant.
    fn wake_grant(&self, grant: GrantNumber) {
        let mut parked = self.parked();
        let keys: Vec<_> = parked.waiters.range((grant, 0)..=(grant, u64::MAX)).map(|(key, _)| *key).collect();
        let woken: Vec<_> = keys.iter().filter_map(|key| parked.waiters.remove(key)).collect();
        drop(parked);
        self.wake(woken.into_iter());
    }

    /// The receiver may be gone: its caller went away, and there is nobody to wake.
    fn wake(&self, waiters: impl Iterator<Item = oneshot::Sender<()>>) {
        let woken = waiters.filter_map(|waiter| waiter.send(()).ok()).count();
        self.metrics.wakeups.inc_by(woken as u64);
    }

    fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock()
    }
}

impl<RT: AsyncRuntime> ApplyObserver for Hub<RT> {
    fn applied(&self, state: &State, revision: Revision, events: &[Event]) {
        self.metrics.observe(events);
        let changes = Changes::of(state, revision, events);
        if !changes.list.is_empty() {
            self.watchers.push(changes);
        }
        for event in events {
            match event {
                Event::Granted { grant, .. }
                | Event::Ended { grant, .. }
                | Event::Attached { grant, .. }
                | Event::UpgradeEnded { grant, .. }
                | Event::Revoked { grant, .. } => self.wake_grant(*grant),
                Event::SessionOpened { .. }
                | Event::SessionExpired { .. }
                | Event::SessionRetimed { .. }
                | Event::SessionClosed { .. }
                | Event::Queued { .. }
                | Event::Cooling { .. }
                | Event::Cooled { .. }
                | Event::Downgraded { .. }
                | Event::Upgrading { .. }
                | Event::Holds { .. }
                | Event::LockSet { .. }
                | Event::Broken { .. }
                | Event::Proclaimed { .. }
                | Event::Vacated { .. }
                | Event::LockForgotten { .. }
                | Event::NodeCreated { .. }
                | Event::NodeChanged { .. }
                | Event::NodeDeleted { .. }
                | Event::ChildrenChanged { .. } => {}
            }
        }
        self.clock.observe(state, events);
    }

    fn replaced(&self, state: &State) {
        self.metrics.forget_phases();
        self.watchers.reset(state.revision());
        // The events of what the snapshot brought were never seen here: everybody looks for himself.
        self.wake_all();
    }
}
