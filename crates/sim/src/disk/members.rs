//! The members that a log and a snapshot list.

use super::{
    Disk, SimLog,
    log_content::{C, Write},
};
use crate::member_list::MemberList;
use fairhold_raft::{encoding::Encodable, snapshot::SnapshotImage};
use openraft::{
    EntryPayload,
    alias::{EntryOf, LogIdOf, SnapshotMetaOf},
};
use std::sync::Arc;

/// The format of the header of a snapshot.
const SNAPSHOT_HEADER_FORMAT: u8 = 1;

/// The term and the index of a log entry.
pub(crate) type Position = (u64, u64);
/// Receives each log entry that sets the members, and the one before it in the same log.
pub(crate) type SetMembers = Arc<dyn Fn((Position, MemberList), Option<(Position, MemberList)>) + Send + Sync>;

fn position(log_id: LogIdOf<C>) -> Position {
    (log_id.leader_id.term, log_id.index)
}

/// The members that an entry sets, if it does.
fn set_by(entry: &EntryOf<C>) -> Option<(Position, MemberList)> {
    match &entry.payload {
        EntryPayload::Membership(members) => Some((position(entry.log_id), members.into())),
        EntryPayload::Blank | EntryPayload::Normal(_) => None,
    }
}

/// What a snapshot covers.
fn covered_by(snapshot: &SnapshotImage) -> Option<SnapshotMetaOf<C>> {
    let decoded = fairhold_codec::decode::<Encodable<SnapshotMetaOf<C>>>(SNAPSHOT_HEADER_FORMAT, &snapshot.meta);
    decoded.ok().map(|Encodable(meta)| meta)
}

impl Disk {
    /// The index of the last entry that is on the disk, in the log or in the snapshot.
    pub(crate) fn last_kept(&self) -> Option<u64> {
        let snapshot = self.locked().snapshot.clone();
        let in_snapshot = snapshot.and_then(|snapshot| covered_by(&snapshot)?.last_log_id).map(|id| id.index);
        self.last_flushed().max(in_snapshot)
    }

    /// The members in the log, written or not.
    pub(crate) fn members(&self) -> Option<MemberList> {
        self.members_before(u64::MAX).map(|(_, members)| members)
    }

    /// The members that apply before this index of the log.
    fn members_before(&self, index: u64) -> Option<(Position, MemberList)> {
        let inner = self.locked();
        let in_log = inner.seen.entries.range(..index).rev().find_map(|(_, entry)| set_by(entry));
        in_log.or_else(|| {
            let meta = covered_by(inner.snapshot.as_ref()?)?;
            let members = &meta.last_membership;
            Some(((*members.log_id()).map_or((0, 0), position), members.membership().into()))
        })
    }
}

impl SimLog {
    /// Reports the members that these entries set.
    pub(super) fn report_members(&self, writes: &[Write]) {
        let mut before = None;
        for write in writes {
            if let Write::Entry(entry) = write
                && let Some(members) = set_by(entry)
            {
                let earlier = before.replace(members.clone()).or_else(|| self.disk.members_before(entry.log_id.index));
                (self.set_members)(members, earlier);
            }
        }
    }
}
