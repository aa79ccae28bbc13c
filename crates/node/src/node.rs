//! A node: the parts that run behind every API, started and stopped together.

use tokio::task::yield_now;

use crate::{
    api::{At, CallError, ClusterView, Freshness, ReadOptions},
    base::{memory::MemoryShortage, stop::Stop, tasks::Tasks, walks::Walks},
    clock::wall_now,
    hub::Hub,
    leader::{
        clock::{self, LeaderClock},
        keepalive::{KeepaliveService, Keepalives},
    },
};
use fairhold_raft::{ApplyObserver, Replica};
use fairhold_types::{
    ClusterId, GrantId, Revision, SessionId,
    limits::{EVENT_RING_BYTES, TIMEOUT_DEFAULT},
    time::WallMillis,
};
use openraft_rt::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use rand::RngExt;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long the proof may take that a leader leads, when a node is asked whether it is ready.
const PROOF_TIMEOUT: Duration = Duration::from_secs(1);

/// The percentage of its budget from which on the node warns that the state is nearly full.
const STATE_WARN_PERCENT: u64 = 80;
/// What to do about it.
const STATE_ADVICE: &str = "Remove nodes, end sessions, or give every node more memory (serve --state-bytes-max)";

/// The parts that must exist before Raft does, because it tells them what is applied.
pub struct NodeParts<RT: AsyncRuntime> {
    hub: Arc<Hub<RT>>,
    clock: Arc<LeaderClock<RT>>,
}

impl<RT: AsyncRuntime> NodeParts<RT> {
    /// Makes them.
    #[must_use]
    pub fn new() -> Self {
        NodeParts::with_event_ring(EVENT_RING_BYTES)
    }

    /// The same, with so many bytes of events kept for those who watch.
    #[must_use]
    pub fn with_event_ring(event_ring_bytes: u64) -> Self {
        let clock = Arc::new(LeaderClock::new());
        NodeParts { hub: Arc::new(Hub::new(Arc::clone(&clock), event_ring_bytes)), clock }
    }

    /// The receiver of every applied change.
    #[must_use]
    pub fn audience(&self) -> Arc<dyn ApplyObserver> {
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
        f.write_str("Prelude")
    }
}

/// The topic of a warning: at most one warning for each at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// The room on the disk.
    Disk,
    /// The memory of the process.
    Memory,
}

/// Warns if the state is nearly full.
fn fullness(bytes: u64, max: u64) -> Option<String> {
    let nearly = bytes >= max / 100 * STATE_WARN_PERCENT;
    nearly.then(|| {
        format!(
            "the state uses {bytes} of {max} bytes; when it is full, the cluster refuses requests that create something. \
             {STATE_ADVICE}"
        )
    })
}

/// A running node, as the doors see it. Clones are handles of the same node.
pub struct Node<RT: AsyncRuntime>(pub(crate) Arc<Parts<RT>>);

pub(crate) struct Parts<RT: AsyncRuntime> {
    pub(crate) replica: Replica<RT>,
    pub(crate) hub: Arc<Hub<RT>>,
    pub(crate) keepalives: Keepalives,
    pub(crate) tasks: Tasks,
    pub(crate) stop: Stop,
    pub(crate) walks: Walks,
    pub(crate) memory: MemoryShortage,
    /// The current warnings, by topic.
    warnings: Mutex<BTreeMap<Concern, String>>,
}

impl<RT: AsyncRuntime> Clone for Node<RT> {
    fn clone(&self) -> Self {
        Node(Arc::clone(&self.0))
    }
}

