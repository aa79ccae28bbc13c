//! Tests of when a backup is due, and which files go.

use super::*;

/// 2026-11-27T21:45:00Z
const TIME: WallSeconds = 1_795_815_900;
const HOUR: Duration = Duration::from_secs(3_600);

fn name(made_at: WallSeconds, revision: u64) -> BackupName {
    BackupName { made_at, revision: Revision(revision), cluster: "prod".to_owned() }
}

#[test]
fn a_name_has_the_cluster_the_revision_and_the_time() {
    let one = name(TIME, 4_711);
    assert_eq!(one.to_string(), "fairhold-prod-4711-20261127T214500Z.backup");
    assert_eq!(BackupName::parse(&one.to_string(), "prod"), Some(one));
    let hyphens = BackupName { cluster: "eu-1.prod-2".to_owned(), ..name(TIME, 7) };
    assert_eq!(BackupName::parse(&hyphens.to_string(), "eu-1.prod-2"), Some(hyphens));
}

#[test]
fn only_a_file_of_exactly_this_form_and_cluster_is_a_backup() {
    for other in [
        "fairhold-prod-4711-20261127T214500Z.backup.partial",
        "fairhold-prod-node-1.backup.partial",
        "fairhold-prod-4711-20261127T214500Z.backup2",
        "fairhold-prod-4711-20261127T214500.backup",
        "fairhold-prod-4711-20261127T214500Z",
        "fairhold-prod-04711-20261127T214500Z.backup",
        "fairhold-prod-+4711-20261127T214500Z.backup",
        "fairhold-prod--20261127T214500Z.backup",
        "fairhold-prod-4711-20261327T214500Z.backup",
        "fairhold-prod-4711-20261127T214560Z.backup",
        "fairhold-prod-4711-20261127t214500z.backup",
        "fairhold-prod-4711-99999999T999999Z.backup",
        "fairhold-test-4711-20261127T214500Z.backup",
        "fairhold-prod-eu-4711-20261127T214500Z.backup",
        "prod-4711-20261127T214500Z.backup",
        "fairhold-prod-4711-2026112éT21450Z.backup",
        "fairhold--.backup",
        "",
    ] {
        assert_eq!(BackupName::parse(other, "prod"), None, "{other}");
    }
}

#[test]
fn the_name_of_an_incomplete_file_is_no_backup() {
    assert_eq!(partial_name("prod", 2), "fairhold-prod-node-2.backup.partial");
    assert_eq!(BackupName::parse(&partial_name("prod", 2), "prod"), None);
}

#[test]
fn the_oldest_files_are_deleted_and_the_verified_one_never() {
    let all: BTreeSet<BackupName> = (1..=5).map(|age| name(TIME - age * 3_600, 100 - age)).collect();
    let verified = name(TIME, 100);
    let with: BTreeSet<BackupName> = all.iter().cloned().chain([verified.clone()]).collect();
    let deleted = |keep| to_delete(with.clone(), &verified, keep).iter().map(|one| one.revision.0).collect::<Vec<_>>();
    assert_eq!(deleted(48), [0; 0]);
    assert_eq!(deleted(6), [0; 0]);
    assert_eq!(deleted(4), [95, 96]);
    assert_eq!(deleted(1), [95, 96, 97, 98, 99]);
    // Other nodes use the folder too, and this one is behind them: all others are newer.
    let old = name(TIME - 100 * 3_600, 3);
    let with: BTreeSet<BackupName> = all.into_iter().chain([old.clone()]).collect();
    for keep in 1..8 {
        let deleted = to_delete(with.clone(), &old, keep);
        assert!(!deleted.contains(&old), "keep {keep}: {deleted:?}");
        assert_eq!(deleted.len(), with.len().saturating_sub(keep), "keep {keep}");
    }
}

#[test]
fn the_newest_file_is_the_last_one_that_is_not_from_the_future() {
    let found = |times: &[WallSeconds]| times.iter().map(|made_at| name(*made_at, 1)).collect::<BTreeSet<_>>();
    assert_eq!(newest(&found(&[]), TIME), None);
    assert_eq!(newest(&found(&[TIME + 1, TIME + 86_400]), TIME), None);
    assert_eq!(newest(&found(&[TIME - 60, TIME - 3_600, TIME + 1]), TIME), Some(TIME - 60));
    assert_eq!(newest(&found(&[TIME]), TIME), Some(TIME));
    // The clock was set back by a day or more after the first one.
    let found = BTreeSet::from([name(TIME - 86_400, 4_711), name(TIME - 60, 7)]);
    assert_eq!(newest(&found, TIME), Some(TIME - 60));
}

#[test]
fn each_node_has_a_moment_of_its_own_in_each_interval() {
    let midnight = TIME / 86_400 * 86_400;
    let due = |now, last, node| next_due(now, last, HOUR, node) - midnight;
    // Node 1 is due at 225 s past each hour, node 2 at 450 s.
    for (now, last, node, at) in [
        (7_200, Some(3_700), 16, 7_200),
        (7_199, Some(3_700), 16, 7_200),
        (7_200, Some(3_900), 1, 7_425),
        (7_425, Some(3_900), 1, 7_425),
        (7_425, Some(7_425), 1, 11_025),
        (7_500, Some(7_440), 1, 11_025),
        (7_500, Some(7_440), 2, 7_650),
        (7_500, Some(7_440), 18, 7_650),
    ] {
        assert_eq!(due(midnight + now, last.map(|last: u64| midnight + last), node), at, "{now} {last:?} {node}");
    }
}

#[test]
fn a_backup_that_was_missed_is_due_at_once() {
    let now = TIME + 30;
    for last in [None, Some(0), Some(TIME - 86_400), Some(now + 86_400)] {
        assert!(next_due(now, last, HOUR, 1) <= now, "{last:?}");
    }
    // A short and a long interval, and the bounds of all numbers.
    for every in [60, 30 * 86_400].map(Duration::from_secs) {
        for node in [1, 2, 3, 15, 16, NodeId::MAX] {
            let next = next_due(now, Some(now), every, node);
            assert!(now < next && next <= now + every.as_secs(), "{every:?} {node}: {next}");
        }
    }
    assert!(
        next_due(0, None, Duration::MAX, NodeId::MAX) == 0 && next_due(u64::MAX, Some(u64::MAX), Duration::ZERO, 1) == u64::MAX
    );
}
