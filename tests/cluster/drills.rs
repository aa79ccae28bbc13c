//! The drills of `docs/drills`: the fault is made here, and the commands of each page repair it as they stand. What a page
//! shows must have been printed.

use crate::{
    confined::Mount,
    harness::{LONG, eventually, report, run_exclusive},
    machines::{HOSTS, Machines, blocks, machine},
    upgrade::baseline,
    without::{BASELINES, MOUNTS},
};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

const ONE_LOST: &str = include_str!("../../docs/drills/a-machine-is-lost.md");
const TWO_LOST: &str = include_str!("../../docs/drills/two-of-three-are-lost.md");
const ALL_LOST: &str = include_str!("../../docs/drills/all-disks-are-lost.md");
const REMOVED: &str = include_str!("../../docs/drills/the-wrong-node-was-removed.md");
const UPGRADE: &str = include_str!("../../docs/drills/an-upgrade-went-wrong.md");
const EXPIRED: &str = include_str!("../../docs/drills/a-certificate-expired-everywhere.md");
const FULL: &str = include_str!("../../docs/drills/the-disk-filled-up.md");

/// What follows a fault must show within this time.
const SOON: Duration = Duration::from_secs(60);
/// From the command that restores a backup until three nodes are ready.
const RESTORED_WITHIN: Duration = Duration::from_secs(60);
/// From the first command on the survivor until three nodes are ready. A person reads meanwhile, so it has to be much less
/// than the five minutes that a person has.
const RECOVERED_WITHIN: Duration = Duration::from_secs(60);
/// The life of a certificate that expires while the nodes run, instead of the page's three minutes.
const LIFE_SECONDS: u64 = 25;
const DISK_MIB: u64 = 1024;

const WRITE: &str = "# on a\nfairhold node put /config green\nfairhold node put /orders/7 open --parents\n";
const READ: &str = "# on a\n[ \"$(fairhold node get /config)\" = green ]\n[ \"$(fairhold node get /orders/7)\" = open ]\n";

/// Waits until the cluster raises an alarm, or does not raise it any more.
async fn raises(machines: &mut Machines, host: &str, alarm: &str, is_raised: bool) {
    let started = Instant::now();
    loop {
        let (_, printed) = machines.result(&format!("# on {host}\nfairhold cluster alarms\n")).await;
        if printed.contains(alarm) == is_raised {
            return;
        }
        assert!(started.elapsed() < SOON, "{alarm} {is_raised}: {printed}{}", machines.logs());
    }
}

/// Waits until the nodes have logged this.
async fn logged(machines: &Machines, text: &str) {
    eventually(text, SOON, || async { machines.logs().contains(text).then_some(()) }).await;
}

/// The fencing token of a new grant.
async fn token(machines: &mut Machines) -> u64 {
    let (code, printed) = machines.result("# on a\nfairhold lock stock -- sh -c 'echo \"$FAIRHOLD_TOKEN\"'\n").await;
    assert_eq!(code, Some(0), "{printed}");
    let first = printed.lines().next().unwrap_or_default();
    first.parse::<u64>().unwrap_or_else(|error| panic!("{error}: {printed}"))
}

#[test]
fn a_machine_is_lost() {
    let page = blocks(ONE_LOST);
    let [export, look, replace, copy, serve, members] = page.as_slice() else { panic!("other blocks: {page:#?}") };
    run_exclusive(LONG, async {
        let mut machines = Machines::start().await;
        for block in [export, WRITE] {
            machines.run(block).await;
        }
        let before = token(&mut machines).await;
        machines.lose("b").await;
        raises(&mut machines, "a", "majority_at_risk", true).await;
        let begun = Instant::now();
        machines.run(look).await;
        machines.run_beside(replace, [copy, serve]).await;
        machines.run(members).await;
        report(&format!("drill: a machine is replaced after {:.1?}", begun.elapsed()));
        raises(&mut machines, "a", "majority_at_risk", false).await;
        machines.run(READ).await;
        assert!(token(&mut machines).await > before, "the cluster is the same");
        // The old machine comes back, with its old command.
        machines.share_keys();
        machines.start_node("b").await;
        assert_eq!(machines.ended("b").await, Some(3), "{}", machines.logs());
        machines.assert_shown(ONE_LOST);
    });
}

