//! The process crashes or the disk fails at each step of the storage. A restart finds all acknowledged data.
//!
//! The test's process must survive the crash, so the test runs itself as a child with a failpoint in its environment.

use super::{
    directory::known_members,
    snapshots::{self, image},
    *,
};
use crate::{Storage, data_dir::DataDir};
use fairhold_types::{ClusterId, Incarnation, failpoint::Point};
use parking_lot::Mutex;
use std::{
    error::Error,
    process::{Command, Stdio},
};

const CHILD: &str = "tests::failpoints::a_child_runs_every_storage_step";
const JOINING_CHILD: &str = "tests::failpoints::a_child_joins";
const HOME: &str = "FAIRHOLD_FAILPOINT_HOME";
/// The exit code of a child whose test failed with an error.
const FAILED_TEST: i32 = 101;
/// The maximum number of occurrences of one step at which a child fails.
const TIMES_MAX: u32 = 5;

/// Between fork and exec, a child holds all open files of this process, including the directory locks. So no child
/// starts while another test closes and reopens a storage.
static STARTING: Mutex<()> = Mutex::new(());

/// The child of the tests below. Without `HOME` in its environment, it does nothing.
#[tokio::test]
async fn a_child_runs_every_storage_step() {
    if let Some(home) = std::env::var_os(HOME) {
        work(Path::new(&home)).await.unwrap();
    }
}

/// The child of the test of a join.
#[test]
fn a_child_joins() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let mut directory = DataDir::open_to_join(Path::new(&home)).unwrap();
    println!("\ndone incarnation {}", directory.incarnation().0);
    directory.set_joined(4, ClusterId(9), &known_members()).unwrap();
    println!("\ndone joined");
}

/// Prints each acknowledged step.
async fn work(home: &Path) -> Result<(), Box<dyn Error>> {
    let mut storage = Storage::open(home, 1)?;
    storage.log.save_vote(&vote(1)).await?;
    println!("\ndone vote 1");
    append(&mut storage.log, entries(1, 0..20)).await?;
    println!("\ndone entries 1");
    storage.log.save_committed(Some(log_id(1, 12))).await?;
    snapshots::save(&storage.snapshots, image("6")).await?;
    println!("\ndone snapshot 6");
    storage.log.purge(log_id(1, 6)).await?;
    storage.log.truncate_after(Some(log_id(1, 14))).await?;
    append(&mut storage.log, entries(2, 15..18)).await?;
    println!("\ndone entries 2");
    storage.log.save_vote(&vote(3)).await?;
    println!("\ndone vote 3");
    snapshots::save(&storage.snapshots, image("12")).await?;
    println!("\ndone snapshot 12");
    storage.log.purge(log_id(1, 12)).await?;
    // A purge does not wait for its write. A vote does, and it fails if a write before it failed.
    storage.log.save_vote(&vote(3)).await?;
    let faults = storage.log.faults();
    drop(storage);
    // Files may be removed only now, when the storage closes. An error there is no vote's.
    if let Some(fault) = faults.first() {
        return Err(fault.message.into());
    }

    let mut storage = Storage::open(home, 1)?;
    assert_eq!(snapshots::load(&storage.snapshots).await?, Some(image("12")));
    assert_eq!(read_all(&mut storage.log).await?.len(), 5);
    append(&mut storage.log, entries(3, 18..20)).await?;
    println!("\ndone entries 3");
    Ok(())
}

/// The steps that a child acknowledged, and whether it succeeded.
fn run_child(child: &str, home: &Path, failpoint: &str) -> (Vec<String>, bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", child, "--nocapture", "--test-threads=1"]).env(HOME, home).env("FAIRHOLD_FAILPOINTS", failpoint);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let starting = STARTING.lock();
    let child = command.spawn().unwrap();
    drop(starting);
    let child = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(text.contains("running 1 test"), "{text}{errors}");
    // An end that the failpoint did not cause is a test failure.
    match child.status.code() {
        Some(0) => {}
        None => assert!(failpoint.contains("=crash"), "{failpoint}: {text}{errors}"),
        Some(code) => {
            let (name, _) = failpoint.split_once("=error").unwrap_or_else(|| panic!("{failpoint}: {code}: {text}{errors}"));
            let is_its_error = code == FAILED_TEST && errors.contains(&format!("failpoint {name}"));
            assert!(is_its_error && errors.matches("panicked at").count() == 1, "{failpoint}: {code}: {text}{errors}");
        }
    }
    (text.lines().filter_map(|line| line.strip_prefix("done ")).map(str::to_owned).collect(), child.status.success())
}

