//! The client commands: their output, their exit codes, and their help.

use crate::{
    batches::take_often,
    client::{Call, new_key},
    harness::{Cluster, LONG, SHORT, free_port, report, run_exclusive, run_parallel, write_secret},
    lock_command::answering,
    queue::wait_for_contenders,
    terminal::Terminal,
};
use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

const FAIRHOLD: &str = env!("CARGO_BIN_EXE_fairhold");

async fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(FAIRHOLD);
    command.args(arguments).env_remove("FAIRHOLD_ENDPOINT").stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.expect("fairhold runs")
}

/// The output of a command; asserts its exit code.
#[track_caller]
pub(crate) fn output_of(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let bytes = if code == 0 { &output.stdout } else { &output.stderr };
    String::from_utf8(bytes.clone()).expect("text")
}

pub(crate) async fn at(cluster: &Cluster, node: usize, arguments: &[&str]) -> Output {
    run(&[arguments, &["-e", &cluster.nodes[node].url]].concat()).await
}

#[test]
fn locks_and_sessions_are_listed_shown_and_ended_from_a_shell() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "worker-3").await;
        client.acquire("deploy", &format!("session={}&owner=ci-7", session.id)).await;
        client.acquire("orders%2F42", "ttl=60s&owner=ci-8").await;
        let line = format!("{FAIRHOLD} locks ls -e {} | cut -f1", cluster.nodes[1].url);
        let names = Command::new("sh").args(["-c", &line]).output().await.expect("a shell");
        assert_eq!(String::from_utf8_lossy(&names.stdout), "deploy\norders/42\n", "{names:?}");
        let queue = output_of(&at(&cluster, 2, &["locks", "queue", "deploy"]).await, 0);
        assert!(queue.contains("ci-7") && queue.contains('\t'), "{queue}");
        // No field of this answer counts down.
        let http = client.send(&Call::get("/v1/locks/free/queue")).await.expect_status(200);
        let json = output_of(&at(&cluster, 2, &["locks", "queue", "free", "-o", "json"]).await, 0);
        assert_eq!(json, http.text, "the unchanged body");

        let listed = output_of(&at(&cluster, 1, &["sessions", "ls"]).await, 0);
        let number = session.number.to_string();
        let row = listed.lines().find(|line| line.split('\t').next() == Some(number.as_str()));
        assert!(row.is_some_and(|row| row.contains("worker-3")) && !listed.contains(&session.id), "{listed}");
        let shown = output_of(&at(&cluster, 1, &["sessions", "show", &number]).await, 0);
        assert!(shown.contains("deploy") && shown.contains("held") && !shown.contains("orders"), "{shown}");
        let heard = shown.lines().next().and_then(|line| line.split('\t').nth(3));
        assert!(heard.is_some_and(|heard| heard.ends_with('s')), "the time since the last keepalive: {shown}");
        output_of(&at(&cluster, 1, &["sessions", "end", &number, "--reason", "gone"]).await, 0);
        let again = output_of(&at(&cluster, 1, &["sessions", "end", &number]).await, 1);
        assert!(again.contains("session_not_found"), "{again}");
        client.keepalive(&session).await.expect_problem(410, "session_expired");
        output_of(&at(&cluster, 0, &["locks", "break", "orders/42", "--reason", "test"]).await, 0);
        assert_eq!(client.holders("orders%2F42").await, [0_u64; 0]);
    });
}

