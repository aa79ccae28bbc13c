//! A node: the parts that serve every API, started and stopped together.

use crate::{
    access::{CallerRequest, RightsCache, SeenLocks, TenantDoor},
    api::{At, CallError, ClusterView, Freshness, MemberFacts, OverviewView, ReadOptions, WaitsView},
    base::{
        alarms::NodeAlarms, backups::Backups, marked_state::digest_of, memory::MemoryShortage, pulse::Pulse, series::Series,
        shared_answers::SharedAnswers, stop::Stop, tasks::Tasks, walks::WalkSlots,
    },
    clock::wall_now,
    hub::Hub,
    leader::{
        clock::{self, LeaderClock},
        keepalive::{KeepaliveService, Keepalives},
    },
    looks::{LookService, MemberLooks, OwnFacts},
};
use fairhold_raft::{ApplyObserver, Replica};
use fairhold_state::{
    State,
    listing::{LockPage, LockQuery},
    waits::WaitsQuery,
};
use fairhold_types::{
    ClusterId, GrantId, NodeId, Revision, SessionId,
    limits::{EVENT_RING_BYTES, TIMEOUT_DEFAULT},
    time::WallMillis,
};
use openraft_rt::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use rand::RngExt;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long the proof that a leader leads may take in a readiness check, and then how long the leader may be silent.
const PROOF_TIMEOUT: Duration = Duration::from_secs(1);
/// Why a node that nothing else keeps from serving is not ready.
const UNREACHED: &str = "this node reaches the leader, but the leader does not reach this node: compare its peer address with \
                         `fairhold cluster members`, and check that the other nodes can connect to it";

/// Why a node is not ready that has the wrong state.
const ODD: &str = "the state of this node is not that of a majority, which must not happen: see `fairhold cluster alarms`";

/// The percentage of its budget above which the node warns that the state is nearly full.
const STATE_WARN_PERCENT: u64 = 80;
/// What an administrator can do about it.
const STATE_ADVICE: &str = "Remove nodes, end sessions, or give every node more memory (serve --state-bytes-max)";

/// The parts that must exist before Raft starts, because Raft passes applied events to them.
pub struct NodeParts<RT: AsyncRuntime> {
    hub: Arc<Hub<RT>>,
    clock: Arc<LeaderClock<RT>>,
}

impl<RT: AsyncRuntime> NodeParts<RT> {
    /// Creates the parts with the default size of the event ring.
    #[must_use]
    pub fn new() -> Self {
        NodeParts::with_event_ring(EVENT_RING_BYTES)
    }

    /// Creates the parts with an event ring of this many bytes.
    #[must_use]
    pub fn with_event_ring(event_ring_bytes: u64) -> Self {
        let clock = Arc::new(LeaderClock::new());
        NodeParts { hub: Arc::new(Hub::new(Arc::clone(&clock), event_ring_bytes)), clock }
    }

    /// The observer for Raft: it receives every applied event.
    #[must_use]
    pub fn apply_observer(&self) -> Arc<dyn ApplyObserver> {
        Arc::clone(&self.hub) as Arc<dyn ApplyObserver>
    }
}

impl<RT: AsyncRuntime> Default for NodeParts<RT> {
    fn default() -> Self {
        NodeParts::new()
    }
}

impl<RT: AsyncRuntime> std::fmt::Debug for NodeParts<RT> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeParts")
    }
}

/// The topic of a warning: at most one warning for each at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// Free space on the disk.
    Disk,
    /// The memory of the process.
    Memory,
    /// The certificates of the node.
    Certificate,
    /// The audit log.
    Audit,
    /// The scheduled backups.
    Backup,
}

/// A warning if the state is nearly full.
fn state_warning(bytes: u64, max: u64) -> Option<String> {
    let nearly = bytes >= max / 100 * STATE_WARN_PERCENT;
    nearly.then(|| {
        format!(
            "the state uses {bytes} of {max} bytes; when it is full, the cluster refuses requests that create something. \
             {STATE_ADVICE}"
        )
    })
}

fn facts_of(state: &State, member: NodeId) -> MemberFacts {
    MemberFacts { capacity: state.capacity_of(member), placement: state.membership().placement(member) }
}

/// A running node. Clones are handles of the same node, for the same caller.
pub struct Node<RT: AsyncRuntime>(pub(crate) Arc<NodeInner<RT>>, pub(crate) Option<Arc<CallerRequest>>);

