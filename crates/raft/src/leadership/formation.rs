//! How a cluster forms by itself: once every configured node has answered that it is empty, the one with the lowest id
//! makes them members, each with its data directory.
//!
//! A node without a log that a cluster already knows was wiped: it must not vote, and its start fails with
//! instructions.
//!
//! A node that belongs to a cluster, because it joined one or was a member before, never forms another one. It waits
//! for the log, and only looks for reasons why none will come.

use crate::{
    base::{
        config::ReplicaConfig,
        error::FormationError,
        peer::{Introduction, Peer, PeerError, Refusal, Target, is_wiped},
        types::Member,
        wall_clock::wall_now,
    },
    core::{Core, leadership_in, status::is_uninitialized},
    leadership::upgrade,
    queues::Queues,
};
use fairhold_state::command::Command;
use fairhold_types::{ClusterId, ClusterVersion, Incarnation, NodeId, Timing, cluster_version::MEMBERSHIP_SINCE, failpoint};
use futures_util::future::join_all;
use openraft::{
    AsyncRuntime, Instant,
    errors::{InitializeError, RaftError},
};
use rand::Rng;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Pause between two rounds of contacting the other nodes. An operator starts the nodes one by one.
const ROUND_PAUSE: Duration = Duration::from_millis(200);
/// Time limit for one node's introduction in one data centre. This and the next two are longer with nodes far apart.
const GREETING_LIMIT: Duration = Duration::from_secs(2);
/// How many rounds a leader waits for the introductions of all nodes before it names the cluster with an older version.
const VERSION_ROUNDS: u32 = 10;
/// Time limit for one attempt to name the cluster.
const NAMING_LIMIT: Duration = Duration::from_secs(2);

/// What a node without a log learns from another node's greeting.
pub(super) enum GreetingResult {
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
        result = wait_or_form(&core, &config) => result,
    }
}

async fn wait_or_form<RT: AsyncRuntime>(core: &Core<RT>, config: &ReplicaConfig) -> Result<(), FormationError> {
    match config.cluster {
        Some(cluster) if config.joined => find_cluster(core, config, cluster).await,
        Some(_) | None => discover(core, config).await,
    }
}

/// Asks the nodes at the known addresses for a reason why this node will never be a member; ends only with one.
async fn find_cluster<RT: AsyncRuntime>(
    core: &Core<RT>,
    config: &ReplicaConfig,
    cluster: ClusterId,
) -> Result<(), FormationError> {
    tracing::info!(%cluster, "waiting for the leader of cluster {cluster} to send the log");
    loop {
        let classify = |by, greeting| classify_for_joined(core, config, cluster, by, greeting);
        let answers = greet_all::<RT, _>(&*core.links.peer, config, classify).await;
        let answers: Vec<Option<FormationError>> = answers.into_iter().collect::<Result<_, _>>()?;
        // One address may lead to another cluster by now. If all do, none leads to this one.
        if let Some(Some(error)) = answers.first()
            && answers.iter().all(Option::is_some)
        {
            return Err(error.clone());
        }
        RT::sleep(ROUND_PAUSE).await;
    }
}

/// Greets all other nodes of the configuration at the same time.
pub(super) async fn greet_all<RT: AsyncRuntime, T>(
    peer: &dyn Peer,
    config: &ReplicaConfig,
    classify: impl Fn(NodeId, Option<Result<Introduction, PeerError>>) -> T,
) -> Vec<T> {
    let classify = &classify;
    let others = config.members.iter().filter(|(id, _)| **id != config.id);
    join_all(others.map(|(&id, member)| async move {
        let target = Target { id, address: member.address.clone(), incarnation: None };
        let greeting = RT::timeout(GREETING_LIMIT * config.time_scale(), peer.greet(&target)).await;
        classify(id, greeting.ok())
    }))
    .await
}

/// What a node that joined learns from a greeting: an error that is certain, an error that counts only if every address
/// leads to it, or nothing.
fn classify_for_joined<RT: AsyncRuntime>(
    core: &Core<RT>,
    config: &ReplicaConfig,
    cluster: ClusterId,
    by: NodeId,
    greeting: Option<Result<Introduction, PeerError>>,
) -> Result<Option<FormationError>, FormationError> {
    if let Some(Err(PeerError::Refused(refusal))) = &greeting {
        core.notice.record_refusal(by, refusal, RT::Instant::now());
    }
    judge_for_joined(config, cluster, by, greeting)
}

