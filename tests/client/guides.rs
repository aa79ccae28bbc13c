//! The guides for operators, run as they stand: every block of a page that is marked for the shell, in order.

use crate::{
    harness::{LONG, free_ports, report, run_exclusive},
    machines::{HOSTS, Machines, PROGRAM, blocks, machine},
};
use std::{fs, os::unix::fs::symlink, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

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
        let said = machines.run_beside(replace, [copy, serve]).await;
        assert!(said.ends_with("done: node 4 has replaced node 2\n"), "{said}\n{}", machines.logs());
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
