//! Tests of taking a backup.

use super::*;
use crate::base::backups::Backups;
use openraft_rt_tokio::TokioRuntime;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinHandle;

/// Far longer than anything takes here.
const LONG: Duration = Duration::from_secs(60);

/// A backup on its way to a reader, without a node.
struct Way {
    stop: Stop,
    backups: Backups,
    /// `None` after the thread has ended.
    thread: Option<mpsc::Sender<io::Result<Piece>>>,
    reader: Option<mpsc::Receiver<Piece>>,
    passed: JoinHandle<Result<u64, CutReason>>,
}

fn begin(within: Duration, may_read: &'static AtomicBool) -> Way {
    let (stop, backups) = (Stop::default(), Backups::new());
    let slot = backups.take_slot().map(Arc::new);
    let (thread, from_thread) = mpsc::channel(1);
    let (out, reader) = mpsc::channel(1);
    let stopped = stop.clone();
    let passed = TokioRuntime::spawn(async move {
        let may_read = || may_read.load(Ordering::Relaxed);
        Passing { stop: &stopped, may_read, within, slot }.run::<TokioRuntime>(from_thread, &out).await
    });
    Way { stop, backups, thread: Some(thread), reader: Some(reader), passed }
}

impl Way {
    async fn encode(&self, piece: Piece) {
        self.thread.as_ref().unwrap().send(Ok(piece)).await.unwrap();
    }

    async fn read(&mut self) -> Option<Piece> {
        self.reader.as_mut().unwrap().recv().await
    }

    /// Why the backup was cut off. The slot is free again.
    async fn cut(self) -> String {
        let reason = self.passed.await.unwrap().unwrap_err().to_string();
        assert!(self.backups.take_slot().is_some(), "the slot is still taken: {reason}");
        reason
    }
}

static MAY: AtomicBool = AtomicBool::new(true);

fn bytes(count: usize) -> Piece {
    Piece::Bytes(vec![7; count].into())
}

#[tokio::test]
async fn a_backup_that_is_read_to_its_end_is_complete() {
    let mut way = begin(LONG, &MAY);
    for count in [3, 4, 5] {
        way.encode(bytes(count)).await;
        assert!(matches!(way.read().await, Some(Piece::Bytes(piece)) if piece.len() == count));
    }
    assert!(way.backups.take_slot().is_none(), "another client gets none meanwhile");
    way.encode(Piece::End).await;
    assert!(matches!(way.read().await, Some(Piece::End)));
    assert!(way.backups.take_slot().is_some(), "the next one can begin at once");
    assert_eq!(way.passed.await.unwrap().unwrap(), 12);
}

#[tokio::test]
async fn a_reader_that_is_too_slow_for_one_piece_is_cut_off() {
    let mut way = begin(Duration::from_millis(20), &MAY);
    way.encode(bytes(1)).await;
    way.encode(bytes(1)).await;
    let reader = way.reader.take();
    assert!(way.cut().await.starts_with("its reader took more than"));
    drop(reader);
}

/// Reads blocks of 512 KiB, each in this time. Returns after how long the node cuts it off, if within an hour.
fn cut_after(block: Duration) -> Option<Duration> {
    let (within, mut bytes, mut waited) = (Duration::from_secs(30), 0, Duration::ZERO);
    while waited < Duration::from_secs(3_600) {
        let patience = patience(within, bytes, waited);
        if patience < block {
            return Some(waited + patience);
        }
        bytes += 512 * 1024;
        waited += block;
    }
    None
}

