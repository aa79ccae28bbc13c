//! The machines `a` to `f` of the pages for operators, on this one: folders with their own `/var`, `/etc`, `/usr` and ports.
//! The commands of a page run there as they stand.

use crate::harness::free_ports;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

pub(crate) const HOSTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// The ports of a machine, as the pages have them, and their distance from the first free port here.
const PORTS: [(u16, u16); 2] = [(7171, 0), (7271, 100)];
const KEYS: &str = "--peer-key-file /etc/fairhold/peer.key --insecure --admin-token-file /etc/fairhold/admin.token";
const FOLDERS: [&str; 3] = ["/var/", "/etc/", "/usr/"];
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fairhold");

/// The blocks of a page for the shell, without their indentation.
pub(crate) fn blocks(page: &str) -> Vec<String> {
    blocks_of(page, "```sh")
}

/// The blocks of a page that begin with this line.
fn blocks_of(page: &str, first: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in page.lines() {
        let text = line.trim_start();
        match &mut open {
            None if text == first => open = Some((line.len() - text.len(), String::new())),
            None => {}
            Some(_) if text == "```" => found.extend(open.take().map(|(_, block)| block)),
            Some((indentation, block)) => *block += &format!("{}\n", line.get(*indentation..).unwrap_or_default()),
        }
    }
    found
}

/// The machine that a block names in its first line.
pub(crate) fn machine(block: &str) -> &str {
    block.lines().next().and_then(|line| line.strip_prefix("# on ")).expect("the first line names the machine")
}

pub(crate) struct Machines {
    root: TempDir,
    port: u16,
    /// What the page exports, for every further block.
    exported: String,
    /// The nodes, by the machine on which they were started.
    pub(crate) nodes: BTreeMap<String, Child>,
    /// What all commands have printed.
    said: String,
}

impl Machines {
    /// Machines with the program, and without nodes.
    pub(crate) fn new() -> Machines {
        let offsets: Vec<u16> = PORTS.iter().flat_map(|(_, from)| (0..6).map(move |host| from + host)).collect();
        let port = free_ports(&offsets);
        let root = tempfile::tempdir().expect("a folder");
        for host in HOSTS {
            let machine = root.path().join(host);
            for folder in ["var/lib", "etc/fairhold", "usr/local/bin"] {
                fs::create_dir_all(machine.join(folder)).expect("a folder");
            }
            for name in ["usr/local/bin/fairhold", "fairhold-new"] {
                symlink(PROGRAM, machine.join(name)).expect("a link");
            }
            // Both machines are this one.
            write(&machine.join("usr/local/bin/scp"), "#!/bin/sh\nexec cp \"$@\"\n", 0o700);
        }
        Machines { root, port, exported: String::new(), nodes: BTreeMap::new(), said: String::new() }
    }

    /// Three nodes, as on the page about three machines.
    pub(crate) async fn start() -> Machines {
        let mut machines = Machines::new();
        machines.share_keys();
        for host in &HOSTS[..3] {
            machines.start_node(host).await;
        }
        for host in &HOSTS[..3] {
            machines.run(&format!("# on {host}\nfairhold cluster ready -e http://{host}:7171 --timeout 60s\n")).await;
        }
        machines
    }

    /// Gives the first three machines the keys of their cluster.
    pub(crate) fn share_keys(&self) {
        for host in &HOSTS[..3] {
            let folder = self.folder(host).join("etc/fairhold");
            write(&folder.join("peer.key"), &"0123456789abcdef".repeat(4), 0o600);
            write(&folder.join("admin.token"), &"fedcba9876543210".repeat(4), 0o600);
        }
    }

    /// The root directory of a machine.
    pub(crate) fn folder(&self, host: &str) -> PathBuf {
        self.root.path().join(host)
    }

    /// Starts a node with its first command.
    pub(crate) async fn start_node(&mut self, host: &str) {
        self.start_node_with(host, KEYS).await;
    }

    /// Like `start_node`, with these options instead of the usual ones.
    pub(crate) async fn start_node_with(&mut self, host: &str, options: &str) {
        let id = HOSTS.iter().position(|known| *known == host).expect("a machine") + 1;
        let members = "--member 1=http://a:7171,a:7271 --member 2=http://b:7171,b:7271 --member 3=http://c:7171,c:7271";
        self.run(&format!("# on {host}\nfairhold serve --id {id} --data /var/lib/fairhold {members} {options}\n")).await;
    }

    /// A script for one of the machines.
    fn localized(&self, block: &str, host: &str) -> String {
        let root = self.root.path().display();
        let mut text = format!("{}{block}", self.exported);
        for (number, other) in (0..).zip(HOSTS) {
            for (port, from) in PORTS {
                text = text.replace(&format!("{other}:{port}"), &format!("127.0.0.1:{}", self.port + from + number));
            }
            for folder in FOLDERS {
                text = text.replace(&format!(" {other}:{folder}"), &format!(" {root}/{other}{folder}"));
            }
        }
        // The certificates of a page name its machines.
        text = text.replace("--host a,b,c", "--host 127.0.0.1");
        for folder in FOLDERS {
            text = text.replace(&format!(" $host:{folder}"), &format!(" {root}/$host{folder}"));
            for before in [" ", "=", "*"] {
                text = text.replace(&format!("{before}{folder}"), &format!("{before}{root}/{host}{folder}"));
            }
        }
        // A node replaces its shell, so that its exit code is the one of the script.
        text.replace("\nfairhold serve", "\nexec fairhold serve")
    }

