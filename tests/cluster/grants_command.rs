//! `fairhold grants`, `elections`, `sessions` and the options of `lock`: what a script can do with a grant, command by
//! command.

use crate::{
    commands::{at, output_of},
    harness::{Cluster, LONG, SHORT, run_parallel},
};
use std::process::{Output, Stdio};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

/// The cells of the first line.
fn cells(text: &str) -> Vec<String> {
    text.lines().next().unwrap_or_default().split('\t').map(str::to_owned).collect()
}

/// The first lines of a command that does not end on its own.
async fn lines(cluster: &Cluster, line: &str, count: usize) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairhold"));
    command.args(line.split(' ')).args(["-e", &cluster.nodes[1].url]).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("fairhold starts");
    let mut output = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut lines = Vec::new();
    while lines.len() < count {
        lines.push(output.next_line().await.expect("it can be read").expect("it has not ended"));
    }
    lines
}

/// Runs commands at changing nodes: a script does not depend on the node.
struct Shell<'c> {
    cluster: &'c Cluster,
    turn: std::cell::Cell<usize>,
}

impl Shell<'_> {
    async fn run(&self, line: &str) -> Output {
        let turn = self.turn.replace(self.turn.get() + 1);
        let words: Vec<&str> = line.split(' ').collect();
        at(self.cluster, turn % self.cluster.nodes.len(), &words).await
    }

    async fn done(&self, line: &str) -> Vec<String> {
        cells(&output_of(&self.run(line).await, 0))
    }

    async fn fails(&self, line: &str, code: i32, why: &str) {
        let text = output_of(&self.run(line).await, code);
        assert!(text.contains(why), "{why:?} is not in {text:?}");
    }
}

fn shell(cluster: &Cluster) -> Shell<'_> {
    Shell { cluster, turn: std::cell::Cell::new(0) }
}

#[test]
fn a_script_acquires_renews_and_releases_a_grant_by_its_id() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let sh = shell(&cluster);
        let first = sh.done("grants take deploy --ttl 1m --owner ci-7 --meta build=81 --lock-delay 1s --max-hold 1h").await;
        let (id, token) = (&first[0], &first[3]);
        assert_eq!((first[1].as_str(), first[2].as_str()), ("deploy", "held"));
        let options = "--ttl 1m --owner ci-7 --meta build=81 --lock-delay 1s --max-hold 1h";
        let again = sh.done(&format!("grants take deploy {options} --idempotency-key {id}")).await;
        assert_eq!(again[..4], first[..4], "the same key is the same grant");
        sh.fails("grants take deploy", 75, "ci-7").await;
        sh.fails("grants take deploy --wait 200ms", 75, "did not become free").await;
        let late = sh.done("grants take deploy --respond-async --ttl 1m").await;
        let urgent = sh.done("grants take deploy --respond-async --ttl 1m --priority 5").await;
        assert_eq!((late[2].as_str(), late[5].as_str(), urgent[5].as_str()), ("queued", "2", "2"), "the urgent one comes first");
        assert_eq!(sh.done(&format!("grants renew {id} --ttl 2m")).await[0], "2m");
        sh.done(&format!("locks fence deploy {token} --grant {id}")).await;
        let queue = output_of(&sh.run("locks queue deploy -o json").await, 0);
        assert!(queue.contains(r#""meta":{"build":"81"}"#), "{queue}");
        sh.done(&format!("grants release {id}")).await;
        sh.fails(&format!("locks fence deploy {token}"), 1, "stale_token").await;
        assert_eq!(sh.done(&format!("grants show {} --wait 10s", urgent[0])).await[2], "held");
        sh.done(&format!("grants release {}", urgent[0])).await;
        assert_eq!(sh.done(&format!("grants show {} --wait 10s", late[0])).await[2], "held");
        sh.fails(&format!("grants show {}", urgent[0]), 1, "grant_gone").await;
        sh.done("locks set deploy --max-waiters 0").await;
        sh.fails("grants take deploy --wait 10s", 75, "queue_full").await;
        sh.fails("grants take a b --limit 2", 2, "several locks").await;
        sh.fails("grants take a --reentrant", 2, "--session").await;
    });
}

#[test]
fn a_script_changes_the_mode_of_a_grant_and_acquires_several_locks_in_one_step() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let sh = shell(&cluster);
        let one = sh.done("grants take table --shared --ttl 1m").await;
        let two = sh.done("grants take table --shared --ttl 1m").await;
        sh.fails(&format!("grants upgrade {}", one[0]), 75, "lock_held").await;
        sh.done(&format!("grants release {}", two[0])).await;
        let alone = sh.done(&format!("grants upgrade {} --wait 10s", one[0])).await;
        assert_eq!(alone[4], "exclusive");
        let token = |row: &[String]| row[3].parse::<u64>().expect("a token");
        assert!(token(&alone) > token(&one), "a new token");
        let shared = sh.done(&format!("grants downgrade {}", one[0])).await;
        assert_eq!((shared[4].as_str(), token(&shared)), ("shared", token(&alone)));

        let both = output_of(&sh.run("grants take orders --and-shared stock --ttl 1m -o json").await, 0);
        assert!(both.contains(r#"{"name":"stock","mode":"shared"}"#), "{both}");
        sh.done("grants take stock --shared").await;
        sh.fails("grants take orders", 75, "lock_held").await;
        let permits = sh.done("grants take gpu --limit 4 --permits 3").await;
        sh.fails("grants take gpu --permits 2", 75, "lock_held").await;
        sh.done(&format!("grants release {}", permits[0])).await;
    });
}