#[test]
fn two_of_three_are_lost() {
    let page = blocks(TWO_LOST);
    let [export, look, stop, restore, first, second, third, ready] = page.as_slice() else { panic!("other blocks: {page:#?}") };
    run_exclusive(LONG, async {
        let mut machines = Machines::start().await;
        for block in [export, WRITE] {
            machines.run(block).await;
        }
        let before = token(&mut machines).await;
        // As a follower, the survivor would not know which nodes do not answer.
        machines.result("# on a\nfairhold cluster transfer-leader 1\n").await;
        machines.run("# on a\nfairhold cluster members | grep -q '^1.*leader'\n").await;
        for host in ["b", "c"] {
            machines.lose(host).await;
        }
        raises(&mut machines, "a", "no_quorum", true).await;
        machines.run(look).await;
        let (code, _) = machines.result("# on a\ntimeout 8 fairhold lock stock -- true\n").await;
        assert_eq!(code, Some(124), "it waits");
        let begun = Instant::now();
        machines.run(stop).await;
        assert_eq!(machines.ended("a").await, Some(0), "{}", machines.logs());
        for block in [restore, first, second, third, ready] {
            machines.run(block).await;
        }
        let took = begun.elapsed();
        report(&format!("drill: a lost majority is ready again after {took:.1?}"));
        assert!(took < RECOVERED_WITHIN, "{took:?}");
        machines.run(READ).await;
        assert!(token(&mut machines).await > before);
        machines.assert_shown(TWO_LOST);
    });
}

/// Starts a restored node, and then an empty one, while a node of another cluster has an address of their list.
async fn beside_an_old_node(machines: &mut Machines, [restore, first, second]: [&str; 3]) {
    for host in &HOSTS[..3] {
        machines.start_node(host).await;
    }
    machines.run("# on c\nfairhold cluster ready -e http://c:7171 --timeout 60s\n").await;
    for host in ["a", "b"] {
        machines.lose(host).await;
    }
    machines.share_keys();
    machines.run("# on d\nscp -p /var/yesterday.backup a:/var/yesterday.backup\n").await;
    machines.run(restore).await;
    machines.run(first).await;
    assert_eq!(machines.ended("a").await, Some(1), "{}", machines.logs());
    machines.run(second).await;
    assert_eq!(machines.ended("b").await, Some(3), "{}", machines.logs());
    machines.lose("c").await;
    machines.share_keys();
    fs::remove_dir_all(machines.folder("a").join("var/lib/fairhold")).expect("the restored directory is there");
}

#[test]
fn all_disks_are_lost_and_yesterdays_backup_remains() {
    let page = blocks(ALL_LOST);
    let [export, prepare, save, keys, restore, first, second, third, ready] = page.as_slice() else {
        panic!("other blocks: {page:#?}")
    };
    run_exclusive(LONG, async {
        let mut machines = Machines::start().await;
        for block in [export, WRITE, prepare, save] {
            machines.run(block).await;
        }
        machines.run("# on a\nfairhold node put /orders/8 lost\n").await;
        let mut before = token(&mut machines).await;
        for attempt in 1..=2 {
            for host in &HOSTS[..3] {
                machines.lose(host).await;
            }
            machines.run(keys).await;
            if attempt == 2 {
                beside_an_old_node(&mut machines, [restore, first, second]).await;
            }
            let begun = Instant::now();
            for block in [restore, first, second, third, ready] {
                machines.run(block).await;
            }
            let took = begun.elapsed();
            report(&format!("drill: restore {attempt}: three nodes are ready after {took:.1?}"));
            assert!(took < RESTORED_WITHIN, "{took:?}");
            machines.run(READ).await;
            machines.run("# on a\n! fairhold node get /orders/8\n").await;
            let after = token(&mut machines).await;
            assert!(after > before, "{after} after {before}, at restore {attempt} of the same file");
            before = after;
        }
        machines.assert_shown(ALL_LOST);
    });
}

