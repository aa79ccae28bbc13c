//! The metrics of locks, sessions and waiting requests.
//!
//! Each node counts events from its own apply: two nodes that run equally long show the same figures, so do not add
//! them up. Calls are counted only at the node that received them.

use crate::api::{Acquired, CallError};
use fairhold_access::QuotaKind;
use fairhold_metrics::{ByLabel, Counter, Gauge, Histogram, Registry, WAIT_SECONDS};
use fairhold_state::command::{Event, Rejection};
use fairhold_types::{EndReason, GrantNumber};
use openraft_rt::Instant;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// The counters of a node.
pub(crate) struct NodeMetrics<I> {
    pub(crate) granted: Counter,
    pub(crate) wakeups: Counter,
    pub(crate) keepalives: KeepaliveMetrics,
    pub(crate) streams: Gauge,
    queued: Counter,
    attached: Counter,
    handed_over: Counter,
    cooled: Counter,
    ended: EndCounters,
    sessions: SessionMetrics,
    acquires: AcquireCounters,
    over_quota: QuotaCounters,
    waited: Histogram,
    held: Histogram,
    /// Since when each live grant has waited or held. A grant from before the start of this node is missing.
    since: Mutex<BTreeMap<GrantNumber, Phase<I>>>,
}

/// The phase of a grant, and since when, by this node's clock.
#[derive(Debug, Clone, Copy)]
enum Phase<I> {
    Waits(I),
    Holds(I),
}

/// Keepalives at this node, and the messages to the leader that carried them.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeepaliveMetrics {
    pub(crate) requested: Counter,
    pub(crate) batches: Counter,
}

#[derive(Debug, Default)]
struct EndCounters {
    released: Counter,
    expired: Counter,
    broken: Counter,
    withdrawn: Counter,
}

#[derive(Debug, Default)]
struct SessionMetrics {
    opened: Counter,
    expired: Counter,
    closed: Counter,
}

/// Requests for a grant, by result.
#[derive(Debug, Default)]
struct AcquireCounters {
    held: Counter,
    queued: Counter,
    lock_held: Counter,
    wait_timeout: Counter,
    refused: Counter,
    failed: Counter,
    caller_gone: Counter,
}

/// Requests that were refused because a quota of a tenant is used up, by what it counts.
#[derive(Debug, Default)]
struct QuotaCounters([Counter; QuotaKind::ALL.len()]);

impl QuotaCounters {
    fn of(&self, kind: QuotaKind) -> &Counter {
        let QuotaCounters([nodes, bytes, contenders, waiters, sessions, tokens, requests, waits, watches]) = self;
        match kind {
            QuotaKind::Nodes => nodes,
            QuotaKind::Bytes => bytes,
            QuotaKind::Contenders => contenders,
            QuotaKind::Waiters => waiters,
            QuotaKind::Sessions => sessions,
            QuotaKind::Tokens => tokens,
            QuotaKind::Requests => requests,
            QuotaKind::Waits => waits,
            QuotaKind::Watches => watches,
        }
    }
}

/// The grants that one kind of event in a command names. The first is often the only one, and takes no memory.
#[derive(Debug, Default)]
struct NamedGrants {
    first: Option<GrantNumber>,
    others: BTreeSet<GrantNumber>,
}

impl NamedGrants {
    /// Adds a grant. Returns whether it is new.
    fn insert(&mut self, grant: GrantNumber) -> bool {
        match self.first {
            Some(first) => first != grant && self.others.insert(grant),
            None => {
                self.first = Some(grant);
                true
            }
        }
    }

    fn contains(&self, grant: GrantNumber) -> bool {
        self.first == Some(grant) || self.others.contains(&grant)
    }
}

impl<I> Default for NodeMetrics<I> {
    fn default() -> Self {
        NodeMetrics {
            granted: Counter::default(),
            wakeups: Counter::default(),
            keepalives: KeepaliveMetrics::default(),
            streams: Gauge::default(),
            queued: Counter::default(),
            attached: Counter::default(),
            handed_over: Counter::default(),
            cooled: Counter::default(),
            ended: EndCounters::default(),
            sessions: SessionMetrics::default(),
            acquires: AcquireCounters::default(),
            over_quota: QuotaCounters::default(),
            waited: Histogram::of_seconds(WAIT_SECONDS),
            held: Histogram::of_seconds(WAIT_SECONDS),
            since: Mutex::default(),
        }
    }
}

