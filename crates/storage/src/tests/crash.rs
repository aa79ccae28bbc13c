//! Recovery from the files that a crash leaves.

use super::*;

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let (alive, dead) = (home.path().join("alive"), home.path().join("dead"));
    std::fs::create_dir(&alive).unwrap();
    let mut log = LogStore::open(&alive, false).unwrap();
    log.save_vote(&vote(1)).await.unwrap();
    append(&mut log, entries(1, 0..20)).await.unwrap();
    log.save_committed(Some(log_id(1, 12))).await.unwrap();
    log.purge(log_id(1, 4)).await.unwrap();
    log.truncate_after(Some(log_id(1, 14))).await.unwrap();
    append(&mut log, entries(2, 15..18)).await.unwrap();
    log.save_vote(&vote(3)).await.unwrap();
    copy_files(&alive, &dead);

    let mut log = LogStore::open(&dead, true).unwrap();
    assert_eq!(read_all(&mut log).await.unwrap(), [entries(1, 5..15), entries(2, 15..18)].concat());
    assert_eq!(read_vote(&mut log).await.unwrap(), Some(vote(3)));
    assert_eq!(log.read_committed().await.unwrap(), Some(log_id(1, 12)));
    let state = log.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(log_id(1, 4)), Some(log_id(2, 17))));
}

#[tokio::test]
async fn a_clean_stop_makes_pending_writes() {
    let home = tempfile::tempdir().unwrap();
    let mut log = LogStore::open(home.path(), false).unwrap();
    append(&mut log, entries(1, 0..3)).await.unwrap();
    log.save_committed(Some(log_id(1, 2))).await.unwrap();
    drop(log);
    let mut log = LogStore::open(home.path(), true).unwrap();
    assert_eq!(log.read_committed().await.unwrap(), Some(log_id(1, 2)));
}

/// Cuts the write-ahead log at many places. Each complete write before the cut survives, none after it, and the log
/// accepts new entries.
#[tokio::test]
async fn a_torn_tail_keeps_every_complete_write() {
    let home = tempfile::tempdir().unwrap();
    let alive = home.path().join("alive");
    std::fs::create_dir(&alive).unwrap();
    let mut log = LogStore::open(&alive, false).unwrap();
    let wal_of = |directory: &Path| files(directory, |name| name.ends_with(".log")).pop().unwrap();
    let wal = wal_of(&alive);
    let mut lengths = Vec::new();
    for index in 0..12 {
        append(&mut log, vec![entry(1, index, if index == 7 { 4000 } else { 3 })]).await.unwrap();
        lengths.push(wal.metadata().unwrap().len());
    }
    log.save_vote(&vote(4)).await.unwrap();
    let whole = wal.metadata().unwrap().len();
    // Cuts around each boundary, and one in each eighth of a block. The long form adds every byte of the last records.
    let near = |length: &u64| [length - 1, *length, length + 1, length + 6, length + 8];
    let mut cuts: Vec<u64> = lengths.iter().flat_map(near).chain((0..whole).step_by(4096)).collect();
    if is_long_form() {
        cuts.extend(lengths[lengths.len() - 4]..whole);
    }
    cuts.retain(|cut| (lengths[0]..whole).contains(cut));
    cuts.sort_unstable();
    cuts.dedup();
    for cut in cuts {
        for zeros in [0, 5000] {
            let dead = tempfile::tempdir_in(home.path()).unwrap();
            copy_files(&alive, dead.path());
            let file = std::fs::OpenOptions::new().write(true).open(wal_of(dead.path())).unwrap();
            file.set_len(cut).unwrap();
            let boundary = lengths.contains(&cut);
            if zeros > 0 && !boundary {
                continue;
            }
            file.set_len(cut + zeros).unwrap();
            let mut log = LogStore::open(dead.path(), true).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            let kept = read_all(&mut log).await.unwrap();
            let acknowledged = lengths.iter().filter(|length| **length <= cut).count();
            assert_eq!(kept.len(), acknowledged, "cut at {cut}, {zeros} zeros");
            let next = u64::try_from(acknowledged).unwrap();
            append(&mut log, vec![entry(2, next, 1)]).await.unwrap();
            drop(log);
            let mut log = LogStore::open(dead.path(), true).unwrap();
            assert_eq!(read_all(&mut log).await.unwrap().len(), acknowledged + 1);
        }
    }
}

#[tokio::test]
async fn a_lost_log_is_not_mistaken_for_a_new_one() {
    let home = tempfile::tempdir().unwrap();
    let mut log = LogStore::open(home.path(), false).unwrap();
    append(&mut log, entries(1, 0..3)).await.unwrap();
    drop(log);
    std::fs::remove_file(home.path().join("CURRENT")).unwrap();
    let error = LogStore::open(home.path(), true).unwrap_err();
    assert!(error.to_string().contains("CURRENT"), "{error}");
}

#[tokio::test]
async fn a_missing_entry_is_detected() {
    for missing in [0, 5, 9] {
        let home = tempfile::tempdir().unwrap();
        let mut log = LogStore::open(home.path(), false).unwrap();
        append(&mut log, entries(1, 0..10)).await.unwrap();
        drop(log);
        let db = LogDb::open(home.path(), true).unwrap();
        let mut write = crate::log_db::LogWrite::default();
        write.delete_entries(&(missing..missing + 1));
        db.write(write).unwrap();
        drop(db);
        let error = LogStore::open(home.path(), true).unwrap_err();
        assert!(error.to_string().contains(&format!("entry {missing} is missing")), "{error}");
    }
}

/// Data that a process reads may exist only in the page cache: after a failed sync, the kernel marks pages as clean. So
/// a start writes the data again, and no longer needs the old files.
#[tokio::test]
async fn a_start_makes_durable_what_it_recovers_from_the_write_ahead_log() {
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (home.path().join("first"), home.path().join("second"));
    std::fs::create_dir(&first).unwrap();
    let mut log = LogStore::open(&first, false).unwrap();
    append(&mut log, entries(1, 0..20)).await.unwrap();
    log.save_vote(&vote(3)).await.unwrap();
    copy_files(&first, &second);
    let old = files(&second, |name| name.ends_with(".log"));
    drop(LogStore::open(&second, true).unwrap());
    assert!(old.iter().all(|path| !path.exists()), "the old write-ahead log is still needed");
    let mut log = LogStore::open(&second, true).unwrap();
    assert_eq!(read_all(&mut log).await.unwrap(), entries(1, 0..20));
    assert_eq!(read_vote(&mut log).await.unwrap(), Some(vote(3)));
}
