//! The places, each with its name.

macro_rules! points {
    ($($(#[doc = $doc:literal])+ $point:ident = $name:literal,)+) => {
        /// A place where something can be made to fail.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Point { $($(#[doc = $doc])+ $point,)+ }

        impl Point {
            /// All of them.
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
    /// Before the file that says whose a data directory is is written.
    StorageIdentityWrite = "storage.identity.write",
    /// Before the log is opened.
    StorageLogOpen = "storage.log.open",
    /// Before what is in the log is read and verified at a start.
    StorageLogRecover = "storage.log.recover",
    /// Before entries are handed to the log's writer.
    StorageLogAppend = "storage.log.append",
    /// Before the writer writes what waits.
    StorageLogWrite = "storage.log.write",
    /// After it is on disk, before anybody is told.
    StorageLogSynced = "storage.log.synced",
    /// After those who waited for it were told.
    StorageLogTold = "storage.log.told",
    /// Before entries are read.
    StorageLogRead = "storage.log.read",
    /// Before a vote is handed to the log's writer.
    StorageVoteSave = "storage.vote.save",
    /// After a vote is on disk, before it counts.
    StorageVoteSaved = "storage.vote.saved",
    /// Before it is noted up to where entries are committed.
    StorageCommittedSave = "storage.committed.save",
    /// Before a cut of the log is handed to its writer.
    StorageTruncateBegin = "storage.truncate.begin",
    /// After it was, before anything is appended.
    StorageTruncateDone = "storage.truncate.done",
    /// Before a purge of the log is handed to its writer.
    StoragePurgeBegin = "storage.purge.begin",
    /// After it was.
    StoragePurgeDone = "storage.purge.done",
    /// After a purge is on disk, before the files of what was purged are removed.
    StoragePurgeFiles = "storage.purge.files",
    /// Before the first byte of a snapshot is written under its temporary name.
    StorageSnapshotWrite = "storage.snapshot.write",
    /// After a file that appears whole or not at all is written, a snapshot or an identity, before it is made durable.
    StorageFileSync = "storage.file.sync",
    /// After it is durable, before it has its name.
    StorageFileRename = "storage.file.rename",
    /// After it has its name, before that is durable.
    StorageFileName = "storage.file.name",
    /// After a snapshot's name is durable, before the older ones are removed.
    StorageSnapshotOlder = "storage.snapshot.older",
    /// Before a snapshot is read.
    StorageSnapshotLoad = "storage.snapshot.load",
    /// Before what an interrupted save left is removed at a start.
    StorageSnapshotClean = "storage.snapshot.clean",
    /// Before a node begins with its newest snapshot.
    RaftStartLoad = "raft.start.load",
    /// After that, before it goes on from the log.
    RaftStartOpen = "raft.start.open",
    /// After the log was applied, before anybody is served.
    RaftStartServe = "raft.start.serve",
    /// Before the nodes are made members of a new cluster.
    RaftMembersWrite = "raft.members.write",
    /// After they were.
    RaftMembersWritten = "raft.members.written",
    /// Before a change of the members is applied.
    RaftMembersApply = "raft.members.apply",
    /// Before a new cluster is named.
    RaftMembersName = "raft.members.name",
    /// Before an entry is applied.
    RaftApplyBegin = "raft.apply.begin",
    /// After it was, before the proposer gets the answer.
    RaftApplyDone = "raft.apply.done",
    /// Before a snapshot is made from a copy of the state.
    RaftSnapshotBuild = "raft.snapshot.build",
    /// After it was written, before it becomes the newest.
    RaftSnapshotSave = "raft.snapshot.save",
    /// After it was saved, before the log behind it may go.
    RaftSnapshotSaved = "raft.snapshot.saved",
    /// Before a leader sends a snapshot.
    RaftSnapshotSend = "raft.snapshot.send",
    /// Before the last part of a leader's snapshot is taken.
    RaftInstallReceive = "raft.install.receive",
    /// Before a leader's snapshot becomes the newest.
    RaftInstallBegin = "raft.install.begin",
    /// After it was saved, before it takes the place of the state.
    RaftInstallSaved = "raft.install.saved",
    /// After it took the place of the state.
    RaftInstallDone = "raft.install.done",
    /// Before a follower takes entries.
    RaftAppendReceive = "raft.append.receive",
    /// After it took them, before it says so.
    RaftAppendAnswer = "raft.append.answer",
    /// Before a node asks another one for its vote.
    RaftVoteAsk = "raft.vote.ask",
    /// Before a node is asked for its vote.
    RaftVoteReceive = "raft.vote.receive",
    /// After it has decided on it, before it says so.
    RaftVoteAnswer = "raft.vote.answer",
    /// Before an entry is proposed.
    RaftProposeWrite = "raft.propose.write",
    /// After it was applied, before its callers are told.
    RaftProposeDone = "raft.propose.done",
    /// Before commands are passed on to the leader.
    RaftProposeForward = "raft.propose.forward",
    /// Before an entry of the leader's own clock is proposed.
    RaftProposeAlone = "raft.propose.alone",
    /// Before a barrier begins.
    RaftBarrierBegin = "raft.barrier.begin",
    /// After it was proved that the leader leads.
    RaftBarrierProved = "raft.barrier.proved",
    /// Before a leader hands over.
    RaftTransferBegin = "raft.transfer.begin",
    /// Before a node takes the leadership that is handed to it.
    RaftTransferReceive = "raft.transfer.receive",
    /// Before a new leader's clock begins.
    NodeClockBegin = "node.clock.begin",
    /// After sessions were judged, before the leadership is proved.
    NodeExpiryProve = "node.expiry.prove",
    /// Before the end of a session is proposed.
    NodeExpiryPropose = "node.expiry.propose",
    /// After it was.
    NodeExpiryDone = "node.expiry.done",
    /// Before another verdict of the clock is proposed, like the end of a lock delay.
    NodeChorePropose = "node.chore.propose",
    /// Before keepalives are passed on to the leader.
    NodeKeepaliveSend = "node.keepalive.send",
    /// After they have moved their deadlines, before the leadership is proved.
    NodeKeepaliveProve = "node.keepalive.prove",
    /// After that, before they are acknowledged.
    NodeKeepaliveAnswer = "node.keepalive.answer",
    /// Before a watch begins.
    NodeWatchBegin = "node.watch.begin",
    /// Before a watch looks at what is new in the ring of events.
    NodeWatchLook = "node.watch.look",
    /// After changes are in the ring, before those who watch are woken.
    NodeWatchCry = "node.watch.cry",
    /// Before an acquire is proposed.
    NodeAcquireClaim = "node.acquire.claim",
    /// After it was committed, before its caller is told or waits.
    NodeAcquireClaimed = "node.acquire.claimed",
}

/// What happens at a point that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Nothing.
    Nothing,
    /// It fails.
    Error,
    /// It takes so much longer.
    Delay(std::time::Duration),
}