pub(crate) struct NodeInner<RT: AsyncRuntime> {
    pub(crate) replica: Replica<RT>,
    pub(crate) hub: Arc<Hub<RT>>,
    pub(crate) keepalives: Keepalives,
    pub(crate) tasks: Tasks,
    pub(crate) stop: Stop,
    pub(crate) walks: WalkSlots,
    pub(crate) backups: Backups,
    pub(crate) memory: MemoryShortage,
    pub(crate) rights: RightsCache,
    pub(crate) tenant_door: TenantDoor<RT::Instant>,
    /// When this node last asked for a sign of the leader that came.
    pub(crate) proven_at: Mutex<Option<RT::Instant>>,
    /// The current warnings, by topic.
    warnings: Mutex<BTreeMap<Concern, String>>,
    /// Shows that the task of the leader's clock runs.
    clock_pulse: Arc<Pulse>,
    /// The current alarms.
    pub(crate) alarms: NodeAlarms<RT::Instant>,
    /// The totals of the last minutes and hours.
    pub(crate) series: Series,
    /// What the members say about themselves.
    pub(crate) looks: Arc<MemberLooks<RT::Instant>>,
    /// What callers that may see the same locks share.
    pub(crate) shared_overview: SharedAnswers<RT::Instant, ((), SeenLocks), OverviewView>,
    pub(crate) shared_waits: SharedAnswers<RT::Instant, (WaitsQuery, SeenLocks), WaitsView>,
    pub(crate) shared_locks: SharedAnswers<RT::Instant, (LockQuery, SeenLocks), At<LockPage>>,
}

impl<RT: AsyncRuntime> Clone for Node<RT> {
    fn clone(&self) -> Self {
        Node(Arc::clone(&self.0), self.1.clone())
    }
}

