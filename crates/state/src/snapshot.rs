//! The state as blocks of bytes: a header with the counts, then sessions, nodes, tombstones and the rest.
//!
//! A block is a list of items of about `BLOCK_BYTES`, sealed by `codec`. Caches are not written; the reader rebuilds
//! them.

use crate::{
    State,
    access::{AccessData, saved::SavedAccess},
    audit::{AuditRing, saved::SavedAudit},
    command::{Command, Operation},
    history::PastHolding,
    index::Index,
    lock_table::statistics_weight,
    membership::Membership,
    pending::Pending,
    queue::Queue,
    record::{NodeRole, SessionRecord, Znode},
    statistics::Statistics,
    tenant_uses::TenantUses,
    tombstones::{Tombstone, Tombstones},
    tree::Tree,
    weighed::{Weigh, Weighed},
    weight::{len, node_weight},
};
use fairhold_codec::DecodeError;
use fairhold_types::{
    ClusterId, ClusterVersion, GrantId, LockName, NodeId, Path, Revision,
    planted::{self, Bug},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// The version byte of a snapshot's blocks.
pub const SNAPSHOT_FORMAT: u8 = 2;

/// A block is closed when it reaches this size, in bytes.
pub const BLOCK_BYTES: usize = 512 * 1024;

/// The approximate size of an item without its value.
const ITEM_BYTES: usize = 256;

/// A tombstone has some thirty bytes, so this many of them weigh as much as one item.
const REMEMBERED_IN_AN_ITEM: u64 = 8;

/// The weight of one item of a snapshot, such as a small node or a session, in bytes of values. A value weighs its
/// length.
pub const ITEM_WEIGHT: u64 = 4096;

/// Why blocks do not form a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A block is damaged, or has another version.
    #[error("block {block} of the snapshot cannot be read")]
    Block {
        /// The index of the block, from 0.
        block: usize,
        /// The decoding error.
        #[source]
        source: DecodeError,
    },
    /// The header is missing, or a second one follows.
    #[error("the snapshot does not begin with exactly one header")]
    Header,
    /// The blocks hold more or fewer items than the header says.
    #[error("the snapshot has {found} {what}, but its header says {expected}")]
    Incomplete {
        /// The kind of item.
        what: &'static str,
        /// The count in the header.
        expected: u64,
        /// The count found.
        found: u64,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Header {
    revision: Revision,
    cluster: Option<ClusterId>,
    sessions: u64,
    nodes: u64,
    remembered: u64,
    history: u64,
    statistics: u64,
    totals: Statistics,
    pending: u64,
    pending_counters: (u64, u64),
    piece_steps: u64,
    bytes: u64,
    capacities: Vec<(NodeId, u64)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Item<'a> {
    Header(Header),
    Session(SessionRecord),
    /// Most items are nodes, so a writer borrows them.
    Node(Cow<'a, Path>, Cow<'a, Znode>),
    Tombstone(GrantId, Revision, Tombstone),
    PastHolding(PastHolding),
    Statistics(LockName, Statistics),
    Pending(u64, Pending),
    /// Follows the header, unless the version is the first: its snapshots have no such item.
    ClusterVersion(ClusterVersion),
    /// Follows the version, if the cluster's members ever changed, or have settings.
    Membership(Arc<Membership>),
    /// Follow the members, if access data was ever changed.
    Access(SavedAccess),
    /// Follow the access data, if acts were recorded.
    Audit(SavedAudit),
}

impl Item<'_> {
    /// About its encoded size, good enough to size blocks: what it counts in the state's budget.
    fn size(&self) -> u64 {
        match self {
            Item::Header(_) | Item::ClusterVersion(_) => 0,
            Item::Membership(membership) => membership.records() as u64 * ITEM_BYTES as u64,
            Item::Access(saved) => saved.size(),
            Item::Audit(saved) => saved.size(),
            Item::Node(path, node) => len(path.as_str()) + node_weight(node),
            Item::Session(session) => session.weight(),
            Item::Tombstone(_, _, what) => what.weight(),
            Item::Pending(_, pending) => pending.weight(),
            Item::PastHolding(past) => past.weight(),
            Item::Statistics(lock, _) => statistics_weight(lock),
        }
    }
}

impl State {
    /// The approximate weight of its snapshot: `ITEM_WEIGHT` for each item, and the bytes of all values.
    #[must_use]
    pub fn snapshot_weight(&self) -> u64 {
        let items = self.sessions.len() + self.tree.len() + self.tree.locks.history_len + self.tree.locks.with_statistics;
        let items = items + self.access.records() + self.audit.len();
        let remembered = self.tombstones.table.len() as u64 * (ITEM_WEIGHT / REMEMBERED_IN_AN_ITEM);
        items as u64 * ITEM_WEIGHT + remembered + self.tree.value_bytes()
    }

    /// The approximate size of its snapshot in bytes. It is too high if texts are short.
    #[must_use]
    pub fn snapshot_bytes(&self) -> u64 {
        let items = self.sessions.len()
            + self.tree.len()
            + self.tree.locks.history_len
            + self.tree.locks.with_statistics
            + self.tombstones.table.len()
            + self.membership.records()
            + self.access.records()
            + self.audit.len();
        items as u64 * ITEM_BYTES as u64 + self.tree.value_bytes()
    }

    /// The state in blocks, one at a time and in a fixed order: equal states give equal bytes.
    pub fn snapshot_blocks(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let header = Item::Header(Header {
            revision: self.revision,
            cluster: self.cluster,
            sessions: self.sessions.len() as u64,
            nodes: self.tree.len() as u64,
            remembered: self.tombstones.table.len() as u64,
            history: self.tree.locks.history_len as u64,
            statistics: self.tree.locks.with_statistics as u64,
            totals: Statistics::clone(&self.totals),
            pending: self.pending.work.len() as u64,
            pending_counters: (self.pending.next, self.pending.last),
            piece_steps: self.piece_steps,
            bytes: self.bytes(),
            capacities: self.budget.capacities.iter().map(|(node, bytes)| (*node, *bytes)).collect(),
        });
        let version = (self.version > ClusterVersion::FIRST).then_some(Item::ClusterVersion(self.version));
        let is_default = *self.membership == Membership::default();
        let membership = (!is_default).then(|| Item::Membership(Arc::clone(&self.membership)));
        let access = self.access.saved().map(Item::Access).chain(self.audit.saved().map(Item::Audit));
        let sessions = self.sessions.values().map(|session| Item::Session(SessionRecord::clone(session)));
        let nodes = self.tree.iter().map(|(path, node)| Item::Node(Cow::Borrowed(path), Cow::Borrowed(node)));
        let remembered = self.tombstones.table.iter().map(|(id, (at, what))| Item::Tombstone(*id, *at, what.clone()));
        let history = self.tree.locks.history_entries().map(|past| Item::PastHolding(PastHolding::clone(past)));
        let statistics = self.tree.locks.statistics().map(|(lock, counted)| Item::Statistics(lock.clone(), counted.clone()));
        let pending = self.pending.work.iter().map(|(number, pending)| Item::Pending(*number, pending.clone()));
        let items =
            std::iter::once(header).chain(version).chain(membership).chain(access).chain(sessions).chain(nodes).chain(remembered);
        let mut items = items.chain(history).chain(statistics).chain(pending);
        // Its memory serves for all blocks.
        let mut block = Vec::new();
        std::iter::from_fn(move || {
            let mut size = 0;
            while size < BLOCK_BYTES as u64
                && let Some(item) = items.next()
            {
                size += item.size();
                block.push(item);
            }
            // An item, even a grant with very many holds, has a few MiB at most, so a block stays far below the codec's
            // limit.
            let encoded = (!block.is_empty()).then(|| match fairhold_codec::encode(SNAPSHOT_FORMAT, &block) {
                Ok(bytes) => bytes,
                Err(error) => unreachable!("a block of {size} bytes cannot be encoded: {error}"),
            });
            block.clear();
            encoded
        })
    }

    /// Reads a state from its blocks, and rebuilds its caches. Each block is dropped before the next is read.
    pub fn from_snapshot_blocks(blocks: impl Iterator<Item = impl AsRef<[u8]>>) -> Result<State, SnapshotError> {
        let mut decoder = SnapshotDecoder::default();
        for block in blocks {
            decoder.add(block.as_ref())?;
        }
        decoder.finish()
    }
}

/// Decodes a state block by block.
#[derive(Debug)]
pub struct SnapshotDecoder {
    state: State,
    blocks: usize,
    header: Option<Header>,
    access: AccessData,
    access_records: u64,
    audit: AuditRing,
    audit_entries: u64,
}

impl Default for SnapshotDecoder {
    fn default() -> SnapshotDecoder {
        SnapshotDecoder {
            state: State { tree: Tree::default(), ..State::new() },
            blocks: 0,
            header: None,
            access: AccessData::default(),
            access_records: 0,
            audit: AuditRing::default(),
            audit_entries: 0,
        }
    }
}

impl SnapshotDecoder {
    /// Adds the next block.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let block = self.blocks;
        let decoded = fairhold_codec::decode(SNAPSHOT_FORMAT, bytes);
        let items: Vec<Item<'_>> = decoded.map_err(|source| SnapshotError::Block { block, source })?;
        self.blocks += 1;
        items.into_iter().try_for_each(|item| self.restore(item))
    }

    fn restore(&mut self, item: Item<'_>) -> Result<(), SnapshotError> {
        let state = &mut self.state;
        match (item, self.header.is_some()) {
            (Item::Header(found), false) => self.header = Some(found),
            (Item::Header(_), true) | (_, false) => return Err(SnapshotError::Header),
            (Item::Session(session), true) => drop(state.sessions.insert(session.number, Arc::new(session))),
            (Item::Node(path, node), true) => state.tree.restore(path.into_owned(), node.into_owned()),
            (Item::Tombstone(id, at, what), true) => state.tombstones.remember(id, at, what),
            (Item::PastHolding(past), true) => state.tree.locks.restore_entry(past),
            (Item::Statistics(lock, counted), true) => state.tree.locks.restore_statistics(lock, counted),
            (Item::Pending(number, pending), true) => drop(state.pending.work.insert(number, pending)),
            (Item::ClusterVersion(version), true) => state.version = version,
            (Item::Membership(membership), true) => state.membership = membership,
            (Item::Access(saved), true) => self.access_records = self.access.restore(saved).unwrap_or(self.access_records),
            (Item::Audit(saved), true) => self.audit_entries = self.audit.restore(saved).unwrap_or(self.audit_entries),
        }
        Ok(())
    }

    /// The state, after its last block. Verifies that nothing is missing, and rebuilds the caches.
    pub fn finish(self) -> Result<State, SnapshotError> {
        let SnapshotDecoder { mut state, header, access, access_records, audit, audit_entries, .. } = self;
        let header = header.ok_or(SnapshotError::Header)?;
        state.access = Arc::new(access);
        state.audit = Arc::new(audit);
        for (what, expected, found) in [
            ("sessions", header.sessions, state.sessions.len()),
            ("nodes", header.nodes, state.tree.len()),
            ("tombstones", header.remembered, state.tombstones.table.len()),
            ("history entries", header.history, state.tree.locks.history_len),
            ("lock statistics", header.statistics, state.tree.locks.with_statistics),
            ("pieces of pending work", header.pending, state.pending.work.len()),
            ("records of access data", access_records, state.access.records()),
            ("audit entries", audit_entries, state.audit.len()),
            ("bytes", header.bytes, usize::try_from(state.bytes()).unwrap_or(usize::MAX)),
        ] {
            let found = found as u64;
            if expected != found {
                return Err(SnapshotError::Incomplete { what, expected, found });
            }
        }
        lose_what_is_planted(&mut state);
        state.revision = header.revision;
        state.cluster = header.cluster;
        state.totals = Arc::new(header.totals);
        (state.pending.next, state.pending.last) = header.pending_counters;
        state.piece_steps = header.piece_steps;
        header.capacities.into_iter().for_each(|(node, bytes)| state.budget.record(node, bytes));
        state.rebuild_caches();
        Ok(state)
    }
}

