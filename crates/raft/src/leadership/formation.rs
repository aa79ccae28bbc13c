//! How a cluster forms by itself: once every configured node has answered that it is empty, the one with the lowest id
//! makes them members, each with its data directory.
//!
//! A node without a log that a cluster already knows was wiped: it must not vote, and its start fails with
//! instructions.

use crate::{
    base::{
        config::ReplicaConfig,
        error::FormationError,
        peer::{Introduction, PeerError, Refusal, Target},
        types::Member,
    },
    core::{
        Core, leadership_in,
        status::{is_uninitialized, is_wiped},
    },
    queues::Queues,
};
use fairhold_state::command::Command;
use fairhold_types::{ClusterId, Incarnation, NodeId, failpoint};
use futures_util::future::join_all;
use openraft::{
    AsyncRuntime, Instant,
    errors::{InitializeError, RaftError},
};
use rand::Rng;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Pause between two rounds of contacting the other nodes. An operator starts the nodes one by one.
const ROUND_PAUSE: Duration = Duration::from_millis(200);
/// Time limit for one node's introduction.
const GREETING_LIMIT: Duration = Duration::from_secs(2);
/// Time limit for one attempt to name the cluster.
const NAMING_LIMIT: Duration = Duration::from_secs(2);

/// What a node without a log learns from another node's greeting.
enum GreetingResult {
    /// It is empty too, and has this data directory.
    Empty(Incarnation),
    /// The cluster has formed with this node as a member: its leader will send the log.
    Formed,
    /// Nothing yet: it is down or starting.
    Unknown,
}

/// Waits until this node is part of a cluster, and forms it if that is this node's task.
pub(crate) async fn form<RT: AsyncRuntime>(core: Arc<Core<RT>>, config: ReplicaConfig) -> Result<(), FormationError> {
    let formed = core.until(|metrics| metrics.membership_config.nodes().next().map(drop));
    tokio::select! {
        biased;
        formed = formed => formed.ok_or_else(|| FormationError::Impossible("the node has stopped".to_owned())),
        result = discover(&core, &config) => result,
    }
}

async fn discover<RT: AsyncRuntime>(core: &Core<RT>, config: &ReplicaConfig) -> Result<(), FormationError> {
    let forms = config.members.keys().next() == Some(&config.id);
    if config.members.len() > 1 {
        tracing::info!(members = config.members.len(), "waiting for all members to start before forming the cluster");
    }
    loop {
        let others = config.members.iter().filter(|(id, _)| **id != config.id);
        let answers = join_all(others.map(|(&id, member)| async move {
            let target = Target { id, address: member.address.clone(), incarnation: None };
            let greeting = RT::timeout(GREETING_LIMIT, core.links.peer.greet(&target)).await;
            let found = greeting.map_or(Ok(GreetingResult::Unknown), |greeting| classify(config, id, greeting));
            found.map(|found| (id, found))
        }))
        .await;
        let mut empty = BTreeMap::from([(config.id, config.incarnation)]);
        let mut formed = false;
        for answer in answers {
            match answer? {
                (id, GreetingResult::Empty(incarnation)) => drop(empty.insert(id, incarnation)),
                (_, GreetingResult::Formed) => formed = true,
                (_, GreetingResult::Unknown) => {}
            }
        }
        if forms && !formed && empty.len() == config.members.len() && core.with_metrics(is_uninitialized) {
            return initialize(core, config, &empty).await;
        }
        RT::sleep(ROUND_PAUSE).await;
    }
}

