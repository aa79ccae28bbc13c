//! A cluster is saved from the directory of a stopped node, and restored into new directories. Damage is found before.

use crate::{
    client::{Call, Session},
    harness::{Cluster, LONG, NodeProcess, Origin, READY_WITHIN, eventually, program, report, run_exclusive},
};
use fairhold_backup::{Backup, ReadBackupError};
use std::{fs, path::Path, process::Output, time::Instant};

const LOCK: &str = "orders";

async fn backup(words: &[&str]) -> Output {
    program().arg("backup").args(words).output().await.expect("it runs")
}

/// What a command prints, if it succeeds.
async fn printed(words: &[&str]) -> String {
    let output = backup(words).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout) + &text(&output.stderr)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The arguments of a restore of this node.
fn restore(node: &NodeProcess, file: &Path) -> Vec<String> {
    let Origin::Members(members) = &node.origin else { panic!("a node without a list of members") };
    let mut words: Vec<String> =
        ["restore", text(file), "--data", text(&node.data), "--accept-lost-writes"].map(str::to_owned).into();
    words.extend(["--id".to_owned(), node.id.to_string()]);
    words.extend(members.iter().flat_map(|member| ["--member".to_owned(), member.clone()]));
    words
}

#[test]
fn a_cluster_is_saved_from_a_stopped_node_and_restored_again_and_again_with_larger_tokens() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        client.write(&Call::put("/v1/nodes/app/config?parents", "green")).await;
        let session = client.open_session("60s", "worker").await;
        client.acquire(LOCK, "ttl=60s").await;
        let held = client.acquire("stock", "ttl=60s").await;
        for node in &mut cluster.nodes {
            node.terminate().await;
        }
        let file = cluster.folder().join("cluster.backup");
        let data = cluster.nodes[0].data.clone();
        let shown = printed(&["inspect", "--data", text(&data)]).await;
        assert!(shown.contains("last log entry:  term") && shown.contains("member:          3="), "{shown}");
        let said = printed(&["save", "--data", text(&data), text(&file)]).await;
        assert!(said.contains("verified: "), "{said}");
        printed(&["verify", text(&file)]).await;

        // The backup of the first restored cluster is restored twice, and then the first file again.
        let newer = cluster.folder().join("newer.backup");
        let mut last = held.token;
        for (number, file) in [&file, &newer, &newer, &file].into_iter().enumerate() {
            let save = (number == 0).then_some(newer.as_path());
            last = restored(file, &session, (held.token, last), save).await;
        }
    });
}

/// Restores the file as another cluster, saves it to another file if there is one, and returns its first token.
async fn restored(file: &Path, session: &Session, (held, last): (u64, u64), save: Option<&Path>) -> u64 {
    let mut cluster = Cluster::plan();
    let client = cluster.client(0);
    let words = restore(&cluster.nodes[0], file);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    report(&format!("backup: a restore says:\n{}", printed(&words).await));
    let again = backup(&words).await;
    assert_eq!(again.status.code(), Some(1), "the directory is not empty: {again:?}");
    let begun = Instant::now();
    cluster.nodes[0].start();
    cluster.nodes[1].start();
    // A majority is not enough: no cluster forms before the third node has started.
    let waits = || async { cluster.nodes[0].log_text().contains("waiting for 3.").then_some(()) };
    eventually("the restored node waits for node 3 alone", READY_WITHIN, waits).await;
    let readyz = Call::get("/readyz");
    let answers = || async { client.send_to(0, &readyz).await.ok().map(|answer| answer.status) };
    assert_eq!(eventually("an answer of the node that waits", READY_WITHIN, answers).await, 503);
    cluster.nodes[2].start();
    cluster.ready().await;
    report(&format!("backup: three nodes are ready {:.1?} after the start", begun.elapsed()));
    for index in 0..cluster.nodes.len() {
        assert_eq!(cluster.client(index).value("app/config").await, "green");
    }
    let ended = client.send(&Call::post(&format!("/v1/sessions/{}/keepalive", session.id))).await;
    assert_eq!(ended.status, 410, "the session has ended: {}", ended.text);
    let history = client.send(&Call::get("/v1/locks/stock/history")).await.expect_status(200);
    assert!(history.text.contains(&format!("\"token\":{held}")), "what was held is in the history: {}", history.text);
    let grant = client.acquire(LOCK, "ttl=30s").await;
    // A restored state begins far above its backup. Two restores are only as far apart as their times.
    let ahead = if last == held { 1 << 20 } else { 0 };
    assert!(grant.token > last + ahead, "{} after {last}", grant.token);
    // A node of a restored cluster starts again like any other.
    cluster.nodes[0].terminate().await;
    cluster.restart(0).await;
    assert!(client.fence_passes(LOCK, grant.token).await);
    if let Some(newer) = save {
        printed(&["save", text(newer), "-e", &cluster.nodes[1].url]).await;
    }
    grant.token
}

