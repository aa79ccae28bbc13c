//! Tests of the whole crate, on real files.

mod crash;
mod damage;
mod directory;
#[cfg(feature = "failpoints")]
mod failpoints;
mod golden;
mod log;
mod machine;
mod make_room;
mod snapshots;

use crate::{Entry, LogId, TypeConfig, Vote, log_db::LogDb, log_store::LogStore};
use fairhold_raft::types::Batch;
use fairhold_state::command::Command;
use fairhold_types::{GrantId, time::WallMillis};
use openraft::{
    EntryPayload,
    storage::{IOFlushed, RaftLogReader, RaftLogStorage},
    type_config::TypeConfigExt,
};
use std::{io, path::Path};

type LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, u64>;

fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(LeaderId { term, node_id: 1 }, index)
}

fn vote(term: u64) -> Vote {
    Vote { leader_id: LeaderId { term, node_id: 1 }, committed: true }
}

/// An entry of about `commands` times 25 bytes. Its content depends on its index.
fn entry(term: u64, index: u64, commands: usize) -> Entry {
    let command = Command::Abandon { grant: GrantId::from_ulid(u128::MAX), attempt: index, at: WallMillis(1_800_000_000_000) };
    Entry { log_id: log_id(term, index), payload: EntryPayload::Normal(Batch::new(vec![command; commands]).unwrap()) }
}

fn entries(term: u64, indexes: std::ops::Range<u64>) -> Vec<Entry> {
    indexes.map(|index| entry(term, index, 1)).collect()
}

/// Appends entries, and waits for the acknowledgement.
async fn append(log: &mut LogStore, entries: Vec<Entry>) -> io::Result<()> {
    let (sender, receiver) = TypeConfig::oneshot();
    log.append(entries, IOFlushed::signal(sender)).await?;
    receiver.await.unwrap()
}

async fn read_all(log: &mut LogStore) -> io::Result<Vec<Entry>> {
    log.get_log_reader().await.try_get_log_entries(..).await
}

async fn read_vote(log: &mut LogStore) -> io::Result<Option<Vote>> {
    log.get_log_reader().await.read_vote().await
}

fn is_long_form() -> bool {
    std::env::var_os("FAIRHOLD_TRIAL").is_some_and(|form| form == "long")
}

/// Flushes the memtable to a table file.
fn flush(directory: &Path) {
    drop(LogDb::open(directory, true).unwrap());
}

/// Copies the files as a killed process would leave them, while they are still open.
fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_files(&file.path(), &target);
        } else {
            std::fs::copy(file.path(), target).unwrap();
        }
    }
}

/// The files of one kind in a directory, newest last.
fn files(directory: &Path, matches: impl Fn(&str) -> bool) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| matches(path.file_name().unwrap().to_str().unwrap()))
        .collect();
    files.sort();
    files
}
