//! Tests of how a restored state becomes a cluster.

use super::*;
use crate::{
    base::config::MemberAddress,
    base::peer::{PeerError, Target},
    machine::snapshot::{ImageStore, SnapshotImage},
};
use fairhold_state::{State, command::Command};
use fairhold_types::SupportedVersions;
use openraft_rt_tokio::TokioRuntime;
use parking_lot::Mutex;

const OURS: ClusterId = ClusterId(7);

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Option<SnapshotImage>>>);

impl ImageStore for Memory {
    fn save(&self, image: SnapshotImage) -> BoxFuture<'static, io::Result<()>> {
        *self.0.lock() = Some(image);
        ready(Ok(())).boxed()
    }

    fn load(&self) -> BoxFuture<'static, io::Result<Option<SnapshotImage>>> {
        ready(Ok(self.0.lock().clone())).boxed()
    }
}

/// The other nodes, by id. One that is not here does not answer.
#[derive(Default)]
struct Others(BTreeMap<NodeId, Result<Introduction, PeerError>>);

impl Peer for Others {
    fn call(&self, _: &Target, _: Lane, _: Bytes) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        unreachable!("a restored node only greets")
    }

    fn greet(&self, to: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>> {
        let absent = || Err(PeerError::Unreachable("it does not run".to_owned()));
        ready(self.0.get(&to.id).cloned().unwrap_or_else(absent)).boxed()
    }

    fn is_refused(&self, _: &Target) -> BoxFuture<'static, bool> {
        unreachable!("a restored node only greets")
    }
}

fn config() -> ReplicaConfig {
    let member = |id: NodeId| (id, MemberAddress { url: format!("http://n{id}:1"), address: format!("n{id}:2") });
    let config = ReplicaConfig::new(1, [1, 2, 3].map(member).into(), Incarnation(11));
    ReplicaConfig { cluster: Some(OURS), ..config }
}

fn introduction(id: NodeId) -> Introduction {
    let (incarnation, supports) = (Incarnation(11 * u128::from(id)), SupportedVersions::OWN);
    Introduction { id, cluster: None, incarnation, empty: true, members: Vec::new(), program: None, supports, boot: 9 }
}

fn others(nodes: &[Introduction]) -> Others {
    Others(nodes.iter().map(|node| (node.id, Ok(node.clone()))).collect())
}

/// A store with a state of this cluster, at no position in the log.
fn store_of(cluster: Option<ClusterId>) -> Memory {
    store_after(cluster.map(|cluster| Command::FormCluster { cluster }))
}

/// A store with a state after this command.
fn store_after(command: Option<Command>) -> Memory {
    let mut state = State::new();
    if let Some(command) = command {
        state.apply(&command).answer.result.unwrap();
    }
    let blocks = state.snapshot_blocks().map(Bytes::from).collect();
    let meta = restored_meta::<TokioRuntime>().unwrap();
    Memory(Arc::new(Mutex::new(Some(SnapshotImage { meta, blocks }))))
}

async fn form(store: &Memory, others: &Others) -> Result<Vec<MissingNode>, (NodeId, FormationError)> {
    let restored = RestoredSnapshot::find::<TokioRuntime>(store).await.unwrap().expect("a restored state");
    restored.form::<TokioRuntime>(&config(), others, store).await
}

#[tokio::test]
async fn nothing_happens_before_all_other_nodes_are_empty() {
    let store = store_of(Some(OURS));
    let before = store.0.lock().clone();
    let missing = MissingNode { id: 3, unsupported: None };
    assert_eq!(form(&store, &others(&[introduction(2)])).await, Ok(vec![missing]), "node 3 does not run");
    let full = Introduction { empty: false, ..introduction(3) };
    assert_eq!(form(&store, &others(&[introduction(2), full])).await, Ok(vec![missing]), "node 3 has data");
    assert!(*store.0.lock() == before, "the snapshot is as it was");
}