/// Damaged copies of a backup in a file.
const TRUNCATIONS: usize = 1_000;
const CHANGES: usize = 10_000;
/// One of so many damaged copies is also given to the commands.
const COMMAND_EVERY: usize = 100;

/// The damaged copies of a backup: cut off, and with one byte changed. Both kinds are spread over the whole file.
fn damaged(backup: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    let cut = (0..TRUNCATIONS).map(|number| {
        let length = number * backup.len() / TRUNCATIONS;
        (format!("cut off after {length} bytes"), backup[..length].to_vec())
    });
    let changed = (0..CHANGES).map(|number| {
        // A large prime leaves no byte out before the numbers wrap around.
        let (at, mask) = (number * 2_654_435_761 % backup.len(), u8::try_from(number % 255 + 1).expect("a byte"));
        let mut copy = backup.to_vec();
        copy[at] ^= mask;
        (format!("byte {at} changed by {mask}"), copy)
    });
    cut.chain(changed)
}

#[test]
fn every_damage_of_a_backup_is_found_and_nothing_of_it_is_restored() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        for number in 0..40 {
            client.write(&Call::put(&format!("/v1/nodes/app/{number}?parents"), format!("{number} ").repeat(50))).await;
        }
        client.acquire(LOCK, "ttl=60s").await;
        let file = cluster.folder().join("cluster.backup");
        printed(&["save", text(&file), "-e", &cluster.nodes[0].url]).await;
        let whole = fs::read(&file).expect("the backup");
        let (broken, data) = (cluster.folder().join("broken.backup"), cluster.folder().join("restored"));
        let restore = ["restore", text(&broken), "--data", text(&data), "--id", "1", "--member", "1=http://a:7171,a:7271"];
        let (mut found, mut by_commands) = (0, 0);
        for (number, (damage, bytes)) in damaged(&whole).enumerate() {
            // Both commands read the whole backup with this function, before they do anything.
            let error = Backup::read(bytes.as_slice()).err().unwrap_or_else(|| panic!("{damage}: it is read"));
            assert!(matches!(error, ReadBackupError::Damaged(_)), "{damage}: {error}");
            found += 1;
            if number % COMMAND_EVERY == 0 {
                fs::write(&broken, &bytes).expect("a file");
                for words in [&["verify", text(&broken)][..], &restore] {
                    let output = backup(words).await;
                    assert_eq!(output.status.code(), Some(1), "{damage}: {words:?}: {output:?}");
                }
                assert!(!data.exists(), "{damage}: something was restored");
                by_commands += 1;
            }
        }
        report(&format!(
            "backup: all of {found} damaged copies of {} bytes were found, {by_commands} of them by verify and restore",
            whole.len()
        ));
        assert_eq!(found, TRUNCATIONS + CHANGES);
        fs::write(&broken, &whole).expect("a file");
        printed(&restore).await;
        assert!(data.exists(), "an undamaged copy is restored");
    });
}
