//! The log store in normal operation, and after the first error.

use super::*;
use crate::{log_shared::poisoned, log_tail::TAIL_BYTES_MAX};
use futures_util::TryStreamExt;
use std::{
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll, Wake, Waker},
};

/// A store in which each write waits for a verdict from the test.
fn gated(directory: &Path) -> (LogStore, mpsc::Sender<io::Result<()>>, mpsc::Receiver<()>) {
    let db = LogDb::open(directory, false).unwrap();
    let (verdicts, verdict) = mpsc::channel();
    let (began, begun) = mpsc::channel();
    let write = move |db: &LogDb, write| {
        began.send(()).unwrap();
        verdict.recv().unwrap_or_else(|_| Err(poisoned()))?;
        db.write(write)
    };
    (LogStore::start(db, Box::new(write)).unwrap(), verdicts, begun)
}

#[tokio::test]
async fn entries_are_readable_before_they_are_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let (mut log, verdicts, _begun) = gated(directory.path());
    let (sender, mut receiver) = TypeConfig::oneshot();
    log.append(entries(1, 0..3), IOFlushed::signal(sender)).await.unwrap();
    assert_eq!(read_all(&mut log).await.unwrap(), entries(1, 0..3));
    assert!(futures_util::FutureExt::now_or_never(&mut receiver).is_none(), "acknowledged before it was written");
    verdicts.send(Ok(())).unwrap();
    receiver.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_vote_is_saved_only_when_it_is_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let (mut log, verdicts, begun) = gated(directory.path());
    {
        let vote = vote(7);
        let mut saving = Box::pin(log.save_vote(&vote));
        assert!(futures_util::FutureExt::now_or_never(&mut saving).is_none(), "saved before it was written");
        begun.recv().unwrap();
        verdicts.send(Ok(())).unwrap();
        saving.await.unwrap();
    }
    assert_eq!(read_vote(&mut log).await.unwrap(), Some(vote(7)));
}

/// A snapshot may replace the truncated entries next. If only the snapshot survives a crash, openraft finds entries that
/// contradict it, and the node never starts again.
#[tokio::test]
async fn a_crash_after_a_truncation_brings_no_entries_back_that_a_snapshot_has_replaced() {
    let home = tempfile::tempdir().unwrap();
    let (alive, dead) = (home.path().join("alive"), home.path().join("dead"));
    std::fs::create_dir(&alive).unwrap();
    let (mut log, verdicts, begun) = gated(&alive);
    verdicts.send(Ok(())).unwrap();
    append(&mut log, entries(3, 0..10)).await.unwrap();
    begun.recv().unwrap();
    {
        let mut truncating = Box::pin(log.truncate_after(Some(log_id(3, 4))));
        assert!(futures_util::FutureExt::now_or_never(&mut truncating).is_none(), "returned before it was written");
        begun.recv().unwrap();
        verdicts.send(Ok(())).unwrap();
        truncating.await.unwrap();
    }
    copy_files(&alive, &dead);
    assert_eq!(read_all(&mut LogStore::open(&dead, true).unwrap()).await.unwrap(), entries(3, 0..5));
}

struct NoteWake(usize, Arc<Mutex<Vec<usize>>>);

