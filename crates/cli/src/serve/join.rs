//! Joins a running cluster: the node shows its join token to the members that the token names, until one of them says
//! that the cluster has admitted it, and under which id.
//!
//! The order makes a repeated join harmless: the incarnation is durable before the cluster learns it, and the cluster
//! gives the same incarnation the same id. So a lost answer or a crash costs nothing.

use super::{
    certificates::Certificates,
    error::ServeError,
    free_space, join_token,
    listeners::{ended, hosts, listen_for_clients, listen_for_status},
    waiting::WaitingListeners,
};
use crate::{
    config::{
        ServeConfig,
        start::{MemberSource, Start, StartNote, StartingNode},
    },
    member::ServeMember,
};
use fairhold_health::answer::NOT_ADMITTED;
use fairhold_peer::{join, key::PeerKeys, server::PeerServer};
use fairhold_raft::{
    JoinToken, Program,
    peer::{JoinRequest, Joined},
};
use fairhold_storage::{
    data_dir::{DataDir, DataDirError},
    timing_file,
};
use fairhold_types::Timing;
use std::{collections::BTreeSet, path::Path, time::Duration};
use tokio::{task::spawn_blocking, time::sleep};

/// The pause after every address of the token was tried.
const ROUND_PAUSE: Duration = Duration::from_secs(1);

/// The node as which this process starts. Without an id, it joins its cluster first, and starts with the cluster's
/// timing profile.
pub(super) async fn starting_node(
    config: &mut ServeConfig,
    keys: &PeerKeys,
    certificates: &Certificates,
) -> Result<StartingNode, ServeError> {
    let token_file = match &config.start {
        Start::Known(node) => return Ok(node.clone()),
        Start::Join { token_file } => token_file.clone(),
    };
    let (node, timing) = joining_node(config, &token_file, (keys, certificates)).await?;
    if config.timing != timing && config.timing != Timing::default() {
        StartNote::TimingIgnored { given: config.timing, recorded: timing }.log();
    }
    config.timing = timing;
    Ok(node)
}

async fn joining_node(
    config: &ServeConfig,
    token_file: &Path,
    protection: (&PeerKeys, &Certificates),
) -> Result<(StartingNode, Timing), ServeError> {
    let token = join_token::read(token_file)?;
    let directory = free_space::open_to_join(config, protection.1).await?;
    check_ports(config, protection.1).await?;
    tracing::info!(cluster = %token.cluster, token = %token.number, members = token.addresses.join(" "), "joining the cluster");
    let joined = admitted(config, &token, &request(&token, &directory, &config.own), protection).await?;
    let node = admitted_node(&joined, &config.own);
    tracing::info!(
        node = joined.id,
        cluster = %joined.cluster,
        role = %joined.role,
        timing = %joined.timing,
        "the cluster has admitted this node"
    );
    let timing = joined.timing;
    let recorded = spawn_blocking(move || record(directory, &joined, node)).await;
    Ok((recorded.map_err(ended)??, timing))
}

/// Binds the ports once: a node that cannot listen must not become a member.
async fn check_ports(config: &ServeConfig, certificates: &Certificates) -> Result<(), ServeError> {
    drop(PeerServer::bind(&config.peer_listen).await.map_err(|error| ServeError::peer_port(&config.peer_listen, error))?);
    drop(listen_for_clients(config, certificates).await?);
    drop(listen_for_status(config, hosts(config, None)).await?);
    Ok(())
}

/// Writes the id as the last step, and unlocks the directory.
fn record(mut directory: DataDir, joined: &Joined, node: StartingNode) -> Result<StartingNode, ServeError> {
    if timing_file::read(directory.path()).map_err(DataDirError::Io)?.unwrap_or_default() != joined.timing {
        timing_file::write(directory.path(), joined.timing).map_err(DataDirError::Io)?;
    }
    directory.set_joined(joined.id, joined.cluster, &node.known_members())?;
    Ok(node)
}

fn request(token: &JoinToken, directory: &DataDir, own: &ServeMember) -> JoinRequest {
    let Program { version, supports } = Program::own();
    JoinRequest {
        token: token.number,
        secret: token.secret.clone(),
        cluster: token.cluster,
        incarnation: directory.incarnation(),
        url: own.url.clone(),
        address: own.peer.clone(),
        version,
        supports,
    }
}

/// The node with the id that the cluster gave it.
fn admitted_node(joined: &Joined, own: &ServeMember) -> StartingNode {
    let member = |(id, url, peer): &(u64, String, String)| (*id, ServeMember { url: url.clone(), peer: peer.clone() });
    let mut node = StartingNode {
        id: joined.id,
        members: joined.members.iter().map(member).collect(),
        source: MemberSource::DataDirectory,
        joined: true,
    };
    node.members.insert(joined.id, own.clone());
    node
}

