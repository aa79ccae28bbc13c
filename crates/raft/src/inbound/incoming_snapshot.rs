//! Receives a snapshot: writes its blocks as they arrive, until the last one.

use crate::{
    base::{
        aliases::LeaderId,
        types::Types,
        wire::{Declined, PeerReply, SnapshotBegin},
    },
    machine::{
        snapshot::{SnapshotStore, header},
        snapshot_writer::{ArrivingSnapshot, SnapshotData},
    },
};
use fairhold_state::snapshot::BLOCK_BYTES;
use fairhold_types::NodeId;
use futures_util::future::{BoxFuture, FutureExt, ready};
use openraft::{
    AsyncRuntime, Vote,
    alias::{SnapshotMetaOf, SnapshotOf},
};
use parking_lot::Mutex;
use std::sync::Arc;

/// The one incoming snapshot. Only a leader sends one, so a later leader or the end of the connection discards it and
/// its blocks.
#[derive(Default)]
pub(super) struct IncomingSnapshot {
    partial: Mutex<Option<Partial>>,
    /// The last snapshot refused for lack of disk space.
    refused: Mutex<Option<SnapshotBegin>>,
}

/// A snapshot, with the vote of the leader that sent it.
type Complete<RT> = (Vote<LeaderId>, SnapshotOf<Types<RT>, SnapshotData>);

struct Partial {
    from: NodeId,
    head: SnapshotBegin,
    received: u32,
    arriving: Arc<ArrivingSnapshot>,
}

impl IncomingSnapshot {
    /// Begins a snapshot, and discards the previous one unless that belongs to a later leader.
    pub(super) fn begin<RT: AsyncRuntime>(
        &self,
        store: &Arc<dyn SnapshotStore>,
        from: NodeId,
        head: SnapshotBegin,
    ) -> PeerReply<RT> {
        self.discard(|partial| partial.head.vote <= head.vote);
        let mut partial = self.partial.lock();
        if partial.is_some() {
            return PeerReply::Declined(Declined::OutOfOrder);
        }
        let meta = SnapshotMetaOf::<Types<RT>> { last_log_id: head.last_log_id, last_membership: head.members.clone() };
        let Ok(meta) = header::encode::<RT>(&meta) else {
            return PeerReply::Declined(Declined::Malformed);
        };
        // The leader retries after a while.
        if !store.has_room_for(u64::from(head.blocks) * BLOCK_BYTES as u64) {
            self.refuse(from, head);
            return PeerReply::Declined(Declined::Busy);
        }
        tracing::info!(from, blocks = head.blocks, "receiving a snapshot from the leader");
        let arriving = Arc::new(ArrivingSnapshot::new(store, meta));
        *partial = Some(Partial { from, head, received: 0, arriving });
        PeerReply::SnapshotAccepted
    }

    /// Logs the lack of disk space once for each snapshot.
    fn refuse(&self, from: NodeId, head: SnapshotBegin) {
        let mut refused = self.refused.lock();
        if refused.as_ref().is_some_and(|known| (known.last_log_id, known.blocks) == (head.last_log_id, head.blocks)) {
            return;
        }
        let mib = (u64::from(head.blocks) * BLOCK_BYTES as u64).div_ceil(1 << 20);
        tracing::warn!(
            from,
            "the disk has no space for the leader's snapshot of {mib} MiB, so this node cannot catch up. Free space on the file \
             system of its data directory; the leader retries automatically"
        );
        *refused = Some(head);
    }

