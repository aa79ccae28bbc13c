//! The systemd service that makes backups on another machine: which files its script keeps, and which it deletes.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(86_400);
/// In place of the program: a backup is empty, or fails.
const PROGRAM: &str = r#"fairhold() { [ "$1 $2" = "backup save" ] && [ -z "$FAILS" ] && : > "$3"; }"#;

/// The folder of the service, on a machine.
struct Machine {
    root: TempDir,
    unit: String,
}

impl Machine {
    fn new() -> Machine {
        let root = tempfile::tempdir().unwrap();
        // As with `DynamicUser`, the folder is a link.
        fs::create_dir(root.path().join("private")).unwrap();
        symlink("private", root.path().join("state")).unwrap();
        let unit = fs::read_to_string("../../deploy/systemd/fairhold-backup.service").unwrap();
        Machine { root, unit: unit.replace("\\\n", " ") }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// A file that was written so many days ago by the clock of this machine.
    fn add(&self, name: &str, days: u32) {
        let file = File::create(self.folder().join(name)).unwrap();
        file.set_modified(SystemTime::now() - days * DAY).unwrap();
    }

    /// Ten backups of ten days.
    fn add_ten(&self, days: u32) -> Vec<String> {
        let names: Vec<String> = (1..=10).map(|day| format!("fairhold-202001{day:02}T000000Z.backup")).collect();
        names.iter().for_each(|name| self.add(name, days));
        names
    }

    /// The script of the unit, as the service manager passes it to the shell.
    fn script(&self) -> String {
        let (_, rest) = self.unit.split_once("ExecStart=/bin/sh -euc '").unwrap();
        let (script, _) = rest.split_once("'\n").unwrap();
        format!("{PROGRAM}\n{}", script.replace("$$", "$").replace("%%", "%"))
    }

    /// Whether a run of the service succeeds.
    fn runs(&self, fails: &str) -> bool {
        let mut command = Command::new("/bin/sh");
        command.args(["-euc", &self.script()]).env("FAILS", fails);
        command.env("STATE_DIRECTORY", self.folder()).env("CREDENTIALS_DIRECTORY", self.root.path());
        let variables = self.unit.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
        command.envs(variables).status().unwrap().success()
    }

    fn names(&self) -> Vec<String> {
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<String> = fs::read_dir(self.folder()).unwrap().map(|entry| name(&entry.unwrap().path())).collect();
        names.sort();
        names
    }
}

/// The clock has jumped ahead, or the machine was off for a month.
#[test]
fn the_newest_backups_stay_however_old_the_clock_says_that_they_are() {
    let machine = Machine::new();
    let older = machine.add_ten(30);
    assert!(machine.runs(""));
    let left = machine.names();
    assert_eq!(left.len(), 7, "{left:?}");
    assert_eq!(left[..6], older[4..], "the newest ones stay");
    assert!(!older.contains(&left[6]), "and the new one: {left:?}");
}

#[test]
fn a_backup_that_is_not_a_week_old_stays_however_many_there_are() {
    let machine = Machine::new();
    let older = machine.add_ten(6);
    machine.add("of-somebody-else.backup", 400);
    assert!(machine.runs(""));
    let left = machine.names();
    assert_eq!(left.len(), 12, "{left:?}");
    assert_eq!(left[..10], older);
}

#[test]
fn a_run_that_fails_deletes_no_backup() {
    let machine = Machine::new();
    let older = machine.add_ten(30);
    assert!(!machine.runs("yes"));
    assert_eq!(machine.names(), older);
}

/// It may be as large as a backup, and no later run takes it over.
#[test]
fn the_rest_of_a_run_that_was_killed_is_deleted_after_a_day_also_if_the_disk_is_full() {
    let machine = Machine::new();
    machine.add("fairhold-20200101T000000Z.backup.partial", 2);
    machine.add("fairhold-20200102T000000Z.backup.partial", 0);
    machine.add("mine.partial", 2);
    assert!(!machine.runs("yes"), "no new backup");
    assert_eq!(machine.names(), ["fairhold-20200102T000000Z.backup.partial", "mine.partial"]);
}