    /// The command that runs a block on the machine that it names.
    pub(crate) fn command(&self, block: &str) -> Command {
        let host = machine(block);
        let folder = self.folder(host);
        let script = self.localized(block, host);
        let path = format!("{}:{}", folder.join("usr/local/bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        // As over `ssh`, the text is in the command line of the shell: a page's `pkill -f` must not find it there.
        command.args(["-euo", "pipefail", "-c", &script]).current_dir(&folder).env("PATH", path).env("no_proxy", "*");
        command.env_remove("FAIRHOLD_ENDPOINT").stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs a block to its end; a node is started, and stays.
    pub(crate) async fn run(&mut self, block: &str) {
        if block.starts_with("export ") {
            self.exported += block;
            return;
        }
        if block.contains("\nfairhold serve ") {
            let log = self.folder(machine(block)).join("log");
            let log = fs::OpenOptions::new().create(true).append(true).open(log).expect("a file");
            let node = self.command(block).stdout(Stdio::null()).stderr(log).spawn().expect("bash starts");
            self.nodes.insert(machine(block).to_owned(), node);
            return;
        }
        let (code, printed) = self.result(block).await;
        assert!(code == Some(0), "{block}\nprinted {printed}\nand the nodes said {}", self.logs());
    }

    /// The exit code of a block that starts no node, and everything that it prints.
    pub(crate) async fn result(&mut self, block: &str) -> (Option<i32>, String) {
        let output = self.command(block).output().await.expect("bash runs");
        let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        self.said += &printed;
        (output.status.code(), printed)
    }

    /// Runs a block that waits for a new node, and meanwhile the blocks that start that node. Returns what it has said.
    pub(crate) async fn run_beside(&mut self, waiting: &str, others: [&str; 2]) -> String {
        let mut running = self.command(waiting).stderr(Stdio::piped()).spawn().expect("bash starts");
        let mut lines = BufReader::new(running.stderr.take().expect("its output")).lines();
        let mut said = String::new();
        while !said.contains("waiting for the new node") {
            let line = lines.next_line().await.expect("it can be read");
            said += &format!("{}\n", line.unwrap_or_else(|| panic!("it ended: {said}\n{}", self.logs())));
        }
        for block in others {
            self.run(block).await;
        }
        while let Some(line) = lines.next_line().await.expect("it can be read") {
            said += &format!("{line}\n");
        }
        let status = running.wait().await.expect("it ends");
        assert!(status.success(), "{said}\n{}", self.logs());
        self.said += &said;
        said
    }

    /// Ends the node on this machine with SIGKILL.
    pub(crate) async fn kill(&mut self, host: &str) {
        self.nodes.remove(host).expect("a node was started there").kill().await.expect("it is killed");
    }

    /// Ends the node on this machine with SIGKILL, and empties the machine's disk.
    pub(crate) async fn lose(&mut self, host: &str) {
        self.kill(host).await;
        for folder in ["var", "etc"] {
            fs::remove_dir_all(self.folder(host).join(folder)).expect("the disk is there");
        }
        for folder in ["var/lib", "etc/fairhold"] {
            fs::create_dir_all(self.folder(host).join(folder)).expect("a folder");
        }
    }

    /// Asserts that the commands and the nodes have printed every line of the page's blocks of text. `…` stands for
    /// anything.
    pub(crate) fn assert_shown(&self, page: &str) {
        let mut printed = format!("{}{}", self.said, self.logs());
        for (number, host) in (0..).zip(HOSTS) {
            printed = printed.replace(&self.folder(host).display().to_string(), "");
            for (port, from) in PORTS {
                printed = printed.replace(&format!("127.0.0.1:{}", self.port + from + number), &format!("{host}:{port}"));
            }
        }
        let shown = blocks_of(page, "```text").concat();
        assert!(!shown.is_empty(), "the page shows nothing");
        for line in shown.lines() {
            assert!(printed.lines().any(|printed| has_pieces(printed, line)), "nobody said\n{line}\nbut\n{printed}");
        }
    }

    /// What all nodes have logged.
    pub(crate) fn logs(&self) -> String {
        let log = |host: &str| fs::read_to_string(self.folder(host).join("log")).unwrap_or_default();
        HOSTS.iter().map(|host| format!("\n{host}: {}", log(host))).collect()
    }

    /// The exit code of the node on this machine.
    pub(crate) async fn ended(&mut self, host: &str) -> Option<i32> {
        let mut node = self.nodes.remove(host).expect("a node was started there");
        let ended = tokio::time::timeout(Duration::from_secs(60), node.wait()).await;
        ended.unwrap_or_else(|_| panic!("the node on {host} still runs: {}", self.logs())).expect("it ends").code()
    }
}

/// Whether a line has the pieces between each `…` of another, in order.
fn has_pieces(line: &str, shown: &str) -> bool {
    let mut rest = line;
    for piece in shown.split('…').map(str::trim) {
        let Some(at) = rest.find(piece) else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    true
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}