fn judge_for_joined(
    config: &ReplicaConfig,
    ours: ClusterId,
    by: NodeId,
    greeting: Option<Result<Introduction, PeerError>>,
) -> Result<Option<FormationError>, FormationError> {
    let id = config.id;
    let other_cluster = |refusal| Ok(Some(FormationError::Refused { id, by, refusal }));
    match greeting {
        Some(Ok(introduction)) => match introduction.cluster {
            Some(theirs) if theirs != ours => other_cluster(Refusal::Cluster { theirs: ours, ours: theirs }),
            Some(_) => match introduction.members.iter().find(|(member, _)| *member == id) {
                Some((_, expected)) if is_wiped(*expected, config.incarnation) => {
                    Err(FormationError::Wiped { id, expected: *expected, found: config.incarnation })
                }
                Some(_) | None => Ok(None),
            },
            None => Ok(None),
        },
        Some(Err(PeerError::Refused(refusal))) => match refusal {
            Refusal::Cluster { .. } => other_cluster(refusal),
            Refusal::Incarnation { id: refused, expected, found } if refused == id => {
                Err(FormationError::Wiped { id, expected, found })
            }
            // `core.notice` decides on these two.
            Refusal::Removed { .. } | Refusal::Duplicate { .. } => Ok(None),
            // The members may have moved, may be behind, or may run another program for a while.
            Refusal::Version { .. }
            | Refusal::Incarnation { .. }
            | Refusal::Identity { .. }
            | Refusal::Starting
            | Refusal::NotAMember { .. }
            | Refusal::LostEntries(_)
            | Refusal::Key(_) => Ok(None),
        },
        Some(Err(PeerError::Unreachable(_) | PeerError::Lost(_))) | None => Ok(None),
    }
}

