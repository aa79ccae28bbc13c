//! The network between machines: connections with lanes, delays, breaks, and partitions in one direction or both.
//!
//! A connection keeps the order of its lane, as TCP does; lanes overtake each other. Messages that a partition
//! delays arrive late if the partition ends before the connection breaks. Answers to log entries can be held in front
//! of their receiver, and released one by one.

mod connections;

use crate::{
    conditions::NetworkConditions,
    coverage::{Coverage, Probe},
    host::Host,
};
use bytes::Bytes;
use fairhold_raft::peer::{Lane, PeerError, Service, Target};
use fairhold_types::NodeId;
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::{SimInstant, SimRuntime};
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// The place of all clients in the network.
pub(crate) const CLIENTS: NodeId = 0;
/// How long a partition blocks a connection before it breaks.
const HELD_UP_MAX: Duration = Duration::from_secs(2);
/// How often a blocked message is retransmitted, as by TCP.
const TRY_AGAIN: Duration = Duration::from_millis(40);
/// One message in this many takes far longer than the others.
const STRAGGLER_ONE_IN: u32 = 100;

type Answer = Result<Bytes, PeerError>;

struct Attached {
    /// Its address.
    address: String,
    host: Arc<Host>,
    service: Arc<dyn Service>,
}

struct Message {
    request: Bytes,
    due: SimInstant,
    answer: oneshot::Sender<Answer>,
}

struct NetInner {
    attached: BTreeMap<NodeId, Attached>,
    /// Pairs (from, to) without a route.
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// The queue of each open connection, by the sender with its life, the receiver, and the lane.
    lanes: BTreeMap<(NodeId, u64, NodeId, Lane), mpsc::UnboundedSender<Message>>,
    /// The machines for which answers to log entries are held, with the held answers.
    held: BTreeMap<NodeId, Vec<HeldAnswer>>,
    /// The minimum delay of a message.
    min_delay: Duration,
    network: NetworkConditions,
    rng: SmallRng,
}

/// An answer that is held in front of its receiver.
struct HeldAnswer {
    from: NodeId,
    deliver_held: oneshot::Sender<()>,
}

/// The network. Clones are the same network.
#[derive(Clone)]
pub(crate) struct Net(Arc<Mutex<NetInner>>, Coverage);

impl Net {
    /// A network without machines.
    pub(crate) fn new(network: NetworkConditions, seed: u64, coverage: Coverage) -> Net {
        let inner = NetInner {
            attached: BTreeMap::new(),
            cuts: BTreeSet::new(),
            lanes: BTreeMap::new(),
            held: BTreeMap::new(),
            min_delay: Duration::ZERO,
            network,
            rng: SmallRng::seed_from_u64(seed),
        };
        Net(Arc::new(Mutex::new(inner)), coverage)
    }

    /// Makes a machine reachable.
    pub(crate) fn attach(&self, address: String, host: Arc<Host>, service: Arc<dyn Service>) {
        self.locked().attached.insert(host.name().0, Attached { address, host, service });
    }

    /// Removes a machine. Its connections end when their messages in flight have arrived.
    pub(crate) fn detach(&self, id: NodeId) {
        let mut inner = self.locked();
        inner.attached.remove(&id);
        inner.lanes.retain(|(from, ..), _| *from != id);
    }

    /// A heartbeat connection has closed. The receiver learns it when the close arrives.
    fn close_heartbeats(&self, from: NodeId, to: NodeId) {
        let net = self.clone();
        drop(SimRuntime::spawn(async move {
            if !net.pass(from, to).await {
                return;
            }
            if let Some((host, service)) = net.find(to) {
                host.within(|| service.disconnected(from, Lane::Heartbeat));
            }
        }));
    }

    /// Cuts one direction between two machines.
    pub(crate) fn cut(&self, from: NodeId, to: NodeId) {
        self.locked().cuts.insert((from, to));
    }

    /// Restores one direction between two machines.
    pub(crate) fn heal(&self, from: NodeId, to: NodeId) {
        self.locked().cuts.remove(&(from, to));
    }

    /// Sets the minimum delay of every message. The network conditions add to it.
    pub(crate) fn set_min_delay(&self, min_delay: Duration) {
        self.locked().min_delay = min_delay;
    }

