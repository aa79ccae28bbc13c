//! A network in memory: services that call one another, cables that can be isolated, and requests and answers that can
//! be held in flight.

use bytes::Bytes;
use fairhold_raft::peer::{
    ConnectionSide, Introduction, JoinRefusal, JoinRequest, Joined, Lane, Peer, PeerError, Refusal, Requester, Service, Target,
};
use fairhold_types::NodeId;
use futures_util::{
    FutureExt,
    future::{BoxFuture, pending, ready},
};
use openraft::AsyncRuntime;
use openraft_rt_tokio::TokioRuntime;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{broadcast, oneshot, watch};

#[derive(Clone)]
pub(crate) struct Net(Arc<Mutex<Cables>>);

struct Cables {
    services: BTreeMap<NodeId, Arc<dyn Service>>,
    /// The nodes at addresses other than their first one.
    moved: BTreeMap<String, NodeId>,
    /// Addresses at which only the node itself reaches itself.
    private: BTreeMap<String, NodeId>,
    isolated: BTreeSet<NodeId>,
    /// Pairs of nodes: the second one receives nothing from the first.
    blocked: BTreeSet<(NodeId, NodeId)>,
    /// Running nodes that refuse new connections.
    rejecting: BTreeSet<NodeId>,
    /// How often `is_refused` was called.
    refusal_checks: watch::Sender<u32>,
    cut: broadcast::Sender<NodeId>,
    /// Nodes whose requests get no answer for now: the answers stay in flight.
    answers_held: BTreeSet<NodeId>,
    /// Nodes whose incoming and outgoing requests stay in flight for now.
    requests_held: BTreeSet<NodeId>,
    /// How long each answer on the heartbeat lane takes.
    heartbeat_delay: Duration,
    /// The traffic on each path.
    traffic: watch::Sender<BTreeMap<Path, Traffic>>,
    /// The requests sent on the recorded paths, oldest first, whether they arrive or not.
    recorded: BTreeMap<Path, Vec<Bytes>>,
}

/// From the requesting node to the answering node, on a lane.
pub(crate) type Path = (NodeId, NodeId, Lane);

/// The traffic on one path.
#[derive(Default)]
struct Traffic {
    /// The number of requests that have arrived.
    arrived: usize,
    /// The number of requests that have been answered, including held answers.
    answered: usize,
    /// The number of held requests.
    requests_held: usize,
    /// The held answers, oldest first. Sending on a channel releases its answer.
    answers_held: VecDeque<oneshot::Sender<()>>,
}

impl Net {
    pub(crate) fn new() -> Net {
        let (cut, _) = broadcast::channel(64);
        Net(Arc::new(Mutex::new(Cables {
            services: BTreeMap::new(),
            moved: BTreeMap::new(),
            private: BTreeMap::new(),
            isolated: BTreeSet::new(),
            blocked: BTreeSet::new(),
            rejecting: BTreeSet::new(),
            refusal_checks: watch::Sender::new(0),
            cut,
            answers_held: BTreeSet::new(),
            requests_held: BTreeSet::new(),
            heartbeat_delay: Duration::ZERO,
            traffic: watch::Sender::new(BTreeMap::new()),
            recorded: BTreeMap::new(),
        })))
    }

    /// The peer of one node. Its service joins the network with `plug_in`.
    pub(crate) fn peer(&self, own: Arc<dyn Service>) -> Arc<dyn Peer> {
        Arc::new(Cable { net: self.clone(), own })
    }

    pub(crate) fn plug_in(&self, id: NodeId, service: Arc<dyn Service>) {
        let mut cables = self.0.lock().unwrap();
        cables.services.insert(id, service);
        cables.isolated.remove(&id);
    }

    /// A node answers at this address too.
    pub(crate) fn add_address(&self, id: NodeId, address: &str) {
        self.0.lock().unwrap().moved.insert(address.to_owned(), id);
    }

    /// A node answers at this address too, but no other node reaches it there.
    pub(crate) fn add_private_address(&self, id: NodeId, address: &str) {
        self.0.lock().unwrap().private.insert(address.to_owned(), id);
    }

    /// A node that is no member yet asks another one to let it join.
    pub(crate) async fn join(&self, at: NodeId, request: JoinRequest) -> Result<Joined, JoinRefusal> {
        let service = self.0.lock().unwrap().services[&at].clone();
        service.join(request).await
    }

    pub(crate) fn unplug(&self, id: NodeId) {
        let mut cables = self.0.lock().unwrap();
        cables.services.remove(&id);
        cables.cut.send(id).ok();
        let left: Vec<_> = cables.services.values().cloned().collect();
        drop(cables);
        left.iter().for_each(|service| service.disconnected(id, Lane::Heartbeat));
    }