impl Command {
    /// Its weight on the scale of `State::snapshot_weight`: one item, or one for each operation, and the bytes of its
    /// values. A snapshot saves a node from applying the command. Removals do not reduce the weight.
    #[must_use]
    pub fn snapshot_weight(&self) -> u64 {
        let Command::Transact(transact) = self.unguarded() else { return ITEM_WEIGHT };
        let operations = || transact.then.iter().chain(transact.otherwise.iter().flatten());
        let bytes: usize = operations().map(Operation::weight).sum();
        operations().count().max(1) as u64 * ITEM_WEIGHT + bytes as u64
    }
}

impl State {
    /// Rebuilds the caches from their sources.
    pub(crate) fn rebuild_caches(&mut self) {
        let mut index = Index::default();
        self.sessions.values().for_each(|session| index.add_session(session));
        let mut queues: BTreeMap<LockName, Queue> = BTreeMap::new();
        for (path, node) in self.tree.iter() {
            index.update_node(path, node);
            match &node.role {
                NodeRole::Contender(contender) => {
                    index.add_contender(contender, path);
                    queues.entry(contender.lock.clone()).or_default().add(contender);
                }
                NodeRole::Lock(settings) if settings.used => {
                    index.locks.extend(path.lock_name());
                    if settings.election == Some(true) {
                        index.elections.extend(path.lock_name());
                    }
                }
                NodeRole::Lock(_) | NodeRole::Data => {}
            }
        }
        self.pending.work.iter().for_each(|(number, pending)| index.add_pending(*number, pending));
        let mut uses = TenantUses::new(self.access.tenant_prefixes().clone(), &self.pending);
        if !uses.is_empty() {
            self.tree.iter().for_each(|(path, node)| uses.add(path, node));
        }
        self.tree.uses = uses;
        index.busy.extend(queues.keys().cloned());
        self.index = index;
        self.tree.locks.set_queues(queues);
        let crowded = self.tree.locks.records.iter().filter(|(_, record)| record.queue().is_some_and(Queue::is_unindexed));
        let crowded: Vec<LockName> = crowded.map(|(lock, _)| lock.clone()).collect();
        crowded.iter().for_each(|lock| self.index_holders(lock));
    }
}

