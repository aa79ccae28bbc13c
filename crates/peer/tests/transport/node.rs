//! A node for these tests: a service that records its requests, and a server that can stop and restart.

use bytes::Bytes;
use fairhold_peer::{
    client::TcpPeer,
    join::{self, JoinError},
    key::PeerKeys,
    security::PeerSecurity,
    server::PeerServer,
};
use fairhold_raft::peer::{
    ConnectionSide, Introduction, JoinRefusal, JoinRequest, Joined, Lane, Peer, PeerError, Refusal, Requester, Service, Target,
};
use fairhold_types::{ClusterId, Incarnation, MemberRole, NodeId, SupportedVersions, Timing};
use futures_util::future::BoxFuture;
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

/// The limit for every wait. Only a test that hangs reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const CLUSTER: ClusterId = ClusterId(0xC1);

/// Echoes every request. A request that begins with `hold` waits for `release`.
pub(crate) struct Node {
    pub(crate) introduction: Introduction,
    /// The incarnation that node 1 must have.
    pub(crate) known: Option<Incarnation>,
    pub(crate) served: Mutex<Vec<(NodeId, Lane, Bytes)>>,
    pub(crate) frame_limits: Semaphore,
    pub(crate) release: Arc<Semaphore>,
    pub(crate) admits: AtomicUsize,
    /// The nodes that have introduced themselves.
    pub(crate) introduced: Mutex<Vec<Introduction>>,
    /// Which side dialled, for each of them.
    pub(crate) sides: Mutex<Vec<ConnectionSide>>,
    /// The joins that it received, and its decision on each.
    pub(crate) joins: Mutex<Vec<JoinRequest>>,
    pub(crate) decision: Result<Joined, JoinRefusal>,
    /// Whether a join waits for `release`.
    pub(crate) holds_joins: bool,
    pub(crate) starting: AtomicBool,
    /// It refuses every node with this.
    pub(crate) refuses: Option<Refusal>,
    pub(crate) holding: Arc<AtomicUsize>,
    pub(crate) holding_peak: AtomicUsize,
    /// The node and lane of each connection that ended.
    pub(crate) disconnected: watch::Sender<Vec<(NodeId, Lane)>>,
}

pub(crate) fn introduction(id: NodeId) -> Introduction {
    let incarnation = Incarnation(u128::from(id));
    Introduction {
        id,
        cluster: Some(CLUSTER),
        incarnation,
        empty: false,
        members: vec![(1, Incarnation(1)), (2, Incarnation(2))],
        program: Some("0.1.0".to_owned()),
        supports: SupportedVersions::OWN,
        boot: id * 100,
    }
}

/// The decision that admits a node as node 3.
pub(crate) fn joined() -> Joined {
    let member = |id: NodeId| (id, format!("http://n{id}:7171"), format!("n{id}:7271"));
    let members = vec![member(1), member(2)];
    Joined { id: 3, cluster: CLUSTER, role: MemberRole::Voter, members, timing: Timing::Lan }
}

impl Node {
    pub(crate) fn new(id: NodeId) -> Node {
        Node {
            introduction: introduction(id),
            known: None,
            served: Mutex::default(),
            frame_limits: Semaphore::new(0),
            release: Arc::new(Semaphore::new(0)),
            admits: AtomicUsize::new(0),
            introduced: Mutex::default(),
            sides: Mutex::default(),
            joins: Mutex::default(),
            decision: Ok(joined()),
            holds_joins: false,
            starting: AtomicBool::new(false),
            refuses: None,
            holding: Arc::default(),
            holding_peak: AtomicUsize::new(0),
            disconnected: watch::Sender::default(),
        }
    }

    pub(crate) fn requests(&self) -> Vec<Bytes> {
        self.served.lock().unwrap().iter().map(|(_, _, request)| request.clone()).collect()
    }

    /// Waits until `count` more requests have arrived since the last call.
    pub(crate) async fn arrived(&self, count: u32) {
        timeout(PATIENCE, self.frame_limits.acquire_many(count)).await.unwrap().unwrap().forget();
    }
}

impl Service for Node {
    fn introduction(&self) -> Introduction {
        self.introduction.clone()
    }

