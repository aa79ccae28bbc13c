//! The network between machines: connections with lanes, delays, breaks, and partitions in one direction or both.
//!
//! A connection keeps the order of its lane, as TCP does; lanes overtake one another. Messages that a partition holds up
//! arrive late if the partition ends before the connection breaks. Answers to log entries can be held in front of their
//! receiver, and released
//! one by one.

use crate::{
    conditions::Weather,
    host::Host,
    tally::{Probe, Tally},
    trace,
};
use bytes::Bytes;
use fairhold_raft::peer::{Introduction, Lane, Peer, PeerError, Service, Target};
use fairhold_types::NodeId;
use futures_util::future::{BoxFuture, FutureExt};
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

/// Where clients stand, in cuts and delays.
pub(crate) const CLIENTS: NodeId = 0;
/// How long a cut holds a connection up before it breaks.
const HELD_UP_MAX: Duration = Duration::from_secs(2);
/// How often a message that is held up tries again, as TCP does.
const TRY_AGAIN: Duration = Duration::from_millis(40);
/// One message in so many takes far longer than the others.
const STRAGGLER_ONE_IN: u32 = 100;

/// Of the connections that a cut does not let through, one in so many is refused at once.
const REJECTED_ONE_IN: u32 = 2;

type Answer = Result<Bytes, PeerError>;

struct Plugged {
    /// Where it is reached.
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
    plugged: BTreeMap<NodeId, Plugged>,
    /// From, to: nothing passes.
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// Per sender's life, receiver and lane: the queue of the open connection.
    lanes: BTreeMap<(NodeId, u64, NodeId, Lane), mpsc::UnboundedSender<Message>>,
    /// Machines to which answers about log entries are held, and what is held.
    gates: BTreeMap<NodeId, Vec<HeldAnswer>>,
    /// Every message takes so long at least.
    distance: Duration,
    weather: Weather,
    chance: SmallRng,
}

/// An answer at the door of the machine that waits for it.
struct HeldAnswer {
    from: NodeId,
    let_in: oneshot::Sender<()>,
}

/// The net. Clones are the same net.
#[derive(Clone)]
pub(crate) struct Net(Arc<Mutex<NetInner>>, Tally);

impl Net {
    /// A net without machines.
    pub(crate) fn new(weather: Weather, seed: u64, tally: Tally) -> Net {
        let chance = SmallRng::seed_from_u64(seed);
        let (plugged, cuts, lanes, gates) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let distance = Duration::ZERO;
        Net(Arc::new(Mutex::new(NetInner { plugged, cuts, lanes, gates, distance, weather, chance })), tally)
    }

    /// The sending side of one machine.
    pub(crate) fn peer(&self, host: Arc<Host>, own: Arc<dyn Service>) -> Arc<dyn Peer> {
        Arc::new(Cable { net: self.clone(), host, own })
    }

    /// From now on the machine can be reached.
    pub(crate) fn plug_in(&self, address: String, host: Arc<Host>, service: Arc<dyn Service>) {
        self.locked().plugged.insert(host.name().0, Plugged { address, host, service });
    }

    /// The machine is gone. Its connections end when what is under way in them has arrived.
    pub(crate) fn unplug(&self, id: NodeId) {
        let mut inner = self.locked();
        inner.plugged.remove(&id);
        inner.lanes.retain(|(from, ..), _| *from != id);
    }

    /// A connection for heartbeats has ended: the one who took it learns so when that gets there.
    fn hang_up(&self, from: NodeId, to: NodeId) {
        let net = self.clone();
        drop(SimRuntime::spawn(async move {
            if !net.pass(from, to).await {
                return;
            }
            if let Some((host, service)) = net.find(to, None) {
                host.within(|| service.hung_up(from, Lane::Heartbeat));
            }
        }));
    }

    /// Nothing passes from one to the other.
    pub(crate) fn cut(&self, from: NodeId, to: NodeId) {
        self.locked().cuts.insert((from, to));
    }

    /// All passes from one to the other.
    pub(crate) fn mend(&self, from: NodeId, to: NodeId) {
        self.locked().cuts.remove(&(from, to));
    }

    /// From now on every message takes so long at least, and what the weather adds.
    pub(crate) fn stretch(&self, distance: Duration) {
        self.locked().distance = distance;
    }

    /// From now on answers about log entries are held at a machine's door.
    pub(crate) fn hold_answers(&self, to: NodeId) {
        self.locked().gates.entry(to).or_default();
    }

