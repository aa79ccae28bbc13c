//! How a restored state becomes a cluster.
//!
//! A restore leaves a snapshot without a position in the log and without members. Before the replica starts, its node
//! waits until every other node of its list answers that it is empty, as in the formation of a cluster (`formation`).
//! Then it replaces that snapshot by one that has all of them as voters, each with its data directory, and whose position
//! is that of the entry with which any cluster begins. So the start looks like one after a crash: the other nodes have
//! no entry, elect this node, and get the snapshot.
//!
//! Nothing votes before that, and the new snapshot appears in one step. So a crash at any point leads to one of the two
//! states, and there is never a cluster of a part of the nodes.

use crate::{
    base::{
        aliases::{LeaderId, LogId, Members},
        config::ReplicaConfig,
        error::FormationError,
        peer::{ConnectionSide, Introduction, JoinRefusal, JoinRequest, Joined, Lane, Peer, Refusal, Requester, Service},
        program::UnsupportedVersion,
        types::{Member, Types},
    },
    leadership::formation::{GreetingResult, classify, greet_all},
    machine::{
        snapshot::{SnapshotStore, StoredSnapshot, header, run_blocking},
        snapshot_writer::state_of,
    },
};
use bytes::Bytes;
use fairhold_types::{ClusterId, ClusterVersion, Incarnation, NodeId, failpoint};
use futures_util::future::{BoxFuture, FutureExt, ready};
use openraft::{AsyncRuntime, Membership, alias::SnapshotMetaOf};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

/// The meta of a snapshot that a restore writes: no position in the log, and no members.
pub fn restored_meta<RT: AsyncRuntime>() -> io::Result<Bytes> {
    header::encode::<RT>(&SnapshotMetaOf::<Types<RT>>::default())
}

/// A restored state whose cluster has not formed.
pub struct RestoredSnapshot {
    snapshot: Arc<dyn StoredSnapshot>,
    /// The version of its state.
    version: ClusterVersion,
}

/// A node of the list without which the cluster of a restored state does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingNode {
    /// Its id.
    pub id: NodeId,
    /// If it is empty, but could not read the state: the version of the state, and those that its program supports.
    pub unsupported: Option<UnsupportedVersion>,
}

impl std::fmt::Debug for RestoredSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RestoredSnapshot")
    }
}

impl RestoredSnapshot {
    /// The restored state of this store, if it has one whose cluster has not formed.
    pub async fn find<RT: AsyncRuntime>(store: &dyn SnapshotStore) -> io::Result<Option<RestoredSnapshot>> {
        let Some(snapshot) = store.newest().await? else { return Ok(None) };
        if header::decode::<RT>(&snapshot.meta())?.last_log_id.is_some() {
            return Ok(None);
        }
        // A node may have taken a snapshot before its cluster formed. That state has no cluster.
        let read = Arc::clone(&snapshot);
        let state = run_blocking(store, move || state_of(&*read)).await??;
        let version = state.cluster_version();
        Ok(state.cluster().is_some().then_some(RestoredSnapshot { snapshot, version }))
    }

    /// Asks the other nodes once, and forms the cluster if all of them are empty, and run programs that support the version
    /// of the state. Otherwise returns those that did not answer that they are. An error comes with the node whose answer
    /// is the reason, or with this one.
    pub async fn form<RT: AsyncRuntime>(
        &self,
        config: &ReplicaConfig,
        peer: &dyn Peer,
        store: &dyn SnapshotStore,
    ) -> Result<Vec<MissingNode>, (NodeId, FormationError)> {
        let answers = greet_all::<RT, _>(peer, config, |id, greeting| {
            let supports = greeting.as_ref().and_then(|greeting| greeting.as_ref().ok()).map(|other| other.supports);
            let found = greeting.map_or(Ok(GreetingResult::Unknown), |greeting| classify(config, id, greeting));
            found.map(|found| (id, found, supports)).map_err(|error| (id, error))
        });
        let version = self.version;
        let mut incarnations = BTreeMap::from([(config.id, config.incarnation)]);
        let mut missing = Vec::new();
        for answer in answers.await {
            let (id, found, supports) = answer?;
            let supports = supports.filter(|supports| !supports.includes(version));
            let unsupported = supports.map(|supports| UnsupportedVersion { version, supports });
            match found {
                GreetingResult::Empty(incarnation) if unsupported.is_none() => drop(incarnations.insert(id, incarnation)),
                GreetingResult::Empty(_) => missing.push(MissingNode { id, unsupported }),
                GreetingResult::Formed | GreetingResult::Unknown => missing.push(MissingNode { id, unsupported: None }),
            }
        }
        if missing.is_empty() {
            let failed = |error: io::Error| (config.id, FormationError::Impossible(error.to_string()));
            self.begin::<RT>(config, &incarnations, store).await.map_err(failed)?;
            tracing::info!(members = incarnations.len(), "the restored cluster has its members");
        }
        Ok(missing)
    }