impl<I: Instant> NodeMetrics<I> {
    /// Counts the events of a command that is applied now.
    ///
    /// A grant of several locks has an event for each of them, and counts once. An upgrade does not count as another
    /// grant.
    pub(crate) fn observe(&self, events: &[Event], now: I) {
        let mut queued = NamedGrants::default();
        let mut granted = NamedGrants::default();
        let mut ended = NamedGrants::default();
        let mut cooled = NamedGrants::default();
        for event in events {
            match event {
                Event::SessionOpened { .. } => self.sessions.opened.inc(),
                Event::SessionExpired { .. } => self.sessions.expired.inc(),
                Event::SessionClosed { .. } => self.sessions.closed.inc(),
                Event::Queued { grant, .. } if queued.insert(*grant) => {
                    self.phases().insert(*grant, Phase::Waits(now));
                    self.queued.inc()
                }
                Event::Attached { .. } => self.attached.inc(),
                Event::Granted { grant, .. } if granted.insert(*grant) && self.record_hold(*grant, now) => {
                    self.handed_over.inc_by(u64::from(!queued.contains(*grant)));
                    self.granted.inc()
                }
                Event::Ended { grant, reason, .. } if ended.insert(*grant) => {
                    self.record_end(*grant, now);
                    self.ended.of(*reason).inc()
                }
                Event::Cooled { grant, .. } if cooled.insert(*grant) => self.cooled.inc(),
                Event::Queued { .. }
                | Event::Granted { .. }
                | Event::Ended { .. }
                | Event::Cooled { .. }
                | Event::SessionRetimed { .. }
                | Event::Cooling { .. }
                | Event::Downgraded { .. }
                | Event::Upgrading { .. }
                | Event::Holds { .. }
                | Event::LockSet { .. }
                | Event::Revoked { .. }
                | Event::UpgradeEnded { .. }
                | Event::Broken { .. }
                | Event::Proclaimed { .. }
                | Event::Vacated { .. }
                | Event::LockForgotten { .. }
                | Event::Cluster(_)
                | Event::NodeCreated { .. }
                | Event::NodeChanged { .. }
                | Event::NodeDeleted { .. }
                | Event::ChildrenChanged { .. } => 0,
            };
        }
    }

    /// A snapshot replaced the state: this node does not know since when its grants wait or hold.
    pub(crate) fn forget_phases(&self) {
        self.phases().clear();
    }

    /// The grant holds from now on. Returns `false` if it is known to hold already: then an upgrade granted it again.
    fn record_hold(&self, grant: GrantNumber, now: I) -> bool {
        let mut phases = self.phases();
        match phases.insert(grant, Phase::Holds(now)) {
            Some(before @ Phase::Holds(_)) => {
                phases.insert(grant, before);
                false
            }
            Some(Phase::Waits(since)) => {
                self.waited.observe(now.saturating_duration_since(since));
                true
            }
            None => true,
        }
    }

    fn record_end(&self, grant: GrantNumber, now: I) {
        let before = self.phases().remove(&grant);
        if let Some(Phase::Holds(since)) = before {
            self.held.observe(now.saturating_duration_since(since));
        }
    }

