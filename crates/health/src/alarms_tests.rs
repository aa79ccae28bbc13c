//! Tests of each alarm: raised, kept between its two thresholds, and gone.

use super::{
    readings::{
        BackupReading, ClusterReading, DiskReading, MachineReading, MemberReading, MemoryReading, OpenFilesReading, SyncReading,
    },
    *,
};
use crate::divergence::Divergence;
use fairhold_types::{
    ClusterVersion, NodeId, Revision, Timing,
    dto::{AuditStatus, CertificateStatus, CertificateUrgency},
};
use std::{collections::BTreeSet, fs};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A leader of three healthy nodes on a healthy machine, a second after its start.
fn healthy() -> NodeReading {
    let member = |id: NodeId| MemberReading {
        id,
        voter: true,
        matched: Some(100),
        lag: Some(0),
        silent: (id != 1).then(|| Duration::from_millis(40)),
        round_trip_p50: (id != 1).then(|| Duration::from_millis(2)),
        round_trip_p99: (id != 1).then(|| Duration::from_millis(4)),
    };
    let cluster = ClusterReading {
        id: 1,
        leader: Some(1),
        timing: Timing::Lan,
        next_version: None,
        state_bytes: 10 << 20,
        state_bytes_max: Some(100 << 20),
        purged: Some(50),
        members: (1..=3).map(member).collect(),
        joins: Vec::new(),
        removed: Vec::new(),
        divergence: None,
    };
    let certificate = CertificateStatus {
        port: "clients".to_owned(),
        urgency: CertificateUrgency::Valid,
        not_after: "2028-01-01T00:00:00.000Z".to_owned(),
        fault: None,
    };
    let machine = MachineReading {
        disk: Some(DiskReading { free_bytes: 50 << 30, total_bytes: 100 << 30 }),
        syncs: Some(SyncReading { all: 10, slow: 0, bound: Duration::from_millis(50) }),
        memory: Some(MemoryReading { resident_bytes: 100 << 20, limit_bytes: 1 << 30 }),
        open_files: Some(OpenFilesReading { open: 64, max: Some(1_024) }),
        certificates: vec![certificate],
        audit: Some(AuditStatus::default()),
        backups: Some(hourly(Some(HOUR), 1, None)),
        configured_members: Some(BTreeSet::from([1, 2, 3])),
    };
    at(NodeReading { now: Duration::ZERO, wall: WallMillis(0), machine, cluster }, 1)
}

/// Backups every hour: the age of the newest one, and the time since the node began to make them, in seconds.
fn hourly(age: Option<u64>, running: u64, fault: Option<&str>) -> BackupReading {
    BackupReading {
        dir: "/backups".to_owned(),
        every: Duration::from_secs(HOUR),
        age: age.map(Duration::from_secs),
        running: Duration::from_secs(running),
        fault: fault.map(str::to_owned),
    }
}

/// The same this many seconds after the start.
fn at(reading: NodeReading, secs: u64) -> NodeReading {
    NodeReading { now: Duration::from_secs(secs), wall: WallMillis(1_800_000_000_000 + secs * 1_000), ..reading }
}

/// Looks, and returns the names of the alarms that are raised then.
fn look(board: &mut AlarmBoard, secs: u64, change: impl FnOnce(&mut NodeReading)) -> Vec<String> {
    let mut reading = at(healthy(), secs);
    change(&mut reading);
    board.look(&reading);
    board.raised().into_iter().map(|alarm| alarm.alarm).collect()
}