    /// Cuts off a node, which keeps running.
    pub(crate) fn isolate(&self, id: NodeId) {
        let mut cables = self.0.lock().unwrap();
        cables.isolated.insert(id);
        cables.cut.send(id).ok();
    }

    /// Cuts the connection between two nodes.
    pub(crate) fn disconnect(&self, a: NodeId, b: NodeId) {
        let mut cables = self.0.lock().unwrap();
        cables.blocked.extend([(a, b), (b, a)]);
        // Whatever is in flight on other paths of this node is lost too: its connections are reopened.
        cables.cut.send(b).ok();
    }

    /// Restores the connection between two nodes.
    pub(crate) fn reconnect(&self, a: NodeId, b: NodeId) {
        let mut cables = self.0.lock().unwrap();
        cables.blocked.remove(&(a, b));
        cables.blocked.remove(&(b, a));
    }

    /// Records the requests sent on a path from now on.
    pub(crate) fn record(&self, path: Path) {
        self.0.lock().unwrap().recorded.insert(path, Vec::new());
    }

    /// The oldest recorded request of a path.
    pub(crate) fn first_recorded(&self, path: Path) -> Option<Bytes> {
        self.0.lock().unwrap().recorded.get(&path)?.first().cloned()
    }

    /// The number of requests answered on a path.
    pub(crate) fn answered_so_far(&self, path: Path) -> usize {
        self.0.lock().unwrap().traffic.borrow().get(&path).map_or(0, |traffic| traffic.answered)
    }

    /// Delays each answer on the heartbeat lane from now on.
    pub(crate) fn slow_heartbeats(&self, delay: Duration) {
        self.0.lock().unwrap().heartbeat_delay = delay;
    }

    /// Waits until this many requests have been answered on a path.
    pub(crate) async fn answers(&self, path: Path, times: usize) {
        self.until(path, |traffic| traffic.answered >= times).await;
    }

    /// Refuses connections to a running node from now on, and ends its connection to one other node.
    pub(crate) fn reject(&self, id: NodeId, seen_by: NodeId) {
        let mut cables = self.0.lock().unwrap();
        cables.rejecting.insert(id);
        let service = cables.services[&seen_by].clone();
        drop(cables);
        service.disconnected(id, Lane::Heartbeat);
    }

    /// Waits until `is_refused` was called this often.
    pub(crate) async fn refusal_checks(&self, times: u32) {
        let mut checks = self.0.lock().unwrap().refusal_checks.subscribe();
        checks.wait_for(|checks| *checks >= times).await.unwrap();
    }

    /// Holds the answers to a node's requests in flight from now on.
    pub(crate) fn hold_answers(&self, to: NodeId) {
        self.0.lock().unwrap().answers_held.insert(to);
    }

    /// Holds requests from and to a node in flight from now on, too. No connection ends.
    pub(crate) fn hold_requests(&self, id: NodeId) {
        self.0.lock().unwrap().requests_held.insert(id);
    }

    /// Releases all held answers on a path.
    pub(crate) fn release_answers(&self, path: Path) {
        self.change(path, |traffic| {
            for held in traffic.answers_held.drain(..) {
                // The requester may no longer wait.
                held.send(()).ok();
            }
        });
    }

    /// Waits until all requests that have arrived on a path are answered.
    pub(crate) async fn all_answered(&self, path: Path) {
        self.until(path, |traffic| traffic.arrived == traffic.answered).await;
    }

    /// Waits until this many requests are held on a path.
    pub(crate) async fn requests_held(&self, path: Path, times: usize) {
        self.until(path, |traffic| traffic.requests_held >= times).await;
    }

    async fn until(&self, path: Path, condition: impl Fn(&Traffic) -> bool) {
        let mut traffic = self.0.lock().unwrap().traffic.subscribe();
        traffic.wait_for(|traffic| traffic.get(&path).is_some_and(&condition)).await.unwrap();
    }

    fn change<T>(&self, path: Path, change: impl FnOnce(&mut Traffic) -> T) -> T {
        let cables = self.0.lock().unwrap();
        let mut changed = None;
        cables.traffic.send_modify(|traffic| changed = Some(change(traffic.entry(path).or_default())));
        changed.expect("send_modify runs the closure")
    }

    /// Lets everything pass again. Held messages are lost with their connections.
    pub(crate) fn heal(&self, id: NodeId) {
        let mut cables = self.0.lock().unwrap();
        cables.isolated.remove(&id);
        if cables.requests_held.remove(&id) | cables.answers_held.remove(&id) {
            cables.cut.send(id).ok();
        }
    }