    fn phases(&self) -> parking_lot::MutexGuard<'_, BTreeMap<GrantNumber, Phase<I>>> {
        self.since.lock()
    }

    /// Counts the result of a request for a grant; `None` if its caller had disconnected by then.
    pub(crate) fn record_acquire(&self, outcome: Option<Result<&Acquired, &CallError>>) {
        let acquires = &self.acquires;
        match outcome {
            None => &acquires.caller_gone,
            Some(Ok(Acquired::Held(_))) => &acquires.held,
            Some(Ok(Acquired::Queued(_))) => &acquires.queued,
            Some(Err(CallError::LockHeld { .. } | CallError::Rejected(Rejection::LockHeld { .. }))) => &acquires.lock_held,
            Some(Err(
                CallError::Rejected(_) | CallError::Access(_) | CallError::OverRate { .. } | CallError::TtlTooShort { .. },
            )) => &acquires.refused,
            Some(Err(CallError::WaitTimeout { .. })) => &acquires.wait_timeout,
            Some(Err(
                CallError::Propose(_)
                | CallError::Handover(_)
                | CallError::Finalize(_)
                | CallError::Membership(_)
                | CallError::TimingTooFast { .. }
                | CallError::Read(_)
                | CallError::Superseded
                | CallError::NotInQueue { .. }
                | CallError::NoNode { .. }
                | CallError::Compacted { .. }
                | CallError::FutureRevision { .. }
                | CallError::WatcherTooSlow
                | CallError::BackupBusy
                | CallError::ShuttingDown
                | CallError::Detached,
            )) => &acquires.failed,
        }
        .inc();
    }

    /// How many requests for a grant this node refused.
    pub(crate) fn refused(&self) -> u64 {
        self.acquires.refused.get()
    }

    /// Counts a request that was refused because a quota of a tenant is used up.
    pub(crate) fn record_over_quota(&self, kind: QuotaKind) {
        self.over_quota.of(kind).inc();
    }

    /// Counts a stream whose first event is `held`.
    pub(crate) fn record_held(&self) {
        self.acquires.held.inc();
    }

    /// Counts a stream whose first event is `queued`.
    pub(crate) fn record_queued(&self) {
        self.acquires.queued.inc();
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let acquires = &self.acquires;
        let outcomes = [
            ("held", acquires.held.clone()),
            ("queued", acquires.queued.clone()),
            ("lock_held", acquires.lock_held.clone()),
            ("wait_timeout", acquires.wait_timeout.clone()),
            ("refused", acquires.refused.clone()),
            ("failed", acquires.failed.clone()),
            ("caller_gone", acquires.caller_gone.clone()),
        ];
        let help = "Requests for a grant that this node received, by result";
        registry.register("acquires", help, ByLabel::new("outcome", outcomes));
        let over_quota = QuotaKind::ALL.map(|kind| (kind.as_str(), self.over_quota.of(kind).clone()));
        let help = "Requests that this node refused because a quota of a tenant is used up, by quota";
        registry.register("quota_refusals", help, ByLabel::new("quota", over_quota));
        registry.register("grants_queued", "Grants that entered a queue, granted at once or not", self.queued.clone());
        registry.register("grants_attached", "Repeated requests for a live grant", self.attached.clone());
        registry.register("grants_given", "Grants that were granted", self.granted.clone());
        let help = "Grants that were granted after a wait, when another holder released the lock";
        registry.register("grants_handed_over", help, self.handed_over.clone());
        let ended = [
            ("released", self.ended.released.clone()),
            ("expired", self.ended.expired.clone()),
            ("broken", self.ended.broken.clone()),
            ("withdrawn", self.ended.withdrawn.clone()),
        ];
        let help = "Grants that ended, held or queued, by reason";
        registry.register("grants_ended", help, ByLabel::new("reason", ended));
        registry.register("grants_cooled", "Lock delays that ended", self.cooled.clone());
        let help = "Time in the queue of grants that were granted; nearly 0 if the queue was empty";
        registry.register("grant_wait_seconds", help, self.waited.clone());
        registry.register("grant_hold_seconds", "Holding time of grants that have ended", self.held.clone());
        registry.register("sessions_opened", "Sessions that were opened", self.sessions.opened.clone());
        let help = "Sessions that expired because they were not kept alive";
        registry.register("sessions_expired", help, self.sessions.expired.clone());
        registry.register("sessions_closed", "Sessions that their owners closed", self.sessions.closed.clone());
        let help = "Keepalives at this node, including its own for open requests";
        registry.register("keepalives", help, self.keepalives.requested.clone());
        let help = "Messages to the leader that carried this node's keepalives";
        registry.register("keepalive_batches", help, self.keepalives.batches.clone());
        registry.register("waiters_woken", "Waiting requests that were woken at this node", self.wakeups.clone());
        registry.register("streams_open", "Streams (hold=stream) that are open at this node", self.streams.clone());
    }
}

impl EndCounters {
    fn of(&self, reason: EndReason) -> &Counter {
        match reason {
            EndReason::Released => &self.released,
            EndReason::Expired => &self.expired,
            EndReason::Broken => &self.broken,
            EndReason::Withdrawn => &self.withdrawn,
        }
    }
}

/// An open stream, counted until this is dropped.
pub(crate) struct OpenStream(Gauge);

impl OpenStream {
    pub(crate) fn count(streams: &Gauge) -> OpenStream {
        streams.inc();
        OpenStream(streams.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}
