//! Tests of the files of the audit log.

use super::*;
use std::os::unix::fs::symlink;

const LINE: &str = "{\"entry\":1}\n";

fn lines(count: usize) -> PendingLines {
    let mut pending = PendingLines::default();
    pending.add(LINE.repeat(count).into_bytes(), count as u64);
    pending
}

fn folder_and_file(bytes_max: u64, files_max: usize) -> (tempfile::TempDir, PathBuf, AuditFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let file = AuditFile::new(path.clone(), bytes_max, files_max);
    (folder, path, file)
}

fn append(file: &mut AuditFile, count: usize) {
    let mut pending = lines(count);
    file.append(&mut pending).unwrap();
    assert_eq!((pending.is_empty(), pending.entries()), (true, 0));
}

fn count_of(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "whole lines: {text}");
    assert!(text.lines().all(|line| line == LINE.trim_end()), "{text}");
    text.lines().count()
}

#[test]
fn a_full_file_is_renamed_and_only_the_newest_ones_are_kept() {
    let (_folder, path, mut file) = folder_and_file(3 * LINE.len() as u64, 4);
    append(&mut file, 2);
    append(&mut file, 5);
    let older = |number: usize| path.with_file_name(format!("audit.log.{number}"));
    assert_eq!([count_of(&older(2)), count_of(&older(1)), count_of(&path)], [3, 3, 1]);
    append(&mut file, 20);
    assert_eq!([3, 2, 1].map(|number| count_of(&older(number))), [3; 3]);
    assert!(!older(4).exists(), "the oldest one is removed");
    assert_eq!(fs::metadata(older(1)).unwrap().mode() & PERMISSIONS, 0o600);
}

#[test]
fn a_line_longer_than_a_file_has_a_file_of_its_own() {
    let (_folder, path, mut file) = folder_and_file(5, 3);
    append(&mut file, 2);
    assert_eq!([count_of(&path.with_file_name("audit.log.1")), count_of(&path)], [1, 1]);
}

#[test]
fn an_interrupted_rotation_loses_no_file() {
    let (_folder, path, mut file) = folder_and_file(LINE.len() as u64, 4);
    append(&mut file, 3);
    let older = |number: usize| path.with_file_name(format!("audit.log.{number}"));
    // The process ended after it had renamed the oldest file only.
    fs::write(older(1), LINE.repeat(2)).unwrap();
    fs::rename(older(2), older(3)).unwrap();
    append(&mut file, 1);
    assert_eq!([count_of(&path), count_of(&older(1)), count_of(&older(2))], [1, 1, 2]);
}

#[test]
fn a_file_that_was_removed_or_renamed_is_made_again() {
    let (_folder, path, mut file) = folder_and_file(u64::MAX, 10);
    append(&mut file, 1);
    fs::remove_file(&path).unwrap();
    append(&mut file, 2);
    assert_eq!(count_of(&path), 2);
    let moved = path.with_file_name("moved");
    fs::rename(&path, &moved).unwrap();
    append(&mut file, 3);
    assert_eq!((count_of(&moved), count_of(&path)), (2, 3));
    file.close();
    append(&mut file, 1);
    assert_eq!(count_of(&path), 4, "after SIGHUP it goes on in the same file");
}

#[test]
fn a_part_of_a_line_of_an_earlier_run_is_ended_first() {
    let (_folder, path, mut file) = folder_and_file(u64::MAX, 10);
    fs::write(&path, "{\"whole\":1}\n{\"par").unwrap();
    append(&mut file, 1);
    append(&mut file, 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{{\"whole\":1}}\n{{\"par\n{LINE}{LINE}"));
}

#[test]
fn only_the_user_of_the_node_can_read_a_file() {
    let (_folder, path, mut file) = folder_and_file(u64::MAX, 10);
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    append(&mut file, 1);
    assert_eq!(fs::metadata(&path).unwrap().mode() & PERMISSIONS, 0o600);
}

#[test]
fn lines_stay_while_the_disk_is_full() {
    let mut file = AuditFile::new("/dev/full".into(), 1_000, 10);
    let mut pending = lines(3);
    for _ in 0..2 {
        let error = file.append(&mut pending).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(pending.entries(), 3);
    }
    assert!(!Path::new("/dev/full.1").exists(), "a device has no older files");
}

#[test]
fn lines_that_a_full_disk_kept_are_written_once_there_is_room() {
    let (_folder, path, mut file) = folder_and_file(u64::MAX, 10);
    let target = path.with_file_name("target");
    symlink("/dev/full", &path).unwrap();
    let mut pending = lines(2);
    assert!(file.append(&mut pending).is_err());
    fs::remove_file(&path).unwrap();
    symlink(&target, &path).unwrap();
    pending.add(LINE.as_bytes().to_vec(), 1);
    file.append(&mut pending).unwrap();
    assert_eq!((count_of(&target), pending.entries()), (3, 0));
}

#[test]
fn whole_lines_are_taken_up_to_the_room() {
    let mut pending = lines(3);
    let line = LINE.len() as u64;
    for (room, even_too_long, fitting) in [(line * 9, false, 3), (line * 2 + 3, false, 2), (3, false, 0), (3, true, 1)] {
        assert_eq!(pending.fitting(room, even_too_long).len(), fitting * LINE.len(), "{room}");
    }
    pending.take(LINE.len());
    assert_eq!((pending.entries(), pending.fitting(u64::MAX, false).len()), (2, 2 * LINE.len()));
}
