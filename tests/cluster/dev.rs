//! `fairhold dev`: a cluster on one machine, as the command line's contract describes it.

use crate::{
    client::{Call, Client},
    harness::{NODES, SHORT, eventually, free_ports, program, run_exclusive, signal_pid},
};
use rustix::process::Signal;
use std::{fs, process::Stdio, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::{Child, ChildStdout},
};

/// A ready `fairhold dev`, and its output until it was ready.
#[derive(Debug)]
struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    nodes: Vec<u32>,
    client: Client,
    _folder: TempDir,
}

/// A process's state, as one letter, and its parent; `None` if it is gone.
fn process(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether a process has ended, even if its status was not collected.
fn has_ended(pid: u32) -> bool {
    process(pid).is_none_or(|(state, _)| state == 'Z')
}

/// The running child processes of a process.
fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc can be read");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| process(*pid).is_some_and(|(state, its_parent)| its_parent == parent && state != 'Z')).collect()
}

async fn start() -> Dev {
    let folder = tempfile::Builder::new().prefix("fairhold-dev-").tempdir().expect("a temporary folder");
    let port = free_ports(&[0, 1, 2, 100, 101, 102]);
    let mut command = program();
    command.args(["dev", "--nodes", "3", "--port", &port.to_string(), "--dir"]).arg(folder.path().join("data"));
    let log = fs::File::create(folder.path().join("log")).expect("a log file");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
    let mut child = command.spawn().expect("fairhold dev starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut printed = Vec::new();
    for _ in 0..=NODES {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing more within a minute after {printed:?}"));
        let line = line.expect("its output can be read");
        printed.push(line.unwrap_or_else(|| {
            let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            panic!("its output ended after {printed:?}; its log:\n{log}")
        }));
    }
    let urls: Vec<String> = (0..3).map(|index| format!("http://127.0.0.1:{}", port + index)).collect();
    let mut nodes = vec![0; NODES];
    for line in &printed[..NODES] {
        let words: Vec<&str> = line.split(' ').collect();
        let ["node", number, "pid", pid, url] = words[..] else { panic!("not as the contract says: {line}") };
        let index = number.parse::<usize>().expect("a number") - 1;
        assert_eq!(url, urls[index], "{line}");
        nodes[index] = pid.parse().expect("a process number");
    }
    assert_eq!(printed[NODES], format!("ready {}", urls.join(" ")));
    Dev { child, lines, nodes, client: Client::new(urls), _folder: folder }
}

impl Dev {
    fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    async fn assert_all_ready(&self) {
        for node in 0..NODES {
            let answer = self.client.send_to(node, &Call::get("/readyz")).await;
            assert_eq!(answer.expect("it takes connections").status, 200, "node {}", node + 1);
        }
    }

    /// Sends the signal, and asserts that no process outlives it.
    async fn end_by(mut self, signal: Signal) {
        let nodes = children_of(self.pid());
        assert_eq!(nodes.len(), NODES, "its nodes run: {nodes:?}");
        signal_pid(self.pid(), signal);
        self.child.wait().await.expect("it can be waited for");
        eventually("its nodes end too", Duration::from_secs(20), || async {
            nodes.iter().all(|pid| has_ended(*pid)).then_some(())
        })
        .await;
        let mut rest = String::new();
        self.lines.into_inner().read_to_string(&mut rest).await.expect("its output can be read");
        assert_eq!(rest, "", "nothing comes after the ready line");
    }
}

#[test]
fn dev_prints_its_nodes_restarts_a_killed_node_and_takes_its_nodes_along_when_killed() {
    run_exclusive(SHORT, async {
        let dev = start().await;
        let mut children = children_of(dev.pid());
        children.sort_unstable();
        let mut printed = dev.nodes.clone();
        printed.sort_unstable();
        assert_eq!(children, printed, "the printed numbers are those of its nodes");
        dev.assert_all_ready().await;
        let grant = dev.client.acquire("before", "ttl=60s").await;

        let killed = dev.nodes[1];
        signal_pid(killed, Signal::KILL);
        eventually("the killed node is another process now", Duration::from_secs(30), || async {
            let children = children_of(dev.pid());
            (children.len() == NODES && !children.contains(&killed)).then_some(())
        })
        .await;
        eventually("all nodes are ready again", Duration::from_secs(30), || async {
            let answer = dev.client.send_to(1, &Call::get("/readyz")).await;
            answer.is_ok_and(|answer| answer.status == 200).then_some(())
        })
        .await;
        dev.assert_all_ready().await;
        assert!(dev.client.fence_passes("before", grant.token).await);

        dev.end_by(Signal::KILL).await;
    });
}

#[test]
fn ctrl_c_ends_dev_and_all_of_its_nodes() {
    run_exclusive(SHORT, async {
        let dev = start().await;
        dev.end_by(Signal::INT).await;
    });
}

#[test]
fn a_secure_dev_cluster_prints_what_commands_need() {
    run_exclusive(SHORT, async {
        let folder = tempfile::Builder::new().prefix("fairhold it's dev-").tempdir().expect("a temporary folder");
        let port = free_ports(&[0, 100]);
        let log = folder.path().join("log");
        let mut command = program();
        command.args(["dev", "--secure", "--nodes", "1", "--port", &port.to_string(), "--dir"]).arg(folder.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(&log).expect("a log file"));
        let mut child = command.kill_on_drop(true).spawn().expect("fairhold dev starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let url = format!("https://127.0.0.1:{port}");
        let ready = async {
            while let Some(line) = lines.next_line().await.expect("its output can be read") {
                if line == format!("ready {url}") {
                    return;
                }
            }
            panic!("it ended: {}", fs::read_to_string(&log).unwrap_or_default());
        };
        tokio::time::timeout(Duration::from_secs(60), ready).await.expect("it is ready within a minute");
        let printed = eventually("the next steps", Duration::from_secs(10), || async {
            let text = fs::read_to_string(&log).expect("its log");
            text.contains("dev: then: ").then_some(text)
        })
        .await;
        let exports: String = printed
            .lines()
            .filter_map(|line| line.strip_prefix("dev:   export "))
            .map(|line| format!("export {line}\n"))
            .collect();
        let run = async |script: &str| {
            let mut shell = tokio::process::Command::new("sh");
            shell.args(["-c", &format!("{exports}{script}"), env!("CARGO_BIN_EXE_fairhold")]);
            let output = shell.env("no_proxy", "*").kill_on_drop(true).output().await.expect("the commands run");
            let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
            (output.status.code(), text)
        };
        let (code, text) = run("\"$0\" cluster members -o plain && \"$0\" doctor").await;
        assert!(code == Some(0) && text.contains(&url) && text.contains("certificate for nodes is valid"), "{text}");
        let (code, text) = run("\"$0\" access whoami -o plain && \"$0\" lock deploy -- echo under the lock").await;
        assert!(code == Some(0) && text.contains("user:dev") && text.contains("under the lock"), "{text}");
        let (code, text) = run("unset FAIRHOLD_AUTH_TOKEN_FILE; \"$0\" access whoami -o plain").await;
        assert!(code == Some(0) && text.contains("user:dev"), "the certificate is enough: {text}");
        let nothing = "unset FAIRHOLD_AUTH_TOKEN_FILE FAIRHOLD_CERT FAIRHOLD_KEY";
        let (code, text) = run(&format!("{nothing}; \"$0\" lock deploy -- echo under the lock")).await;
        assert!(code == Some(77) && !text.contains("under the lock"), "{code:?}: {text}");
        signal_pid(child.id().expect("it runs"), Signal::INT);
        child.wait().await.expect("it can be waited for");
    });
}