    fn admit(&self, other: &Introduction, side: ConnectionSide) -> Result<(), Refusal> {
        self.admits.fetch_add(1, SeqCst);
        self.sides.lock().unwrap().push(side);
        self.introduced.lock().unwrap().push(other.clone());
        if self.starting.load(SeqCst) {
            return Err(Refusal::Starting);
        }
        if let Some(refusal) = &self.refuses {
            return Err(refusal.clone());
        }
        match (self.introduction.cluster, other.cluster) {
            (Some(ours), Some(theirs)) if ours != theirs => return Err(Refusal::Cluster { theirs, ours }),
            _ => {}
        }
        match self.known {
            Some(expected) if other.id == 1 && expected != other.incarnation => {
                Err(Refusal::Incarnation { id: other.id, expected, found: other.incarnation })
            }
            _ => Ok(()),
        }
    }

    fn serve(&self, Requester { node: from, boot, lane }: Requester, request: Bytes) -> BoxFuture<'static, Bytes> {
        // With wire version 3, it does not tell its number.
        assert!(boot == 0 || boot == introduction(from).boot, "{boot} is the number of another process");
        self.served.lock().unwrap().push((from, lane, request.clone()));
        self.frame_limits.add_permits(1);
        if !request.starts_with(b"hold") {
            return Box::pin(std::future::ready(request));
        }
        self.holding_peak.fetch_max(self.holding.fetch_add(1, SeqCst) + 1, SeqCst);
        let (release, holding) = (self.release.clone(), self.holding.clone());
        Box::pin(async move {
            release.acquire().await.unwrap().forget();
            holding.fetch_sub(1, SeqCst);
            request
        })
    }

    fn join(&self, request: JoinRequest) -> BoxFuture<'static, Result<Joined, JoinRefusal>> {
        self.joins.lock().unwrap().push(request);
        self.frame_limits.add_permits(1);
        let (decision, release, holds) = (self.decision.clone(), self.release.clone(), self.holds_joins);
        Box::pin(async move {
            if holds {
                release.acquire().await.unwrap().forget();
            }
            decision
        })
    }

    fn disconnected(&self, from: NodeId, lane: Lane) {
        self.disconnected.send_modify(|disconnected| disconnected.push((from, lane)));
    }
}

/// Waits until a server has room for further joins, which is soon after the decision on the earlier ones.
pub(crate) async fn join_when_free(address: SocketAddr, request: JoinRequest) -> Joined {
    let joined = async {
        loop {
            match join::join(&address.to_string(), request.clone(), &PeerKeys::none(), &PeerSecurity::plain()).await {
                Ok(decision) => return decision.unwrap(),
                Err(JoinError::NoAnswer(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(PATIENCE, joined).await.expect("no slot became free")
}

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start(service: Arc<Node>) -> Running {
        Running::start_at("127.0.0.1:0".parse().unwrap(), service).await
    }

    pub(crate) async fn start_at(address: SocketAddr, service: Arc<Node>) -> Running {
        // Longer than any test waits, so that the timeout never closes a connection.
        let server = PeerServer::bind(address).await.unwrap().with_handshake_timeout(PATIENCE * 10);
        Running::run(server, service)
    }

    pub(crate) fn run(server: PeerServer, service: Arc<Node>) -> Running {
        let address = server.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move { server.serve(service, async { drop(stopped.await) }).await });
        Running { address, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

pub(crate) fn target(id: NodeId, address: SocketAddr) -> Target {
    Target { id, address: address.to_string(), incarnation: None }
}

/// A client of this node, without keys.
pub(crate) fn client(node: Node) -> TcpPeer {
    client_with(node, PeerKeys::none())
}

/// A client of this node, with keys.
pub(crate) fn client_with(node: Node, keys: PeerKeys) -> TcpPeer {
    let peer = TcpPeer::new(Handle::current(), keys);
    peer.set_service(Arc::new(node));
    peer
}

pub(crate) async fn call(peer: &TcpPeer, to: &Target, request: &'static [u8]) -> Result<Bytes, PeerError> {
    timeout(PATIENCE, peer.call(to, Lane::Append, Bytes::from_static(request))).await.unwrap()
}

/// Repeats a call until it succeeds.
pub(crate) async fn call_until_answered(peer: &TcpPeer, to: &Target, lane: Lane, request: Bytes) {
    let answered = async {
        while peer.call(to, lane, request.clone()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, answered).await.expect("it never answered");
}

/// Asserts that a server still answers a well-behaved node.
pub(crate) async fn assert_serves(address: SocketAddr) {
    let peer = client(Node::new(1));
    assert_eq!(call(&peer, &target(2, address), b"still there?").await.unwrap(), b"still there?"[..]);
    peer.close().await;
}