/// Checks an alarm that depends on one figure: raised at the first value, still at the second, gone at the third.
#[track_caller]
fn assert_thresholds<T>(name: &str, severity: AlarmSeverity, [raises, keeps, ends]: [T; 3], set: impl Fn(&mut NodeReading, T)) {
    let mut board = AlarmBoard::default();
    assert_eq!(look(&mut board, 1, |_| {}), [""; 0]);
    assert_eq!(look(&mut board, 2, |reading| set(reading, raises)), [name]);
    let alarm = &board.raised()[0];
    assert_eq!((alarm.severity, alarm.since.as_str()), (severity, "2027-01-15T08:00:02.000Z"));
    assert!(!alarm.seen.is_empty() && !alarm.advice.is_empty(), "{alarm:?}");
    assert_eq!(look(&mut board, 3, |reading| set(reading, keeps)), [name]);
    assert_eq!(board.raised()[0].since, "2027-01-15T08:00:02.000Z", "since it was raised");
    assert_eq!(look(&mut board, 4, |reading| set(reading, ends)), [""; 0]);
}

/// Checks the alarm of a condition that must hold for some seconds: it is not raised before, and what interrupts it
/// counts.
#[track_caller]
fn assert_hold(name: &str, [raised_after, gone_after]: [u64; 2], set: impl Fn(&mut NodeReading)) {
    let mut board = AlarmBoard::default();
    assert_eq!(look(&mut board, 10, &set), [""; 0]);
    assert_eq!(look(&mut board, 11, |_| {}), [""; 0], "a break");
    assert_eq!(look(&mut board, 12, &set), [""; 0]);
    assert_eq!(look(&mut board, 11 + raised_after, &set), [""; 0]);
    assert_eq!(look(&mut board, 12 + raised_after, &set), [name]);
    let end = 20 + raised_after;
    if gone_after > 0 {
        assert_eq!(look(&mut board, end, |_| {}), [name]);
        assert_eq!(look(&mut board, end + gone_after - 1, |_| {}), [name]);
    }
    assert_eq!(look(&mut board, end + gone_after, |_| {}), [""; 0]);
}

fn member(reading: &mut NodeReading, id: NodeId) -> &mut MemberReading {
    reading.cluster.members.iter_mut().find(|member| member.id == id).unwrap()
}

fn silence(reading: &mut NodeReading, ids: &[NodeId]) {
    ids.iter().for_each(|id| member(reading, *id).silent = Some(Duration::from_secs(9)));
}

#[test]
fn a_healthy_node_raises_nothing() {
    let mut board = AlarmBoard::default();
    for secs in [1, 2, MINUTE, DAY, 30 * DAY] {
        assert_eq!(look(&mut board, secs, |_| {}), [""; 0]);
    }
    let mut blind = healthy();
    blind.machine = MachineReading::default();
    blind.cluster.members.clear();
    blind.cluster.leader = None;
    assert_eq!(AlarmBoard::default().look(&blind), [], "a node that waits for its cluster, on an unreadable machine");
}

#[test]
fn the_disk_fills_up() {
    let set = |reading: &mut NodeReading, (mib, total_gib): (u64, u64)| {
        reading.machine.disk = Some(DiskReading { free_bytes: mib << 20, total_bytes: total_gib << 30 });
    };
    assert_thresholds("disk", AlarmSeverity::Warning, [(2_047, 100), (4_095, 100), (4_096, 100)], set);
    assert_thresholds("disk", AlarmSeverity::Critical, [(255, 4), (700, 4), (820, 4)], set);
    // On a small disk a share is little: a node with less than 256 MiB takes no more writes.
    assert_thresholds("disk", AlarmSeverity::Critical, [(255, 1), (511, 1), (512, 1)], set);
    for fine in [(2_048, 100), (1_024, 10), (256, 1)] {
        assert_eq!(look(&mut AlarmBoard::default(), 1, |reading| set(reading, fine)), [""; 0], "{fine:?}");
    }
}

#[test]
fn memory_and_the_budget_of_the_state_run_short() {
    assert_thresholds("memory", AlarmSeverity::Critical, [85, 80, 79], |reading, percent| {
        reading.machine.memory = Some(MemoryReading { resident_bytes: percent << 20, limit_bytes: 100 << 20 });
    });
    assert_thresholds("state", AlarmSeverity::Warning, [90, 85, 84], |reading, percent| {
        reading.cluster.state_bytes = percent << 20;
    });
}

