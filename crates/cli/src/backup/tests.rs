//! Tests of the commands about backups.

use super::{
    source::{now, read},
    *,
};
use crate::args::{self, Command};
use clap::Parser;
use fairhold_access::Principal;
use fairhold_backup::{Backup, BackupMember, BackupOrigin, BackupSource};
use fairhold_state::{
    State,
    command::{self, AccessChange, AccessRequester, ChangeAccess},
};
use fairhold_storage::{
    StorageError,
    data_dir::{DataDir, DataDirError, mark_lost_entries, mark_removed},
};
use fairhold_types::{ClusterId, ClusterVersion, time::WallMillis};
use std::{fs, io, os::unix::fs::PermissionsExt as _, path::Path};

fn parse(line: &str) -> BackupCommand {
    let parsed = args::Args::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
    let Command::Backup(args) = parsed.command else { panic!("another command: {line}") };
    args.command
}

fn restore(line: &str) -> Result<String, BackupError> {
    let BackupCommand::Restore(args) = parse(line) else { panic!("another command: {line}") };
    restore::run(&args)
}

fn formed() -> State {
    let mut state = State::new();
    let formed = command::Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) };
    state.apply(&formed).answer.result.unwrap();
    state
}

fn origin(source: BackupSource) -> BackupOrigin {
    let member = BackupMember { id: 1, url: "http://a:1".to_owned(), address: "a:2".to_owned(), voter: true };
    BackupOrigin { node: 1, release: "0.1.0".to_owned(), source, log: Some((3, 9)), members: vec![member], at: now() }
}

fn backup(source: BackupSource) -> Backup {
    Backup::new(&formed(), origin(source))
}

fn saved(folder: &Path, source: BackupSource) -> PathBuf {
    let file = folder.join("cluster.backup");
    file::save(&backup(source), &file, false).unwrap();
    file
}

/// The data directory of node 1 beside a backup, and the command that restores the backup into it.
fn restoring(file: &Path) -> (PathBuf, String) {
    let data = file.with_file_name("data");
    let line = format!("fairhold backup restore {} --data {} --id 1 --member 1=http://a:1,a:2", file.display(), data.display());
    (data, line)
}

/// A saved backup, with what `restoring` returns.
fn restorable(folder: &Path, source: BackupSource) -> (PathBuf, PathBuf, String) {
    let file = saved(folder, source);
    let (data, line) = restoring(&file);
    (file, data, line)
}

#[test]
fn a_saved_backup_is_private_and_restored_into_a_directory_of_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let file = saved(folder.path(), BackupSource::Barrier);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["cluster.backup"], "nothing partial is left");
    let (data, line) = restoring(&file);
    let text = restore(&line).unwrap();
    assert!(text.contains("restored node 1 of the new cluster") && text.contains("no access tokens"), "{text}");
    assert!(text.contains("clock:    2") && !text.contains("ahead:") && !text.contains("rights:"), "{text}");
    assert!(text.contains("next:     start this node") && text.contains("Then restart every program"), "{text}");
    let recorded = DataDir::recorded(&data).unwrap().unwrap();
    assert_eq!(recorded.id, Some(1));
    assert!(recorded.cluster.is_some_and(|cluster| cluster != ClusterId(7)), "it is another cluster");
    let again = restore(&line).unwrap_err();
    assert!(again.to_string().contains("is not empty") && again.exit_code() == exit::FAILURE, "{again}");
}

