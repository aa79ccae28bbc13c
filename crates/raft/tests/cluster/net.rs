//! A net in memory: services that call one another, and cables that can be pulled.

use bytes::Bytes;
use fairhold_raft::peer::{Introduction, Lane, Peer, PeerError, Service, Target};
use fairhold_types::NodeId;
use futures_util::{
    FutureExt,
    future::{BoxFuture, ready},
};
use openraft::AsyncRuntime;
use openraft_rt_tokio::TokioRuntime;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};
use tokio::sync::{broadcast, watch};

#[derive(Clone)]
pub(crate) struct Net(Arc<Mutex<Cables>>);

struct Cables {
    services: BTreeMap<NodeId, Arc<dyn Service>>,
    pulled: BTreeSet<NodeId>,
    /// Nodes that live, to which new connections are refused.
    rejecting: BTreeSet<NodeId>,
    /// How often it was asked whether connections to a node are refused.
    asked: watch::Sender<u32>,
    cut: broadcast::Sender<NodeId>,
}

impl Net {
    pub(crate) fn new() -> Net {
        let (cut, _) = broadcast::channel(64);
        Net(Arc::new(Mutex::new(Cables {
            services: BTreeMap::new(),
            pulled: BTreeSet::new(),
            rejecting: BTreeSet::new(),
            asked: watch::Sender::new(0),
            cut,
        })))
    }

    /// The peer of one node, whose service is not in the net before `plug_in`.
    pub(crate) fn peer(&self, own: Arc<dyn Service>) -> Arc<dyn Peer> {
        Arc::new(Cable { net: self.clone(), own })
    }

    pub(crate) fn plug_in(&self, id: NodeId, service: Arc<dyn Service>) {
        let mut cables = self.0.lock().unwrap();
        cables.services.insert(id, service);
        cables.pulled.remove(&id);
    }

    pub(crate) fn unplug(&self, id: NodeId) {
        let mut cables = self.0.lock().unwrap();
        cables.services.remove(&id);
        cables.cut.send(id).ok();
        let left: Vec<_> = cables.services.values().cloned().collect();
        drop(cables);
        left.iter().for_each(|service| service.hung_up(id, Lane::Heartbeat));
    }

    /// Cuts a node off, which goes on running.
    pub(crate) fn isolate(&self, id: NodeId) {
        let mut cables = self.0.lock().unwrap();
        cables.pulled.insert(id);
        cables.cut.send(id).ok();
    }

    /// Connections to a node that lives are refused from now on, and one other node sees the old one end.
    pub(crate) fn reject(&self, id: NodeId, seen_by: NodeId) {
        let mut cables = self.0.lock().unwrap();
        cables.rejecting.insert(id);
        let service = cables.services[&seen_by].clone();
        drop(cables);
        service.hung_up(id, Lane::Heartbeat);
    }

    /// Waits until it was asked so often whether connections to a node are refused.
    pub(crate) async fn asked(&self, times: u32) {
        let mut asked = self.0.lock().unwrap().asked.subscribe();
        asked.wait_for(|asked| *asked >= times).await.unwrap();
    }

    pub(crate) fn heal(&self, id: NodeId) {
        self.0.lock().unwrap().pulled.remove(&id);
    }

    fn find(&self, from: NodeId, to: NodeId) -> Result<(Arc<dyn Service>, broadcast::Receiver<NodeId>), PeerError> {
        let cables = self.0.lock().unwrap();
        let service = cables.services.get(&to).filter(|_| !cables.pulled.contains(&from) && !cables.pulled.contains(&to));
        let service = service.cloned().ok_or(PeerError::Unreachable("no route".to_owned()))?;
        Ok((service, cables.cut.subscribe()))
    }
}

struct Cable {
    net: Net,
    own: Arc<dyn Service>,
}

impl Cable {
    fn dial(&self, to: NodeId) -> Result<(Arc<dyn Service>, broadcast::Receiver<NodeId>), PeerError> {
        let own = self.own.introduction();
        let (service, cut) = self.net.find(own.id, to)?;
        service.admit(&own).map_err(PeerError::Refused)?;
        self.own.admit(&service.introduction()).map_err(PeerError::Refused)?;
        Ok((service, cut))
    }
}

impl Peer for Cable {
    fn call(&self, to: &Target, lane: Lane, request: Bytes) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        let from = self.own.introduction().id;
        let to = to.id;
        let (answer, mut cut) = match self.dial(to) {
            Ok((service, cut)) => (TokioRuntime::spawn(service.serve(from, lane, request)), cut),
            Err(error) => return ready(Err(error)).boxed(),
        };
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
                answer = answer => answer.map_err(|error| PeerError::Lost(error.to_string())),
            }
        }
        .boxed()
    }

    fn greet(&self, to: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>> {
        ready(self.dial(to.id).map(|(service, _)| service.introduction())).boxed()
    }

    fn is_refused(&self, to: &Target) -> BoxFuture<'static, bool> {
        let cables = self.net.0.lock().unwrap();
        cables.asked.send_modify(|asked| *asked += 1);
        let gone = !cables.services.contains_key(&to.id) || cables.rejecting.contains(&to.id);
        ready(gone).boxed()
    }
}