#[test]
fn the_disk_is_slow_over_the_last_minute() {
    let mut board = AlarmBoard::default();
    let mut syncs = |secs, all, slow| {
        let bound = Duration::from_millis(50);
        look(&mut board, secs, |reading| reading.machine.syncs = Some(SyncReading { all, slow, bound }))
    };
    assert_eq!(syncs(1, 1_000, 500), [""; 0], "before the first look");
    assert_eq!(syncs(2, 1_100, 504), [""; 0], "too few");
    assert_eq!(syncs(3, 1_500, 505), [""; 0], "one in a hundred");
    assert_eq!(syncs(4, 1_500, 506), ["disk_slow"]);
    for secs in 5..=60 {
        assert_eq!(syncs(secs, 1_500, 506), ["disk_slow"]);
    }
    assert_eq!(syncs(76, 1_510, 506), ["disk_slow"], "the first look without slow syncs in the last minute");
    assert_eq!(syncs(136, 1_520, 506), [""; 0], "a minute later");
    assert_eq!(syncs(137, 9, 8), [""; 0], "the counts began anew");
}

#[test]
fn one_more_failure_or_one_too_many() {
    assert_hold("majority_at_risk", [2, 1], |reading| silence(reading, &[3]));
    assert_hold("no_quorum", [2, 1], |reading| silence(reading, &[2, 3]));
    assert_hold("no_quorum", [2, 1], |reading| reading.cluster.leader = None);

    let raised = |change: &dyn Fn(&mut NodeReading)| {
        let mut board = AlarmBoard::default();
        (1..=30).map(|secs| look(&mut board, secs, change)).last().unwrap()
    };
    let five = |reading: &mut NodeReading| {
        for id in [4, 5] {
            let member = MemberReading { id, ..reading.cluster.members[1].clone() };
            reading.cluster.members.push(member);
        }
        reading.machine.configured_members = None;
    };
    let silent_of_five = |silent: &'static [NodeId]| {
        raised(&move |reading: &mut NodeReading| {
            five(reading);
            silence(reading, silent);
        })
    };
    assert_eq!(silent_of_five(&[5]), [""; 0], "two more may fail");
    assert_eq!(silent_of_five(&[4, 5]), ["majority_at_risk"]);
    assert_eq!(silent_of_five(&[3, 4, 5]), ["no_quorum"]);
    let follower = |reading: &mut NodeReading| {
        reading.cluster.leader = Some(2);
        silence(reading, &[3]);
    };
    assert_eq!(raised(&follower), [""; 0], "only the leader knows");
    let learner = |reading: &mut NodeReading| {
        member(reading, 3).voter = false;
        silence(reading, &[3]);
    };
    assert_eq!(raised(&learner), [""; 0], "a learner does not vote");
    assert_eq!(raised(&|reading| member(reading, 3).silent = None), ["majority_at_risk"], "it never answered this leader");
}

#[test]
fn a_member_is_far_behind_for_a_minute() {
    assert_hold("member_behind", [MINUTE, 0], |reading| member(reading, 3).lag = Some(10_001));
    assert_hold("member_behind", [MINUTE, 0], |reading| member(reading, 3).matched = Some(49));
    let mut board = AlarmBoard::default();
    let mut lag = |secs, lag| look(&mut board, secs, |reading| member(reading, 2).lag = Some(lag));
    assert_eq!(lag(1, 10_000), [""; 0]);
    assert_eq!(lag(90, 10_000), [""; 0]);
    assert_eq!(lag(91, 20_000), [""; 0]);
    assert_eq!(lag(151, 30_000), ["member_behind"]);
    assert_eq!(lag(152, 1_001), ["member_behind"], "it has not caught up");
    assert_eq!(lag(153, 1_000), [""; 0]);
}