#[test]
fn a_stopped_node_is_saved_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data, line) = restorable(folder.path(), BackupSource::Barrier);
    restore(&line).unwrap();
    let again = folder.path().join("again.backup");
    let BackupCommand::Save(args) = parse(&format!("fairhold backup save --data {} {}", data.display(), again.display())) else {
        panic!("another command")
    };
    save::run(&args, &data).unwrap();
    let (first, second) = (read(&file).unwrap().0, read(&again).unwrap().0);
    let refused = file::save(&second, &again, false).unwrap_err();
    let exists = std::io::ErrorKind::AlreadyExists;
    assert!(matches!(&refused, BackupError::File { error, .. } if error.kind() == exists), "{refused}");
    let text = verify(&again).unwrap();
    assert!(text.contains(&format!("digest:   {}\n", second.state().digest())), "{text}");
    assert!(second.header().revision.0 > first.header().revision.0 + (1 << 32));
    let BackupCommand::Inspect(args) = parse(&format!("fairhold backup inspect --data {}", data.display())) else {
        panic!("another command")
    };
    let text = inspect::run(&args).unwrap();
    assert!(
        text.contains("a stopped node") && text.contains(&format!("revision:        {}", second.header().revision)),
        "{text}"
    );
    let BackupCommand::Inspect(args) = parse(&format!("fairhold backup inspect {}", again.display())) else {
        panic!("another command")
    };
    assert!(inspect::run(&args).unwrap().contains("fairhold backup verify"));
    let _used = DataDir::open(&data, 1).unwrap();
    let error = stopped::read(&data).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
}

/// The guide says so: it may be the last copy of the data.
#[test]
fn a_copy_of_the_directory_of_a_removed_node_is_saved_without_its_mark() {
    let folder = tempfile::tempdir().unwrap();
    let (_, data, line) = restorable(folder.path(), BackupSource::Barrier);
    restore(&line).unwrap();
    let again = folder.path().join("again.backup");
    let BackupCommand::Save(args) = parse(&format!("fairhold backup save --data {} {}", data.display(), again.display())) else {
        panic!("another command")
    };
    let is_refused_for = |mark: &str| {
        let error = save::run(&args, &data).unwrap_err();
        assert!(error.to_string().contains("must not be used any more: it is marked"), "{error}");
        assert!(error.to_string().contains(&format!("the file {mark} ")), "{error}");
        fs::remove_file(data.join(mark)).unwrap();
    };
    mark_removed(&data, "it is marked").unwrap();
    is_refused_for("REMOVED");
    mark_lost_entries(&data, "it is marked").unwrap();
    is_refused_for("LOST-ENTRIES");
    save::run(&args, &data).unwrap();
    assert_eq!(read(&again).unwrap().0.header().source, BackupSource::Stopped);
}

#[test]
fn a_backup_that_may_lack_writes_needs_consent() {
    let folder = tempfile::tempdir().unwrap();
    let (_, data, line) = restorable(folder.path(), BackupSource::Stopped);
    let error = restore(&line).unwrap_err();
    assert!(error.to_string().contains("--accept-lost-writes") && error.exit_code() == exit::USAGE, "{error}");
    assert!(!data.exists(), "nothing was written");
    let text = restore(&format!("{line} --accept-lost-writes")).unwrap();
    assert!(text.contains("accepted: "), "{text}");
}

#[test]
fn a_restore_says_what_it_cannot_know() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, line) = restorable(folder.path(), BackupSource::Barrier);
    let text = restore(&format!("{line} --revision-above {}", 1_u64 << 50)).unwrap();
    assert!(text.contains("ahead:    the new tokens are ahead of the clock") && !text.contains("clock:    "), "{text}");
    assert!(text.contains("no backup from before this restore knows") && text.contains("this one too"), "{text}");
}

#[test]
fn a_restore_asks_for_a_number_after_any_earlier_restore_that_was_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, line) = restorable(folder.path(), BackupSource::Barrier);
    let text = restore(&line).unwrap();
    let clock = text.lines().find(|line| line.starts_with("clock:    ")).unwrap();
    assert!(clock.contains("behind the true time") && clock.contains("made before that restore"), "{clock}");
    assert!(!clock.contains("newer backup"), "which of the two files is newer does not matter: {clock}");
}

#[test]
fn a_number_with_a_digit_too_many_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (_, data, line) = restorable(folder.path(), BackupSource::Barrier);
    let error = restore(&format!("{line} --revision-above 8700000000000000")).unwrap_err();
    assert!(error.to_string().contains("The largest number that works is ") && error.exit_code() == exit::FAILURE, "{error}");
    assert!(!data.exists());
}