#[test]
fn a_shell_shows_all_pages_of_a_long_list_or_one_page_on_request() {
    const MANY: usize = 1_100;
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "owner").await;
        take_often(&client, &session, "book", "shared", MANY).await;
        take_often(&client, &session, "desk", "exclusive", 120).await;
        let number = session.number.to_string();
        let lines = async |arguments: &[&str]| output_of(&at(&cluster, 1, arguments).await, 0).lines().count();
        assert_eq!(lines(&["locks", "show", "book"]).await, MANY, "a row for each holder");
        assert_eq!(lines(&["locks", "show", "book", "--limit", "7"]).await, 7);
        assert_eq!(lines(&["locks", "queue", "book"]).await, MANY);
        assert_eq!(lines(&["locks", "queue", "desk", "-o", "ndjson"]).await, 120);
        assert_eq!(lines(&["locks", "queue", "book", "-o", "table"]).await, MANY + 1, "and the headings, once");
        assert_eq!(lines(&["sessions", "show", &number]).await, MANY + 120 + 1, "a row for each grant, and one for itself");

        let json = |output: &Output| serde_json::from_str::<serde_json::Value>(&output_of(output, 0)).expect("JSON");
        let page = json(&at(&cluster, 1, &["locks", "queue", "desk", "-o", "json"]).await);
        let cursor = page["next_cursor"].as_str().expect("there is more");
        assert_eq!((page["items"].as_array().map(Vec::len), &page["queue_length"]), (Some(100), &119.into()));
        assert_eq!(lines(&["locks", "queue", "desk", "--around", "last"]).await, 100, "one page");
        let middle = page["items"][60]["number"].to_string();
        let around = output_of(&at(&cluster, 1, &["locks", "queue", "desk", "--around", &middle, "--limit", "3"]).await, 0);
        let places: Vec<_> = around.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(places, ["60", "61", "62"]);
        let unknown = output_of(&at(&cluster, 1, &["locks", "queue", "desk", "--around", "1"]).await, 1);
        assert!(unknown.contains("grant_not_found") && !unknown.contains("stop all work"), "{unknown}");
        let rest = json(&at(&cluster, 1, &["locks", "queue", "desk", "-o", "json", "--cursor", cursor]).await);
        assert_eq!((rest["items"].as_array().map(Vec::len), &rest["next_cursor"]), (Some(20), &serde_json::Value::Null));
    });
}

#[test]
fn a_call_without_the_token_ends_with_77_and_one_with_it_succeeds() {
    run_parallel(SHORT, async {
        let folder = tempfile::tempdir().expect("a folder");
        let (right, wrong) = (folder.path().join("right"), folder.path().join("wrong"));
        fs::write(&right, "s3cret-of-the-file\n").expect("a file");
        fs::write(&wrong, "guess\n").expect("a file");
        let (right, wrong) = (right.to_str().expect("text"), wrong.to_str().expect("text"));
        let cluster = Cluster::start_with(&["--admin-token-file", right]).await;
        let held = cluster.client(0).acquire("guarded", "ttl=60s").await;
        let order = ["locks", "break", "guarded"];
        assert!(output_of(&at(&cluster, 0, &order).await, 77).contains("unauthenticated"));
        assert!(output_of(&at(&cluster, 1, &[&order[..], &["--auth-token-file", wrong]].concat()).await, 77).contains("denied"));
        assert!(output_of(&at(&cluster, 1, &["sessions", "end", "1"]).await, 77).contains("unauthenticated"));
        output_of(&at(&cluster, 1, &[&order[..], &["--auth-token-file", "/nowhere"]].concat()).await, 2);
        assert_eq!(cluster.client(0).holders("guarded").await, [held.number], "nothing was done");
        output_of(&at(&cluster, 2, &[&order[..], &["--auth-token-file", right]].concat()).await, 0);
        assert_eq!(cluster.client(0).holders("guarded").await, [0_u64; 0]);
    });
}