    /// Replaces the snapshot by one with members.
    async fn begin<RT: AsyncRuntime>(
        &self,
        config: &ReplicaConfig,
        incarnations: &BTreeMap<NodeId, Incarnation>,
        store: &dyn SnapshotStore,
    ) -> io::Result<()> {
        failpoint!(RaftMembersWrite, RT)?;
        let meta = header::encode::<RT>(&first_meta::<RT>(config, incarnations)?)?;
        let mut draft = store.draft(meta);
        let restored = Arc::clone(&self.snapshot);
        let copy = move || {
            (0..restored.blocks()).try_for_each(|index| draft.write(&restored.block(index)?))?;
            draft.finish()
        };
        run_blocking(store, copy).await??.keep().await?;
        failpoint!(RaftMembersWritten, RT)
    }
}

/// The meta of a snapshot that stands for the first entry of a cluster.
fn first_meta<RT: AsyncRuntime>(
    config: &ReplicaConfig,
    incarnations: &BTreeMap<NodeId, Incarnation>,
) -> io::Result<SnapshotMetaOf<Types<RT>>> {
    let members: BTreeMap<NodeId, Member> = config
        .members
        .iter()
        .filter_map(|(id, at)| {
            let incarnation = *incarnations.get(id)?;
            Some((*id, Member { url: at.url.clone(), address: at.address.clone(), incarnation }))
        })
        .collect();
    let voters: BTreeSet<NodeId> = members.keys().copied().collect();
    let membership = Membership::new(vec![voters], members).map_err(io::Error::other)?;
    let first = LogId::new(LeaderId { term: 0, node_id: config.id }, 0);
    Ok(SnapshotMetaOf::<Types<RT>> { last_log_id: Some(first), last_membership: Members::new(Some(first), membership) })
}

/// How a restored node introduces itself before its replica starts. It serves nothing.
#[derive(Debug)]
pub struct RestoredService {
    introduction: Introduction,
}

impl RestoredService {
    /// The service of a restored node.
    #[must_use]
    pub fn of(config: &ReplicaConfig) -> Arc<dyn Service> {
        let introduction = Introduction {
            id: config.id,
            cluster: config.cluster,
            incarnation: config.incarnation,
            empty: false,
            members: Vec::new(),
            program: config.program.version.clone(),
            supports: config.program.supports,
            boot: config.boot,
        };
        Arc::new(RestoredService { introduction })
    }
}

impl Service for RestoredService {
    fn introduction(&self) -> Introduction {
        self.introduction.clone()
    }

    fn admit(&self, other: &Introduction, _side: ConnectionSide) -> Result<(), Refusal> {
        let is_other = |(ours, theirs): &(ClusterId, ClusterId)| ours != theirs;
        match self.introduction.cluster.zip(other.cluster).filter(is_other) {
            Some((ours, theirs)) => Err(Refusal::Cluster { theirs, ours }),
            None => Ok(()),
        }
    }

    fn join(&self, _request: JoinRequest) -> BoxFuture<'static, Result<Joined, JoinRefusal>> {
        ready(Err(JoinRefusal::NoLeader)).boxed()
    }

    fn serve(&self, _from: Requester, _request: Bytes) -> BoxFuture<'static, Bytes> {
        // It has no listener, so no request arrives. Another node cannot decode this, which is an unknown outcome.
        ready(Bytes::new()).boxed()
    }

    fn disconnected(&self, _from: NodeId, _lane: Lane) {}
}

#[cfg(test)]
#[path = "restored_tests.rs"]
mod tests;