#[test]
fn the_wrong_node_was_removed() {
    let page = blocks(REMOVED);
    let [export, look, invite, serve, wait] = page.as_slice() else { panic!("other blocks: {page:#?}") };
    run_exclusive(LONG, async {
        let mut machines = Machines::start().await;
        for block in [export, WRITE] {
            machines.run(block).await;
        }
        // While node 2 is down, the cluster refuses to remove another one.
        machines.kill("b").await;
        raises(&mut machines, "a", "majority_at_risk", true).await;
        let remove = "# on a\nfairhold cluster remove 3\n";
        let (code, printed) = machines.result(remove).await;
        assert_eq!(code, Some(1), "{printed}");
        machines.start_node("b").await;
        machines.run("# on b\nfairhold cluster ready -e http://b:7171 --timeout 60s\n").await;
        raises(&mut machines, "a", "majority_at_risk", false).await;

        machines.run(remove).await;
        assert_eq!(machines.ended("c").await, Some(3), "{}", machines.logs());
        machines.start_node("c").await;
        assert_eq!(machines.ended("c").await, Some(3), "{}", machines.logs());
        let (_, printed) = machines.result(look).await;
        let is_removal = |line: &str| line.starts_with("3\t") && line.contains("fairhold@");
        assert!(printed.lines().any(is_removal), "{printed}");
        for block in [invite, serve, wait] {
            machines.run(block).await;
        }
        machines.run(READ).await;
        machines.assert_shown(REMOVED);
    });
}

/// The options of a program from before `--insecure`.
const OLD_KEYS: &str = "--peer-key-file /etc/fairhold/peer.key --admin-token-file /etc/fairhold/admin.token";

/// Stops the node on a machine, and starts it with another program, which is in `fairhold-new` or `fairhold-old`.
async fn change_program(machines: &mut Machines, host: &str, program: &str) {
    machines.run(&format!("# on {host}\npkill -TERM -f '[f]airhold serve.*/var/lib/fairhold'\n")).await;
    assert_eq!(machines.ended(host).await, Some(0), "{}", machines.logs());
    let install = format!("# on {host}\ninstall -m 0755 {program} /usr/local/bin/fairhold\n");
    machines.run(&install).await;
}

/// Starts the new program, and waits until it serves.
async fn start_new(machines: &mut Machines, host: &str) {
    machines.start_node(host).await;
    machines.run(&format!("# on {host}\nfairhold cluster ready -e http://{host}:7171 --timeout 60s\n")).await;
}

/// Three nodes with the older program, which is also in `/usr/local/bin/fairhold-old`.
async fn start_older(older: &Path) -> Machines {
    let mut machines = Machines::new();
    machines.share_keys();
    for host in &HOSTS[..3] {
        let programs = machines.folder(host).join("usr/local/bin");
        fs::remove_file(programs.join("fairhold")).expect("the link is there");
        for name in ["fairhold", "fairhold-old"] {
            fs::copy(older, programs.join(name)).expect("the program can be copied");
        }
    }
    for host in &HOSTS[..3] {
        machines.start_node_with(host, OLD_KEYS).await;
    }
    for host in &HOSTS[..3] {
        machines.run(&format!("# on {host}\n./fairhold-new cluster ready -e http://{host}:7171 --timeout 60s\n")).await;
    }
    machines
}

/// Finalizes the upgrade, as soon as the leader knows all programs. Afterwards node 2 knows that.
async fn finalize(machines: &mut Machines) {
    let started = Instant::now();
    loop {
        let (code, printed) = machines.result("# on a\nfairhold cluster upgrade finalize\n").await;
        if code == Some(0) {
            break;
        }
        assert!(started.elapsed() < SOON, "{printed}");
    }
    machines.run("# on b\nfairhold node get /config -e http://b:7171\n").await;
}

