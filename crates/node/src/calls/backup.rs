//! A backup of this node's state, piece by piece, made from a copy: apply does not wait.
//!
//! A thread of low priority encodes the pieces, at most two ahead of the reader. A reader that takes too long for one
//! ends the backup, and so does one that goes away: the copy is freed, with everything that has changed since.

pub use crate::base::backups::{BackupKind, CompleteBackup};

use crate::{
    api::{CallError, Freshness, ReadOptions},
    base::stop::Stop,
    clock::wall_now,
    node::Node,
};
use bytes::Bytes;
use fairhold_backup::{Backup, BackupMember, BackupOrigin, BackupSource};
use fairhold_raft::{Program, error::NotProposed};
use fairhold_state::State;
use fairhold_types::{Revision, limits::BACKUP_BYTES_PER_SECOND_MIN};
use openraft_rt::{AsyncRuntime, Instant};
use std::{io, sync::Arc, thread, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Why a backup ended before it was complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the backup ended before it was complete")]
pub struct BackupCut;

/// The reason, for the log.
#[derive(Debug, thiserror::Error)]
enum CutReason {
    #[error("its reader took more than {} s for a piece", .0.as_secs())]
    TooSlow(Duration),
    #[error("its reader took less than {} KiB a second", BACKUP_BYTES_PER_SECOND_MIN / 1024)]
    TooSlowOnAverage,
    #[error("its reader went away")]
    ReaderGone,
    #[error("the node is stopping")]
    Stopping,
    #[error("its reader lost the right to read it")]
    Denied,
    #[error("it could not be written: {0}")]
    Encoding(#[from] io::Error),
    #[error("its thread failed")]
    ThreadFailed,
}

/// A backup that is being read.
#[derive(Debug)]
pub struct NodeBackup<RT: AsyncRuntime> {
    revision: Revision,
    /// Until the first piece is read: then the work begins.
    plan: Option<BackupPlan<RT>>,
    /// From then on.
    pieces: Option<mpsc::Receiver<Piece>>,
}

/// What the work needs.
struct BackupPlan<RT: AsyncRuntime> {
    node: Node<RT>,
    state: State,
    origin: BackupOrigin,
    kind: BackupKind,
    /// How long the reader may take for a piece.
    within: Duration,
    slot: Option<OwnedSemaphorePermit>,
}

impl<RT: AsyncRuntime> std::fmt::Debug for BackupPlan<RT> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupPlan").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A part of the stream.
#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    /// Nothing follows: the backup is complete. Without it, the backup was cut off.
    End,
}

impl<RT: AsyncRuntime> Node<RT> {
    /// A backup of this node's state for a client, as fresh as required. One client at a time gets one. The reader may
    /// take this long for each piece.
    pub async fn take_backup(&self, read: ReadOptions, within: Duration) -> Result<NodeBackup<RT>, CallError> {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
        // First the wait for the quorum: it must not keep the slot from a local backup.
        self.freshen(read).await?;
        let slot = self.0.backups.take_slot().ok_or(CallError::BackupBusy)?;
        let source = match read.freshness {
            Freshness::Linearizable | Freshness::LinearizableAtLeast(_) => BackupSource::Barrier,
            Freshness::Local | Freshness::AtLeast(_) => BackupSource::Local,
        };
        self.begin_backup(source, BackupKind::Read, within, Some(slot)).ok_or(CallError::Read(NotProposed::NoLeader.into()))
    }

    /// A backup of this node's own state, for its schedule; `None` before the cluster has formed. The caller records its
    /// end.
    #[must_use]
    pub fn scheduled_backup(&self, within: Duration) -> Option<NodeBackup<RT>> {
        self.begin_backup(BackupSource::Local, BackupKind::Scheduled, within, None)
    }

    /// Records the end of a scheduled backup; `None` if it failed.
    pub fn record_scheduled_backup(&self, complete: Option<CompleteBackup>) {
        self.0.backups.record(BackupKind::Scheduled, complete);
    }

    fn begin_backup(
        &self,
        source: BackupSource,
        kind: BackupKind,
        within: Duration,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Option<NodeBackup<RT>> {
        let state = self.0.replica.state();
        state.cluster()?;
        let raft = self.0.replica.status();
        let members = raft.members.into_iter().map(|status| BackupMember {
            id: status.id,
            url: status.member.url,
            address: status.member.address,
            voter: status.voter,
        });
        let origin = BackupOrigin {
            node: raft.id,
            release: Program::own().version.unwrap_or_default(),
            source,
            log: None,
            members: members.collect(),
            at: wall_now(),
        };
        let revision = state.revision();
        let plan = BackupPlan { node: self.clone(), state, origin, kind, within, slot };
        Some(NodeBackup { revision, plan: Some(plan), pieces: None })
    }
}

impl<RT: AsyncRuntime> NodeBackup<RT> {
    /// The revision of its state.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The next piece; `None` after the last one. After an error the backup is incomplete.
    pub async fn next(&mut self) -> Option<Result<Bytes, BackupCut>> {
        let pieces = match (self.plan.take(), &mut self.pieces) {
            (Some(plan), pieces) => pieces.insert(plan.begin()),
            (None, Some(pieces)) => pieces,
            (None, None) => return None,
        };
        match pieces.recv().await {
            Some(Piece::Bytes(bytes)) => Some(Ok(bytes)),
            Some(Piece::End) => {
                self.pieces = None;
                None
            }
            None => {
                self.pieces = None;
                Some(Err(BackupCut))
            }
        }
    }
}

impl<RT: AsyncRuntime> BackupPlan<RT> {
    /// Begins the work.
    fn begin(self) -> mpsc::Receiver<Piece> {
        let (out, pieces) = mpsc::channel(1);
        let tasks = self.node.0.tasks.clone();
        tasks.spawn::<RT>(self.run(out));
        pieces
    }

    async fn run(self, out: mpsc::Sender<Piece>) {
        let BackupPlan { node, state, origin, kind, within, slot } = self;
        let started_at = RT::Instant::now();
        let (encoded, from_thread) = mpsc::channel(1);
        let slot = slot.map(Arc::new);
        let of_thread = slot.clone();
        let work = move || encode(state, origin, &encoded, of_thread);
        // Its priority stays low, so it is not a thread of the runtime, which would run other work afterwards.
        let thread = thread::Builder::new().name("backup".to_owned()).spawn(work);
        if let Err(error) = thread {
            // The channel is closed, so the backup fails.
            tracing::warn!(%error, "the thread of a backup cannot start");
        }
        let may_read = || node.check_caller().is_ok();
        let passed = Passing { stop: &node.0.stop, may_read, within, slot }.run::<RT>(from_thread, &out).await;
        let complete = match passed {
            Ok(bytes) => Some(CompleteBackup { at: wall_now(), bytes, took: started_at.elapsed() }),
            Err(reason) => {
                tracing::info!(%reason, "a backup ended before it was complete");
                None
            }
        };
        if kind == BackupKind::Read {
            node.0.backups.record(kind, complete);
        }
    }
}

/// How pieces pass from the thread to the reader.
struct Passing<'a, M> {
    stop: &'a Stop,
    /// Whether the reader still has the right.
    may_read: M,
    within: Duration,
    slot: Option<Arc<OwnedSemaphorePermit>>,
}

impl<M: Fn() -> bool> Passing<'_, M> {
    /// Passes all pieces on. Returns how many bytes they had.
    async fn run<RT: AsyncRuntime>(
        self,
        mut from_thread: mpsc::Receiver<io::Result<Piece>>,
        out: &mpsc::Sender<Piece>,
    ) -> Result<u64, CutReason> {
        let Passing { stop, may_read, within, mut slot } = self;
        let mut bytes = 0;
        let mut waited = Duration::ZERO;
        loop {
            let piece = tokio::select! {
                biased;
                () = stop.requested() => return Err(CutReason::Stopping),
                () = out.closed() => return Err(CutReason::ReaderGone),
                piece = from_thread.recv() => piece.ok_or(CutReason::ThreadFailed)??,
            };
            if !may_read() {
                return Err(CutReason::Denied);
            }
            let length = match &piece {
                Piece::Bytes(piece) => Some(piece.len() as u64),
                Piece::End => None,
            };
            if length.is_none() {
                // A client that has read this backup to its end can begin another one.
                drop(slot.take());
            }
            let patience = patience(within, bytes, waited);
            let begun_at = RT::Instant::now();
            let sent = tokio::select! {
                biased;
                () = stop.requested() => return Err(CutReason::Stopping),
                sent = RT::timeout(patience, out.send(piece)) => sent,
            };
            waited += begun_at.elapsed();
            let too_slow = if patience < within { CutReason::TooSlowOnAverage } else { CutReason::TooSlow(within) };
            sent.map_err(|_| too_slow)?.map_err(|_| CutReason::ReaderGone)?;
            match length {
                Some(length) => bytes += length,
                None => return Ok(bytes),
            }
        }
    }
}

