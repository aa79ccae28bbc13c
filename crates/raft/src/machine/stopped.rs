//! The state of a stopped node, from its snapshot and its whole log.
//!
//! The log may end with entries that no majority has. They are applied too: after the loss of a majority, nobody can tell
//! them from acknowledged ones.

use crate::{
    base::{
        aliases::{LogId, Members},
        types::{Member, Types},
    },
    machine::{
        defect::catch_panic,
        snapshot::{SnapshotStore, header, run_blocking},
        snapshot_writer::state_of,
    },
};
use fairhold_state::{State, command::Command};
use fairhold_types::{NodeId, SupportedVersions};
use openraft::{AsyncRuntime, EntryPayload, RaftLogReader, storage::RaftLogStorage};
use std::{collections::BTreeSet, io};

/// A stopped node.
#[derive(Debug)]
pub struct StoppedNode {
    /// Its state, after its whole log.
    pub state: State,
    /// The term and the index of its last entry, if it has one.
    pub last: Option<(u64, u64)>,
    /// The index of the last entry that it knows to be committed.
    pub committed: Option<u64>,
    /// The members of its cluster, as its log has them.
    pub members: Vec<StoppedMember>,
    /// How many commands were skipped because the state machine panicked at them. The cluster skipped them too.
    pub skipped: usize,
}

/// A member of the cluster of a stopped node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedMember {
    /// Its id.
    pub id: NodeId,
    /// Its addresses and its data directory.
    pub member: Member,
    /// Whether it votes.
    pub voter: bool,
}

impl StoppedNode {
    /// Reads the newest snapshot, and applies the whole log to its state.
    pub async fn read<RT: AsyncRuntime, L: RaftLogStorage<Types<RT>>>(
        log: &mut L,
        store: &dyn SnapshotStore,
    ) -> io::Result<StoppedNode> {
        let (state, mut last, mut members) = match store.newest().await? {
            Some(snapshot) => {
                let meta = header::decode::<RT>(&snapshot.meta())?;
                let state = run_blocking(store, move || state_of(&*snapshot)).await??;
                (state, meta.last_log_id, meta.last_membership)
            }
            None => (State::default(), None, Members::default()),
        };
        let mut node = StoppedNode { state, last: None, committed: None, members: Vec::new(), skipped: 0 };
        node.check_version()?;
        let bounds = log.get_log_state().await?;
        if bounds.last_purged_log_id > last {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the log begins after the end of the snapshot"));
        }
        node.committed = log.read_committed().await?.map(|committed| committed.index);
        let mut next = next_index(last);
        let end = next_index(bounds.last_log_id);
        let mut reader = log.get_log_reader().await;
        while next < end {
            let entries = reader.limited_get_log_entries(next, end).await?;
            if entries.first().is_none_or(|first| first.log_id.index != next) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("entry {next} of the log is missing")));
            }
            for entry in entries {
                next += 1;
                last = Some(entry.log_id);
                match entry.payload {
                    EntryPayload::Blank => {}
                    EntryPayload::Normal(batch) => node.apply(batch.commands()),
                    EntryPayload::Membership(membership) => members = Members::new(Some(entry.log_id), membership),
                }
                node.check_version()?;
            }
        }
        node.last = last.map(|last| (last.leader_id.term, last.index));
        let voters: BTreeSet<NodeId> = members.voter_ids().collect();
        let member =
            |(id, member): (&NodeId, &Member)| StoppedMember { id: *id, member: member.clone(), voter: voters.contains(id) };
        node.members = members.nodes().map(member).collect();
        Ok(node)
    }

    /// Applies the commands of an entry, except those at which the state machine panics. As in a running node, such a
    /// command changes nothing.
    fn apply(&mut self, commands: &[Command]) {
        let before = self.state.clone();
        let mut skipped = BTreeSet::new();
        loop {
            let mut rest = commands.iter().enumerate().filter(|(position, _)| !skipped.contains(position));
            let failed = rest.find(|(_, command)| catch_panic(|| self.state.apply(command)).is_err());
            let Some((position, _)) = failed else { break };
            skipped.insert(position);
            self.state = before.clone();
        }
        self.skipped += skipped.len();
    }

    /// Fails if this program does not support the version of the cluster.
    fn check_version(&self) -> io::Result<()> {
        let (version, supports) = (self.state.cluster_version(), SupportedVersions::OWN);
        if supports.includes(version) {
            return Ok(());
        }
        let error =
            format!("the cluster has version {version}, but this program supports {supports}: use the release that ran it");
        Err(io::Error::new(io::ErrorKind::Unsupported, error))
    }
}

fn next_index(last: Option<LogId>) -> u64 {
    last.map_or(0, |last| last.index + 1)
}