    /// Counts a request; returns whether it arrives, instead of being held.
    fn arrives(&self, path: Path) -> bool {
        let holds = {
            let cables = self.0.lock().unwrap();
            cables.requests_held.contains(&path.0) || cables.requests_held.contains(&path.1)
        };
        self.change(path, |traffic| if holds { traffic.requests_held += 1 } else { traffic.arrived += 1 });
        !holds
    }

    /// Counts an answer; returns what it must wait for, if it is held.
    fn answered(&self, path: Path) -> Option<oneshot::Receiver<()>> {
        let holds = self.0.lock().unwrap().answers_held.contains(&path.0);
        self.change(path, |traffic| {
            traffic.answered += 1;
            holds.then(|| {
                let (release, released) = oneshot::channel();
                traffic.answers_held.push_back(release);
                released
            })
        })
    }

    /// The node at an address other than its first one.
    fn find_address(&self, from: NodeId, address: &str) -> Option<NodeId> {
        let cables = self.0.lock().unwrap();
        let private = cables.private.get(address).filter(|id| **id == from);
        cables.moved.get(address).or(private).copied()
    }

    fn find(&self, from: NodeId, to: NodeId) -> Result<(Arc<dyn Service>, broadcast::Receiver<NodeId>), PeerError> {
        let cables = self.0.lock().unwrap();
        let service = cables.services.get(&to).filter(|_| !cables.isolated.contains(&from) && !cables.isolated.contains(&to));
        let service = service.filter(|_| !cables.blocked.contains(&(from, to)));
        let service = service.cloned().ok_or(PeerError::Unreachable("no route".to_owned()))?;
        Ok((service, cables.cut.subscribe()))
    }
}

struct Cable {
    net: Net,
    own: Arc<dyn Service>,
}

impl Cable {
    fn dial(&self, to: &Target) -> Result<(Arc<dyn Service>, broadcast::Receiver<NodeId>), PeerError> {
        let own = self.own.introduction();
        let at = self.net.find_address(own.id, &to.address);
        let at = at.or_else(|| to.address.strip_prefix('n')?.split_once(':')?.0.parse().ok());
        let at = at.ok_or_else(|| PeerError::Unreachable(format!("no node has the address {}", to.address)))?;
        let (service, cut) = self.net.find(own.id, at)?;
        service.admit(&own, ConnectionSide::Accepted).map_err(PeerError::Refused)?;
        let found = service.introduction();
        if found.id != to.id {
            return Err(PeerError::Refused(Refusal::Identity { expected: to.id, found: found.id }));
        }
        self.own.admit(&found, ConnectionSide::Dialled).map_err(PeerError::Refused)?;
        Ok((service, cut))
    }
}

fn lost(error: impl ToString) -> PeerError {
    PeerError::Lost(error.to_string())
}

impl Peer for Cable {
    fn call(&self, to: &Target, lane: Lane, request: Bytes) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        let Introduction { id: from, boot, .. } = self.own.introduction();
        let requester = Requester { node: from, boot, lane };
        let net = self.net.clone();
        if let Some(recorded) = net.0.lock().unwrap().recorded.get_mut(&(from, to.id, lane)) {
            recorded.push(request.clone());
        }
        let (service, mut cut) = match self.dial(to) {
            Ok(dialled) => dialled,
            Err(error) => return ready(Err(error)).boxed(),
        };
        let to = to.id;
        let path = (from, to, lane);
        let served = if net.arrives(path) { service.serve(requester, request) } else { pending().boxed() };
        let answer = TokioRuntime::spawn(async move {
            let answer = served.await;
            let delay = net.0.lock().unwrap().heartbeat_delay;
            if lane == Lane::Heartbeat && delay > Duration::ZERO {
                let waited = TokioRuntime::timeout(delay, pending::<()>()).await;
                assert!(waited.is_err(), "a pending future never resolves");
            }
            match net.answered(path) {
                // The test may end without releasing it.
                Some(released) => released.await.map(|()| answer),
                None => Ok(answer),
            }
        });
        async move {
            let broken = async {
                while let Ok(id) = cut.recv().await {
                    if id == from || id == to {
                        return;
                    }
                }
            };
            tokio::select! {
                biased;
                () = broken => Err(PeerError::Lost("cut".to_owned())),
                answer = answer => answer.map_or_else(|error| Err(lost(error)), |answer| answer.map_err(lost)),
            }
        }
        .boxed()
    }

    fn greet(&self, to: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>> {
        ready(self.dial(to).map(|(service, _)| service.introduction())).boxed()
    }

    fn is_refused(&self, to: &Target) -> BoxFuture<'static, bool> {
        let cables = self.net.0.lock().unwrap();
        cables.refusal_checks.send_modify(|checks| *checks += 1);
        let gone = !cables.services.contains_key(&to.id) || cables.rejecting.contains(&to.id);
        ready(gone).boxed()
    }
}