#[test]
fn a_session_of_a_script_owns_its_grants_and_its_nodes() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let sh = shell(&cluster);
        let opened = sh.done("sessions open --ttl 1m --name nightly --meta host=n7").await;
        let (id, number) = (&opened[0], &opened[1]);
        let take = format!("grants take deploy --session {id} --owner me --reentrant");
        let (outer, inner) = (sh.done(&take).await, sh.done(&take).await);
        assert!(outer[0] != inner[0] && outer[3] == inner[3], "two holds of one grant: {outer:?} {inner:?}");
        sh.done(&format!("grants release {}", inner[0])).await;
        assert_eq!(sh.done(&format!("grants show {}", outer[0])).await[2], "held");
        sh.done(&format!("node create /workers/3 --parents --session {id} n7")).await;
        sh.fails("node put /nothing --exists x", 1, "version_mismatch").await;
        sh.done("node put /box --container x").await;
        assert_eq!(sh.done(&format!("sessions keepalive {id}")).await[0], "1m");
        let gone = "0".repeat(32);
        let kept = sh.run(&format!("sessions keepalive {id} {gone}")).await;
        assert!(output_of(&kept, 1).contains("1 of 2 sessions have ended"), "{kept:?}");
        assert!(String::from_utf8_lossy(&kept.stdout).contains(&format!("{id}\talive")), "{kept:?}");
        let shown = output_of(&sh.run(&format!("sessions show {number}")).await, 0);
        assert!(shown.contains("nightly") && shown.contains("/workers/3"), "{shown}");
        let revision = sh.done("node put /box y").await[2].clone();
        sh.done(&format!("node get /box --local --min-revision {revision}")).await;
        sh.fails(&format!("sessions close {number}"), 2, "sessions end").await;
        sh.done(&format!("sessions close {id}")).await;
        sh.fails(&format!("grants show {}", outer[0]), 1, "grant_gone").await;
        sh.fails("node get /workers/3", 1, "no_node").await;
        sh.fails("locks show deploy --wait 100ms", 1, "nothing changed").await;
    });
}

#[test]
fn a_script_sees_the_leader_and_the_leader_proclaims() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let sh = shell(&cluster);
        sh.fails("elections show primary", 1, "no_leader").await;
        let leads = sh.done("grants take primary --value http://a:1 --ttl 1m").await;
        let shown = output_of(&sh.run("elections show primary").await, 0);
        assert!(shown.contains("value\thttp://a:1\n"), "{shown}");
        sh.done(&format!("elections proclaim primary http://a:2 --grant {}", leads[0])).await;
        sh.fails(&format!("elections proclaim primary x --grant {}", "0".repeat(26)), 1, "not_leader").await;
        let listed = output_of(&sh.run("elections ls --prefix pri").await, 0);
        let cells: Vec<&str> = listed.trim_end().split('\t').collect();
        assert_eq!((cells.len(), cells[0], cells[2], cells[6]), (7, "primary", "http://a:2", "0"), "{listed}");
        assert_eq!(output_of(&sh.run("elections ls --prefix other").await, 0), "");
        let body = output_of(&sh.run("elections ls --limit 1 -o json").await, 0);
        assert!(body.contains(r#""election":"primary""#) && body.contains(r#""next_cursor":null"#), "{body}");
        let seen = lines(&cluster, "elections watch primary", 1).await.concat();
        assert!(seen.starts_with("elected\t") && seen.contains("\thttp://a:2\t"), "{seen}");
    });
}

#[test]
fn a_command_that_holds_for_too_long_is_stopped_and_the_queue_shows_its_meta() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let (url, fairhold) = (&cluster.nodes[0].url, env!("CARGO_BIN_EXE_fairhold"));
        let queue = [fairhold, "locks", "queue", "loom", "-o", "json", "-e", url];
        let options = ["lock", "-e", url, "loom", "--meta", "build=81", "--meta", "host=n7", "--"];
        let output = Command::new(fairhold).args(options).args(queue).output().await.expect("it runs");
        assert!(output_of(&output, 0).contains(r#""meta":{"build":"81","host":"n7"}"#), "{output:?}");
        let long = ["lock", "-e", url, "loom", "--max-hold", "1s", "--", "sleep", "600"];
        let output = Command::new(fairhold).args(long).output().await.expect("it runs");
        assert_eq!(output.status.code(), Some(79), "{output:?}");
        let wrong = ["lock", "-e", url, "loom", "--meta", "build", "--", "true"];
        let output = Command::new(fairhold).args(wrong).output().await.expect("it runs");
        assert!(output_of(&output, 2).contains("KEY=VALUE"), "{output:?}");
    });
}

#[test]
fn the_options_of_a_watch_in_a_shell_narrow_it() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let sh = shell(&cluster);
        for path in ["/app", "/app/a", "/app/a/deep"] {
            sh.done(&format!("node put {path} x")).await;
        }
        let session = sh.done("sessions open --ttl 1m").await;
        for (narrow, there) in [("/app --only", 1), ("/app --children", 2), ("/app", 3)] {
            let seen = lines(&cluster, &format!("watch {narrow} --initial -o ndjson"), there + 1).await;
            let (initial, last) = seen.split_at(there);
            assert!(initial.iter().all(|line| line.contains(r#""type":"initial""#)), "{narrow}: {seen:?}");
            assert!(last[0].contains("bookmark"), "{narrow}: {seen:?}");
        }
        sh.done("grants take orders/42 --ttl 1m").await;
        let seen = lines(&cluster, "watch --lock orders --below --initial -o ndjson", 1).await;
        assert!(seen[0].contains(r#""lock":"orders/42""#), "{seen:?}");
        let seen = lines(&cluster, &format!("watch --session {} --initial", session[1]), 1).await;
        assert!(seen[0].contains(&session[1]), "{seen:?}");
        sh.fails("watch /app --only --lock a --below", 2, "two watches").await;
    });
}
