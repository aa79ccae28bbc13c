//! The failpoints, each with its name.

macro_rules! points {
    ($($(#[doc = $doc:literal])+ $point:ident = $name:literal,)+) => {
        /// A step that a test can make fail.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Point { $($(#[doc = $doc])+ $point,)+ }

        impl Point {
            /// Every failpoint.
            pub const ALL: &[Point] = &[$(Point::$point,)+];

            /// Its name, for people.
            #[cfg(any(test, feature = "failpoints"))]
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Point::$point => $name,)+ }
            }
        }
    };
}

points! {
    /// Before the identity file of a data directory is written.
    StorageIdentityWrite = "storage.identity.write",
    /// Before the log is opened.
    StorageLogOpen = "storage.log.open",
    /// Before the log is read and verified at a start.
    StorageLogRecover = "storage.log.recover",
    /// Before entries are handed to the log writer.
    StorageLogAppend = "storage.log.append",
    /// Before the log writer writes a batch.
    StorageLogWrite = "storage.log.write",
    /// After a batch is on disk, before its callers are notified.
    StorageLogSynced = "storage.log.synced",
    /// After the callers of a batch were notified.
    StorageLogTold = "storage.log.told",
    /// Before entries are read.
    StorageLogRead = "storage.log.read",
    /// Before a vote is handed to the log writer.
    StorageVoteSave = "storage.vote.save",
    /// After a vote is on disk, before it counts.
    StorageVoteSaved = "storage.vote.saved",
    /// Before the committed index is saved.
    StorageCommittedSave = "storage.committed.save",
    /// Before a truncation of the log is handed to its writer.
    StorageTruncateBegin = "storage.truncate.begin",
    /// After a truncation, before the next append.
    StorageTruncateDone = "storage.truncate.done",
    /// Before a purge of the log is handed to its writer.
    StoragePurgeBegin = "storage.purge.begin",
    /// After a purge.
    StoragePurgeDone = "storage.purge.done",
    /// After a purge is on disk, before the purged files are removed.
    StoragePurgeFiles = "storage.purge.files",
    /// Before the first byte of a snapshot is written under its temporary name.
    StorageSnapshotWrite = "storage.snapshot.write",
    /// After an atomically replaced file (a snapshot, an identity) is written, before it is synced.
    StorageFileSync = "storage.file.sync",
    /// After that file is synced, before it is renamed to its final name.
    StorageFileRename = "storage.file.rename",
    /// After the rename, before the rename is durable.
    StorageFileName = "storage.file.name",
    /// After the name of a snapshot is durable, before the older snapshots are removed.
    StorageSnapshotOlder = "storage.snapshot.older",
    /// Before a snapshot is read.
    StorageSnapshotLoad = "storage.snapshot.load",
    /// Before the leftovers of an interrupted save are removed at a start.
    StorageSnapshotClean = "storage.snapshot.clean",
    /// Before a node loads its newest snapshot at a start.
    RaftStartLoad = "raft.start.load",
    /// After the snapshot is loaded, before the log is replayed.
    RaftStartOpen = "raft.start.open",
    /// After the log is replayed, before the node serves requests.
    RaftStartServe = "raft.start.serve",
    /// Before the first membership of a new cluster is written.
    RaftMembersWrite = "raft.members.write",
    /// After the first membership is written.
    RaftMembersWritten = "raft.members.written",
    /// Before a membership change is applied.
    RaftMembersApply = "raft.members.apply",
    /// Before a new cluster gets its identity.
    RaftMembersName = "raft.members.name",
    /// Before the leader admits a node that joins.
    RaftJoinAdmit = "raft.join.admit",
    /// After a node that joins was added as a learner.
    RaftJoinAdded = "raft.join.added",
    /// Before a learner that has caught up becomes a voter.
    RaftJoinPromote = "raft.join.promote",
    /// Before a new voter replaces a member.
    RaftMemberSwap = "raft.member.swap",
    /// Before a leader ends an unfinished change of the members.
    RaftMemberFlatten = "raft.member.flatten",
    /// Before a join is recorded as complete.
    RaftJoinSettle = "raft.join.settle",
    /// Before an entry is applied.
    RaftApplyBegin = "raft.apply.begin",
    /// After an entry is applied, before the proposer gets the answer.
    RaftApplyDone = "raft.apply.done",
    /// Before a snapshot is built from a copy of the state.
    RaftSnapshotBuild = "raft.snapshot.build",
    /// After a snapshot is written, before it becomes the newest.
    RaftSnapshotSave = "raft.snapshot.save",
    /// After a snapshot is saved, before the log behind it may be purged.
    RaftSnapshotSaved = "raft.snapshot.saved",
    /// Before a leader sends a snapshot.
    RaftSnapshotSend = "raft.snapshot.send",
    /// Before the last part of a leader's snapshot is accepted.
    RaftInstallReceive = "raft.install.receive",
    /// Before a leader's snapshot becomes the newest.
    RaftInstallBegin = "raft.install.begin",
    /// After a received snapshot is saved, before it replaces the state.
    RaftInstallSaved = "raft.install.saved",
    /// After a received snapshot replaced the state.
    RaftInstallDone = "raft.install.done",
    /// Before a follower accepts entries.
    RaftAppendReceive = "raft.append.receive",
    /// After a follower accepted entries, before it acknowledges them.
    RaftAppendAnswer = "raft.append.answer",
    /// Before a candidate requests a vote.
    RaftVoteAsk = "raft.vote.ask",
    /// Before a node handles a vote request.
    RaftVoteReceive = "raft.vote.receive",
    /// After a node decided on a vote request, before it answers.
    RaftVoteAnswer = "raft.vote.answer",
    /// Before an entry is proposed.
    RaftProposeWrite = "raft.propose.write",
    /// After an entry is applied, before its callers are notified.
    RaftProposeDone = "raft.propose.done",
    /// Before commands are forwarded to the leader.
    RaftProposeForward = "raft.propose.forward",
    /// Before an entry of the leader's clock is proposed.
    RaftProposeAlone = "raft.propose.alone",
    /// Before a barrier begins.
    RaftBarrierBegin = "raft.barrier.begin",
    /// After a majority confirmed the leader for a barrier.
    RaftBarrierProved = "raft.barrier.proved",
    /// Before a leader transfers its leadership.
    RaftTransferBegin = "raft.transfer.begin",
    /// Before a node accepts a leadership transfer.
    RaftTransferReceive = "raft.transfer.receive",
    /// Before a new leader's clock starts.
    NodeClockBegin = "node.clock.begin",
    /// After sessions are found due, before the leadership is confirmed.
    NodeExpiryProve = "node.expiry.prove",
    /// Before the end of a session is proposed.
    NodeExpiryPropose = "node.expiry.propose",
    /// After the end of a session is proposed.
    NodeExpiryDone = "node.expiry.done",
    /// Before another command of the clock is proposed, such as the end of a lock delay.
    NodeChorePropose = "node.chore.propose",
    /// Before keepalives are forwarded to the leader.
    NodeKeepaliveSend = "node.keepalive.send",
    /// After keepalives moved their deadlines, before the leadership is confirmed.
    NodeKeepaliveProve = "node.keepalive.prove",
    /// After the leadership is confirmed, before the keepalives are acknowledged.
    NodeKeepaliveAnswer = "node.keepalive.answer",
    /// Before a watch begins.
    NodeWatchBegin = "node.watch.begin",
    /// Before a watch reads new events from the ring.
    NodeWatchLook = "node.watch.look",
    /// After events are in the ring, before their watchers are woken.
    NodeWatchCry = "node.watch.cry",
    /// Before an acquire is proposed.
    NodeAcquireClaim = "node.acquire.claim",
    /// After an acquire is committed, before its caller is answered or waits.
    NodeAcquireClaimed = "node.acquire.claimed",
}

/// The effect of a failpoint that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Nothing.
    Nothing,
    /// It fails.
    Error,
    /// It is delayed.
    Delay(std::time::Duration),
}