#[test]
fn a_join_makes_no_progress() {
    let mut board = AlarmBoard::default();
    let mut joins = |secs, matched| {
        look(&mut board, secs, |reading| {
            reading.machine.configured_members = None;
            let member = MemberReading { id: 4, voter: false, matched, ..reading.cluster.members[1].clone() };
            reading.cluster.members.push(member);
            reading.cluster.joins.push(4);
        })
    };
    assert_eq!(joins(1, Some(60)), [""; 0]);
    assert_eq!(joins(600, Some(60)), [""; 0]);
    assert_eq!(joins(601, Some(61)), [""; 0], "progress");
    assert_eq!(joins(1_200, Some(61)), [""; 0]);
    assert_eq!(joins(1_201, Some(61)), ["join_stuck"]);
    assert_eq!(joins(1_202, Some(62)), [""; 0]);
    assert_eq!(joins(1_802, Some(62)), ["join_stuck"]);
    assert_eq!(look(&mut board, 1_803, |_| {}), [""; 0], "it is complete, or given up");
}

#[test]
fn the_timing_profile_is_too_fast() {
    let far = |reading: &mut NodeReading| {
        let member = member(reading, 2);
        (member.round_trip_p50, member.round_trip_p99) = (Some(Duration::from_millis(20)), Some(Duration::from_millis(25)));
    };
    assert_hold("timing", [MINUTE, MINUTE], far);
    let mut board = AlarmBoard::default();
    look(&mut board, 1, far);
    look(&mut board, 61, far);
    let alarm = &board.raised()[0];
    assert!(alarm.seen.contains("node 2 needs up to 25 ms") && alarm.advice.ends_with("set timing=metro"), "{alarm:?}");
    let start = |reading: &mut NodeReading| member(reading, 2).round_trip_p99 = Some(Duration::from_millis(50));
    let mut board = AlarmBoard::default();
    look(&mut board, 1, start);
    assert_eq!(look(&mut board, 90, start), [""; 0], "a few slow heartbeats do no harm");
}

#[test]
fn the_configuration_lists_a_node_that_is_no_member() {
    let listed = |ids: &'static [NodeId]| {
        move |reading: &mut NodeReading| reading.machine.configured_members = Some(ids.iter().copied().collect())
    };
    assert_hold("members_differ", [MINUTE, 0], listed(&[1, 2, 4]));
    assert_hold("members_differ", [MINUTE, 0], listed(&[1, 2, 3, 4]));
    let mut board = AlarmBoard::default();
    look(&mut board, 1, listed(&[1, 2]));
    assert_eq!(look(&mut board, 90, listed(&[1, 2])), [""; 0], "the cluster has grown");
    let replaced = |reading: &mut NodeReading| {
        listed(&[1, 2, 3, 4, 5])(reading);
        reading.cluster.removed = vec![4];
    };
    let mut board = AlarmBoard::default();
    look(&mut board, 1, replaced);
    assert_eq!(look(&mut board, 90, replaced), ["members_differ"]);
    assert_eq!(board.raised()[0].seen, "the configuration lists node 5, which is no member of the cluster");
}

#[test]
fn an_upgrade_is_open_for_a_week() {
    assert_hold("upgrade_open", [7 * DAY, 0], |reading| reading.cluster.next_version = Some(ClusterVersion(3)));
}

#[test]
fn the_newest_scheduled_backup_is_too_old() {
    let set = |reading: &mut NodeReading, age| reading.machine.backups = Some(hourly(age, DAY, None));
    assert_thresholds("backup_old", AlarmSeverity::Warning, [Some(2 * HOUR + 1), Some(2 * HOUR + 1), Some(2 * HOUR)], set);
    assert_thresholds("backup_old", AlarmSeverity::Warning, [None, Some(30 * DAY), Some(0)], set);
}