#[test]
fn a_backup_from_the_future_is_shown_as_one() {
    let (now, hour) = (now(), 3_600_000);
    assert!(inspect::age(WallMillis(now.0 - hour), now).ends_with("(1h ago)"));
    assert!(inspect::age(WallMillis(now.0 + hour), now).contains("(1h ahead of the clock of this machine"));
    assert!(inspect::age(WallMillis(u64::MAX), now).starts_with("18446744073709551615 ms after 1970 ("));
}

#[test]
fn a_restore_of_several_nodes_says_how_the_cluster_begins_and_that_programs_must_be_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, line) = restorable(folder.path(), BackupSource::Barrier);
    let text = restore(&format!("{line} --member 2=http://b:1,b:2 --member 3=http://c:1,c:2")).unwrap();
    let next = text.lines().find(|line| line.starts_with("next:     ")).unwrap();
    assert!(next.contains("nodes 2, 3 with empty data directories"), "{next}");
    assert!(next.contains("Then restart every program that used the old cluster") && next.contains("wrong_cluster"), "{next}");
}

#[test]
fn a_restore_with_rights_says_what_the_nodes_need() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = formed();
    for change in
        [AccessChange::Bind { role: "admin".parse().unwrap(), subject: "user:ann".parse().unwrap() }, AccessChange::Enable]
    {
        let requester = AccessRequester { principal: Principal::file_admin(), client: "curl".to_owned() };
        let change = ChangeAccess { key: None, change, requester, at: now() };
        state.apply(&command::Command::ChangeAccess(change)).answer.result.unwrap();
    }
    let file = folder.path().join("rights.backup");
    file::save(&Backup::new(&state, origin(BackupSource::Barrier)), &file, false).unwrap();
    let (_, line) = restoring(&file);
    let text = restore(&format!("{line} --revoke-tokens")).unwrap();
    assert!(text.contains("rights:   they are enforced") && text.contains("--admin-token-file"), "{text}");
    assert!(text.contains("disable and unbind again what was disabled and unbound since"), "also without tokens: {text}");
}

#[test]
fn damage_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = saved(folder.path(), BackupSource::Barrier);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() - 100;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let error = read(&file).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("is damaged: ") && text.ends_with(". Use another copy, or an older backup"), "{text}");
    assert_eq!(error.exit_code(), exit::FAILURE);
    assert_eq!(verify(&file).unwrap_err().to_string(), text);
    let (data, line) = restoring(&file);
    assert_eq!(restore(&line).unwrap_err().exit_code(), exit::FAILURE);
    assert!(!data.exists());
    let error = restore(&line.replace("--id 1 ", "--id 2 ")).unwrap_err();
    assert_eq!(error.exit_code(), exit::USAGE, "{error}");
}

#[test]
fn a_data_directory_on_a_full_or_read_only_disk_is_to_be_copied() {
    let of = |kind: io::ErrorKind| {
        let errors = [StorageError::Log(kind.into()), StorageError::DataDir(DataDirError::Io(kind.into()))];
        errors.map(|error| BackupError::of_storage(Path::new("/data"), error).to_string())
    };
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::ReadOnlyFilesystem] {
        for text in of(kind) {
            assert!(
                text.contains("copy the directory to a disk with free space") && text.contains("`cp -a /data DIR`"),
                "{text}"
            );
        }
    }
    for text in of(io::ErrorKind::InvalidData) {
        assert!(!text.contains("cp -a"), "{text}");
    }
}

#[test]
fn only_a_file_is_replaced_and_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("a.backup"), folder.path().join("link"));
    assert_eq!(file::check_free(&file, false), Ok(()));
    fs::write(&file, "older").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let refused = file::check_free(&file, false).unwrap_err();
    assert!(refused.ends_with("pass --force to replace it"), "{refused}");
    assert_eq!(file::check_free(&file, true), Ok(()));
    for other in [folder.path(), &link, Path::new("/dev/null")] {
        assert!(file::check_free(other, true).is_err(), "{}", other.display());
    }
}