fn classify(
    config: &ReplicaConfig,
    by: NodeId,
    greeting: Result<Introduction, PeerError>,
) -> Result<GreetingResult, FormationError> {
    let id = config.id;
    let introduction = match greeting {
        Ok(introduction) => introduction,
        Err(PeerError::Refused(refusal)) => return refused(config, by, refusal),
        Err(PeerError::Unreachable(_) | PeerError::Lost(_)) => return Ok(GreetingResult::Unknown),
    };
    if introduction.id != by {
        let refusal = Refusal::Identity { expected: by, found: introduction.id };
        return Err(FormationError::Refused { id, by, refusal });
    }
    match introduction.members.iter().find(|(member, _)| *member == id) {
        Some((_, expected)) if is_wiped(*expected, config.incarnation) => {
            Err(FormationError::Wiped { id, expected: *expected, found: config.incarnation })
        }
        Some(_) => Ok(GreetingResult::Formed),
        None if !introduction.members.is_empty() => Err(FormationError::NotAMember { id, by }),
        None if introduction.empty => Ok(GreetingResult::Empty(introduction.incarnation)),
        None => Ok(GreetingResult::Unknown),
    }
}

fn refused(config: &ReplicaConfig, by: NodeId, refusal: Refusal) -> Result<GreetingResult, FormationError> {
    let id = config.id;
    match refusal {
        // The reason is the other node's own condition, and says nothing about the cluster.
        Refusal::Starting | Refusal::LostEntries(_) => Ok(GreetingResult::Unknown),
        // The answer is not authenticated, and during a key rotation the nodes change keys one at a time.
        Refusal::Key(_) => Ok(GreetingResult::Unknown),
        Refusal::Incarnation { id: refused, expected, found } if refused == id => {
            Err(FormationError::Wiped { id, expected, found })
        }
        Refusal::Version { .. }
        | Refusal::Cluster { .. }
        | Refusal::Incarnation { .. }
        | Refusal::Identity { .. }
        | Refusal::NotAMember { .. } => Err(FormationError::Refused { id, by, refusal }),
    }
}

async fn initialize<RT: AsyncRuntime>(
    core: &Core<RT>,
    config: &ReplicaConfig,
    incarnations: &BTreeMap<NodeId, Incarnation>,
) -> Result<(), FormationError> {
    let members: BTreeMap<NodeId, Member> = config
        .members
        .iter()
        .zip(incarnations.values())
        .map(|((&id, at), &incarnation)| (id, Member { url: at.url.clone(), address: at.address.clone(), incarnation }))
        .collect();
    tracing::info!(members = members.len(), "forming the cluster");
    let failed = |error: std::io::Error| FormationError::Impossible(error.to_string());
    failpoint!(RaftMembersWrite, RT).map_err(failed)?;
    match core.raft.initialize(members).await {
        // Not allowed: the cluster has just formed.
        Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => failpoint!(RaftMembersWritten, RT).map_err(failed),
        Err(error) => Err(FormationError::Impossible(error.to_string())),
    }
}

/// Names the cluster as its first change, if this node leads and the cluster has no name. Runs until it has a name, or
/// Raft stops.
pub(crate) async fn name_cluster<RT: AsyncRuntime>(core: Arc<Core<RT>>, queues: Queues) {
    loop {
        if core.until(leadership_in).await.is_none() {
            return;
        }
        // After a start, the state may lag behind the log: only a barrier proves that it contains no name.
        if let Ok(index) = queues.barriers.next(false).await {
            if core.applied(index).await.is_none() || core.shared.read().cluster().is_some() {
                return;
            }
            let cluster = ClusterId(u128::from(RT::thread_rng().next_u64()) << 64 | u128::from(RT::thread_rng().next_u64()));
            if failpoint!(RaftMembersName, RT).is_ok()
                && let Ok(submitted) = queues.proposals.submit(Command::FormCluster { cluster }, false)
            {
                // The next round checks the outcome.
                drop(submitted.outcome::<RT>(deadline::<RT>()).await);
                if core.shared.read().cluster() == Some(cluster) {
                    tracing::info!(%cluster, "the cluster has formed");
                    return;
                }
            }
        }
        // Just elected, or deposed: try again in the next round.
        core.pause(deadline::<RT>()).await;
    }
}

fn deadline<RT: AsyncRuntime>() -> RT::Instant {
    RT::Instant::now() + NAMING_LIMIT
}