#[test]
fn an_upgrade_went_wrong_before_and_after_it_was_finalized() {
    let Some(older) = BASELINES.or_without(baseline("1")) else { return };
    let page = blocks(UPGRADE);
    let [export, status, save, back, ready, forward, again] = page.as_slice() else { panic!("other blocks: {page:#?}") };
    run_exclusive(LONG, async {
        let mut machines = start_older(&older).await;
        machines.run(export).await;
        machines.run(&WRITE.replace("fairhold node", "./fairhold-new node")).await;
        for host in ["a", "b"] {
            change_program(&mut machines, host, "./fairhold-new").await;
            start_new(&mut machines, host).await;
        }
        let too_early = "# on b\nfairhold backup save /var/no.backup -e http://c:7171\n";
        let (code, printed) = machines.result(too_early).await;
        assert!(
            code == Some(1) && printed.contains("older than backups: name an upgraded node with -e URL"),
            "{code:?}: {printed}"
        );
        // Before: back to the older program.
        for block in [status, save, back] {
            machines.run(block).await;
        }
        assert_eq!(machines.ended("b").await, Some(0), "{}", machines.logs());
        machines.start_node_with("b", OLD_KEYS).await;
        machines.run(ready).await;
        machines.run(READ).await;

        // After: the older program does not start, and the newer one starts again.
        for host in ["b", "c"] {
            change_program(&mut machines, host, "./fairhold-new").await;
            start_new(&mut machines, host).await;
        }
        finalize(&mut machines).await;
        change_program(&mut machines, "b", "/usr/local/bin/fairhold-old").await;
        machines.start_node_with("b", OLD_KEYS).await;
        let code = machines.ended("b").await;
        assert!(code.is_some_and(|code| code != 0), "the older program ended with {code:?}: {}", machines.logs());
        machines.run(forward).await;
        machines.start_node("b").await;
        machines.run(again).await;
        machines.run(READ).await;

        // The backup from before leads to a cluster of the first version, from which there is a way back.
        for host in &HOSTS[..3] {
            machines.kill(host).await;
            fs::remove_dir_all(machines.folder(host).join("var/lib/fairhold")).expect("its data");
        }
        machines.run("# on b\nscp -p /var/before.backup a:/var/before.backup\n").await;
        let restoring = blocks(ALL_LOST);
        let [.., restore, first, second, third, serves] = restoring.as_slice() else { panic!("other blocks: {restoring:#?}") };
        machines.run(&restore.replace("yesterday.backup", "before.backup")).await;
        for block in [first, second, third, serves] {
            machines.run(block).await;
        }
        machines.run(back).await;
        machines.ended("b").await;
        machines.start_node_with("b", OLD_KEYS).await;
        machines.run(ready).await;
        machines.run(READ).await;
        machines.assert_shown(UPGRADE);
    });
}

#[test]
fn a_certificate_expired_everywhere() {
    let guide = blocks(include_str!("../../docs/guides/security.md"));
    let [certificates, serve, ..] = guide.as_slice() else { panic!("other blocks: {guide:#?}") };
    let page = blocks(EXPIRED);
    let [issue, export, look, renew, copy, again, ready] = page.as_slice() else { panic!("other blocks: {page:#?}") };
    let life = "+3 minutes";
    assert!(issue.contains(life), "{issue}");
    let issue = issue.replace(life, &format!("+{LIFE_SECONDS} seconds"));
    run_exclusive(LONG, async {
        let mut machines = Machines::new();
        for block in [certificates, &issue, copy] {
            machines.run(block).await;
        }
        for (id, host) in (1..).zip(&HOSTS[..3]) {
            let of_host = serve.replace("# on a\n", &format!("# on {host}\n")).replace("--id 1 ", &format!("--id {id} "));
            machines.run(&of_host).await;
        }
        machines.run(export).await;
        let write = "# on d\nfairhold cluster ready --timeout 20s\nfairhold node put /config green\n";
        machines.run(write).await;
        raises(&mut machines, "d", "certificate", true).await;
        logged(&machines, "the certificate for clients has expired").await;
        let (code, printed) = machines.result("# on d\nfairhold node get /config --timeout 2s\n").await;
        assert_eq!(code, Some(69), "{printed}");
        machines.result("# on d\nfairhold doctor\n").await;
        // A node that is restarted does not start any more.
        machines.kill("c").await;
        machines.run(again).await;
        assert_eq!(machines.ended("c").await, Some(2), "{}", machines.logs());

        let begun = Instant::now();
        for block in [look, renew, copy, again, ready] {
            machines.run(block).await;
        }
        report(&format!("drill: new certificates are in use after {:.1?}", begun.elapsed()));
        machines.run("# on d\n[ \"$(fairhold node get /config)\" = green ]\n").await;
        raises(&mut machines, "d", "certificate", false).await;
        logged(&machines, "are in order again").await;
        machines.assert_shown(EXPIRED);
    });
}