#[test]
fn the_exit_code_of_each_command_tells_the_kind_of_failure() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        assert!(output_of(&at(&cluster, 0, &["node", "get", "/nothing"]).await, 1).contains("no_node"));
        assert!(output_of(&at(&cluster, 0, &["locks", "ls", "--bogus"]).await, 2).contains("--bogus"));
        assert!(output_of(&run(&["locks", "ls", "-e", "ftp://a:1"]).await, 2).contains("http://HOST:PORT"));
        let nobody = format!("http://127.0.0.1:{}", free_port());
        output_of(&run(&["watch", "-e", &nobody, "--timeout", "300ms"]).await, 69);
        let lists: [&[&str]; 4] = [&["locks", "ls"], &["sessions", "ls"], &["node", "ls"], &["cluster", "status"]];
        for command in lists {
            let output = run(&[command, &["-e", &nobody, "--timeout", "300ms"]].concat()).await;
            assert!(output_of(&output, 69).contains(&nobody), "{command:?}");
        }
        output_of(&at(&cluster, 0, &["node", "put", "/a", "1"]).await, 0);
        assert!(output_of(&at(&cluster, 0, &["node", "put", "/a", "2", "--version", "7"]).await, 1).contains("version_mismatch"));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("txn.json");
        for (version, code) in [(0, 0), (9, 1)] {
            let txn = format!(r#"{{"if":[{{"path":"/a","version":{version}}}],"then":[],"else":[]}}"#);
            fs::write(&file, txn).expect("a file");
            output_of(&at(&cluster, 1, &["txn", "-f", file.to_str().expect("text")]).await, code);
        }
    });
}

#[test]
fn a_watch_in_a_shell_continues_after_its_node_is_gone() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let all = cluster.nodes.iter().map(|node| node.url.as_str()).collect::<Vec<_>>().join(",");
        let mut command = Command::new(FAIRHOLD);
        command.args(["watch", "/feed", "--initial", "-o", "ndjson", "-e", &all]).stdout(Stdio::piped()).kill_on_drop(true);
        cluster.client(0).write(&Call::put("/v1/nodes/feed", "")).await;
        let mut watch = command.spawn().expect("fairhold watch starts");
        let mut lines = BufReader::new(watch.stdout.take().expect("its output")).lines();
        let mut next = async || loop {
            let line = tokio::time::timeout(SHORT, lines.next_line()).await.expect("it continues");
            let line = line.expect("it can be read").expect("it has not ended");
            if !line.contains("bookmark") {
                return line;
            }
        };
        assert!(next().await.ends_with(r#""type":"initial","path":"/feed","version":0}"#));
        for node in 0..cluster.nodes.len() {
            cluster.nodes[node].kill().await;
            let put = Call::put(&format!("/v1/nodes/feed/{node}"), "");
            let revision = cluster.client(node + 1).write(&put).await.number("revision");
            let wanted = format!(r#"{{"revision":{revision},"type":"created","path":"/feed/{node}"}}"#);
            assert_eq!(next().await, wanted);
            cluster.restart(node).await;
        }
    });
}

#[test]
fn the_configuration_of_a_node_is_shown_with_its_origins_and_checked() {
    run_parallel(SHORT, async {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("fairhold.toml");
        let key = folder.path().join("peer.key");
        write_secret(&key, "0123456789abcdef0123456789abcdef");
        let (data, key) = (folder.path().join("data").display().to_string(), key.display().to_string());
        let text =
            format!("data = \"{data}\"\npeer-key-file = \"{key}\"\ninsecure = true\nmember = [\"1=http://a:7171,a:7271\"]\n");
        fs::write(&file, text).expect("a file");
        let path = file.to_str().expect("text");
        let mut command = Command::new(FAIRHOLD);
        command.args(["config", "show", "--origin", "--config", path, "--id", "1"]).env("FAIRHOLD_LOG", "warn");
        let shown = output_of(&command.output().await.expect("it runs"), 0);
        let line = |name: &str| shown.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap_or_default();
        assert_eq!(line("id"), "id = 1  # flag --id");
        assert_eq!(line("data"), format!("data = \"{data}\"  # file {path}"));
        assert_eq!(line("peer-key-file"), format!("peer-key-file = \"{key}\"  # file {path}"));
        assert_eq!(line("log"), "log = \"warn\"  # environment FAIRHOLD_LOG");
        assert!(line("connections-max").ends_with("# default"), "{shown}");
        let checked = output_of(&run(&["config", "check", "--config", path, "--id", "1"]).await, 0);
        assert!(checked.starts_with("ok: node 1, "), "{checked}");
        assert!(!std::path::Path::new(&data).exists(), "a check makes nothing");
        assert!(output_of(&run(&["config", "check", "--config", path, "--id", "2"]).await, 2).contains("member"));
        fs::write(&file, "memebr = []\n").expect("a file");
        let wrong = output_of(&run(&["config", "check", "--config", path]).await, 2);
        assert!(wrong.contains("memebr") && wrong.contains("member"), "a suggestion: {wrong}");
    });
}

