//! The examples in `docs/examples`: for shells and for Python.

use crate::{
    basics::urls,
    client::{Call, new_key},
    harness::{Cluster, LONG, SHORT, eventually, run_exclusive, run_parallel},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};
use tokio::process::Command;

/// A script from the documentation, with `fairhold` in the path.
fn script(cluster: &Cluster, name: &str, arguments: &[&str]) -> Command {
    let program = PathBuf::from("../../docs/examples").join(name);
    let fairhold = Path::new(env!("CARGO_BIN_EXE_fairhold")).parent().expect("a folder").to_string_lossy().into_owned();
    let path = format!("{fairhold}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.args(arguments).env("FAIRHOLD_ENDPOINT", urls(cluster)).env("PATH", path).env("no_proxy", "*");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn all(commands: Vec<Command>) -> Vec<Output> {
    let children: Vec<_> = commands.into_iter().map(|mut command| command.spawn().expect("the script starts")).collect();
    let outputs = children.into_iter().map(tokio::process::Child::wait_with_output);
    futures_util::future::try_join_all(outputs).await.expect("the scripts end")
}

#[track_caller]
fn assert_codes(outputs: &[Output], code: i32) {
    let wrong = outputs.iter().find(|output| output.status.code() != Some(code));
    assert!(wrong.is_none(), "{wrong:?}");
}

#[test]
fn a_cron_job_started_by_ten_machines_runs_once_a_night() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let runs = folder.path().join("runs");
        let nightly = |night: &str, job: &str| script(&cluster, "once-in-a-fleet.sh", &["nightly", night, "sh", "-c", job]);
        let job = |night: &str| format!("echo {night} >> {}", runs.display());
        for night in ["2026-11-20", "2026-11-21"] {
            assert_codes(&all((0..10).map(|_| nightly(night, &job(night))).collect()).await, 0);
        }
        assert_eq!(fs::read_to_string(&runs).unwrap(), "2026-11-20\n2026-11-21\n");
        // A failed job is run again by the next machine.
        assert_codes(&all(vec![nightly("2026-11-22", "exit 9")]).await, 9);
        assert_codes(&all(vec![nightly("2026-11-22", &job("2026-11-22")), nightly("2026-11-22", &job("2026-11-22"))]).await, 0);
        assert_eq!(fs::read_to_string(&runs).unwrap().lines().count(), 3);
    });
}

/// Runs copies of a program that adds 1 to the number in a file without any protection.
async fn count(copies: usize, start: impl Fn(&str) -> Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let counter = folder.path().join("counter");
    fs::write(&counter, "0").expect("it can be written");
    let outputs = all((0..copies).map(|_| start(counter.to_str().expect("UTF-8"))).collect()).await;
    assert_codes(&outputs, 0);
    assert_eq!(fs::read_to_string(&counter).expect("the counter").trim(), copies.to_string());
}

#[test]
fn bash_and_curl_count_under_a_lock_and_stop_when_it_is_lost() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let increment = |counter: &str| format!("read n < {counter}; sleep 0.05; echo $((n + 1)) > {counter}");
        count(8, |counter| script(&cluster, "with-lock.sh", &["deep/counter", "sh", "-c", &increment(counter)])).await;

        let failed = all(vec![script(&cluster, "with-lock.sh", &["job", "sh", "-c", "exit 7"])]).await;
        assert_codes(&failed, 7);
        assert_eq!(cluster.client(0).holders("job").await, [0_u64; 0]);
        let folder = tempfile::tempdir().expect("a folder");
        let begun = folder.path().join("begun");
        let line = format!("echo $FAIRHOLD_TOKEN > {}; exec sleep 600", begun.display());
        let held = script(&cluster, "with-lock.sh", &["job", "sh", "-c", &line]).spawn().unwrap();
        let token = eventually("it has begun", SHORT, || async {
            fs::read_to_string(&begun).ok().and_then(|text| text.trim().parse::<u64>().ok())
        })
        .await;
        assert!(cluster.client(1).fence_passes("job", token).await);
        let order = Call::delete("/v1/locks/job/holders").key(&new_key());
        cluster.client(1).send(&order).await.expect_status(204);
        let lost = held.wait_with_output().await.unwrap();
        assert!(String::from_utf8_lossy(&lost.stderr).contains("the lock was lost"), "{lost:?}");
        assert_codes(&[lost], 79);
    });
}

#[test]
fn python_counts_under_a_lock_with_only_its_standard_library() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        count(10, |counter| script(&cluster, "with_lock.py", &["python", counter])).await;
        assert_eq!(cluster.client(0).queue("python").await, Vec::<serde_json::Value>::new());
    });
}
