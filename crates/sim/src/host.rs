//! A simulated machine: its clock, its pauses, and its end. A task runs on the host that spawned it.
//!
//! `HostRuntime` is the runtime that the product's code is compiled for. It leaves scheduling and virtual time to
//! openraft's simulated runtime, and adds the machine of each task.

use openraft_rt::{AsyncRuntime, Instant as _, OptionalSend};
use openraft_rt_sim::{Elapsed, SimInstant, SimJoinError, SimJoinHandle, SimRuntime, SimSleep, SimWatch};
use openraft_rt_tokio::{TokioMpsc, TokioMutex, TokioOneshot};
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt, io,
    ops::{Add, AddAssign, Sub, SubAssign},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::trace;

/// The true rate of a clock, in thousandths.
pub(crate) const TRUE_RATE: u64 = 1_000;
/// The maximum sleep. No simulated run lasts as long.
const SLEEP_MAX: Duration = Duration::from_secs(365 * 86_400);
/// One poll in this many is deferred until the other runnable tasks have had a turn, so that seeds explore task orders.
const PUT_OFF_ONE_IN: u32 = 24;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Host>>> = const { RefCell::new(None) };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostCondition {
    Running,
    Paused(SimInstant),
    Dead,
}

struct HostInner {
    condition: HostCondition,
    next_task: u64,
    /// The wakers of all unfinished tasks, woken when the condition changes.
    tasks: BTreeMap<u64, Waker>,
    order: SmallRng,
}

/// A machine between one start and the next crash: one life.
pub(crate) struct Host {
    id: u64,
    life: u64,
    /// The rate of its clock, in thousandths of the true rate.
    rate: u64,
    booted: SimInstant,
    inner: Mutex<HostInner>,
}

impl Host {
    /// Switches a machine on. `rate` is the rate of its clock, in thousandths of the true rate.
    pub(crate) fn boot(id: u64, life: u64, rate: u64, seed: u64) -> Arc<Host> {
        let order = SmallRng::seed_from_u64(seed);
        let inner = HostInner { condition: HostCondition::Running, next_task: 0, tasks: BTreeMap::new(), order };
        Arc::new(Host { id, life, rate, booted: SimInstant::now(), inner: Mutex::new(inner) })
    }

    /// The id of the machine, and the number of this life.
    pub(crate) fn name(&self) -> (u64, u64) {
        (self.id, self.life)
    }

    /// Stops all tasks, as SIGSTOP does. The clock keeps running.
    pub(crate) fn pause(&self) {
        let mut inner = self.lock();
        if inner.condition == HostCondition::Running {
            inner.condition = HostCondition::Paused(SimInstant::now());
        }
    }

    /// Resumes a paused machine.
    pub(crate) fn resume(&self) {
        let mut inner = self.lock();
        if let HostCondition::Paused(_) = inner.condition {
            inner.condition = HostCondition::Running;
            let wakers: Vec<Waker> = inner.tasks.values().cloned().collect();
            drop(inner);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// How long it has been paused; `None` if it is not paused.
    pub(crate) fn paused_for(&self) -> Option<Duration> {
        match self.lock().condition {
            HostCondition::Paused(since) => Some(SimInstant::now() - since),
            HostCondition::Running | HostCondition::Dead => None,
        }
    }

    /// Ends all tasks at once, wherever they wait.
    pub(crate) fn kill(&self) {
        let mut inner = self.lock();
        inner.condition = HostCondition::Dead;
        let wakers: Vec<Waker> = inner.tasks.values().cloned().collect();
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.lock().condition == HostCondition::Dead
    }

    pub(crate) fn is_paused(&self) -> bool {
        matches!(self.lock().condition, HostCondition::Paused(_))
    }

    /// Starts a task on this machine.
    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F) -> SimJoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let mut inner = self.lock();
        let task = inner.next_task;
        inner.next_task += 1;
        drop(inner);
        SimRuntime::spawn(OnHost { host: Arc::clone(self), task, future: Some(Box::pin(future)) })
    }

    /// Makes a call as if it ran on this machine.
    pub(crate) fn within<T>(self: &Arc<Self>, call: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(Some(Arc::clone(self)));
        call()
    }

    fn lock(&self) -> MutexGuard<'_, HostInner> {
        self.inner.lock()
    }

    fn now(&self) -> HostInstant {
        let since = SimInstant::now() - self.booted;
        HostInstant(BOOT_NANOS + scale(since, self.rate, TRUE_RATE))
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {}, life {}", self.id, self.life)
    }
}

/// The reading of a clock when its machine starts: code may compute earlier instants.
const BOOT_NANOS: u64 = 86_400 * 1_000_000_000;

