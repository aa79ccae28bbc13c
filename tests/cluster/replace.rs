//! A member is replaced: a dead one whose data is gone, a healthy one by another machine, a silent one by a standing
//! token.

use crate::{
    client::{Call, new_key},
    harness::{Cluster, LONG, eventually, pass_time, program, report, run_exclusive},
    large_tree::{BRANCH, Took, Writers, branches, grow},
    load::Load,
    members::{CHANGED_WITHIN, assert_same_state, create_token, delete, ids, rows, settled, view},
    pace::assert_within,
    rolling_restart::{COUNTER, queue},
    strangers::log_line,
    trial,
};
use rustix::process::Signal;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

/// From the start of the new node to the end of the change.
const SWAPPED_WITHIN: Duration = Duration::from_secs(60);
/// The longest gap of the service when a leader hands over and is replaced.
const GAP_MAX: Duration = Duration::from_secs(1);
/// How much the p99 of a write may grow meanwhile, at least.
const P99_GROWTH: Duration = Duration::from_millis(50);
/// How long the writers write without a replacement, for comparison.
const QUIET: Duration = Duration::from_secs(3);
const BUSY: usize = 60;
const BUSY_GRANTS: usize = 10;

#[test]
fn a_node_that_lost_its_data_is_replaced_by_one_command_and_the_new_one_votes() {
    run_exclusive(trial::size(LONG, 6 * LONG), async {
        let mut cluster = Cluster::start().await;
        let took = grow(&cluster).await;
        report(&format!("replace: {} nodes of the tree in {took:.1?}", branches() * BRANCH));
        let leader = cluster.leader().await;
        let [wiped, other] = cluster.followers().await;
        let client = cluster.client(leader);
        let writers = Writers::start(&cluster);
        let begun = Instant::now();
        pass_time(QUIET).await;
        let before = Instant::now();

        cluster.nodes[wiped].kill().await;
        fs::remove_dir_all(&cluster.nodes[wiped].data).expect("its data can be removed");
        let file = cluster.folder().join("token");
        let replaced = cluster.nodes[wiped].id;
        let mut invite = program();
        invite.args(["cluster", "invite", "-e", &cluster.nodes[leader].url, "--replaces", &replaced.to_string(), "--out"]);
        let invite = invite.arg(&file).output().await.expect("it runs");
        assert!(invite.status.success(), "{invite:?}");
        let mode = fs::metadata(&file).expect("the token's file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only its owner can read it");
        let token = fs::read_to_string(&file).expect("the token");
        assert!(token.starts_with("fhj1.") && !String::from_utf8_lossy(&invite.stdout).contains(token.trim()));

        let addresses = (cluster.nodes[wiped].url.clone(), cluster.nodes[wiped].peer_address.clone());
        let new = cluster.start_joining(&token, Some(addresses));
        let started = Instant::now();
        cluster.admitted(new).await;
        let shown = settled(&client).await;
        let swapped = started.elapsed();
        cluster.nodes[wiped].leave();
        cluster.node_ready(new).await;
        let after = Instant::now();
        let writes = writers.end().await;
        let [quiet, busy] = [(begun, before), (before, after)].map(|(from, to)| Took::between(&writes, from, to).p99());
        report(&format!("replace: swapped after {swapped:.1?}; p99 of a write {quiet:.1?} before, and {busy:.1?} meanwhile"));
        assert_within(&client, "the replacement", swapped, SWAPPED_WITHIN).await;
        assert_within(&client, "the p99 of a write during the replacement", busy, 2 * quiet + P99_GROWTH).await;

        let id = cluster.nodes[new].id;
        assert_eq!((id, ids(&shown, "removed")), (4, vec![replaced]), "the id is new: {shown}");
        let mut members = vec![cluster.nodes[leader].id, cluster.nodes[other].id, id];
        members.sort_unstable();
        assert_eq!(ids(&shown, "members"), members);
        assert!(rows(&shown, "members").iter().all(|member| member["role"] != "learner"), "{shown}");
        assert_same_state(&client, &cluster.running_members()).await;
        cluster.nodes[other].kill().await;
        client.write(&Call::put("/v1/nodes/after", "x")).await;
    });
}

