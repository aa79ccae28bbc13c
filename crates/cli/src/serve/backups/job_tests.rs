//! Tests of which files a schedule deletes.

use super::*;
use fairhold_backup::{BackupOrigin, BackupSource};
use fairhold_state::{State, command::Command};
use fairhold_types::{ClusterVersion, Revision, time::WallMillis};

const OWN: ClusterId = ClusterId(7);
const OTHER: ClusterId = ClusterId(8);

fn name(made_at: WallSeconds, revision: u64) -> BackupName {
    BackupName { made_at, revision: Revision(revision), cluster: "prod".to_owned() }
}

/// Writes a backup of this cluster.
fn write(dir: &Path, name: &BackupName, cluster: ClusterId) {
    let mut state = State::new();
    let formed = Command::FormClusterAt { cluster, version: ClusterVersion(2) };
    state.apply(&formed).answer.result.unwrap();
    let (release, members) = (String::new(), Vec::new());
    let origin = BackupOrigin { node: 1, release, source: BackupSource::Local, log: None, members, at: WallMillis(0) };
    let mut file = File::create(dir.join(name.to_string())).unwrap();
    Backup::new(&state, origin).write(&mut file).unwrap();
}

fn own_in(dir: &Path) -> Vec<BackupName> {
    find(dir, "prod", OWN).unwrap().own.into_iter().collect()
}

#[test]
fn old_backups_are_deleted_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let backups = [1_000, 2_000, 3_000, 4_000].map(|made_at| name(made_at, made_at));
    let others = ["notes.txt", "fairhold-test-1-19700101T000001Z.backup", "fairhold-prod-node-1.backup.partial"];
    let kept_apart = [name(10, 10).to_string(), name(20, 20).to_string()];
    for backup in &backups {
        write(dir, backup, OWN);
    }
    for file in others {
        fs::write(dir.join(file), "x").unwrap();
    }
    fs::create_dir(dir.join(&kept_apart[0])).unwrap();
    std::os::unix::fs::symlink(dir.join(backups[3].to_string()), dir.join(&kept_apart[1])).unwrap();
    assert_eq!(delete_old(dir, &backups[3], OWN, 2).unwrap(), OldBackups { deleted: 2, others: 0 });
    assert_eq!(own_in(dir), backups[2..]);
    for kept in others.iter().copied().chain(kept_apart.iter().map(String::as_str)) {
        assert!(fs::symlink_metadata(dir.join(kept)).is_ok(), "{kept}");
    }
    assert_eq!(delete_old(dir, &backups[3], OWN, 2).unwrap(), OldBackups::default());
    assert!(find(&dir.join("no"), "prod", OWN).is_err());
}

/// A cluster that was lost, or a rescue cluster, had the same name and higher revisions. Some of its files are damaged.
#[test]
fn the_files_of_another_cluster_with_this_name_stay_and_take_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let dead = [9_000_001, 9_000_002, 9_000_003].map(|revision| name(revision - 9_000_000, revision));
    write(dir, &dead[0], OTHER);
    write(dir, &dead[1], OTHER);
    fs::write(dir.join(dead[2].to_string()), "junk").unwrap();
    // Each backup is made later than the one before. Then somebody sets the clock back.
    let made = [100, 200, 300, 50, 60].into_iter().zip(1..).map(|(made_at, revision)| name(made_at, revision));
    let made: Vec<BackupName> = made.collect();
    for (round, backup) in made.iter().enumerate() {
        write(dir, backup, OWN);
        let old = delete_old(dir, backup, OWN, 3).unwrap();
        assert_eq!(old, OldBackups { deleted: usize::from(round >= 3), others: 3 }, "{backup}");
        let newest_three = made[..=round].iter().rev().take(3).rev().cloned().collect::<Vec<_>>();
        assert_eq!(own_in(dir), newest_three, "{backup}");
    }
    for kept in &dead {
        assert!(dir.join(kept.to_string()).is_file(), "{kept}");
    }
    // A new cluster of this name makes its first backup at once, though the folder has others.
    assert!(find(dir, "prod", ClusterId(9)).unwrap().own.is_empty());
}