fn scale(duration: Duration, by: u64, of: u64) -> u64 {
    u64::try_from(duration.as_nanos() * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
}

/// The machine on which the caller runs; none for clients and for the world itself.
pub(crate) fn current() -> Option<Arc<Host>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Restores the machine that was current before.
struct Entered(Option<Arc<Host>>);

impl Entered {
    fn new(host: Option<Arc<Host>>) -> Entered {
        Entered(CURRENT.replace(host))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// The panic payload that unwinds a task when its machine crashes during a poll.
pub(crate) struct Crashed;

struct OnHost<F> {
    host: Arc<Host>,
    task: u64,
    future: Option<Pin<Box<F>>>,
}

enum Gate {
    Open,
    Wait,
    Dead,
}

impl<F> OnHost<F> {
    fn gate(&self, waker: &Waker) -> Gate {
        let mut inner = self.host.lock();
        match inner.condition {
            HostCondition::Dead => return Gate::Dead,
            HostCondition::Paused(_) => {
                inner.tasks.insert(self.task, waker.clone());
                return Gate::Wait;
            }
            HostCondition::Running => {}
        }
        inner.tasks.entry(self.task).or_insert_with(|| waker.clone()).clone_from(waker);
        if inner.order.random_range(0..PUT_OFF_ONE_IN) == 0 {
            drop(inner);
            waker.wake_by_ref();
            return Gate::Wait;
        }
        Gate::Open
    }

    fn forget(&mut self) {
        // A future is also dropped on its own machine.
        let future = self.future.take();
        self.host.within(|| drop(future));
        self.host.lock().tasks.remove(&self.task);
    }
}

impl<F: Future> Future for OnHost<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.gate(cx.waker()) {
            Gate::Open => {}
            Gate::Wait => return Poll::Pending,
            Gate::Dead => {
                self.forget();
                return Poll::Pending;
            }
        }
        let host = Arc::clone(&self.host);
        trace::step(host.id, self.task);
        let Some(future) = self.future.as_mut() else { return Poll::Pending };
        match catch_unwind(AssertUnwindSafe(|| host.within(|| future.as_mut().poll(cx)))) {
            Ok(polled) => {
                if polled.is_ready() {
                    self.forget();
                }
                polled
            }
            Err(crashed) if crashed.is::<Crashed>() => {
                self.forget();
                Poll::Pending
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl<F> Drop for OnHost<F> {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A reading of a machine's clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostInstant(u64);

impl Add<Duration> for HostInstant {
    type Output = HostInstant;

    fn add(self, duration: Duration) -> HostInstant {
        HostInstant(self.0.saturating_add(scale(duration, 1, 1)))
    }
}

impl AddAssign<Duration> for HostInstant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for HostInstant {
    type Output = HostInstant;

    fn sub(self, duration: Duration) -> HostInstant {
        HostInstant(self.0.saturating_sub(scale(duration, 1, 1)))
    }
}

impl SubAssign<Duration> for HostInstant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub<HostInstant> for HostInstant {
    type Output = Duration;

    fn sub(self, earlier: HostInstant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl openraft_rt::Instant for HostInstant {
    fn now() -> HostInstant {
        match current() {
            Some(host) => host.now(),
            None => HostInstant(BOOT_NANOS + scale(trace::since_start(), 1, 1)),
        }
    }
}

/// The runtime as the product's code sees it.
#[derive(Debug)]
pub(crate) struct HostRuntime(SimRuntime);

impl HostRuntime {
    /// The runtime of a world. All randomness of the product comes from the seed.
    #[must_use]
    pub(crate) fn with_seed(seed: u64) -> HostRuntime {
        HostRuntime(SimRuntime::with_seed(seed))
    }
}

fn true_duration(local: Duration) -> Duration {
    let local = local.min(SLEEP_MAX);
    let rate = current().map_or(TRUE_RATE, |host| host.rate);
    // Rounded up, so that no sleep ends early.
    Duration::from_nanos(scale(local, TRUE_RATE, rate) + 1)
}

impl AsyncRuntime for HostRuntime {
    type JoinError = SimJoinError;
    type JoinHandle<T: OptionalSend + 'static> = SimJoinHandle<T>;
    type Sleep = SimSleep;
    type Instant = HostInstant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <SimRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = TokioMpsc;
    type Watch = SimWatch;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        match current() {
            Some(host) => host.spawn(future),
            None => SimRuntime::spawn(future),
        }
    }

    fn sleep(duration: Duration) -> SimSleep {
        SimRuntime::sleep(true_duration(duration))
    }

    fn sleep_until(deadline: HostInstant) -> SimSleep {
        Self::sleep(deadline - HostInstant::now())
    }

    fn timeout<R, F>(duration: Duration, future: F) -> Self::Timeout<R, F>
    where
        F: Future<Output = R> + OptionalSend,
    {
        SimRuntime::timeout(true_duration(duration), future)
    }

    fn timeout_at<R, F>(deadline: HostInstant, future: F) -> Self::Timeout<R, F>
    where
        F: Future<Output = R> + OptionalSend,
    {
        Self::timeout(deadline - HostInstant::now(), future)
    }

    fn is_panic(error: &SimJoinError) -> bool {
        SimRuntime::is_panic(error)
    }

    fn thread_rng() -> SmallRng {
        SimRuntime::thread_rng()
    }

    fn new(threads: usize) -> HostRuntime {
        HostRuntime(SimRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }

    fn spawn_blocking<F, T>(work: F) -> impl Future<Output = Result<T, io::Error>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        SimRuntime::spawn_blocking(work)
    }
}
