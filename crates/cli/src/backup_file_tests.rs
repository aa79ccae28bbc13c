//! Tests of saving a backup in a file.

use super::*;
use fairhold_backup::{Backup, BackupOrigin, BackupSource};
use fairhold_state::State;
use fairhold_types::time::WallMillis;
use std::cell::RefCell;

fn backup() -> Vec<u8> {
    let origin = BackupOrigin {
        node: 1,
        release: "0.1.0".to_owned(),
        source: BackupSource::Local,
        log: None,
        members: Vec::new(),
        at: WallMillis(1_000),
    };
    let mut bytes = Vec::new();
    Backup::new(&State::default(), origin).write(&mut bytes).unwrap();
    bytes
}

fn check(bytes: &[u8], piece: usize) -> Result<u64, &'static str> {
    let mut check = SealCheck::default();
    bytes.chunks(piece).for_each(|chunk| check.add(chunk));
    check.finish()
}

#[test]
fn a_seal_is_found_however_the_bytes_arrive_and_every_cut_and_every_flipped_bit_too() {
    let bytes = backup();
    for piece in [1, 7, SEAL_BYTES, SEAL_BYTES + 1, bytes.len()] {
        assert_eq!(check(&bytes, piece), Ok(bytes.len() as u64), "{piece}");
    }
    for cut in 0..bytes.len() {
        assert!(check(&bytes[..cut], 64).is_err(), "cut at {cut}");
    }
    for index in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[index] ^= 4;
        assert!(check(&damaged, 64).is_err(), "byte {index}");
    }
    assert!(check(&[&bytes[..], b"x"].concat(), 64).is_err());
}

#[test]
fn at_most_a_few_mib_wait_for_the_disk_however_the_bytes_arrive() {
    let bytes: Vec<u8> = (0..=250).cycle().take(2 * UNSYNCED_BYTES_MAX + 7).collect();
    for length in [64 * 1024, UNSYNCED_BYTES_MAX - 1, UNSYNCED_BYTES_MAX, bytes.len()] {
        let written = RefCell::new(Vec::new());
        let (mut unsynced, mut synced) = (0, Vec::new());
        for piece in bytes.chunks(length) {
            let write = |step: &[u8]| -> io::Result<()> {
                written.borrow_mut().extend_from_slice(step);
                Ok(())
            };
            let sync = || -> io::Result<()> {
                synced.push(written.borrow().len());
                Ok(())
            };
            write_in_steps(piece, &mut unsynced, write, sync).unwrap();
        }
        assert_eq!((synced, unsynced), (vec![UNSYNCED_BYTES_MAX, 2 * UNSYNCED_BYTES_MAX], 7), "in pieces of {length} bytes");
        assert!(written.into_inner() == bytes, "in pieces of {length} bytes");
    }
    let failed = write_in_steps(&bytes, &mut 0, |_| Ok(()), || Err(io::Error::other("planted")));
    assert_eq!(failed.unwrap_err().to_string(), "planted");
}

#[test]
fn a_file_has_its_name_only_when_it_is_complete_and_only_its_owner_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.backup");
    let names = || {
        let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let bytes = backup();
    fs::write(partial_of(&path), "left by a process that was killed, and longer than the backup".repeat(100)).unwrap();
    fs::set_permissions(partial_of(&path), fs::Permissions::from_mode(0o644)).unwrap();
    let mut partial = PartialBackup::create(partial_of(&path)).unwrap();
    partial.write(&bytes).unwrap();
    assert_eq!(names(), ["a.backup.partial"]);
    assert_eq!(partial.verify_seal().unwrap(), bytes.len() as u64);
    partial.keep_as(&path, false).unwrap();
    assert_eq!((names(), fs::read(&path).unwrap()), (vec!["a.backup".into()], bytes.clone()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);

    let mut cut = PartialBackup::create(partial_of(&path)).unwrap();
    cut.write(bytes.get(..100).unwrap()).unwrap();
    let error = cut.verify_seal().unwrap_err();
    assert!(error.to_string().contains("truncated"), "{error}");
    drop(cut);
    assert_eq!((names(), fs::read(&path).unwrap()), (vec!["a.backup".into()], bytes));
}

#[test]
fn an_existing_file_is_replaced_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.backup");
    fs::write(&path, "older").unwrap();
    for replaces in [false, true] {
        let mut partial = PartialBackup::create(partial_of(&path)).unwrap();
        partial.write(b"newer").unwrap();
        assert_eq!(partial.keep_as(&path, replaces).is_ok(), replaces);
        assert_eq!(fs::read(&path).unwrap(), if replaces { b"newer" } else { b"older" });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn two_processes_do_not_write_one_file_and_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join("a.partial");
    let first = PartialBackup::create(partial.clone()).unwrap();
    let error = PartialBackup::create(partial.clone()).unwrap_err();
    assert_eq!(error.to_string(), "another process writes it: wait until it ends");
    drop(first);
    assert!(PartialBackup::create(partial.clone()).is_ok());
    let other = folder.path().join("other");
    fs::write(&other, "kept").unwrap();
    std::os::unix::fs::symlink(&other, &partial).unwrap();
    assert_eq!(PartialBackup::create(partial.clone()).unwrap_err().to_string(), "it is a link: remove it");
    assert_eq!(fs::read(&other).unwrap(), b"kept");
}
