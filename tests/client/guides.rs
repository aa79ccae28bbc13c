//! The guides for operators, run as they stand: every block of a page that is marked for the shell, in order. The machines
//! are folders of this one, with their own `/var`, `/etc`, `/usr` and ports.

use crate::harness::{LONG, free_ports, report, run_exclusive};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Stdio,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

const HOSTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// The ports of a machine, as the pages have them, and their distance from the first free port here.
const PORTS: [(u16, u16); 2] = [(7171, 0), (7271, 100)];
const KEYS: &str = "--peer-key-file /etc/fairhold/peer.key --insecure --admin-token-file /etc/fairhold/admin.token";
const FOLDERS: [&str; 3] = ["/var/", "/etc/", "/usr/"];
const PROGRAM: &str = env!("CARGO_BIN_EXE_fairhold");

/// A block of a page, without its indentation.
fn blocks(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in page.lines() {
        let text = line.trim_start();
        match &mut open {
            None if text == "```sh" => open = Some((line.len() - text.len(), String::new())),
            None => {}
            Some(_) if text == "```" => found.extend(open.take().map(|(_, block)| block)),
            Some((indentation, block)) => *block += &format!("{}\n", line.get(*indentation..).unwrap_or_default()),
        }
    }
    found
}

/// The machine that a block names in its first line.
fn machine(block: &str) -> &str {
    block.lines().next().and_then(|line| line.strip_prefix("# on ")).expect("the first line names the machine")
}

struct Machines {
    root: TempDir,
    port: u16,
    /// What the page exports, for every further block.
    exported: String,
    /// The nodes, by the machine on which they were started.
    nodes: BTreeMap<String, Child>,
}

impl Machines {
    /// Machines with the program, and without nodes.
    fn new() -> Machines {
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
        Machines { root, port, exported: String::new(), nodes: BTreeMap::new() }
    }

    /// Three nodes, as on the page about three machines.
    async fn start() -> Machines {
        let mut machines = Machines::new();
        for host in &HOSTS[..3] {
            let folder = machines.root.path().join(host).join("etc/fairhold");
            write(&folder.join("peer.key"), &"0123456789abcdef".repeat(4), 0o600);
            write(&folder.join("admin.token"), &"fedcba9876543210".repeat(4), 0o600);
        }
        for host in &HOSTS[..3] {
            machines.start_node(host).await;
        }
        for host in &HOSTS[..3] {
            machines.run(&format!("# on {host}\nfairhold cluster ready -e http://{host}:7171 --timeout 60s\n")).await;
        }
        machines
    }