#[test]
fn a_node_that_has_just_started_first_tries_to_make_a_backup() {
    let raised = |age, running, fault| {
        let mut board = AlarmBoard::default();
        look(&mut board, 1, |reading| reading.machine.backups = Some(hourly(age, running, fault)));
        board.raised().pop().map(|alarm| (alarm.alarm, alarm.seen))
    };
    let full = Some("full");
    for (age, running, fault) in [
        (None, 1, None),
        (Some(3 * DAY), 1, None),
        (Some(3 * DAY), 2 * HOUR, None),
        // The newest backup from before the start counts, also while attempts fail.
        (Some(2 * HOUR), 1, full),
        (Some(0), 3 * DAY, full),
    ] {
        assert_eq!(raised(age, running, fault), None, "{age:?} {running} {fault:?}");
    }
    for (age, running, fault, seen) in [
        (None, 2 * HOUR + 1, None, "no scheduled backup was found in /backups, and one is due every 1h"),
        (Some(3 * DAY), 2 * HOUR + 1, None, "the newest scheduled backup in /backups is 3d old, and one is due every 1h"),
        (
            Some(3 * DAY),
            1,
            full,
            "the newest scheduled backup in /backups is 3d old, and one is due every 1h; the last attempt failed: full",
        ),
        (None, 1, full, "no scheduled backup was found in /backups, and one is due every 1h; the last attempt failed: full"),
    ] {
        assert_eq!(raised(age, running, fault), Some(("backup_old".to_owned(), seen.to_owned())));
    }
}

#[test]
fn a_certificate_is_to_be_renewed() {
    let set = |reading: &mut NodeReading, urgency| reading.machine.certificates[0].urgency = urgency;
    let (valid, soon, now) = (CertificateUrgency::Valid, CertificateUrgency::RenewSoon, CertificateUrgency::RenewNow);
    assert_thresholds("certificate", AlarmSeverity::Warning, [soon, soon, valid], set);
    assert_thresholds("certificate", AlarmSeverity::Critical, [now, soon, valid], set);
    let set = |reading: &mut NodeReading, fault: Option<&str>| {
        reading.machine.certificates[0].fault = fault.map(str::to_owned);
    };
    assert_thresholds("certificate", AlarmSeverity::Warning, [Some("damaged"), Some("damaged"), None], set);
}

#[test]
fn the_audit_log_loses_entries() {
    let mut board = AlarmBoard::default();
    let mut fails = |secs, fault: Option<&str>| {
        let audit = AuditStatus { entries_lost: 0, fault: fault.map(str::to_owned) };
        let names = look(&mut board, secs, |reading| reading.machine.audit = Some(audit));
        (names, board.raised().first().map(|alarm| alarm.severity))
    };
    let (raised, gone) = ((vec!["audit".to_owned()], Some(AlarmSeverity::Critical)), (vec![], None));
    assert_eq!([fails(1, None), fails(2, Some("full"))], [gone.clone(), raised.clone()]);
    assert_eq!([fails(3, None).0, fails(12, None).0], [raised.0.clone(), raised.0], "it may fail again soon");
    assert_eq!(fails(13, None), gone);

    let mut board = AlarmBoard::default();
    let mut lost = |secs, entries_lost| {
        look(&mut board, secs, |reading| reading.machine.audit = Some(AuditStatus { entries_lost, fault: None }))
    };
    assert_eq!(lost(1, 0), [""; 0]);
    assert_eq!(lost(2, 7), ["audit"]);
    assert_eq!(lost(3_601, 7), ["audit"]);
    assert_eq!(lost(3_602, 7), ["audit"], "an hour after the last loss");
    assert_eq!(lost(3_612, 7), [""; 0], "ten seconds later");
    assert_eq!(lost(3_613, 8), ["audit"]);
}