#[test]
fn completions_load_in_bash_and_know_the_commands() {
    run_parallel(SHORT, async {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("fairhold.bash");
        fs::write(&script, run(&["completions", "bash"]).await.stdout).expect("a file");
        let complete = async |words: &str, index: usize| {
            let word = format!("\"${{COMP_WORDS[{index}]}}\"");
            let before = format!("\"${{COMP_WORDS[{index}-1]}}\"");
            let line = format!(
                "set -eu; source {}; complete -p fairhold >&2; COMP_WORDS=({words}); COMP_CWORD={index}; set +eu; \
                 _fairhold fairhold {word} {before}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                script.display()
            );
            let output = Command::new("bash").args(["--norc", "-c", &line]).output().await.expect("bash runs");
            assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("_fairhold"), "{output:?}");
            String::from_utf8(output.stdout).expect("text")
        };
        let commands = complete("fairhold lo", 1).await;
        assert_eq!(commands, "lock\nlocks\n", "hidden commands are not offered");
        let flags = complete("fairhold lock --kill", 2).await;
        assert_eq!(flags, "--kill-after\n");
        let below = complete("fairhold sessions ''", 2).await;
        assert!(["ls", "show", "end"].iter().all(|word| below.lines().any(|line| line == *word)), "{below}");
        for shell in ["zsh", "fish", "powershell", "elvish"] {
            assert!(output_of(&run(&["completions", shell]).await, 0).contains("fairhold"), "{shell}");
        }
        let manual = output_of(&run(&["man"]).await, 0);
        assert!(manual.starts_with(".ie") || manual.starts_with(".TH"), "{manual}");
    });
}

#[test]
fn the_help_of_lock_explains_itself_to_users_of_flock() {
    run_parallel(SHORT, async {
        let help = output_of(&run(&["lock", "--help"]).await, 0);
        for word in ["flock", "-n, --nonblock", "-w, --wait", "-E, --conflict-exit-code", "-s, --shared", "-x, --exclusive"] {
            assert!(help.contains(word), "{word} is not in\n{help}");
        }
        for word in ["FAIRHOLD_TOKEN", "75", "79", "69", "77", "127", "Examples:", "lease", "daemon", "sudo", "--kill-after"] {
            assert!(help.contains(word), "{word} is not in\n{help}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 130), "{help}");
    });
}

#[test]
fn a_list_that_an_older_node_does_not_know_names_the_reason() {
    run_parallel(SHORT, async {
        let older = answering("404 Not Found", r#"{"code":"not_found","detail":"there is nothing here"}"#).await;
        for arguments in [["elections", "ls"], ["locks", "history"]] {
            let output = run(&[&arguments[..], &["-e", &older]].concat()).await;
            assert!(output_of(&output, 1).contains("name an upgraded node with -e URL"), "{output:?}");
        }
    });
}

/// Waits until the queue at the bottom of `top` shows one owner, and not the other.
async fn shows_queue(top: &Terminal, wanted: &str, other: &str) {
    crate::harness::eventually("its queue is shown", SHORT, || async {
        let screen = crate::terminal::screen(&top.text());
        let queue = screen.split("PLACE").last().unwrap_or_default();
        (queue.contains(wanted) && !queue.contains(other)).then_some(())
    })
    .await;
}

#[test]
fn top_shows_nodes_locks_and_the_chosen_queue_and_reacts_to_its_keys() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        client.acquire("aardvark", "ttl=90s&owner=first").await;
        client.acquire("zebra", "ttl=90s&owner=second").await;
        let waiting = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.acquire("zebra", "wait=90s&owner=third").await })
        };
        wait_for_contenders(&client, "zebra", 2).await;
        let mut top = Terminal::start(FAIRHOLD, &["top", "-e", &cluster.nodes[0].url], &[]);
        let screen = top.screen_with(&[&cluster.nodes[2].url, "aardvark", "zebra", "second", "third", "PLACE"]).await;
        report(&format!("fairhold top:\n{screen}"));
        // The lock with the longest wait is chosen.
        shows_queue(&top, "third", "first").await;
        top.keys("j");
        shows_queue(&top, "first", "third").await;
        top.keys("\x1b[A");
        shows_queue(&top, "third", "first").await;
        client.send(&Call::delete("/v1/locks/zebra/holders").key(&new_key())).await.expect_status(204);
        waiting.await.expect("the waiter's task");
        let live = crate::harness::eventually("the change is seen", SHORT, || async {
            let screen = crate::terminal::screen(&top.text());
            (!screen.contains("second")).then_some(screen)
        });
        live.await;
        top.keys("q");
        assert_eq!(top.child.wait().await.expect("it ends").code(), Some(0));
        let restored = || async { top.text().contains("\x1b[?1049l").then_some(()) };
        crate::harness::eventually("the terminal is as before", SHORT, restored).await;
        let output = at(&cluster, 0, &["top"]).await;
        assert!(output_of(&output, 2).contains("needs a terminal"));
    });
}