#[test]
fn a_reader_that_is_too_slow_on_average_does_not_keep_the_slot() {
    // 40 KiB a second: no block takes 30 s.
    let cut = cut_after(Duration::from_millis(12_800)).unwrap();
    assert!(cut < Duration::from_secs(90), "{cut:?}");
    assert_eq!(cut_after(Duration::from_secs(31)), Some(Duration::from_secs(30)));
    for fast_enough in [2_000, 100].map(Duration::from_millis) {
        assert_eq!(cut_after(fast_enough), None, "{fast_enough:?}");
    }
    // What a reader has been ahead, it may be behind later.
    assert_eq!(patience(Duration::from_secs(30), 100 << 20, Duration::from_secs(1)), Duration::from_secs(30));
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_a_backup_even_between_two_pieces() {
    let mut way = begin(LONG, &MAY);
    way.encode(bytes(1)).await;
    way.read().await.unwrap();
    drop(way.reader.take());
    assert_eq!(way.cut().await, "its reader went away");
}

#[tokio::test]
async fn a_node_that_stops_waits_for_no_reader() {
    for unread in [0, 2] {
        let way = begin(LONG, &MAY);
        for _ in 0..unread {
            way.encode(bytes(1)).await;
        }
        way.stop.request();
        assert_eq!(way.cut().await, "the node is stopping");
    }
}

#[tokio::test]
async fn a_thread_that_fails_cuts_the_backup_off() {
    let mut way = begin(LONG, &MAY);
    way.encode(bytes(1)).await;
    drop(way.thread.take());
    assert!(matches!(way.read().await, Some(Piece::Bytes(_))));
    assert!(way.read().await.is_none(), "no end follows");
    assert_eq!(way.cut().await, "its thread failed");
    let way = begin(LONG, &MAY);
    way.thread.as_ref().unwrap().send(Err(io::Error::other("planted"))).await.unwrap();
    assert_eq!(way.cut().await, "it could not be written: planted");
}

#[tokio::test]
async fn a_reader_without_the_right_gets_no_further_piece() {
    static MAY_NOT: AtomicBool = AtomicBool::new(true);
    let mut way = begin(LONG, &MAY_NOT);
    way.encode(bytes(1)).await;
    way.read().await.unwrap();
    MAY_NOT.store(false, Ordering::Relaxed);
    way.encode(bytes(1)).await;
    assert!(way.read().await.is_none());
    assert_eq!(way.cut().await, "its reader lost the right to read it");
}

fn origin() -> BackupOrigin {
    BackupOrigin {
        node: 2,
        release: "0.1.0".to_owned(),
        source: BackupSource::Local,
        log: None,
        members: Vec::new(),
        at: fairhold_types::time::WallMillis(1_000),
    }
}

#[test]
fn a_reader_that_went_away_frees_the_slot_only_when_the_thread_has_ended() {
    let backups = Backups::new();
    let slot = backups.take_slot().map(Arc::new);
    let (encoded, from_thread) = mpsc::channel(1);
    let work = move || encode(State::default(), origin(), &encoded, slot);
    let thread = thread::Builder::new().spawn(work).unwrap();
    // There is room for the first piece only.
    assert!(backups.take_slot().is_none(), "the thread still has its copy of the state");
    drop(from_thread);
    thread.join().unwrap();
    assert!(backups.take_slot().is_some());
}

#[tokio::test]
async fn the_thread_has_a_low_priority_and_writes_a_backup_that_its_reader_accepts() {
    let backups = Backups::new();
    let slot = backups.take_slot().map(Arc::new);
    let (encoded, mut from_thread) = mpsc::channel(1);
    let work = move || {
        encode(State::default(), origin(), &encoded, slot);
        rustix::process::getpriority_process(None).unwrap()
    };
    let thread = std::thread::Builder::new().spawn(work).unwrap();
    let mut file = Vec::new();
    let mut ended = false;
    while let Some(piece) = from_thread.recv().await {
        match piece.unwrap() {
            Piece::Bytes(piece) => file.extend_from_slice(&piece),
            Piece::End => {
                assert!(backups.take_slot().is_some(), "the next one can begin at once");
                ended = true;
            }
        }
    }
    assert!(thread.join().unwrap() >= 10, "the thread has a low priority");
    assert!(ended);
    let (backup, summary) = Backup::read(&*file).unwrap();
    assert_eq!((backup.header().node, summary.bytes), (2, file.len() as u64));
    assert!(Backup::read(file.get(..file.len() - 1).unwrap()).is_err(), "a backup that is cut off is none");
}
