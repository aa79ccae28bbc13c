//! A node with a restored state waits, before it takes part in anything, until all other nodes of its list have started
//! with empty data directories.

use super::{certificates::Certificates, error::ServeError, server::replica_config, waiting::WaitingListeners};
use crate::config::{ServeConfig, start::StartingNode};
use fairhold_health::answer::{HAS_RESTORED_STATE, WAITS_FOR_NODES};
use fairhold_peer::{client::TcpPeer, key::PeerKeys};
use fairhold_raft::{FormationError, MissingNode, RestoredService, RestoredSnapshot, StartError, UnsupportedVersion};
use fairhold_storage::{Storage, StorageError};
use fairhold_types::NodeId;
use openraft_rt_tokio::TokioRuntime;
use std::time::Duration;
use tokio::{runtime::Handle, time::sleep};

/// Pause between two rounds. An operator starts the nodes one by one.
const ROUND_PAUSE: Duration = Duration::from_millis(200);

/// Forms the cluster of a restored state. A node with any other directory has nothing to do here.
pub(super) async fn form(
    config: &ServeConfig,
    node: &StartingNode,
    storage: &Storage,
    (keys, certificates): (&PeerKeys, &Certificates),
) -> Result<(), ServeError> {
    let found = RestoredSnapshot::find::<TokioRuntime>(&storage.snapshots).await;
    let Some(restored) = found.map_err(StorageError::Snapshots)? else { return Ok(()) };
    let replica = replica_config(config, node, &storage.data_dir);
    let peer = TcpPeer::with_security(Handle::current(), keys.clone(), certificates.peers().clone());
    peer.set_service(RestoredService::of(&replica));
    let mut waiting = None;
    let mut known = Vec::new();
    loop {
        let missing = restored.form::<TokioRuntime>(&replica, &peer, &storage.snapshots).await;
        let missing = missing.map_err(|(by, error)| failed(node, by, error))?;
        if missing.is_empty() {
            break;
        }
        let reason = reason(&missing);
        if missing != known {
            tracing::info!("{reason}");
            known = missing;
        }
        if waiting.is_none() {
            waiting = Some(WaitingListeners::start(config, certificates, &reason, storage.data_dir.cluster()).await?);
        }
        sleep(ROUND_PAUSE).await;
    }
    if let Some(listeners) = waiting {
        WaitingListeners::stop(listeners).await;
    }
    peer.close().await;
    Ok(())
}

/// Why the cluster cannot form. `by` is the node whose answer is the reason.
fn failed(own: &StartingNode, by: NodeId, error: FormationError) -> ServeError {
    match error {
        // Its advice is for a node that has lost its data, and not for one with a restored state.
        FormationError::Wiped { .. } | FormationError::NotAMember { .. } | FormationError::OtherCluster { .. } => {
            let address = own.members.get(&by).map_or_else(String::new, |member| member.peer.clone());
            ServeError::RestoredBesideOthers { by, address }
        }
        FormationError::Refused { .. } | FormationError::Impossible(_) => StartError::Formation(error).into(),
    }
}

fn reason(missing: &[MissingNode]) -> String {
    let ids: Vec<String> = missing.iter().map(|node| node.id.to_string()).collect();
    let older = missing.iter().filter_map(|node| {
        let UnsupportedVersion { version, supports } = node.unsupported?;
        Some(format!(
            ". Node {} is empty, but its program supports cluster version {supports}, and the restored state has version \
             {version}: start it with the program of this node",
            node.id
        ))
    });
    let older: String = older.collect();
    // It cannot tell a node that waits with a restored state from one that does not run: both have no port for nodes.
    format!(
        "{HAS_RESTORED_STATE}, and {WAITS_FOR_NODES} {}. If one of them was restored too, it never ends: restore on one \
         machine only, and start the others with empty data directories. The log of this node has the latest list{older}",
        ids.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::start::MemberSource, member::ServeMember};
    use fairhold_types::{ClusterVersion, Incarnation, SupportedVersions};

    #[test]
    fn a_restored_node_beside_an_old_one_is_not_told_to_delete_its_directory() {
        let old = ServeMember { url: "http://c:7171".to_owned(), peer: "c:7271".to_owned() };
        let own = StartingNode { id: 1, members: [(3, old)].into(), source: MemberSource::DataDirectory, joined: false };
        let wiped = FormationError::Wiped { id: 1, expected: Incarnation(1), found: Incarnation(2) };
        let text = failed(&own, 3, wiped).to_string();
        assert!(text.contains("node 3 runs at c:7271") && text.ends_with("its own data directory is in order"), "{text}");
        assert!(!text.contains("delete this one") && !text.contains("cluster replace"), "{text}");
    }

    #[test]
    fn the_reason_names_the_nodes_that_are_missing_and_those_whose_programs_are_too_old() {
        let absent = MissingNode { id: 2, unsupported: None };
        let text = reason(&[absent]);
        assert!(text.contains("waiting for 2. If one") && text.ends_with("has the latest list"), "{text}");
        let (version, supports) = (ClusterVersion(2), SupportedVersions::UNTOLD);
        let older = MissingNode { id: 3, unsupported: Some(UnsupportedVersion { version, supports }) };
        let text = reason(&[absent, older]);
        assert!(text.contains("waiting for 2, 3. If one"), "{text}");
        let why = "Node 3 is empty, but its program supports cluster version 1, and the restored state has version 2";
        assert!(text.contains(why) && text.ends_with("start it with the program of this node"), "{text}");
    }
}