    /// Starts to hold answers to log entries in front of a machine.
    pub(crate) fn hold_answers(&self, to: NodeId) {
        self.locked().held.entry(to).or_default();
    }

    /// The senders of the answers held for a machine, in order of arrival.
    pub(crate) fn held_answers(&self, to: NodeId) -> Vec<NodeId> {
        self.locked().held.get(&to).into_iter().flatten().map(|held| held.from).collect()
    }

    /// Delivers the oldest held answer of one sender.
    pub(crate) fn deliver_held(&self, to: NodeId, from: NodeId) {
        let mut inner = self.locked();
        let Some(held) = inner.held.get_mut(&to) else { return };
        if let Some(oldest) = held.iter().position(|held| held.from == from) {
            // The caller may be gone.
            held.remove(oldest).deliver_held.send(()).ok();
        }
    }

    /// Stops holding answers for a machine. The held answers are lost.
    pub(crate) fn stop_holding(&self, to: NodeId) {
        self.locked().held.remove(&to);
    }

    /// Waits if answers are held for the receiver. Returns `false` if the answer is lost.
    async fn wait_if_held(&self, from: NodeId, to: NodeId) -> bool {
        let waiting = self.locked().held.get_mut(&to).map(|held| {
            let (deliver_held, waiting) = oneshot::channel();
            held.push(HeldAnswer { from, deliver_held });
            waiting
        });
        match waiting {
            Some(waiting) => waiting.await.is_ok(),
            None => true,
        }
    }

    /// Heals all partitions. No connection breaks from now on.
    pub(crate) fn calm(&self) {
        let mut inner = self.locked();
        inner.cuts.clear();
        inner.held.clear();
        inner.network.break_one_in = 0;
    }

    /// Breaks every connection between two machines.
    pub(crate) fn break_connections(&self, one: NodeId, other: NodeId) {
        self.locked().lanes.retain(|(from, _, to, _), _| !((*from == one && *to == other) || (*from == other && *to == one)));
    }

    /// Waits for the delay of a message. Returns whether it arrived.
    pub(crate) async fn pass(&self, from: NodeId, to: NodeId) -> bool {
        SimRuntime::sleep(self.delay()).await;
        self.open(from, to).await
    }

    /// Waits until the direction is not cut. Returns `false` if the connection broke first.
    async fn open(&self, from: NodeId, to: NodeId) -> bool {
        let mut held_up = Duration::ZERO;
        while self.is_cut(from, to) {
            if held_up >= HELD_UP_MAX {
                return false;
            }
            SimRuntime::sleep(TRY_AGAIN).await;
            held_up += TRY_AGAIN;
        }
        if held_up > Duration::ZERO {
            self.1.probe(Probe::HeldUpAndDelivered);
        }
        true
    }

    fn delay(&self) -> Duration {
        let mut inner = self.locked();
        let most = inner.network.delay_micros.max(2);
        let micros = inner.rng.random_range(most / 10..most);
        let factor = if inner.rng.random_range(0..STRAGGLER_ONE_IN) == 0 { 20 } else { 1 };
        inner.min_delay + Duration::from_micros(micros * factor)
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.locked().cuts.contains(&(from, to))
    }

    fn happens(&self, one_in: u32) -> bool {
        one_in > 0 && self.locked().rng.random_range(0..one_in) == 0
    }

    /// The machine with that id.
    fn find(&self, id: NodeId) -> Option<(Arc<Host>, Arc<dyn Service>)> {
        let inner = self.locked();
        inner.attached.get(&id).map(|attached| (Arc::clone(&attached.host), Arc::clone(&attached.service)))
    }

    /// The machine at an address: the expected one, or the one that has taken its address.
    fn find_at(&self, to: &Target) -> Option<(Arc<Host>, Arc<dyn Service>)> {
        let inner = self.locked();
        let expected = inner.attached.get(&to.id).filter(|attached| attached.address == to.address);
        let attached = expected.or_else(|| inner.attached.values().find(|attached| attached.address == to.address));
        attached.map(|attached| (Arc::clone(&attached.host), Arc::clone(&attached.service)))
    }

    fn locked(&self) -> MutexGuard<'_, NetInner> {
        self.0.lock()
    }
}