#[test]
fn different_states_are_critical_until_the_odd_node_is_replaced() {
    let found = Divergence { revision: Revision(40), states: vec![BTreeSet::from([1, 2]), BTreeSet::from([3])] };
    let mut board = AlarmBoard::default();
    let mut looks = |secs, leader, found: Option<&Divergence>, members: &[NodeId]| {
        let names = look(&mut board, secs, |reading| {
            reading.cluster.divergence = found.cloned();
            reading.cluster.members.retain(|member| members.contains(&member.id));
            reading.cluster.leader = Some(leader);
        });
        let alarm = board.raised().first().map(|alarm| (alarm.severity, alarm.seen.clone(), alarm.advice.clone()));
        (names, alarm)
    };
    assert_eq!(looks(1, 1, None, &[1, 2, 3]).0, [""; 0]);
    let (names, alarm) = looks(2, 1, Some(&found), &[1, 2, 3]);
    let (severity, seen, advice) = alarm.unwrap();
    assert_eq!((names, severity), (vec!["divergence".to_owned()], AlarmSeverity::Critical));
    assert_eq!(seen, "nodes have different states at revision 40, which must not happen: nodes 1, 2 | node 3");
    assert!(advice.ends_with("so keep it: fairhold cluster replace 3"), "{advice}");
    let (_, alarm) = looks(3, 3, Some(&found), &[1, 2, 3]);
    assert!(alarm.unwrap().2.ends_with("fairhold cluster transfer-leader 1, and then fairhold cluster replace 3"));
    assert_eq!(looks(4, 1, Some(&found), &[1, 2]).0, [""; 0], "node 3 is gone");
}

#[test]
fn changes_are_reported_once_and_critical_alarms_come_first() {
    let mut board = AlarmBoard::default();
    let mut reading = healthy();
    reading.cluster.state_bytes = 95 << 20;
    reading.machine.certificates[0].urgency = CertificateUrgency::Expired;
    let changes = board.look(&reading);
    let names: Vec<AlarmName> = changes.iter().map(|change| change.name).collect();
    assert_eq!(names, [AlarmName::State, AlarmName::Certificate]);
    assert!(changes.iter().all(|change| change.raised.is_some()), "{changes:?}");
    assert_eq!(board.look(&at(reading, 2)), []);
    let raised: Vec<String> = board.raised().into_iter().map(|alarm| alarm.alarm).collect();
    assert_eq!(raised, ["certificate", "state"]);
    assert!(board.is_raised(AlarmName::State) && !board.is_raised(AlarmName::Disk));
    let gone = board.look(&at(healthy(), 3));
    assert_eq!(gone.iter().filter(|change| change.raised.is_none()).count(), 2);
}

/// The text of a file of the repository.
fn file(path: &str) -> String {
    fs::read_to_string(format!("../../{path}")).unwrap()
}

#[test]
fn each_alarm_has_a_rule_for_prometheus_with_two_tests_and_a_row_in_its_page() {
    let (rules, tests, page) =
        (file("deploy/prometheus/alerts.yml"), file("deploy/prometheus/alerts_test.yml"), file("docs/alarms.md"));
    for name in AlarmName::ALL.map(AlarmName::as_str) {
        assert!(rules.contains(&format!("fairhold_alarm{{alarm=\"{name}\"}} == 1")), "alerts.yml has no rule for {name}");
        for case in ["fires", "does not fire"] {
            assert!(tests.contains(&format!("name: {name} {case}\n")), "alerts_test.yml has no case: {name} {case}");
        }
        assert!(page.lines().any(|line| line.starts_with(&format!("| `{name}` |"))), "docs/alarms.md has no row for {name}");
    }
    let documented = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(documented, AlarmName::ALL.len(), "docs/alarms.md has a row for an alarm that is gone");
    let ruled = rules.matches("fairhold_alarm{alarm=").count();
    assert_eq!(ruled, AlarmName::ALL.len(), "alerts.yml has a rule for an alarm that is gone");
}