#[test]
fn the_disk_filled_up() {
    let page = blocks(FULL);
    let [export, look, largest, serve, ready] = page.as_slice() else { panic!("other blocks: {page:#?}") };
    assert_eq!(machine(serve), "b", "{serve}");
    run_exclusive(LONG, async {
        let mut machines = Machines::new();
        let folder = machines.folder("b").join("var/lib");
        let Some(mount) = MOUNTS.or_without(Mount::memory_at(&folder, DISK_MIB)) else { return };
        machines.share_keys();
        for host in &HOSTS[..3] {
            machines.start_node(host).await;
        }
        machines.run(export).await;
        machines.run("# on a\nfairhold cluster ready --timeout 60s\n").await;
        machines.run(WRITE).await;
        mount.leave(0);
        raises(&mut machines, "a", "free for its data", true).await;
        // While the node runs, its alarm goes only on a disk that is large enough. The disk of this machine may be nearly full.
        mount.make_room();
        let is_raised = "(fairhold cluster alarms || true) | grep -qP '^2\\t\\w+\\tdisk\\t'";
        machines.run(&format!("# on a\nwhile {is_raised}; do sleep 1; done\n")).await;
        mount.leave(0);
        // The log has some space on the disk already.
        let large = "head -c 300000 /dev/urandom | base64 -w0 > large\n";
        let fill = format!("# on a\n{large}for i in $(seq 120); do fairhold node put /x$i - < large; done\n");
        machines.run(&fill).await;
        assert_eq!(machines.ended("b").await, Some(1), "{}", machines.logs());
        raises(&mut machines, "a", "majority_at_risk", true).await;
        for block in [look, largest] {
            machines.run(block).await;
        }
        // As a supervisor does, before there is room.
        machines.run(serve).await;
        logged(&machines, "it starts automatically when there is enough space").await;
        mount.make_room();
        let room = Instant::now();
        machines.run(ready).await;
        report(&format!("drill: the node is back {:.1?} after there was room", room.elapsed()));
        machines.run(READ).await;
        raises(&mut machines, "a", "majority_at_risk", false).await;
        machines.assert_shown(FULL);
    });
}

#[test]
fn every_drill_is_in_the_table_and_of_a_length_that_can_be_read() {
    let table = fs::read_to_string("../../docs/drills/README.md").expect("the page is there");
    for file in fs::read_dir("../../docs/drills").expect("the pages are there") {
        let path = file.expect("a page").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        let page = fs::read_to_string(&path).expect("UTF-8");
        let lines = page.lines().count();
        assert!((30..=95).contains(&lines), "{name} has {lines} lines");
        assert!(name == "README.md" || table.contains(&format!("({name})")), "README.md does not name {name}");
        for heading in ["What you see", "What to do", "How you know that it is over", "What was lost"] {
            assert!(name == "README.md" || page.contains(&format!("## {heading}")), "{name} lacks {heading}");
        }
    }
}