/// How long the next piece may take, after a reader has taken so many bytes and the node has waited for it for so long. A
/// reader may be behind the average by twice the time for a piece.
fn patience(within: Duration, bytes: u64, waited: Duration) -> Duration {
    let earned = Duration::from_secs(bytes / BACKUP_BYTES_PER_SECOND_MIN);
    within.min(within.saturating_mul(2).saturating_add(earned).saturating_sub(waited))
}

/// The work of the thread: encodes the backup until nobody takes the pieces any more. Until then, it has the slot: on a busy
/// machine it notices late that its reader has gone, and the next one needs a copy of its own.
fn encode(
    state: State,
    origin: BackupOrigin,
    encoded: &mpsc::Sender<io::Result<Piece>>,
    slot: Option<Arc<OwnedSemaphorePermit>>,
) {
    if let Err(error) = fairhold_backup::lower_priority() {
        tracing::warn!(%error, "cannot lower the priority of the thread of a backup: it may delay requests");
    }
    let backup = Backup::new(&state, origin);
    drop(state);
    for piece in backup.pieces() {
        if encoded.blocking_send(piece.map(|piece| Piece::Bytes(piece.into()))).is_err() {
            return;
        }
    }
    // A client that has read this backup to its end can begin another one.
    drop(slot);
    // The receiver may be gone.
    encoded.blocking_send(Ok(Piece::End)).ok();
}

#[cfg(test)]
#[path = "backup_tests.rs"]
mod tests;