/// It would end when it gets the snapshot, and so could a majority.
#[tokio::test]
async fn a_node_whose_program_is_older_than_the_state_is_missing_until_it_runs_a_newer_one() {
    let (version, supports) = (ClusterVersion(2), SupportedVersions::UNTOLD);
    let store = store_after(Some(Command::FormClusterAt { cluster: OURS, version }));
    let before = store.0.lock().clone();
    let older = Introduction { supports, ..introduction(3) };
    let missing = MissingNode { id: 3, unsupported: Some(UnsupportedVersion { version, supports }) };
    assert_eq!(form(&store, &others(&[introduction(2), older.clone()])).await, Ok(vec![missing]));
    let full = Introduction { empty: false, ..older };
    let missing = MissingNode { id: 3, unsupported: None };
    assert_eq!(form(&store, &others(&[introduction(2), full])).await, Ok(vec![missing]), "another program would not help");
    assert!(*store.0.lock() == before, "the snapshot is as it was");
    assert_eq!(form(&store, &others(&[introduction(2), introduction(3)])).await, Ok(Vec::new()));
}

#[tokio::test]
async fn the_snapshot_gets_all_nodes_as_voters_with_their_directories() {
    let store = store_of(Some(OURS));
    let before = store.0.lock().clone().unwrap();
    assert_eq!(form(&store, &others(&[introduction(2), introduction(3)])).await, Ok(Vec::new()));
    let image = store.0.lock().clone().unwrap();
    assert!(image.blocks == before.blocks, "the state is the same");
    let meta = header::decode::<TokioRuntime>(&image.meta).unwrap();
    assert_eq!(meta.last_log_id, Some(LogId::new(LeaderId { term: 0, node_id: 1 }, 0)));
    let incarnations: Vec<_> = meta.last_membership.nodes().map(|(id, member)| (*id, member.incarnation.0)).collect();
    assert_eq!(incarnations, [(1, 11), (2, 22), (3, 33)]);
    assert_eq!(meta.last_membership.voter_ids().collect::<Vec<_>>(), [1, 2, 3]);
    assert!(RestoredSnapshot::find::<TokioRuntime>(&store).await.unwrap().is_none(), "it is restored no more");
}

#[tokio::test]
async fn a_node_of_another_cluster_ends_it() {
    let store = store_of(Some(OURS));
    let refusal = Refusal::Cluster { theirs: ClusterId(8), ours: OURS };
    let refused = Others(BTreeMap::from([(2, Ok(introduction(2))), (3, Err(PeerError::Refused(refusal.clone())))]));
    assert_eq!(form(&store, &refused).await, Err((3, FormationError::Refused { id: 1, by: 3, refusal })));
}

#[tokio::test]
async fn an_old_node_that_knows_the_restored_one_is_named() {
    let store = store_of(Some(OURS));
    let old = Introduction { empty: false, members: vec![(1, Incarnation(99))], ..introduction(3) };
    let wiped = FormationError::Wiped { id: 1, expected: Incarnation(99), found: Incarnation(11) };
    assert_eq!(form(&store, &others(&[introduction(2), old])).await, Err((3, wiped)));
}

#[tokio::test]
async fn a_snapshot_from_before_a_cluster_formed_is_no_restored_state() {
    assert!(RestoredSnapshot::find::<TokioRuntime>(&store_of(None)).await.unwrap().is_none());
    assert!(RestoredSnapshot::find::<TokioRuntime>(&Memory::default()).await.unwrap().is_none());
}

#[test]
fn a_restored_node_is_not_empty_and_admits_no_other_cluster() {
    let service = RestoredService::of(&config());
    let own = service.introduction();
    assert_eq!((own.empty, own.cluster, own.members.len()), (false, Some(OURS), 0));
    assert_eq!(service.admit(&introduction(2), ConnectionSide::Dialled), Ok(()));
    let foreign = Introduction { cluster: Some(ClusterId(8)), ..introduction(2) };
    assert!(matches!(service.admit(&foreign, ConnectionSide::Dialled), Err(Refusal::Cluster { .. })));
}