#[test]
fn top_ends_when_its_window_is_closed() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        for stdin in ["/dev/tty", "/dev/null"] {
            let top = format!("echo process $$; exec {FAIRHOLD} top -e {} <{stdin}", cluster.nodes[0].url);
            // The inner terminal is gone as soon as `script` is.
            let mut window = Terminal::start("script", &["--quiet", "--command", &top, "/dev/null"], &[]);
            window.screen_with(&[&cluster.nodes[2].url]).await;
            let text = window.text();
            let process = text.split("process ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("its number");
            let process = process.parse::<u32>().expect("a number");
            window.child.kill().await.expect("it runs");
            let ended = || async { (!Path::new(&format!("/proc/{process}/exe")).exists()).then_some(()) };
            crate::harness::eventually(&format!("top with stdin from {stdin} has ended"), SHORT, ended).await;
        }
    });
}

#[test]
fn the_command_owns_the_terminal_and_ctrl_z_and_fg_suspend_and_resume_both() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let folder = Path::new(FAIRHOLD).parent().expect("a folder").display();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
        let environment = [("PATH", path.as_str()), ("FAIRHOLD_ENDPOINT", &cluster.nodes[0].url), ("PS1", "ready> ")];
        let mut shell = Terminal::start("bash", &["--norc", "--noprofile", "-i"], &environment);
        let lock = "fairhold lock --ttl 60s loom --";
        shell.shows("ready> ", 1).await;
        shell.keys(&format!("{lock} sh -c 'read line; echo got-$line; read line; echo and-$line'\n"));
        wait_for_contenders(&cluster.client(0), "loom", 1).await;
        shell.keys("one\n");
        shell.shows("got-one", 1).await;
        shell.keys("\x1a");
        shell.shows("suspended: fairhold does not renew the lock now", 1).await;
        shell.shows("Stopped", 1).await;
        shell.keys("echo shell-$((40 + 2))\n");
        shell.shows("shell-42", 1).await;
        shell.keys("fg\n");
        shell.shows(&format!("{lock} sh -c"), 3).await;
        shell.keys("two\n");
        shell.shows("and-two", 1).await;
        shell.keys("echo code-$?-\n");
        shell.shows("code-0-", 1).await;
        wait_for_contenders(&cluster.client(0), "loom", 0).await;

        shell.keys(&format!("{lock} sh -c 'echo at-$((1 + 1)); exec sleep 600'\n"));
        shell.shows("at-2", 1).await;
        shell.keys("\x03");
        shell.keys("echo after-$?-\n");
        shell.shows("after-130-", 1).await;
        wait_for_contenders(&cluster.client(0), "loom", 0).await;
        shell.keys("exit\n");
        shell.child.wait().await.expect("the shell ends");
    });
}
