//! How many bytes each thing in the state counts against its budget (`budget`).
//!
//! The constants are the memory that a thing takes, including its slots in the indexes, rounded up. `cargo bench
//! --bench memory` measures it, and `docs/limits.md` has the table. Texts and values count their length. All nodes must
//! count the same: otherwise they would refuse different commands, and could not read each other's snapshots. A new
//! weight therefore needs a new `LOG_FORMAT` and `SNAPSHOT_FORMAT`.

use crate::{
    command::{Meta, OperationResult},
    record::{Contender, NodeRole, Revocation, SessionRecord, Znode},
    tombstones::Tombstone,
    weighed::Weigh,
};
use fairhold_types::{GrantId, LockName, Revision, SessionNumber};
use std::sync::Arc;

/// A node, without its path and its value.
pub const NODE_BYTES: u64 = 330;
/// A lock, in addition to its node.
pub const LOCK_BYTES: u64 = 350;
/// A grant in each of its locks, in addition to the node there.
pub const CONTENDER_BYTES: u64 = 1_100;
/// A further lock of a grant, in its first contender.
const WANT_BYTES: u64 = 96;
/// A further hold of a grant. Half of it is for the tombstone that its end leaves, with an administrator's reason.
pub const HOLD_BYTES: u64 = 800;
/// The key of a change of a live grant: as much as it counts when the grant has ended.
pub const CHANGE_KEY_BYTES: u64 = REMEMBERED_BYTES;
/// A revocation, without its texts.
const REVOCATION_BYTES: u64 = 64;
/// A session.
pub const SESSION_BYTES: u64 = 450;
/// An ended grant that a session remembers.
pub const ENDED_ID_BYTES: u64 = 200;
/// An id that is remembered without a session.
pub const REMEMBERED_BYTES: u64 = 320;
/// A remembered result of a write, without its path.
pub const RESULT_BYTES: u64 = 28;
/// An entry of the history.
pub const HISTORY_BYTES: u64 = 500;
/// The statistics of a lock.
pub const STATISTICS_BYTES: u64 = 450;
/// Pending work.
pub(crate) const PENDING_BYTES: u64 = 200;
/// Pairs of text, if there are any.
pub const META_BYTES: u64 = 700;
/// Each of these pairs, without its texts.
pub const META_PAIR_BYTES: u64 = 100;

/// The bytes of a lock without contenders: its node and its statistics.
#[must_use]
pub fn unused_lock_bytes(lock: &LockName) -> u64 {
    NODE_BYTES + LOCK_BYTES + STATISTICS_BYTES + 3 * len(lock.as_str())
}

pub(crate) fn len(text: &str) -> u64 {
    text.len() as u64
}

fn meta_weight(meta: &Meta) -> u64 {
    let pairs = meta.iter().map(|(key, value)| META_PAIR_BYTES + len(key) + len(value));
    if meta.is_empty() { 0 } else { META_BYTES + pairs.sum::<u64>() }
}

pub(crate) fn node_weight(node: &Znode) -> u64 {
    let role = match &node.role {
        NodeRole::Data => 0,
        NodeRole::Lock(_) => LOCK_BYTES,
        NodeRole::Contender(contender) => contender.weight(),
    };
    NODE_BYTES + node.value.len() as u64 + role
}

impl Contender {
    fn weight(&self) -> u64 {
        let others: u64 = self.others.iter().map(|want| WANT_BYTES + len(want.lock.as_str())).sum();
        CONTENDER_BYTES + others + len(&self.owner.text) + meta_weight(&self.meta) + self.changing_weight()
    }

    /// The part that changes while the contender exists.
    pub(crate) fn changing_weight(&self) -> u64 {
        let holds = self.further_holds.iter().map(|hold| HOLD_BYTES + len(hold.want.lock.as_str()) + meta_weight(&hold.meta));
        let revocation = self.revoked.as_ref().map_or(0, revocation_weight);
        // If further holds outlive the first one, its tombstone has its room in the grant.
        let first = if self.first_released { 0 } else { ENDED_ID_BYTES };
        // While it cools, it is both here and remembered as ended.
        let cools = if self.lock_delay_ms > 0 && !self.cooling { REMEMBERED_BYTES } else { 0 };
        first + cools + CHANGE_KEY_BYTES * self.keys.iter().count() as u64 + holds.sum::<u64>() + revocation
    }
}

/// A revocation, for each holder that receives it.
pub(crate) fn revocation_weight(revocation: &Revocation) -> u64 {
    REVOCATION_BYTES + len(&revocation.by) + len(&revocation.reason)
}

impl Weigh<SessionNumber> for Arc<SessionRecord> {
    fn weight(&self) -> u64 {
        SessionRecord::weight(self)
    }
}

impl SessionRecord {
    pub(crate) fn weight(&self) -> u64 {
        SESSION_BYTES + len(&self.name) + meta_weight(&self.meta) + ended_weight(self)
    }
}

/// The ended grants of a session: the part of it that changes.
pub(crate) fn ended_weight(session: &SessionRecord) -> u64 {
    ENDED_ID_BYTES * session.ended.len() as u64
}

impl Weigh<GrantId> for (Revision, Tombstone) {
    fn weight(&self) -> u64 {
        self.1.weight()
    }
}

impl Tombstone {
    pub(crate) fn weight(&self) -> u64 {
        REMEMBERED_BYTES
            + match self {
                Tombstone::Grant(_) | Tombstone::Session | Tombstone::Write { results: None, .. } => 0,
                Tombstone::Broken { note } => len(note),
                Tombstone::Write { results: Some(results), .. } => results_weight(results),
            }
    }
}

/// The results of a write, as its tombstone keeps them.
pub(crate) fn results_weight(results: &[OperationResult]) -> u64 {
    let path = |result: &OperationResult| match result {
        OperationResult::Created { path } => len(path.as_str()),
        OperationResult::Put { .. }
        | OperationResult::Set { .. }
        | OperationResult::Deleted { .. }
        | OperationResult::Checked { .. } => 0,
    };
    results.iter().map(|result| RESULT_BYTES + path(result)).sum()
}