/// Asks the members in turn until the cluster has admitted this node, or refuses it for good. If it takes longer than a
/// round, this node answers clients meanwhile.
async fn admitted(
    config: &ServeConfig,
    token: &JoinToken,
    request: &JoinRequest,
    (keys, certificates): (&PeerKeys, &Certificates),
) -> Result<Joined, ServeError> {
    let mut obstacles = Obstacles::default();
    let mut waiting = None;
    loop {
        for address in &token.addresses {
            let obstacle = match join::join(address, request.clone(), keys, certificates.peers()).await {
                Ok(Ok(joined)) => {
                    if let Some(listeners) = waiting {
                        WaitingListeners::stop(listeners).await;
                    }
                    return Ok(joined);
                }
                Ok(Err(refusal)) if refusal.is_final() => return Err(refusal.into()),
                Ok(Err(refusal)) => refusal.to_string(),
                Err(error) => error.to_string(),
            };
            if obstacles.is_new(address, &obstacle) {
                tracing::warn!("the member at {address} did not admit this node: {obstacle}. This node keeps trying");
            }
        }
        if waiting.is_none() {
            waiting = Some(WaitingListeners::start(config, certificates, &obstacles.reason(), Some(token.cluster)).await?);
        }
        sleep(ROUND_PAUSE).await;
    }
}

/// The reasons that are in the log already, with the address of the member that gave each.
#[derive(Debug, Default)]
struct Obstacles(BTreeSet<(String, String)>);

impl Obstacles {
    /// What this node answers to clients.
    fn reason(&self) -> String {
        let texts: Vec<String> = self.0.iter().map(|(address, obstacle)| format!("{address}: {obstacle}")).collect();
        format!("{NOT_ADMITTED} ({}); the log of this node has the newest reason", texts.join("; "))
    }

    /// Whether this reason is new for this address.
    fn is_new(&mut self, address: &str, obstacle: &str) -> bool {
        self.0.insert((address.to_owned(), obstacle.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_raft::JoinSecret;
    use fairhold_types::{ClusterId, JoinTokenNumber, MemberRole};

    fn own() -> ServeMember {
        ServeMember { url: "http://d:7171".to_owned(), peer: "d:7271".to_owned() }
    }

    #[test]
    fn an_admitted_node_knows_the_members_itself_and_the_timing_profile() {
        let home = tempfile::tempdir().unwrap();
        let members = vec![(1, "http://a:7171".to_owned(), "a:7271".to_owned())];
        let joined = Joined { id: 4, cluster: ClusterId(9), role: MemberRole::Voter, members, timing: Timing::Wan };
        let directory = DataDir::open_to_join(home.path()).unwrap();
        let node = record(directory, &joined, admitted_node(&joined, &own())).unwrap();
        assert_eq!((node.id, node.joined, node.members.keys().copied().collect::<Vec<_>>()), (4, true, vec![1, 4]));
        assert_eq!(node.members[&4], own());
        let recorded = DataDir::recorded(home.path()).unwrap().unwrap();
        assert_eq!((recorded.id, recorded.cluster, recorded.members), (Some(4), Some(ClusterId(9)), Some(node.known_members())));
        assert_eq!(recorded.timing, Some(Timing::Wan));
    }

    #[test]
    fn the_default_profile_needs_no_file_unless_there_is_one() {
        let home = tempfile::tempdir().unwrap();
        let joined = |timing| Joined { id: 4, cluster: ClusterId(9), role: MemberRole::Voter, members: Vec::new(), timing };
        let recorded = |timing| {
            let joined = joined(timing);
            record(DataDir::open_to_join(home.path()).unwrap(), &joined, admitted_node(&joined, &own())).unwrap();
            DataDir::recorded(home.path()).unwrap().unwrap().timing
        };
        assert_eq!(recorded(Timing::Lan), None);
        assert_eq!(recorded(Timing::Wan), Some(Timing::Wan));
        assert_eq!(recorded(Timing::Lan), Some(Timing::Lan), "the cluster has changed it before the answer was recorded");
    }

    #[test]
    fn a_repeated_request_is_the_same() {
        let home = tempfile::tempdir().unwrap();
        let token = JoinToken {
            cluster: ClusterId(9),
            number: JoinTokenNumber(2),
            addresses: vec!["a:7271".to_owned()],
            secret: JoinSecret::random(),
        };
        let request = || request(&token, &DataDir::open_to_join(home.path()).unwrap(), &own());
        let first = request();
        assert_eq!(first, request());
        assert_eq!((first.url.as_str(), first.address.as_str()), ("http://d:7171", "d:7271"));
    }

    #[test]
    fn each_obstacle_is_logged_once_for_each_address() {
        let mut obstacles = Obstacles::default();
        assert!(obstacles.is_new("a:7271", "no leader") && obstacles.is_new("b:7271", "no leader"));
        assert!(!obstacles.is_new("a:7271", "no leader") && obstacles.is_new("a:7271", "too many"));
        assert!(
            obstacles.reason().contains("(a:7271: no leader; a:7271: too many; b:7271: no leader)"),
            "{}",
            obstacles.reason()
        );
    }
}
