//! openraft's own test suite for log stores, with the minimal state machine that it requires.

use super::{LogId, LogStore, TypeConfig};
use futures_util::{Stream, TryStreamExt};
use openraft::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageError,
    alias::{SnapshotMetaOf, SnapshotOf, StoredMembershipOf},
    storage::{EntryResponder, RaftStateMachine},
    testing::log::{StoreBuilder, Suite},
};
use std::io;

type Snapshot = SnapshotOf<TypeConfig, Vec<u8>>;

#[derive(Debug, Clone, Default)]
struct Machine {
    applied: Option<LogId>,
    membership: StoredMembershipOf<TypeConfig>,
    snapshot: std::sync::Arc<std::sync::Mutex<Option<Snapshot>>>,
}

impl RaftSnapshotBuilder<TypeConfig> for Machine {
    type SnapshotData = Vec<u8>;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let meta = SnapshotMetaOf::<TypeConfig> { last_log_id: self.applied, last_membership: self.membership.clone() };
        let snapshot = Snapshot { meta, snapshot: Vec::new() };
        *self.snapshot.lock().unwrap() = Some(snapshot.clone());
        Ok(snapshot)
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = Vec<u8>;
    type SnapshotBuilder = Machine;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembershipOf<TypeConfig>), io::Error> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, _)) = entries.try_next().await? {
            self.applied = Some(entry.log_id);
            if let EntryPayload::Membership(membership) = entry.payload {
                self.membership = StoredMembershipOf::<TypeConfig>::new(self.applied, membership);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Machine {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMetaOf<TypeConfig>, snapshot: Vec<u8>) -> Result<(), io::Error> {
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        *self.snapshot.lock().unwrap() = Some(Snapshot { meta: meta.clone(), snapshot });
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        Ok(self.snapshot.lock().unwrap().clone())
    }
}

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore, Machine), StorageError<TypeConfig>> {
        let directory = tempfile::tempdir().unwrap();
        let log = LogStore::open(directory.path(), false).unwrap();
        Ok((directory, log, Machine::default()))
    }
}

#[tokio::test]
async fn the_log_store_passes_openrafts_suite() {
    Suite::test_all(Builder).await.unwrap();
}
