//! Many guards in one program with few file descriptors, on a healthy cluster: none is lost. A program without
//! free descriptors reports that.

use crate::{
    basics::urls,
    harness::{Cluster, LONG, report, run_exclusive},
    trial,
};
use fairhold_client::{Client, Error, Guard};
use futures_util::future::{join_all, select_all};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{fs, process::Stdio, time::Duration};
use tokio::process::Command;

/// The endpoints for the program with few descriptors, and how many guards it takes.
const ENDPOINTS: &str = "FAIRHOLD_TEST_GUARDS_ENDPOINTS";
const GUARDS: &str = "FAIRHOLD_TEST_GUARDS";
const FILES: &str = "FAIRHOLD_TEST_FILES";
const TTL: Duration = Duration::from_secs(15);
/// The usual limit of a program.
const FILES_USUAL: u64 = 1_024;

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").expect("the list of open files").count()
}

fn bound_files(files: u64) {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..limit }).expect("a limit can be lowered");
}

/// Takes all guards at once, and holds them for longer than two leases; returns how many remain.
async fn hold(endpoints: &str, guards: usize) -> usize {
    let client = Client::builder().endpoint(endpoints).timeout(Duration::from_secs(60)).build().expect("a client");
    let taking = (0..guards).map(|guard| client.lock(&format!("many-{guard}")).ttl(TTL).into_future());
    let taken: Vec<Guard> = join_all(taking).await.into_iter().map(|guard| guard.expect("a guard")).collect();
    let any = select_all(taken.iter().map(|guard| Box::pin(guard.lost())));
    if let Ok((lost, which, _)) = tokio::time::timeout(TTL * 2 + TTL / 2, any).await {
        report(&format!("guard {which} was lost: {lost}"));
    }
    let held = taken.iter().filter(|guard| guard.is_held()).count();
    report(&format!("{held} of {guards} guards are held, with {} files open", open_files()));
    taken.into_iter().for_each(Guard::forget);
    held
}

/// The program is this test, in its own process.
#[test]
fn many_guards_without_a_session_are_kept_alive_with_few_descriptors() {
    if let (Ok(endpoints), Ok(guards), Ok(files)) = (std::env::var(ENDPOINTS), std::env::var(GUARDS), std::env::var(FILES)) {
        bound_files(files.parse().expect("a number"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let guards: usize = guards.parse().expect("a number");
        assert_eq!(runtime.block_on(hold(&endpoints, guards)), guards);
        return;
    }
    let (guards, files) = trial::size((400, FILES_USUAL / 4), (2_000, FILES_USUAL));
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let mut program = Command::new(std::env::current_exe().expect("this program"));
        program.args(["--exact", "guards::many_guards_without_a_session_are_kept_alive_with_few_descriptors", "--nocapture"]);
        program.env(ENDPOINTS, urls(&cluster)).env(GUARDS, guards.to_string()).env(FILES, files.to_string());
        let status = program.stdin(Stdio::null()).kill_on_drop(true).status().await.expect("it runs");
        assert!(status.success(), "{guards} guards with {files} descriptors");
    });
}

/// The program is this test, in its own process.
#[test]
fn a_program_without_free_descriptors_gets_a_clear_error() {
    if let Ok(endpoints) = std::env::var(ENDPOINTS) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let error = runtime.block_on(async {
            let client = Client::builder().endpoint(&endpoints).timeout(Duration::from_secs(1)).build().expect("a client");
            // The list of open files takes a descriptor itself.
            bound_files(open_files() as u64 - 1);
            let error = client.lock("none").try_now().await.unwrap_err();
            assert_eq!(client.contact().failure.map(|failure| failure.contains("limit on open files")), Some(true));
            error
        });
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("this program has reached its limit on open files and connections"), "{error}");
        return;
    }
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let mut program = Command::new(std::env::current_exe().expect("this program"));
        program.args(["--exact", "guards::a_program_without_free_descriptors_gets_a_clear_error", "--nocapture"]);
        let status = program.env(ENDPOINTS, urls(&cluster)).stdin(Stdio::null()).kill_on_drop(true).status().await;
        assert!(status.expect("it runs").success());
    });
}