    /// Starts a node with its first command.
    async fn start_node(&mut self, host: &str) {
        let id = HOSTS.iter().position(|known| *known == host).expect("a machine") + 1;
        let members = "--member 1=http://a:7171,a:7271 --member 2=http://b:7171,b:7271 --member 3=http://c:7171,c:7271";
        self.run(&format!("# on {host}\nfairhold serve --id {id} --data /var/lib/fairhold {members} {KEYS}\n")).await;
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

    fn command(&self, block: &str) -> Command {
        let host = machine(block);
        let folder = self.root.path().join(host);
        // In a file: `pgrep -f` must not find the text in the command line of the shell.
        let script = tempfile::Builder::new().suffix(".sh").tempfile_in(&folder).expect("a file").into_temp_path();
        let script = script.keep().expect("the file stays");
        fs::write(&script, self.localized(block, host)).expect("the script is written");
        let path = format!("{}:{}", folder.join("usr/local/bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail"]).arg(script).current_dir(&folder).env("PATH", path).env("no_proxy", "*");
        command.env_remove("FAIRHOLD_ENDPOINT").stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs a block to its end; a node is started, and stays.
    async fn run(&mut self, block: &str) {
        if block.starts_with("export ") {
            self.exported += block;
            return;
        }
        let mut command = self.command(block);
        if block.contains("\nfairhold serve ") {
            let log = fs::File::create(self.root.path().join(machine(block)).join("log")).expect("a file");
            let node = command.stdout(Stdio::null()).stderr(log).spawn().expect("bash starts");
            self.nodes.insert(machine(block).to_owned(), node);
            return;
        }
        let output = command.output().await.expect("bash runs");
        let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{block}\nprinted {printed}\nand the nodes said {}", self.logs());
    }

    fn logs(&self) -> String {
        let log = |host: &str| fs::read_to_string(self.root.path().join(host).join("log")).unwrap_or_default();
        HOSTS.iter().map(|host| format!("\n{host}: {}", log(host))).collect()
    }

    /// The exit code of the node on this machine.
    async fn ended(&mut self, host: &str) -> Option<i32> {
        let mut node = self.nodes.remove(host).expect("a node was started there");
        let ended = tokio::time::timeout(Duration::from_secs(60), node.wait()).await;
        ended.unwrap_or_else(|_| panic!("the node on {host} still runs: {}", self.logs())).expect("it ends").code()
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

#[test]
fn a_dead_machine_is_replaced_with_the_three_commands_of_the_guide() {
    let page = blocks(include_str!("../../docs/guides/replace-a-machine.md"));
    let [export, look, replace, copy, serve, members, rest @ ..] = page.as_slice() else { panic!("other blocks: {page:#?}") };
    assert!(replace.contains("cluster replace") && copy.contains("scp") && serve.contains("fairhold serve"), "{page:#?}");
    run_exclusive(LONG, async {
        let mut machines = Machines::start().await;
        machines.nodes.remove("b").expect("a node").kill().await.expect("it is killed");
        machines.run(export).await;
        machines.run(look).await;
        let mut replacing = machines.command(replace).stderr(Stdio::piped()).spawn().expect("bash starts");
        let mut lines = BufReader::new(replacing.stderr.take().expect("its output")).lines();
        let mut said = String::new();
        while !said.contains("waiting for the new node") {
            let line = lines.next_line().await.expect("it can be read");
            said += &format!("{}\n", line.unwrap_or_else(|| panic!("it ended: {said}\n{}", machines.logs())));
        }
        machines.run(copy).await;
        machines.run(serve).await;
        while let Some(line) = lines.next_line().await.expect("it can be read") {
            said += &format!("{line}\n");
        }
        let status = replacing.wait().await.expect("it ends");
        assert!(status.success() && said.ends_with("done: node 4 has replaced node 2\n"), "{said}\n{}", machines.logs());
        report(&format!("the progress of a replacement:\n{said}"));
        machines.run(members).await;
        for block in rest {
            machines.run(block).await;
        }
        // The dead machine comes back.
        machines.start_node("b").await;
        assert_eq!(machines.ended("b").await, Some(3), "{}", machines.logs());
    });
}

#[test]
fn a_cluster_grows_and_shrinks_with_the_commands_of_the_guide() {
    run_exclusive(LONG, async {
        let mut machines = Machines::start().await;
        for block in blocks(include_str!("../../docs/guides/grow-and-shrink.md")) {
            machines.run(&block).await;
            if block.contains("cluster remove 5") {
                assert_eq!(machines.ended("e").await, Some(3), "{}", machines.logs());
                assert_eq!(machines.ended("d").await, Some(3), "{}", machines.logs());
            }
        }
        machines.run("# on a\nfairhold cluster members | grep -qE '^3.*(follower|leader).*http://f:7171'\n").await;
    });
}

#[test]
fn a_cluster_is_saved_and_restored_with_the_commands_of_the_guide() {
    let page = blocks(include_str!("../../docs/guides/back-up-and-restore.md"));
    let [save, look, copy, restore, first, second, third, ready] = page.as_slice() else { panic!("other blocks: {page:#?}") };
    assert!(save.contains("backup save") && restore.contains("backup restore") && ready.contains("cluster ready"), "{page:#?}");
    run_exclusive(LONG, async {
        let mut machines = Machines::start().await;
        machines
            .run("# on a\nfairhold node put /config green -e http://a:7171 --auth-token-file /etc/fairhold/admin.token\n")
            .await;
        machines.run(save).await;
        assert_eq!(machines.ended("c").await, Some(0), "{}", machines.logs());
        for host in ["a", "b"] {
            machines.nodes.remove(host).expect("a node").kill().await.expect("it is killed");
        }
        for block in [look, copy, restore, first, second, third, ready] {
            machines.run(block).await;
        }
        machines.run("# on b\n[ \"$(fairhold node get /config -e http://b:7171)\" = green ]\n").await;
    });
}

#[test]
fn the_commands_about_regions_work() {
    run_exclusive(LONG, async {
        let mut machines = Machines::start().await;
        for block in blocks(include_str!("../../docs/guides/regions.md")) {
            machines.run(&block).await;
        }
        machines.run("# on a\nfairhold cluster members | grep -q 'http://a:7171.*80.*east'\n").await;
    });
}

#[test]
fn the_commands_about_an_upgrade_work_with_an_equal_program() {
    run_exclusive(LONG, async {
        let mut machines = Machines::start().await;
        // The disk of this machine may be nearly full, which `doctor` reports as a failure.
        let page = blocks(include_str!("../../docs/guides/upgrade.md"));
        for block in page.iter().filter(|block| !block.contains("fairhold doctor")) {
            machines.run(block).await;
            if block.contains("pkill") {
                assert_eq!(machines.ended("b").await, Some(0), "{}", machines.logs());
            } else if block.contains("./fairhold-new /usr") {
                machines.start_node("b").await;
            }
        }
        machines.run("# on b\n[ ! -L /usr/local/bin/fairhold ]\n").await;
    });
}

#[test]
fn a_secured_cluster_is_made_with_the_ten_commands_of_the_guide() {
    let page = blocks(include_str!("../../docs/guides/security.md"));
    let [certificates, serve, export, access, try_it] = page.as_slice() else { panic!("other blocks: {page:#?}") };
    let is_command = |line: &&str| ["fairhold ", "(umask ", "for "].iter().any(|start| line.starts_with(start));
    let commands = [certificates, serve, access].iter().flat_map(|block| block.lines()).filter(is_command).count();
    assert_eq!(commands, 10, "{page:#?}");
    run_exclusive(LONG, async {
        let mut machines = Machines::new();
        machines.run(certificates).await;
        for (id, host) in (1..).zip(&HOSTS[..3]) {
            let of_host = serve.replace("# on a\n", &format!("# on {host}\n")).replace("--id 1 ", &format!("--id {id} "));
            machines.run(&of_host).await;
        }
        for block in [export, access, try_it] {
            machines.run(block).await;
        }
        for (refused, exit, text) in [
            ("fairhold lock db --auth-token-file ci.token -- true", 77, "locks:db"),
            ("fairhold node get /app --auth-token-file ci.token", 77, "nodes:app"),
            ("env -u FAIRHOLD_AUTH_TOKEN_FILE fairhold locks ls", 77, "token"),
            ("fairhold lock deploy/web -e http://a:7171 --timeout 1s -- true", 69, "https"),
        ] {
            let check = format!("cat said; [ $code = {exit} ]; grep -q '{text}' said");
            machines.run(&format!("# on d\ncode=0; {refused} 2> said || code=$?; {check}\n")).await;
        }
    });
}

/// The commands of a transcript, each with what it prints. `…` at the end of a line stands for anything.
fn transcript(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        match (is_inside, line) {
            (false, "```console") => is_inside = true,
            (false, _) => {}
            (true, "```") => is_inside = false,
            (true, line) => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push((command, Vec::new())),
                (None, Some((_, printed))) => printed.push(line),
                (None, None) => panic!("{line} before the first command"),
            },
        }
    }
    steps
}

fn is_as_shown(shown: &str, printed: &str) -> bool {
    shown.strip_suffix('…').map_or(shown == printed, |start| printed.starts_with(start))
}

#[test]
fn a_newcomer_gives_a_user_few_rights_and_sees_what_the_guide_shows() {
    run_exclusive(LONG, async {
        let steps = transcript(include_str!("../../docs/guides/security.md"));
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_ports(&[0, 1, 2, 100, 101, 102]);
        let mut command = Command::new(PROGRAM);
        command.args(["dev", "--secure", "--port", &port.to_string(), "--dir"]).arg(folder.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut dev = command.spawn().expect("fairhold dev starts");
        let mut lines = BufReader::new(dev.stderr.take().expect("its output")).lines();
        let mut script = String::new();
        let mut said = String::new();
        while !said.contains("dev: then: ") {
            let line = lines.next_line().await.expect("it can be read").unwrap_or_else(|| panic!("it ended: {said}"));
            if let Some(export) = line.strip_prefix("dev:   export ") {
                script += &format!("export {export}\n");
            }
            said += &format!("{line}\n");
        }
        let reading = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        // The text between two marks is what a command prints.
        for (command, _) in &steps {
            script += &format!("echo '@@'\n{command}\n");
        }
        symlink(PROGRAM, folder.path().join("fairhold")).expect("a link");
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec 2>&1\n{script}")]).current_dir(folder.path()).env("PATH", path).env("no_proxy", "*");
        let output = shell.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("bash runs");
        let printed = String::from_utf8_lossy(&output.stdout);
        let printed: Vec<&str> = printed.split("@@\n").skip(1).collect();
        assert_eq!(printed.len(), steps.len(), "{printed:#?}");
        for ((command, shown), printed) in steps.iter().zip(printed) {
            let lines: Vec<&str> = printed.lines().collect();
            let same = lines.len() == shown.len() && shown.iter().zip(&lines).all(|(shown, line)| is_as_shown(shown, line));
            assert!(same, "{command} prints\n{printed}instead of\n{}", shown.join("\n"));
        }
        reading.abort();
        dev.kill().await.expect("it is killed");
    });
}

#[test]
fn every_block_of_a_guide_for_several_machines_names_its_machine() {
    for file in fs::read_dir("../../docs/guides").expect("the guides are there") {
        let path = file.expect("a file").path();
        let page = fs::read_to_string(&path).expect("a page is UTF-8");
        let blocks = blocks(&page);
        // Other guides have commands for one machine: `tests/cluster/guides.rs` runs them.
        if !blocks.iter().any(|block| block.starts_with("# on ")) {
            continue;
        }
        for block in blocks.iter().filter(|block| !block.starts_with("export ")) {
            assert!(HOSTS.contains(&machine(block)), "{}: {block}", path.display());
        }
    }
}