impl Wake for NoteWake {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[tokio::test]
async fn callbacks_come_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let (mut log, verdicts, begun) = gated(directory.path());
    let woken = Arc::new(Mutex::new(Vec::new()));
    let mut receivers = Vec::new();
    for index in 0..50 {
        let (sender, mut receiver) = TypeConfig::oneshot();
        let waker = Waker::from(Arc::new(NoteWake(index, Arc::clone(&woken))));
        let poll = std::pin::Pin::new(&mut receiver).poll(&mut Context::from_waker(&waker));
        assert!(matches!(poll, Poll::Pending));
        let index = u64::try_from(index).unwrap();
        log.append(vec![entry(1, index, 1)], IOFlushed::signal(sender)).await.unwrap();
        receivers.push(receiver);
    }
    // The first write has the requests that were queued when the thread took them. The second has the rest.
    begun.recv().unwrap();
    verdicts.send(Ok(())).unwrap();
    verdicts.send(Ok(())).unwrap();
    // The drop waits for the thread, which completes all pending requests before it ends.
    drop(log);
    assert_eq!(*woken.lock().unwrap(), (0..50).collect::<Vec<_>>());
    for receiver in receivers {
        receiver.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn after_a_failed_write_everything_fails_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (mut log, verdicts, begun) = gated(directory.path());
    verdicts.send(Ok(())).unwrap();
    append(&mut log, entries(1, 0..1)).await.unwrap();
    verdicts.send(Err(io::Error::new(io::ErrorKind::StorageFull, "no space for entry 1"))).unwrap();
    // A retry would succeed now, but the store must not retry.
    verdicts.send(Ok(())).unwrap();
    let (sender, first) = TypeConfig::oneshot();
    log.append(entries(1, 1..2), IOFlushed::signal(sender)).await.unwrap();
    assert_eq!(first.await.unwrap().unwrap_err().kind(), io::ErrorKind::StorageFull);
    let errors = [
        append(&mut log, entries(1, 2..3)).await.unwrap_err(),
        log.save_vote(&vote(9)).await.unwrap_err(),
        log.save_committed(Some(log_id(1, 0))).await.unwrap_err(),
        log.truncate_after(Some(log_id(1, 0))).await.unwrap_err(),
        log.purge(log_id(1, 0)).await.unwrap_err(),
        log.get_log_state().await.unwrap_err(),
        read_all(&mut log).await.unwrap_err(),
        read_vote(&mut log).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::StorageFull, "no space for entry 1".to_owned()));
    }
    drop(log);
    assert_eq!(begun.iter().count(), 2, "something was written after the error");
    let mut log = LogStore::open(directory.path(), true).unwrap();
    assert_eq!(read_all(&mut log).await.unwrap(), entries(1, 0..1));
}

#[tokio::test]
async fn requests_queued_after_a_failed_write_fail_too() {
    let directory = tempfile::tempdir().unwrap();
    let (mut log, verdicts, begun) = gated(directory.path());
    let mut receivers = Vec::new();
    for index in 0..3 {
        let (sender, receiver) = TypeConfig::oneshot();
        log.append(entries(1, index..index + 1), IOFlushed::signal(sender)).await.unwrap();
        receivers.push(receiver);
        if index == 0 {
            begun.recv().unwrap();
        }
    }
    verdicts.send(Err(io::Error::other("the disk is gone"))).unwrap();
    verdicts.send(Ok(())).unwrap();
    for receiver in receivers {
        assert_eq!(receiver.await.unwrap().unwrap_err().to_string(), "the disk is gone");
    }
}

