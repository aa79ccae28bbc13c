//! Delivery: wakes the requests that wait at this node when an applied event concerns them.
//!
//! A request registers first and then looks at the state. The hub receives the events of a command before the state
//! after it can be read. So an event after the look wakes the request, and the look sees every event before it. The
//! wake-up carries no data: the request looks again.

use crate::{
    base::{metrics::NodeMetrics, refused::RefusedWaits},
    clock::wall_now,
    divergence::Comparison,
    feed::{change::Changes, dispatcher::WatchDispatcher},
    leader::clock::LeaderClock,
};
use fairhold_raft::ApplyObserver;
use fairhold_state::{
    State,
    access::AccessData,
    command::{Command, Event, Rejection},
};
use fairhold_types::{GrantNumber, Revision};
use openraft_rt::{AsyncRuntime, Instant};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::oneshot;

/// Passes each applied event on: to the waiters, the watchers, the metrics, and the leader's clock.
pub(crate) struct Hub<RT: AsyncRuntime> {
    waiters: Mutex<Waiters>,
    clock: Arc<LeaderClock<RT>>,
    pub(crate) metrics: NodeMetrics<RT::Instant>,
    pub(crate) refused: RefusedWaits,
    pub(crate) dispatcher: Arc<WatchDispatcher>,
    pub(crate) comparison: Arc<Comparison>,
    /// The applied access data. It is set before the events of its revision are passed on.
    access: RwLock<Arc<AccessData>>,
    /// Whether it may enforce rights: set before data that does, and cleared after data that does not.
    enforces_rights: AtomicBool,
}

#[derive(Default)]
struct Waiters {
    next_id: u64,
    wakers: BTreeMap<(GrantNumber, u64), oneshot::Sender<()>>,
}

/// A request that waits for events of a grant; dropping it ends the registration.
pub(crate) struct Waiter<RT: AsyncRuntime> {
    hub: Arc<Hub<RT>>,
    key: (GrantNumber, u64),
    woken: oneshot::Receiver<()>,
}

impl<RT: AsyncRuntime> Waiter<RT> {
    /// Waits for an event of the grant.
    pub(crate) async fn woken(&mut self) {
        // The sender is dropped only after it is used, or with the hub: in both cases the request must look again.
        let _dropped_or_woken = (&mut self.woken).await;
    }
}

impl<RT: AsyncRuntime> Drop for Waiter<RT> {
    fn drop(&mut self) {
        self.hub.waiters().wakers.remove(&self.key);
    }
}

impl<RT: AsyncRuntime> Hub<RT> {
    pub(crate) fn new(clock: Arc<LeaderClock<RT>>, ring_bytes: u64) -> Hub<RT> {
        let dispatcher = Arc::new(WatchDispatcher::new(ring_bytes));
        Hub {
            waiters: Mutex::default(),
            clock,
            metrics: NodeMetrics::default(),
            refused: RefusedWaits::default(),
            dispatcher,
            comparison: Arc::default(),
            access: RwLock::default(),
            enforces_rights: AtomicBool::new(false),
        }
    }

    /// Registers a request that waits for events of this grant.
    pub(crate) fn register(self: &Arc<Self>, grant: GrantNumber) -> Waiter<RT> {
        let (wake, woken) = oneshot::channel();
        let mut waiters = self.waiters();
        waiters.next_id += 1;
        let key = (grant, waiters.next_id);
        waiters.wakers.insert(key, wake);
        drop(waiters);
        Waiter { hub: Arc::clone(self), key, woken }
    }

    /// Wakes all waiters, so that each looks again.
    pub(crate) fn wake_all(&self) {
        let wakers = std::mem::take(&mut self.waiters().wakers);
        self.wake(wakers.into_values());
    }

    /// The applied access data.
    pub(crate) fn access(&self) -> Arc<AccessData> {
        Arc::clone(&self.access.read())
    }

    /// The applied access data, if rights are enforced. While they are not, no request waits for a lock here.
    pub(crate) fn enforced_access(&self) -> Option<Arc<AccessData>> {
        let enforces = self.enforces_rights.load(Ordering::Acquire);
        enforces.then(|| self.access()).filter(|access| access.is_on())
    }

    /// Keeps the access data of a state if it has changed. Then each request that waits is decided again.
    fn follow_access(&self, state: &State) {
        if state.access().revision() == self.access.read().revision() {
            return;
        }
        // A request that has seen data with rights must not find the flag unset.
        if state.access().is_on() {
            self.enforces_rights.store(true, Ordering::Release);
        }
        *self.access.write() = state.shared_access();
        self.enforces_rights.store(state.access().is_on(), Ordering::Release);
        self.wake_all();
        self.dispatcher.wake_all();
    }

    /// How many grants were granted since this node started, and how many waiters were woken, for whatever reason.
    pub(crate) fn counters(&self) -> (u64, u64) {
        (self.metrics.granted.get(), self.metrics.wakeups.get())
    }

    /// How many requests wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.waiters().wakers.len()
    }

    /// Wakes the waiters of one grant.
    fn wake_grant(&self, grant: GrantNumber) {
        let mut waiters = self.waiters();
        let keys: Vec<_> = waiters.wakers.range((grant, 0)..=(grant, u64::MAX)).map(|(key, _)| *key).collect();
        let wakers: Vec<_> = keys.iter().filter_map(|key| waiters.wakers.remove(key)).collect();
        drop(waiters);
        self.wake(wakers.into_iter());
    }

    /// A receiver may be gone because its caller disconnected.
    fn wake(&self, wakers: impl Iterator<Item = oneshot::Sender<()>>) {
        let woken = wakers.filter_map(|waker| waker.send(()).ok()).count();
        self.metrics.wakeups.inc_by(woken as u64);
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock()
    }
}

impl<RT: AsyncRuntime> ApplyObserver for Hub<RT> {
    fn applied(&self, state: &State, revision: Revision, events: &[Event]) {
        let now = RT::Instant::now();
        self.follow_access(state);
        self.comparison.marked.observe(state);
        self.metrics.observe(events, now);
        self.dispatcher.push(Changes::of(state, revision, events));
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
                | Event::Cluster(_)
                | Event::NodeCreated { .. }
                | Event::NodeChanged { .. }
                | Event::NodeDeleted { .. }
                | Event::ChildrenChanged { .. } => {}
            }
        }
        self.clock.observe(state, events, now);
    }

    fn refused(&self, command: &Command, rejection: &Rejection) {
        if let Rejection::WouldDeadlock { cycle } = rejection {
            self.refused.add(command.at(), cycle);
        }
    }

    fn replaced(&self, state: &State) {
        self.follow_access(state);
        self.comparison.marked.observe(state);
        self.refused.note_gap(wall_now());
        self.metrics.forget_phases();
        self.dispatcher.reset(state.revision());
        // This node never saw the events that led to the snapshot: every waiter must look again.
        self.wake_all();
    }
}