async fn discover<RT: AsyncRuntime>(core: &Core<RT>, config: &ReplicaConfig) -> Result<(), FormationError> {
    let forms = config.cluster.is_none() && config.members.keys().next() == Some(&config.id);
    if config.cluster.is_some() {
        tracing::info!("waiting for the cluster of this data directory");
    } else if config.members.len() > 1 {
        tracing::info!(members = config.members.len(), "waiting for all members to start before forming the cluster");
    }
    loop {
        let answers = greet_all::<RT, _>(&*core.links.peer, config, |id, greeting| {
            let found = greeting.map_or(Ok(GreetingResult::Unknown), |greeting| classify(config, id, greeting));
            found.map(|found| (id, found))
        });
        let mut empty = BTreeMap::from([(config.id, config.incarnation)]);
        let mut formed = false;
        for answer in answers.await {
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

pub(super) fn classify(
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
        // The other node may be behind. This one waits until it is told that it was removed.
        None if !introduction.members.is_empty() && config.cluster.is_some() => Ok(GreetingResult::Unknown),
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
        Refusal::NotAMember { .. } | Refusal::Removed { .. } if config.cluster.is_some() => Ok(GreetingResult::Unknown),
        // The answer is not authenticated, and during a key rotation the nodes change keys one at a time.
        Refusal::Key(_) => Ok(GreetingResult::Unknown),
        Refusal::Incarnation { id: refused, expected, found } if refused == id => {
            Err(FormationError::Wiped { id, expected, found })
        }
        Refusal::Version { .. }
        | Refusal::Cluster { .. }
        | Refusal::Incarnation { .. }
        | Refusal::Identity { .. }
        | Refusal::NotAMember { .. }
        | Refusal::Removed { .. } => Err(FormationError::Refused { id, by, refusal }),
        // The process before a restart may have answered until a moment ago.
        Refusal::Duplicate { .. } => Ok(GreetingResult::Unknown),
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

/// Names the cluster as its first change, if this node leads and the cluster has no name, and gives it this node's
/// timing profile. Runs until it has a name, or Raft stops.
pub(crate) async fn name_cluster<RT: AsyncRuntime>(core: Arc<Core<RT>>, queues: Queues, timing: Timing) {
    let mut waited = 0;
    loop {
        if core.until(leadership_in).await.is_none() {
            return;
        }
        // After a start, the state may lag behind the log: only a barrier proves that it contains no name.
        if let Ok(index) = queues.barriers.next(false).await {
            if core.applied(index).await.is_none() || core.shared.read().cluster().is_some() {
                return;
            }
            let version = upgrade::first_version(&core);
            if version.is_err() && waited < VERSION_ROUNDS * core.time_scale {
                waited += 1;
                RT::sleep(ROUND_PAUSE).await;
                continue;
            }
            let cluster = ClusterId(u128::from(RT::thread_rng().next_u64()) << 64 | u128::from(RT::thread_rng().next_u64()));
            if failpoint!(RaftMembersName, RT).is_ok()
                && let Ok(submitted) = queues.proposals.submit(form_command(cluster, version.as_ref().ok().copied()), false)
            {
                // The next round checks the outcome.
                drop(submitted.outcome::<RT>(deadline(&core)).await);
                if core.shared.read().cluster() == Some(cluster) {
                    log_formed(cluster, version);
                    return set_first_timing(&core, &queues, timing).await;
                }
            }
        }
        // Just elected, or deposed: try again in the next round.
        core.pause(deadline(&core)).await;
    }
}

/// Says with which version the cluster has formed. If some nodes have not introduced themselves, they may run an older
/// program.
fn log_formed(cluster: ClusterId, version: Result<ClusterVersion, Vec<NodeId>>) {
    match version {
        Ok(version) => tracing::info!(%cluster, %version, "the cluster has formed with version {version}"),
        Err(unknown) => {
            let (version, next) = (ClusterVersion::FIRST, ClusterVersion::FIRST.next());
            let unknown = unknown.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                %cluster, %version,
                "the cluster has formed with version {version}, because this node had not heard from node {unknown} by then, \
                 which may run an older program. If all nodes run this one: fairhold cluster upgrade finalize {next}"
            );
        }
    }
}

/// Gives a new cluster this node's timing profile, while this node leads. It keeps any other profile than the default.
/// If it is deposed first, the node of the next leader does it.
async fn set_first_timing<RT: AsyncRuntime>(core: &Core<RT>, queues: &Queues, timing: Timing) {
    while needs_timing(core, timing) && core.leadership().is_some() {
        let command = Command::SetTiming { key: None, timing, by: "formation".to_owned(), at: wall_now() };
        if let Ok(submitted) = queues.proposals.submit(command, false) {
            // The next round checks the outcome.
            drop(submitted.outcome::<RT>(deadline(core)).await);
        }
        if needs_timing(core, timing) {
            core.pause(deadline(core)).await;
        }
    }
}

/// Whether the state should get this profile.
fn needs_timing<RT: AsyncRuntime>(core: &Core<RT>, timing: Timing) -> bool {
    let state = core.shared.read();
    let is_default = state.membership().timing() == Timing::default();
    timing != Timing::default() && is_default && state.cluster_version() >= MEMBERSHIP_SINCE
}

/// The first command of a cluster. That of the first version is the same as in programs without cluster versions.
fn form_command(cluster: ClusterId, version: Option<ClusterVersion>) -> Command {
    match version {
        Some(version) if version > ClusterVersion::FIRST => Command::FormClusterAt { cluster, version },
        Some(_) | None => Command::FormCluster { cluster },
    }
}

fn deadline<RT: AsyncRuntime>(core: &Core<RT>) -> RT::Instant {
    RT::Instant::now() + NAMING_LIMIT * core.time_scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::config::MemberAddress;
    use fairhold_types::{Revision, SupportedVersions};

    const OURS: ClusterId = ClusterId(7);

    fn config() -> ReplicaConfig {
        let member = MemberAddress { url: "http://n1:1".to_owned(), address: "n1:2".to_owned() };
        let config = ReplicaConfig::new(4, BTreeMap::from([(1, member)]), Incarnation(44));
        ReplicaConfig { joined: true, cluster: Some(OURS), ..config }
    }

    fn greeting(id: NodeId, cluster: Option<ClusterId>, members: Vec<(NodeId, Incarnation)>) -> Introduction {
        let supports = SupportedVersions::OWN;
        Introduction { id, cluster, incarnation: Incarnation(1), empty: false, members, program: None, supports, boot: 9 }
    }

    fn judge(greeting: Option<Result<Introduction, PeerError>>) -> Result<Option<FormationError>, FormationError> {
        judge_for_joined(&config(), OURS, 1, greeting)
    }

    #[test]
    fn a_node_that_joined_waits_unless_it_is_certain_that_no_log_will_come() {
        let members = |incarnation| vec![(1, Incarnation(1)), (4, Incarnation(incarnation))];
        assert_eq!(judge(None), Ok(None), "no answer");
        assert_eq!(judge(Some(Ok(greeting(1, Some(OURS), members(44))))), Ok(None), "it is a member");
        assert_eq!(judge(Some(Ok(greeting(1, Some(OURS), vec![(1, Incarnation(1))])))), Ok(None), "the other node is behind");
        assert_eq!(judge(Some(Ok(greeting(2, None, Vec::new())))), Ok(None), "another node uses the address now");
        for refusal in [
            Refusal::Starting,
            Refusal::NotAMember { id: 4 },
            Refusal::Version { theirs: 4, ours: 3 },
            Refusal::Identity { expected: 1, found: 2 },
            Refusal::Incarnation { id: 1, expected: Incarnation(1), found: Incarnation(2) },
            Refusal::Removed { id: 4, revision: Revision(9) },
        ] {
            assert_eq!(judge(Some(Err(PeerError::Refused(refusal.clone())))), Ok(None), "{refusal}");
        }
        let wiped = FormationError::Wiped { id: 4, expected: Incarnation(5), found: Incarnation(44) };
        assert_eq!(judge(Some(Ok(greeting(1, Some(OURS), members(5))))), Err(wiped));
    }

    #[test]
    fn an_address_of_another_cluster_is_reported_but_does_not_count_alone() {
        let refusal = Refusal::Cluster { theirs: OURS, ours: ClusterId(8) };
        let reported = FormationError::Refused { id: 4, by: 1, refusal: refusal.clone() };
        assert_eq!(judge(Some(Ok(greeting(1, Some(ClusterId(8)), Vec::new())))), Ok(Some(reported.clone())));
        assert_eq!(judge(Some(Err(PeerError::Refused(refusal)))), Ok(Some(reported)));
    }
}
