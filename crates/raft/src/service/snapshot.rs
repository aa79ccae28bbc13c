//! A snapshot on its way in: its blocks, until the last one has come.

use super::lock;
use crate::{
    aliases::LeaderId,
    keeper::SnapshotBlocks,
    types::Types,
    wire::{Declined, Reply, SnapshotBegin},
};
use bytes::Bytes;
use fairhold_types::NodeId;
use openraft::{
    AsyncRuntime, Vote,
    alias::{SnapshotMetaOf, SnapshotOf},
};
use std::{collections::BTreeMap, sync::Mutex};

/// One snapshot for each node that sends one; a new one ends the old one.
#[derive(Default)]
pub(super) struct Incoming(Mutex<BTreeMap<NodeId, Partial>>);

/// A snapshot, with the vote under which it was sent.
type Complete<RT> = (Vote<LeaderId>, SnapshotOf<Types<RT>, SnapshotBlocks>);

struct Partial {
    head: SnapshotBegin,
    blocks: Vec<Bytes>,
}

impl Incoming {
    pub(super) fn begin<RT: AsyncRuntime>(&self, from: NodeId, head: SnapshotBegin) -> Reply<RT> {
        tracing::info!(from, blocks = head.blocks, "a snapshot of the leader begins to arrive");
        lock(&self.0).insert(from, Partial { head, blocks: Vec::new() });
        Reply::SnapshotTaken
    }

    pub(super) fn block<RT: AsyncRuntime>(&self, from: NodeId, index: u32, block: Vec<u8>) -> Reply<RT> {
        match lock(&self.0).get_mut(&from) {
            Some(partial) if index < partial.head.blocks && partial.blocks.len() == index as usize => {
                partial.blocks.push(Bytes::from(block));
                Reply::SnapshotTaken
            }
            Some(_) | None => Reply::Declined(Declined::OutOfOrder),
        }
    }

    /// The complete snapshot.
    pub(super) fn end<RT: AsyncRuntime>(&self, from: NodeId) -> Result<Complete<RT>, Declined> {
        let Partial { head, blocks } = lock(&self.0).remove(&from).ok_or(Declined::OutOfOrder)?;
        if blocks.len() != head.blocks as usize {
            return Err(Declined::OutOfOrder);
        }
        let meta = SnapshotMetaOf::<Types<RT>> { last_log_id: head.last_log_id, last_membership: head.members };
        Ok((head.vote, openraft::Snapshot { meta, snapshot: SnapshotBlocks(blocks) }))
    }
}
