//! The connections of a machine to the others: how they begin, carry messages, and break.

use super::{Answer, Message, Net, TRY_AGAIN};
use crate::{coverage::Probe, host::Host, trace};
use bytes::Bytes;
use fairhold_raft::{
    ConnectionSide,
    peer::{Introduction, Lane, Peer, PeerError, Refusal, Requester, Service, Target},
};
use fairhold_types::NodeId;
use futures_util::future::{BoxFuture, FutureExt};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::{SimInstant, SimRuntime};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// One in this many connection attempts across a partition is refused at once.
const REJECTED_ONE_IN: u32 = 2;

impl Net {
    /// The sending side of one machine.
    pub(crate) fn peer(&self, host: Arc<Host>, own: Arc<dyn Service>) -> Arc<dyn Peer> {
        Arc::new(SimPeer { net: self.clone(), host, own })
    }
}

struct SimPeer {
    net: Net,
    host: Arc<Host>,
    own: Arc<dyn Service>,
}

impl Peer for SimPeer {
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
            // The receiver still exists.
            sender.send(message).ok();
            inner.lanes.insert(key, sender);
            drop(inner);
            let boot = self.own.introduction().boot;
            let connection = Connection { net: self.net.clone(), from, boot, to: to.clone(), lane, own: Arc::clone(&self.own) };
            // The world delivers messages in flight even if the sender has died.
            drop(SimRuntime::spawn(connection.run(receiver)));
        }
        async move { answered.await.unwrap_or_else(|_| Err(PeerError::Lost("the connection broke".to_owned()))) }.boxed()
    }

    fn greet(&self, to: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>> {
        let (net, from, to) = (self.net.clone(), self.host.name().0, to.clone());
        async move {
            // Any node gets an introduction: one that will be refused must be able to learn why.
            let (_, service) = connect(&net, from, &to).await?;
            if !net.pass(to.id, from).await {
                return Err(PeerError::Unreachable("no way back".to_owned()));
            }
            let other = service.introduction();
            to.check(&other).map_err(PeerError::Refused)?;
            Ok(other)
        }
        .boxed()
    }

    fn is_refused(&self, to: &Target) -> BoxFuture<'static, bool> {
        let (net, from, target) = (self.net.clone(), self.host.name().0, to.clone());
        async move {
            let to = target.id;
            if net.is_cut(from, to) {
                // Some firewalls drop packets; others refuse for the machine behind them.
                return net.happens(REJECTED_ONE_IN);
            }
            let listens = || net.find_at(&target).is_some();
            net.pass(from, to).await && !listens() && net.pass(to, from).await
        }
        .boxed()
    }
}

/// Reaches the machine at an address.
async fn connect(net: &Net, from: NodeId, to: &Target) -> Result<(Arc<Host>, Arc<dyn Service>), PeerError> {
    let unreachable = |why: &str| PeerError::Unreachable(why.to_owned());
    if !(net.pass(from, to.id).await && net.open(to.id, from).await) {
        return Err(unreachable("no route"));
    }
    let (host, service) = net.find_at(to).ok_or_else(|| unreachable("connection refused"))?;
    if host.is_paused() {
        return Err(unreachable("no answer to the handshake"));
    }
    Ok((host, service))
}

async fn dial(net: &Net, own: &Arc<dyn Service>, from: NodeId, to: &Target) -> Result<(Arc<Host>, Arc<dyn Service>), PeerError> {
    let (host, service) = connect(net, from, to).await?;
    let refused = |refusal| {
        net.1.probe(Probe::PeerRefused);
        PeerError::Refused(refusal)
    };
    let other = service.introduction();
    if other.id != to.id {
        return Err(refused(Refusal::Identity { expected: to.id, found: other.id }));
    }
    host.within(|| service.admit(&own.introduction(), ConnectionSide::Accepted)).map_err(refused)?;
    to.check(&other).and_then(|()| own.admit(&other, ConnectionSide::Dialled)).map_err(refused)?;
    Ok((host, service))
}

struct Connection {
    net: Net,
    from: NodeId,
    /// The boot number of the process that dials.
    boot: u64,
    to: Target,
    lane: Lane,
    own: Arc<dyn Service>,
}

impl Connection {
    /// Delivers the messages of a lane in order until the connection breaks. Unanswered messages are lost.
    async fn run(self, mut messages: mpsc::UnboundedReceiver<Message>) {
        let (host, service) = match dial(&self.net, &self.own, self.from, &self.to).await {
            Ok(dialled) => dialled,
            Err(error) => {
                messages.close();
                while let Some(message) = messages.recv().await {
                    // The caller may be gone.
                    message.answer.send(Err(error.clone())).ok();
                }
                return;
            }
        };
        self.carry(&host, &service, messages).await;
        if self.lane == Lane::Heartbeat && !host.is_dead() {
            self.net.close_heartbeats(self.from, self.to.id);
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
            let breaks = self.net.locked().network.break_one_in;
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
        let twice = self.net.locked().network.twice_one_in;
        let again = self.lane == Lane::Heartbeat && self.net.happens(twice);
        let requester = Requester { node: self.from, boot: self.boot, lane: self.lane };
        let serving = host.within(|| service.serve(requester, message.request.clone()));
        let (served, done) = oneshot::channel();
        drop(host.spawn(async move {
            // The connection may have broken.
            served.send(serving.await).ok();
        }));
        if again {
            self.net.1.probe(Probe::Duplicated);
            let serving = host.within(|| service.serve(requester, message.request));
            drop(host.spawn(serving));
        }
        let (net, from, to, lane) = (self.net.clone(), self.from, self.to.id, self.lane);
        drop(SimRuntime::spawn(async move {
            let Ok(bytes) = done.await else { return };
            if net.pass(to, from).await && (lane != Lane::Append || net.wait_if_held(to, from).await) {
                trace::bytes(&bytes);
                // The caller may be gone.
                message.answer.send(Ok(bytes)).ok();
            }
        }));
    }
}