impl<RT: AsyncRuntime> std::fmt::Debug for Node<RT> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Node")
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Starts the node's own work on a replica that was started with the prelude's audience.
    #[must_use]
    pub fn start(prelude: NodeParts<RT>, replica: Replica<RT>) -> Node<RT> {
        let (node, clock) = Node::start_but_clock(prelude, replica);
        drop(RT::spawn(clock));
        node
    }

    /// The same without the clock, which is to be run as a task elsewhere: it looks at all sessions when a leadership begins,
    /// and must not hold up who sends the leader's heartbeats. Who is told of changes is told by what runs here.
    pub fn start_but_clock(
        prelude: NodeParts<RT>,
        replica: Replica<RT>,
    ) -> (Node<RT>, impl Future<Output = ()> + Send + 'static + use<RT>) {
        let NodeParts { hub, clock } = prelude;
        let (keepalives, gatherer) = Keepalives::new(hub.metrics.keepalives.clone());
        let (tasks, stop) = (Tasks::default(), Stop::default());
        replica.set_attendant(Arc::new(KeepaliveService { replica: replica.clone(), clock: Arc::clone(&clock) }));
        tasks.spawn::<RT>(gatherer.run(replica.clone(), stop.clone()));
        let (watchers, crier_stop) = (Arc::clone(&hub.watchers), stop.clone());
        tasks.spawn::<RT>(async move {
            tokio::select! {
                biased;
                () = crier_stop.requested() => {}
                () = watchers.cry() => {}
            }
        });
        let (clock_replica, clock_stop) = (replica.clone(), stop.clone());
        let ticking = tasks.counted(async move {
            tokio::select! {
                biased;
                () = clock_stop.requested() => {}
                () = clock::run(clock, clock_replica) => {}
            }
        });
        let (walks, memory, warnings) = (Walks::new(), MemoryShortage::default(), Mutex::default());
        (Node(Arc::new(Parts { replica, hub, keepalives, tasks, stop, walks, memory, warnings })), ticking)
    }

    /// From now on the node is not ready, and takes no new request for a grant. Those that wait go on waiting.
    pub fn announce_shutdown(&self) {
        self.0.stop.announce();
    }

    /// Ends all that waits here with `CallError::Detached`, and the node's own work. Nobody loses a place in a queue by it.
    pub async fn shutdown(&self) {
        self.0.stop.request();
        self.0.tasks.ended().await;
    }

    /// Whether the node stops, or was told that it will.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.0.stop.is_announced()
    }

    /// Whether requests can be served here now; else why not. It asks the leader for proof: a node that has just started may
    /// take one for the leader that is gone.
    pub async fn readiness(&self) -> Result<(), String> {
        if self.is_shutting_down() {
            return Err("shutting down".to_owned());
        }
        if let Err(error) = self.0.replica.read_barrier(RT::Instant::now() + PROOF_TIMEOUT).await {
            return Err(error.to_string());
        }
        if self.0.replica.read(|state| state.cluster().is_none()) {
            return Err("the cluster has not formed yet".to_owned());
        }
        Ok(())
    }

    /// Sets what `/readyz` shows as needing attention, or nothing.
    pub fn warn(&self, about: Concern, warning: Option<String>) {
        let mut warnings = self.0.warnings.lock();
        match warning {
            Some(warning) => drop(warnings.insert(about, warning)),
            None => drop(warnings.remove(&about)),
        }
    }

    /// What needs attention although the node serves.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let warnings = self.0.warnings.lock().clone();
        let full = self.0.replica.read(|state| fullness(state.bytes(), state.bytes_max()?));
        let all: Vec<String> = warnings.into_values().chain(full).collect();
        (!all.is_empty()).then(|| all.join(". "))
    }

    /// The cluster's id, once it has formed and this node has heard of it. It never changes then.
    #[must_use]
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.0.replica.read(|state| state.cluster())
    }

    /// The applied revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.replica.read(|state| state.revision())
    }

    /// Where clients reach the leader, when one is known.
    #[must_use]
    pub fn leader_url(&self) -> Option<String> {
        self.0.replica.leader().map(|(_, member)| member.url)
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
            revision: state.revision(),
            state_bytes: state.bytes(),
            state_bytes_max: state.bytes_max(),
            capacities: raft.members.iter().filter_map(|member| Some((member.id, state.capacity_of(member.id)?))).collect(),
            raft,
        })
    }

    /// Says whether this process is short of memory.
    pub fn set_memory_short(&self, short: bool) {
        self.0.memory.set(short);
    }

    /// A digest of the whole state here, equal exactly where two states are equal. It walks the state, part by part.
    pub async fn digest(&self) -> Result<At<String>, CallError> {
        let walked = self.walk(ReadOptions { freshness: Freshness::Local, timeout: TIMEOUT_DEFAULT }).await?;
        let mut digest = walked.state.digest_in_parts();
        while !digest.add_part() {
            yield_now().await;
        }
        Ok(At { value: digest.finish(), revision: walked.state.revision() })
    }

    /// A new grant's id, for a caller that brought none.
    #[must_use]
    pub fn new_grant_id(&self) -> GrantId {
        let random: u128 = RT::thread_rng().random();
        GrantId::from_ulid(ulid::Ulid::from_parts(wall_now().0, random).0)
    }

    /// This machine's wall clock, for people.
    #[must_use]
    pub fn wall_now(&self) -> WallMillis {
        wall_now()
    }

    pub(crate) fn new_session_id() -> SessionId {
        SessionId(RT::thread_rng().random())
    }
}