#[test]
fn a_healthy_leader_is_replaced_by_another_machine_and_no_client_loses_its_lock() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let (client, load) = (cluster.client(0), Load::default());
        client.write(&Call::put(&format!("/v1/nodes/{COUNTER}"), "0 0")).await;
        let session = client.open_session("120s", "held").await;
        let held = client.acquire("crane", &format!("session={}", session.id)).await;
        let queuing = tokio::spawn(queue(cluster.client(1), load.clone()));
        load.wait_until_busy(BUSY, BUSY_GRANTS).await;

        let old = cluster.leader().await;
        let id = cluster.nodes[old].id;
        cluster.expect_elections(1, "a leader hands over before it is replaced");
        let begun = Instant::now();
        let new = cluster.replace(old).await;
        load.wait_until_busy(BUSY, BUSY_GRANTS).await;
        let silence = load.longest_silence(begun, Instant::now());
        load.end();
        queuing.await.expect("the client works");
        report(&format!("replace: the longest gap when the leader was replaced was {silence:.0?}"));
        let leader = cluster.leader().await;
        assert_within(&cluster.client(leader), "the gap when the leader was replaced", silence, GAP_MAX).await;
        client.keepalive(&session).await.expect_status(200);
        assert!(client.fence_passes("crane", held.token).await, "the lock is still held");
        assert_eq!(ids(&view(&client).await, "removed"), [id]);

        // The old machine says the same at every start, and the new one needs only its directory.
        for _ in 0..2 {
            cluster.nodes[old].start();
            cluster.ends_as_removed(old).await;
        }
        // An empty directory does not bring it back, and its supervisor must know that.
        fs::remove_dir_all(&cluster.nodes[old].data).expect("its data can be removed");
        cluster.nodes[old].start();
        assert_eq!(cluster.nodes[old].exited().await.code(), Some(3), "{}", cluster.nodes[old].log_text());
        assert!(cluster.nodes[old].log_text().contains(&format!("node {id} is no member")));
        assert!(cluster.nodes[new].terminate().await.success());
        cluster.restart(new).await;
        client.write(&Call::put("/v1/nodes/after", "x")).await;
    });
}

#[test]
fn a_join_is_given_up_and_only_one_node_replaces_a_member() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [replaced, _] = cluster.followers().await;
        let client = cluster.client(leader);
        let wish = json!({ "replaces": cluster.nodes[replaced].id });
        let tokens = [create_token(&client, &wish).await, create_token(&client, &wish).await];
        let stuck = cluster.start_joining(tokens[0].string("token"), None);
        cluster.admitted(stuck).await;
        // It needs at least a second more.
        cluster.nodes[stuck].signal(Signal::STOP);
        let stuck_id = cluster.nodes[stuck].id;
        assert_eq!(ids(&view(&client).await, "joins"), [stuck_id], "it was not fast enough to be done");
        for replaced in [cluster.nodes[replaced].id, stuck_id] {
            let again = Call::post("/v1/cluster/join-tokens").json(&json!({ "replaces": replaced }));
            client.send(&again).await.expect_problem(409, "change_in_progress");
        }
        let second = cluster.start_joining(tokens[1].string("token"), None);
        log_line(&cluster.nodes[second], 0, &["replaced"]).await;
        let shown = view(&client).await;
        assert_eq!(ids(&shown, "joins"), [stuck_id], "{shown}");

        client.send(&delete(stuck_id)).await.expect_status(204);
        cluster.nodes[stuck].signal(Signal::CONT);
        cluster.ends_as_removed(stuck).await;
        // It tries again by itself, or its supervisor does.
        if !cluster.nodes[second].has_exited() {
            cluster.nodes[second].kill().await;
        }
        cluster.nodes[second].start();
        cluster.admitted(second).await;
        settled(&client).await;
        cluster.ends_as_removed(replaced).await;
        cluster.node_ready(second).await;
        assert!(cluster.nodes[second].id > stuck_id, "an id that was given is not given again");
    });
}

#[test]
fn a_standing_token_replaces_only_a_member_that_is_silent_for_long() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [lost, other] = cluster.followers().await;
        let client = cluster.client(leader);
        let token = create_token(&client, &json!({"standing": true})).await;
        let stranger = cluster.start_joining(token.string("token"), None);
        assert_eq!(cluster.nodes[stranger].exited().await.code(), Some(2), "no member has its address");
        assert!(cluster.nodes[stranger].log_text().contains("replaced"), "{}", cluster.nodes[stranger].log_text());

        cluster.nodes[lost].kill().await;
        fs::remove_dir_all(&cluster.nodes[lost].data).expect("its data can be removed");
        let addresses = (cluster.nodes[lost].url.clone(), cluster.nodes[lost].peer_address.clone());
        let new = cluster.start_joining(token.string("token"), Some(addresses));
        log_line(&cluster.nodes[new], 0, &["replaced"]).await;
        assert_eq!(ids(&view(&client).await, "members"), [1, 2, 3], "it is not silent for long enough");
        if trial::size(true, false) {
            return;
        }
        eventually("a minute later it is replaced", 2 * CHANGED_WITHIN, || async {
            (!ids(&view(&client).await, "joins").is_empty() || ids(&view(&client).await, "members") != [1, 2, 3]).then_some(())
        })
        .await;
        cluster.admitted(new).await;
        settled(&client).await;
        cluster.nodes[lost].leave();
        cluster.node_ready(new).await;
        cluster.nodes[other].kill().await;
        client.write(&Call::put("/v1/nodes/after", new_key())).await;
    });
}