/// Loses parts of the state with planted bugs; otherwise does nothing.
fn lose_what_is_planted(state: &mut State) {
    if planted::has(Bug::SnapshotForgetsSessions) {
        state.sessions = Weighed::default();
    }
    if planted::has(Bug::SnapshotForgetsAccess) {
        state.access = Arc::default();
    }
    if planted::has(Bug::SnapshotForgetsAudit) {
        state.audit = Arc::default();
    }
    if planted::has(Bug::SnapshotForgetsKeys) {
        state.tombstones = Tombstones::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Lifetime, Transact, WriteKey};
    use fairhold_types::{
        limits::{PATH_BYTES_MAX, TRANSACTION_STEPS_MAX},
        time::WallMillis,
    };

    fn writes(count: usize, bytes: usize) -> Command {
        let put = |number| Operation::Put {
            path: Path::root().child("n").child(&format!("{number}")),
            value: vec![7; bytes].into(),
            parents: true,
            lifetime: Lifetime::Persistent,
        };
        let then = (0..count).map(put).collect();
        Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: WallMillis(0) })
    }

    /// The results of sequential creates contain paths, and are remembered for a minute.
    #[test]
    fn tombstones_of_large_transactions_fill_many_small_blocks() {
        let mut state = State::new();
        let parent = Path::parse(&format!("/{}", "p".repeat(PATH_BYTES_MAX - 32))).unwrap();
        for key in 0..70 {
            let create = Operation::CreateSequential {
                parent: parent.clone(),
                prefix: String::new(),
                value: Vec::new().into(),
                parents: true,
                lifetime: Lifetime::Persistent,
            };
            let key = Some(WriteKey { key: GrantId::from_ulid(key), fingerprint: [0; 16] });
            let then = vec![create; TRANSACTION_STEPS_MAX];
            let write = Transact { key, conditions: Vec::new(), then, otherwise: None, at: WallMillis(0) };
            state.apply(&Command::Transact(write)).answer.result.unwrap();
        }
        let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
        let largest = blocks.iter().map(Vec::len).max().unwrap_or(0);
        assert!(largest < 4 * BLOCK_BYTES, "a block has {largest} bytes");
        assert!(State::from_snapshot_blocks(blocks.iter().map(Vec::as_slice)).unwrap() == state);
    }

    /// Half of the items are tombstones. A node requires this much disk space before it writes a snapshot.
    #[test]
    fn a_snapshot_has_about_the_estimated_size() {
        let mut state = State::new();
        for number in 0..200 {
            let Command::Transact(mut write) = writes(1, 10) else { panic!("no transaction") };
            write.key = Some(WriteKey { key: GrantId::from_ulid(number), fingerprint: [0; 16] });
            let Operation::Put { path, .. } = &mut write.then[0] else { panic!("no put") };
            *path = Path::root().child(&format!("{number}"));
            state.apply(&Command::Transact(write)).answer.result.unwrap();
        }
        let has: usize = state.snapshot_blocks().map(|block| block.len()).sum();
        let estimate = state.snapshot_bytes();
        assert!(
            (has as u64..10 * has as u64).contains(&estimate),
            "the estimate is {estimate} bytes, and the snapshot has {has}"
        );
    }

    #[test]
    fn a_command_weighs_what_it_writes() {
        assert_eq!(Command::Forget { through: Revision(1) }.snapshot_weight(), ITEM_WEIGHT);
        assert_eq!(writes(0, 0).snapshot_weight(), ITEM_WEIGHT);
        let small = writes(1_000, 1).snapshot_weight() / ITEM_WEIGHT;
        assert!((1_000..=1_002).contains(&small), "{small} items");
        assert_eq!(writes(1, 1024 * 1024).snapshot_weight() / ITEM_WEIGHT, 257);
    }

    /// Otherwise the log would grow to a multiple of the state before the next snapshot: a value just below the weight
    /// of an item would count nothing in its command, and nearly an item in the state.
    #[test]
    fn a_write_weighs_as_much_in_the_state() {
        for (count, bytes) in [(10, 1024 * 1024), (1_000, 4_000), (1_000, 100)] {
            let mut state = State::new();
            let before = state.snapshot_weight();
            let command = writes(count, bytes);
            let weight: u64 = (0..count).map(|_| writes(1, bytes).snapshot_weight()).sum();
            state.apply(&command).answer.result.unwrap();
            let grown = state.snapshot_weight() - before;
            assert!(
                grown.abs_diff(weight) < weight / 100 + 2 * ITEM_WEIGHT,
                "{count} of {bytes}: the command weighs {weight}, the state grew by {grown}"
            );
        }
    }
}