    /// Enqueues a block during this call; the future resolves once it is written.
    pub(super) fn block<RT: AsyncRuntime>(
        &self,
        store: &dyn SnapshotStore,
        from: NodeId,
        index: u32,
        block: Vec<u8>,
    ) -> BoxFuture<'static, PeerReply<RT>> {
        let arriving = match &mut *self.partial.lock() {
            Some(partial) if partial.from == from && index < partial.head.blocks && partial.received == index => {
                partial.received += 1;
                Arc::clone(&partial.arriving)
            }
            Some(_) | None => return ready(PeerReply::Declined(Declined::OutOfOrder)).boxed(),
        };
        let written = store.run_blocking(Box::new(move || arriving.write(&block)));
        async move { if written.await.is_ok() { PeerReply::SnapshotAccepted } else { PeerReply::Declined(Declined::Busy) } }
            .boxed()
    }

    /// Ends the transfer, and returns the complete snapshot.
    pub(super) fn end<RT: AsyncRuntime>(&self, from: NodeId) -> Result<Complete<RT>, Declined> {
        let whole = self.partial.lock().take_if(|partial| partial.from == from && partial.received == partial.head.blocks);
        let Some(Partial { head, arriving, .. }) = whole else {
            self.discard(|partial| partial.from == from);
            return Err(Declined::OutOfOrder);
        };
        let meta = SnapshotMetaOf::<Types<RT>> { last_log_id: head.last_log_id, last_membership: head.members };
        Ok((head.vote, openraft::Snapshot { meta, snapshot: SnapshotData::Arrived(arriving) }))
    }

    /// Discards a snapshot whose leader is older than this vote.
    pub(super) fn on_leader_vote(&self, vote: Vote<LeaderId>) {
        self.discard(|partial| partial.head.vote < vote);
    }

    /// Discards the snapshot of a node whose snapshot connection has ended.
    pub(super) fn disconnected(&self, from: NodeId) {
        self.discard(|partial| partial.from == from);
    }

    fn discard(&self, is_over: impl Fn(&Partial) -> bool) {
        if let Some(Partial { from, .. }) = self.partial.lock().take_if(|partial| is_over(partial)) {
            tracing::info!(from, "discarded an incomplete snapshot from the leader");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::snapshot::{SnapshotDraft, StoredSnapshot};
    use bytes::Bytes;
    use fairhold_state::State;
    use openraft_rt_tokio::TokioRuntime;
    use std::io;

    type RT = TokioRuntime;

    /// Counts the drafts that exist: each is a clone of this `Arc`.
    #[derive(Default)]
    struct Drafts(Arc<()>);

    struct Draft(#[expect(dead_code, reason = "only its reference count is used")] Arc<()>);

    impl Drafts {
        fn alive(&self) -> usize {
            Arc::strong_count(&self.0) - 1
        }
    }

    impl SnapshotDraft for Draft {
        fn write(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn finish(self: Box<Self>) -> io::Result<Arc<dyn StoredSnapshot>> {
            Err(io::Error::other("no test finishes a draft"))
        }
    }

    impl SnapshotStore for Drafts {
        fn draft(&self, _: Bytes) -> Box<dyn SnapshotDraft> {
            Box::new(Draft(Arc::clone(&self.0)))
        }

        fn newest(&self) -> BoxFuture<'static, io::Result<Option<Arc<dyn StoredSnapshot>>>> {
            ready(Ok(None)).boxed()
        }
    }

    fn vote(term: u64, node_id: NodeId) -> Vote<LeaderId> {
        Vote { leader_id: LeaderId { term, node_id }, committed: true }
    }

    async fn begins(incoming: &IncomingSnapshot, drafts: &Arc<Drafts>, term: u64, from: NodeId) -> bool {
        let members = crate::base::aliases::Members::default();
        let head = SnapshotBegin { vote: vote(term, from), last_log_id: None, members, blocks: 3 };
        let store: Arc<dyn SnapshotStore> = Arc::<Drafts>::clone(drafts);
        let taken = |reply| matches!(reply, PeerReply::<RT>::SnapshotAccepted);
        let block = State::default().snapshot_blocks().next().unwrap();
        taken(incoming.begin(&store, from, head)) && taken(incoming.block(&*store, from, 0, block).await)
    }

    #[tokio::test]
    async fn a_dead_leaders_partial_snapshot_is_dropped_when_its_connection_breaks() {
        let incoming = IncomingSnapshot::default();
        let drafts = Arc::new(Drafts::default());
        assert!(begins(&incoming, &drafts, 1, 1).await);
        incoming.disconnected(2);
        assert_eq!(drafts.alive(), 1, "it was another node's connection");
        incoming.disconnected(1);
        assert_eq!(drafts.alive(), 0);
        assert!(begins(&incoming, &drafts, 1, 1).await, "it may start again");
    }

    #[tokio::test]
    async fn a_replaced_leaders_partial_snapshot_is_dropped() {
        let incoming = IncomingSnapshot::default();
        let drafts = Arc::new(Drafts::default());
        assert!(begins(&incoming, &drafts, 1, 1).await);
        incoming.on_leader_vote(vote(1, 1));
        assert_eq!(drafts.alive(), 1, "it is the same leader");
        incoming.on_leader_vote(vote(2, 3));
        assert_eq!(drafts.alive(), 0);

        assert!(begins(&incoming, &drafts, 2, 3).await);
        assert!(begins(&incoming, &drafts, 3, 2).await);
        assert_eq!(drafts.alive(), 1, "a later leader's snapshot replaces the earlier one");
        assert!(!begins(&incoming, &drafts, 2, 3).await, "an earlier leader's snapshot does not");
        assert_eq!(drafts.alive(), 1);
        assert!(incoming.end::<RT>(3).is_err());
        assert_eq!(drafts.alive(), 1, "a node that sends no snapshot ends none");
        assert!(incoming.end::<RT>(2).is_err(), "two blocks are missing");
        assert_eq!(drafts.alive(), 0);
    }
}