/// Checks that all acknowledged data is there, and that the storage accepts new writes.
async fn check(home: &Path, done: &[String], failpoint: &str) {
    let has = |what: &str| done.iter().any(|done| done == what);
    let mut storage = Storage::open(home, 1).unwrap_or_else(|error| panic!("{failpoint}: {error}"));
    let voted = read_vote(&mut storage.log).await.unwrap().map_or(0, |vote| vote.leader_id.term);
    let least = if has("vote 3") { 3 } else { u64::from(has("vote 1")) };
    assert!(voted >= least, "{failpoint}: the vote of term {least} was acknowledged, but the vote is of term {voted}");

    let through = match snapshots::load(&storage.snapshots).await.unwrap() {
        Some(newest) if newest == image("12") => 12,
        Some(newest) if newest == image("6") => 6,
        Some(other) => panic!("{failpoint}: {other:?} was never saved"),
        None => 0,
    };
    let least = if has("snapshot 12") { 12 } else { 6 * u64::from(has("snapshot 6")) };
    assert!(through >= least, "{failpoint}: the snapshot through {least} was acknowledged, but the newest is through {through}");

    let state = storage.log.get_log_state().await.unwrap();
    let purged = state.last_purged_log_id.map(|id| id.index);
    assert!(purged.unwrap_or(0) <= through, "{failpoint}: purged through {purged:?}, the snapshot is through {through}");
    let first = purged.map_or(0, |purged| purged + 1);
    let mut expected = Vec::new();
    if has("entries 1") {
        expected.extend(entries(1, first..15));
    }
    if has("entries 2") {
        expected.extend(entries(2, 15..18));
    }
    if has("entries 3") {
        expected.extend(entries(3, 18..20));
    }
    let there = read_all(&mut storage.log).await.unwrap();
    assert_eq!(there.get(..expected.len()), Some(&expected[..]), "{failpoint}");

    let next = state.last_log_id.map_or(0, |last| last.index + 1);
    append(&mut storage.log, entries(4, next..next + 1)).await.unwrap();
    let closing = STARTING.lock();
    drop(storage);
    let mut storage = Storage::open(home, 1).unwrap();
    drop(closing);
    assert_eq!(read_all(&mut storage.log).await.unwrap().last(), entries(4, next..next + 1).first());
}

async fn fail_at_each_step(action: &str) {
    for point in Point::ALL.iter().filter(|point| point.name().starts_with("storage.")) {
        let mut failed = 0;
        for time in 1..=TIMES_MAX {
            let home = tempfile::tempdir().unwrap();
            let failpoint = format!("{}={action}@{time}", point.name());
            let (done, ended) = run_child(CHILD, home.path(), &failpoint);
            if ended && done.iter().any(|done| done == "entries 3") && action == "crash" {
                break;
            }
            failed += u32::from(!ended);
            check(home.path(), &done, &failpoint).await;
            if ended {
                break;
            }
        }
        assert!(failed > 0, "{} was never reached", point.name());
    }
}

#[tokio::test]
async fn a_crash_at_any_step_loses_no_acknowledged_data() {
    fail_at_each_step("crash").await;
}

#[tokio::test]
async fn an_error_at_any_step_loses_no_acknowledged_data() {
    fail_at_each_step("error").await;
}

#[test]
fn an_interrupted_creation_of_a_directory_completes_at_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let (done, ended) = run_child(CHILD, home.path(), "storage.identity.write=crash");
    assert!(done.is_empty() && !ended);
    assert!(DataDir::open(home.path(), 1).unwrap().is_new());
}

/// The cluster remembers the incarnation of a node that asked for admission: a node with another one would get a second
/// id.
#[test]
fn a_crash_at_any_step_of_a_join_keeps_the_incarnation_and_repeats_the_join() {
    let steps = ["storage.identity.write", "storage.file.sync", "storage.file.rename", "storage.file.name"];
    for (step, times) in steps.map(|step| (step, if step == "storage.identity.write" { 2 } else { 3 })) {
        for time in 1..=times {
            let home = tempfile::tempdir().unwrap();
            let failpoint = format!("{step}=crash@{time}");
            let (done, ended) = run_child(JOINING_CHILD, home.path(), &failpoint);
            assert!(!ended && !done.contains(&"joined".to_owned()), "{failpoint}: {done:?}");
            let mut directory = DataDir::open_to_join(home.path()).unwrap();
            if let Some(shown) = done.iter().find_map(|line| line.strip_prefix("incarnation ")) {
                assert_eq!(directory.incarnation(), Incarnation(shown.parse().unwrap()), "{failpoint}");
            }
            directory.set_joined(4, ClusterId(9), &known_members()).unwrap();
            drop(directory);
            let recorded = DataDir::recorded(home.path()).unwrap().unwrap();
            assert_eq!((recorded.id, recorded.members), (Some(4), Some(known_members())), "{failpoint}");
        }
    }
}