#[tokio::test]
async fn a_hole_in_the_log_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = LogStore::open(directory.path(), false).unwrap();
    append(&mut log, entries(1, 0..3)).await.unwrap();
    assert_eq!(append(&mut log, entries(1, 4..5)).await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(append(&mut log, entries(1, 2..3)).await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    append(&mut log, entries(1, 3..5)).await.unwrap();
    assert_eq!(read_all(&mut log).await.unwrap(), entries(1, 0..5));
}

#[tokio::test]
async fn entries_no_longer_in_memory_are_read_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = LogStore::open(directory.path(), false).unwrap();
    let commands = 20_000;
    let size = u64::try_from(crate::log_db::seal(&entry(1, 0, commands)).unwrap().len()).unwrap();
    let count = 2 * u64::try_from(TAIL_BYTES_MAX).unwrap() / size;
    for index in 0..count {
        append(&mut log, vec![entry(1, index, commands)]).await.unwrap();
    }
    let mut reader = log.get_log_reader().await;
    for range in [0..2, count / 2 - 3..count / 2 + 3, count - 2..count] {
        let expected: Vec<_> = range.clone().map(|index| entry(1, index, commands)).collect();
        assert_eq!(reader.try_get_log_entries(range).await.unwrap(), expected);
    }
    assert_eq!(reader.try_get_log_entries(..).await.unwrap().len(), usize::try_from(count).unwrap());
    let streamed: Vec<_> = reader.entries_stream(3..count).await.map_ok(|entry| entry.log_id).try_collect().await.unwrap();
    assert_eq!(streamed, (3..count).map(|index| log_id(1, index)).collect::<Vec<_>>());
    // A limited read returns at least one entry, and stays within its limit.
    let mut next = 0;
    while next < count {
        let some = reader.limited_get_log_entries(next, count).await.unwrap();
        assert_eq!(some[0].log_id.index, next);
        assert!(some.len() as u64 * size <= 5 * 1024 * 1024, "{} entries at once", some.len());
        next += some.len() as u64;
    }
    // Truncates, replaces and then purges entries that are only on disk.
    log.truncate_after(Some(log_id(1, 0))).await.unwrap();
    append(&mut log, entries(2, 1..4)).await.unwrap();
    let expected = [vec![entry(1, 0, commands)], entries(2, 1..4)].concat();
    assert_eq!(read_all(&mut log).await.unwrap(), expected);
    log.purge(log_id(2, 2)).await.unwrap();
    assert_eq!(read_all(&mut log).await.unwrap(), entries(2, 3..4));
    drop((log, reader));
    let mut log = LogStore::open(directory.path(), true).unwrap();
    assert_eq!(read_all(&mut log).await.unwrap(), entries(2, 3..4));
}

#[tokio::test]
async fn a_committed_entry_is_never_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = LogStore::open(directory.path(), false).unwrap();
    append(&mut log, entries(1, 0..5)).await.unwrap();
    log.save_committed(Some(log_id(1, 2))).await.unwrap();
    for last in [None, Some(log_id(1, 0)), Some(log_id(1, 1))] {
        let error = log.truncate_after(last).await.unwrap_err();
        assert!(error.to_string().contains("committed through entry 2"), "{error}");
    }
    log.truncate_after(Some(log_id(1, 2))).await.unwrap();
    assert_eq!(read_all(&mut log).await.unwrap(), entries(1, 0..3));
}

#[tokio::test]
async fn a_purge_frees_disk_space() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = LogStore::open(directory.path(), false).unwrap();
    let commands = 50_000;
    let mut peak = 0;
    let size = || files(directory.path(), |_| true).iter().map(|file| file.metadata().map_or(0, |meta| meta.len())).sum::<u64>();
    for index in 0..400 {
        append(&mut log, vec![entry(1, index, commands)]).await.unwrap();
        if index % 10 == 9 {
            log.purge(log_id(1, index - 5)).await.unwrap();
        }
        peak = peak.max(size());
    }
    let written = 400 * crate::log_db::seal(&entry(1, 0, commands)).unwrap().len() as u64;
    assert!(written > 350 * 1024 * 1024, "only {written} bytes were written: too few for this test");
    assert!(peak < 250 * 1024 * 1024, "{peak} bytes at the peak, of {written} written");
}

/// The commands of small entries take far more memory than their bytes.
#[tokio::test]
async fn the_entries_in_memory_are_bounded_by_what_they_take_there() {
    let directory = tempfile::tempdir().unwrap();
    let log = LogDb::open(directory.path(), false).unwrap();
    let mut tail = log.recover().unwrap();
    let size = crate::log_db::seal(&entry(1, 0, 100)).unwrap().len();
    let count = TAIL_BYTES_MAX / size;
    let change = tail.append((0..count as u64).map(|index| entry(1, index, 100)).collect()).unwrap();
    tail.mark_written(change);
    let left = tail.view(0..u64::MAX, usize::MAX).in_memory.len();
    assert!(0 < left && left < count / 2, "{left} of {count} entries of {size} bytes are in memory");
}