impl<RT: AsyncRuntime> std::fmt::Debug for Node<RT> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Node")
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Starts the node's own work. The replica must have been started with the observer of these parts.
    #[must_use]
    pub fn start(parts: NodeParts<RT>, replica: Replica<RT>) -> Node<RT> {
        let (node, clock) = Node::start_with_separate_clock(parts, replica);
        drop(RT::spawn(clock));
        node
    }

    /// Like `start`, but returns the leader's clock, which the caller must run as a task on another thread: it reads
    /// all sessions when a leadership begins, and must not delay the leader's heartbeats. The dispatcher of watches
    /// runs here.
    pub fn start_with_separate_clock(
        parts: NodeParts<RT>,
        replica: Replica<RT>,
    ) -> (Node<RT>, impl Future<Output = ()> + Send + 'static + use<RT>) {
        let NodeParts { hub, clock } = parts;
        let (keepalives, batcher) = Keepalives::new(hub.metrics.keepalives.clone());
        let tasks = Tasks::default();
        let stop = Stop::default();
        replica.set_leader_handler(Arc::new(KeepaliveService { replica: replica.clone(), clock: Arc::clone(&clock) }));
        let own = Arc::new(OwnFacts::new(stop.clone(), Arc::clone(&hub.comparison)));
        replica.set_member_handler(Arc::new(LookService { replica: replica.clone(), own: Arc::clone(&own) }));
        tasks.spawn::<RT>(batcher.run(replica.clone(), stop.clone()));
        let dispatcher = Arc::clone(&hub.dispatcher);
        let dispatcher_stop = stop.clone();
        tasks.spawn::<RT>(async move {
            tokio::select! {
                biased;
                () = dispatcher_stop.requested() => {}
                () = dispatcher.run() => {}
            }
        });
        let clock_replica = replica.clone();
        let clock_stop = stop.clone();
        let clock_pulse = Arc::new(Pulse::default());
        let pulse = Arc::clone(&clock_pulse);
        let (comparison, comparing_replica) = (Arc::clone(&hub.comparison), replica.clone());
        let ticking = tasks.counted(async move {
            tokio::select! {
                biased;
                () = clock_stop.requested() => {}
                () = clock::run(clock, clock_replica) => {}
                () = comparison.run(&comparing_replica) => {}
                () = comparison.marked.compute() => {}
                // Last: it answers only after the clock has had its turn.
                () = pulse.answer() => {}
            }
        });
        let inner = NodeInner {
            replica,
            hub,
            keepalives,
            tasks,
            stop,
            walks: WalkSlots::new(),
            backups: Backups::new(),
            memory: MemoryShortage::default(),
            rights: RightsCache::default(),
            tenant_door: TenantDoor::new(),
            proven_at: Mutex::default(),
            warnings: Mutex::default(),
            clock_pulse,
            alarms: NodeAlarms::default(),
            series: Series::default(),
            looks: Arc::new(MemberLooks::new(own)),
            shared_overview: SharedAnswers::default(),
            shared_waits: SharedAnswers::default(),
            shared_locks: SharedAnswers::default(),
        };
        (Node(Arc::new(inner), None), ticking)
    }

    /// From now on the node is not ready, and accepts no new request for a grant. Waiting requests continue to wait.
    pub fn announce_shutdown(&self) {
        self.0.stop.announce();
    }

    /// Ends all waiting requests with `CallError::Detached`, and the node's own work. No request loses its place in a
    /// queue.
    pub async fn shutdown(&self) {
        self.0.stop.request();
        self.0.tasks.ended().await;
    }

    /// Whether a shutdown was announced or requested.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.0.stop.is_announced()
    }

    /// Whether the node can serve requests now; otherwise the reason. It requires a proof from the leader: a node that
    /// has just started may still believe in a leader that is gone. The leader must also reach this node: otherwise nothing
    /// new comes here, and the node is no part of a majority.
    pub async fn readiness(&self) -> Result<(), String> {
        if self.is_shutting_down() {
            return Err("shutting down".to_owned());
        }
        let deadline = RT::Instant::now() + PROOF_TIMEOUT;
        if let Err(error) = self.0.replica.read_barrier(deadline).await {
            return Err(error.to_string());
        }
        // A time of its own: the proof may have used up the other one.
        if !self.0.replica.wait_for_contact(RT::Instant::now() + PROOF_TIMEOUT).await {
            return Err(if self.0.replica.has_stopped() { "this node has stopped" } else { UNREACHED }.to_owned());
        }
        if self.0.replica.read(|state| state.cluster().is_none()) {
            return Err("the cluster has not formed yet".to_owned());
        }
        if self.0.hub.comparison.is_odd(&self.0.replica.status()) {
            return Err(ODD.to_owned());
        }
        Ok(())
    }

    /// Waits until the tasks of Raft and of the clock have both run since this call; `false` if Raft has stopped. It does
    /// not return while one of them, or its thread, is stuck. There is one caller at a time.
    pub async fn makes_progress(&self) -> bool {
        let handles_messages = self.0.replica.handles_messages().await;
        self.0.clock_pulse.ask().await;
        handles_messages
    }

    /// Sets or removes the warning of a topic, which `/readyz` shows.
    pub fn warn(&self, topic: Concern, warning: Option<String>) {
        let mut warnings = self.0.warnings.lock();
        match warning {
            Some(warning) => drop(warnings.insert(topic, warning)),
            None => drop(warnings.remove(&topic)),
        }
    }

    /// The current warnings of a node that still serves.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let warnings = self.0.warnings.lock().clone();
        let full = self.0.replica.read(|state| state_warning(state.bytes(), state.bytes_max()?));
        let all: Vec<String> = warnings.into_values().chain(full).collect();
        (!all.is_empty()).then(|| all.join(". "))
    }

    /// Whether the state of this node is from after it became a member. Before, a node that joined applies the history of its
    /// cluster, in which rights may not be enforced yet.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.0.replica.has_joined()
    }

    /// The cluster's id, after the cluster has formed and this node has learned of it. It never changes.
    #[must_use]
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.0.replica.read(|state| state.cluster())
    }

    /// The applied revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.replica.read(|state| state.revision())
    }

    /// The URL of the leader, if this node knows one.
    #[must_use]
    pub fn leader_url(&self) -> Option<String> {
        self.with_leader_url(str::to_owned)
    }

    /// Passes the URL of the leader to `read`, if this node knows one. Be quick: it holds a lock.
    pub fn with_leader_url<T>(&self, read: impl FnOnce(&str) -> T) -> Option<T> {
        self.0.replica.with_leader_url(read)
    }

    /// A number that is another one after each change of the members or of their addresses, as this node knows them;
    /// `None` before the cluster has formed, and once the node has stopped.
    #[must_use]
    pub fn members_index(&self) -> Option<u64> {
        self.0.replica.members_index()
    }

    /// Whether this node leads, as far as it knows.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0.replica.leadership().is_some()
    }

    /// The cluster, as this node sees it.
    #[must_use]
    pub fn cluster(&self) -> ClusterView {
        let (grants, wakeups) = self.0.hub.counters();
        let raft = self.0.replica.status();
        let defects = self.0.replica.defects();
        self.0.replica.read(|state| ClusterView {
            id: raft.id,
            grants,
            wakeups,
            defects,
            cluster_version: state.cluster_version(),
            revision: state.revision(),
            audit_head: state.audit().head(),
            state_bytes: state.bytes(),
            state_bytes_max: state.bytes_max(),
            facts: raft.members.iter().map(|member| (member.id, facts_of(state, member.id))).collect(),
            raft,
        })
    }

    /// Sets whether this process is short of memory.
    pub fn set_memory_short(&self, short: bool) {
        self.0.memory.set(short);
    }

    /// A digest of this node's whole state: equal states have equal digests. It walks the state part by part.
    pub async fn digest(&self) -> Result<At<String>, CallError> {
        let walked = self.walk(ReadOptions { freshness: Freshness::Local, timeout: TIMEOUT_DEFAULT }).await?;
        Ok(At { value: digest_of(&walked.state).await, revision: walked.state.revision() })
    }

    /// A new grant id, for a caller that sent none.
    #[must_use]
    pub fn new_grant_id(&self) -> GrantId {
        let random: u128 = RT::thread_rng().random();
        GrantId::from_ulid(ulid::Ulid::from_parts(wall_now().0, random).0)
    }

    /// The wall clock, for times that people read.
    #[must_use]
    pub fn wall_now(&self) -> WallMillis {
        wall_now()
    }

    pub(crate) fn new_session_id() -> SessionId {
        SessionId(RT::thread_rng().random())
    }
}