    /// From whom the answers are that are held at a machine's door, in the order in which they came.
    pub(crate) fn held_answers(&self, to: NodeId) -> Vec<NodeId> {
        self.locked().gates.get(&to).into_iter().flatten().map(|held| held.from).collect()
    }

    /// Lets the oldest answer of one machine in.
    pub(crate) fn let_in(&self, to: NodeId, from: NodeId) {
        let mut inner = self.locked();
        let Some(held) = inner.gates.get_mut(&to) else { return };
        if let Some(oldest) = held.iter().position(|held| held.from == from) {
            // The caller may be gone.
            held.remove(oldest).let_in.send(()).ok();
        }
    }

    /// Nothing is held at a machine's door any more. What was held is lost.
    pub(crate) fn open_door(&self, to: NodeId) {
        self.locked().gates.remove(&to);
    }

    /// Waits at a machine's door, where answers are held there; `false` where it is never let in.
    async fn enter(&self, from: NodeId, to: NodeId) -> bool {
        let waiting = self.locked().gates.get_mut(&to).map(|held| {
            let (let_in, waiting) = oneshot::channel();
            held.push(HeldAnswer { from, let_in });
            waiting
        });
        match waiting {
            Some(waiting) => waiting.await.is_ok(),
            None => true,
        }
    }

    /// All passes everywhere, and no connection breaks any more.
    pub(crate) fn calm(&self) {
        let mut inner = self.locked();
        inner.cuts.clear();
        inner.gates.clear();
        inner.weather.break_one_in = 0;
    }

    /// Breaks every connection between two machines.
    pub(crate) fn break_connections(&self, one: NodeId, other: NodeId) {
        self.locked().lanes.retain(|(from, _, to, _), _| !((*from == one && *to == other) || (*from == other && *to == one)));
    }

    /// Waits as long as a message takes, and says whether it got there.
    pub(crate) async fn pass(&self, from: NodeId, to: NodeId) -> bool {
        SimRuntime::sleep(self.delay()).await;
        self.open(from, to).await
    }

    /// Waits until nothing is cut from one to the other; `false` where the connection broke before that.
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
        let most = inner.weather.delay_micros.max(2);
        let micros = inner.chance.random_range(most / 10..most);
        let factor = if inner.chance.random_range(0..STRAGGLER_ONE_IN) == 0 { 20 } else { 1 };
        inner.distance + Duration::from_micros(micros * factor)
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.locked().cuts.contains(&(from, to))
    }

    fn happens(&self, one_in: u32) -> bool {
        one_in > 0 && self.locked().chance.random_range(0..one_in) == 0
    }

    /// The machine that is reached at that address; without one, wherever it is.
    fn find(&self, id: NodeId, address: Option<&str>) -> Option<(Arc<Host>, Arc<dyn Service>)> {
        let inner = self.locked();
        let plugged = inner.plugged.get(&id).filter(|plugged| address.is_none_or(|address| address == plugged.address));
        plugged.map(|plugged| (Arc::clone(&plugged.host), Arc::clone(&plugged.service)))
    }

    fn locked(&self) -> MutexGuard<'_, NetInner> {
        self.0.lock()
    }
}

struct Cable {
    net: Net,
    host: Arc<Host>,
    own: Arc<dyn Service>,
}

impl Peer for Cable {
    fn call(&self, to: &Target, lane: Lane, request: Bytes) -> BoxFuture<'static, Answer> {
        let (from, life) = self.host.name();
        let key = (from, life, to.id, lane);
        trace::bytes(&request);
        let (answer, answered) = oneshot::channel();
        let message = Message { request, due: <SimInstant as openraft_rt::Instant>::now() + self.net.delay(), answer };
        let mut inner = self.net.locked();
        let refused = match inner.lanes.get(&key) {
            Some(lane) => lane.send(message).err().map(|error| error.0),
            None => Some(message),
        };
        if let Some(message) = refused {
            let (sender, receiver) = mpsc::unbounded_channel();
            // Its receiver is right here.
            sender.send(message).ok();
            inner.lanes.insert(key, sender);
            drop(inner);
            let connection = Connection { net: self.net.clone(), from, to: to.clone(), lane, own: Arc::clone(&self.own) };
            // The world moves what is under way, also when the sender has died.
            drop(SimRuntime::spawn(connection.run(receiver)));
        }
        async move { answered.await.unwrap_or_else(|_| Err(PeerError::Lost("the connection broke".to_owned()))) }.boxed()
    }

    fn greet(&self, to: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>> {
        let (net, own, from, to) = (self.net.clone(), Arc::clone(&self.own), self.host.name().0, to.clone());
        async move {
            let dialled = dial(&net, &own, from, &to).await?;
            if !net.pass(to.id, from).await {
                return Err(PeerError::Unreachable("no way back".to_owned()));
            }
            Ok(dialled.1.introduction())
        }
        .boxed()
    }

    fn is_refused(&self, to: &Target) -> BoxFuture<'static, bool> {
        let (net, from, target) = (self.net.clone(), self.host.name().0, to.clone());
        async move {
            let to = target.id;
            if net.is_cut(from, to) {
                // Some firewalls drop what they do not let through, and others answer for the machine behind them.
                return net.happens(REJECTED_ONE_IN);
            }
            let listens = || net.find(to, Some(&target.address)).is_some();
            net.pass(from, to).await && !listens() && net.pass(to, from).await
        }
        .boxed()
    }
}

async fn dial(net: &Net, own: &Arc<dyn Service>, from: NodeId, to: &Target) -> Result<(Arc<Host>, Arc<dyn Service>), PeerError> {
    let unreachable = |why: &str| PeerError::Unreachable(why.to_owned());
    if !(net.pass(from, to.id).await && net.open(to.id, from).await) {
        return Err(unreachable("no route"));
    }
    let (host, service) = net.find(to.id, Some(&to.address)).ok_or_else(|| unreachable("nobody listens"))?;
    if host.is_paused() {
        return Err(unreachable("no answer to the greeting"));
    }
    let refused = |refusal| {
        net.1.probe(Probe::PeerRefused);
        PeerError::Refused(refusal)
    };
    host.within(|| service.admit(&own.introduction())).map_err(refused)?;
    own.admit(&service.introduction()).map_err(refused)?;
    Ok((host, service))
}

struct Connection {
    net: Net,
    from: NodeId,
    to: Target,
    lane: Lane,
    own: Arc<dyn Service>,
}

impl Connection {
    /// Carries a lane's messages in their order until the connection breaks. Messages without an answer by then are lost.
    async fn run(self, mut messages: mpsc::UnboundedReceiver<Message>) {
        let (host, service) = match dial(&self.net, &self.own, self.from, &self.to).await {
            Ok(dialled) => dialled,
            Err(error) => {
                messages.close();
                while let Some(message) = messages.recv().await {
                    // The caller may have given up.
                    message.answer.send(Err(error.clone())).ok();
                }
                return;
            }
        };
        self.carry(&host, &service, messages).await;
        if self.lane == Lane::Heartbeat && !host.is_dead() {
            self.net.hang_up(self.from, self.to.id);
        }
    }

    async fn carry(&self, host: &Arc<Host>, service: &Arc<dyn Service>, mut messages: mpsc::UnboundedReceiver<Message>) {
        while let Some(message) = messages.recv().await {
            let now = <SimInstant as openraft_rt::Instant>::now();
            if message.due > now {
                SimRuntime::sleep(message.due - now).await;
            }
            if !self.net.open(self.from, self.to.id).await {
                return;
            }
            while host.is_paused() {
                SimRuntime::sleep(TRY_AGAIN).await;
            }
            let breaks = self.net.locked().weather.break_one_in;
            if host.is_dead() || messages.is_closed() || self.net.happens(breaks) {
                if !host.is_dead() {
                    self.net.1.fault("connection broke");
                }
                return;
            }
            self.deliver(host, service, message);
        }
    }

    fn deliver(&self, host: &Arc<Host>, service: &Arc<dyn Service>, message: Message) {
        let twice = self.net.locked().weather.twice_one_in;
        let again = self.lane == Lane::Heartbeat && self.net.happens(twice);
        let serving = host.within(|| service.serve(self.from, self.lane, message.request.clone()));
        let (served, done) = oneshot::channel();
        drop(host.spawn(async move {
            // The connection may have broken.
            served.send(serving.await).ok();
        }));
        if again {
            self.net.1.probe(Probe::Duplicated);
            let serving = host.within(|| service.serve(self.from, self.lane, message.request));
            drop(host.spawn(serving));
        }
        let (net, from, to, lane) = (self.net.clone(), self.from, self.to.id, self.lane);
        drop(SimRuntime::spawn(async move {
            let Ok(bytes) = done.await else { return };
            if net.pass(to, from).await && (lane != Lane::Append || net.enter(to, from).await) {
                trace::bytes(&bytes);
                // The caller may have given up.
                message.answer.send(Ok(bytes)).ok();
            }
        }));
    }
}
