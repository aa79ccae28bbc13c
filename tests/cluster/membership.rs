//! A cluster grows and shrinks under load, learners become voters, members move, and wrong changes are refused.

use crate::{
    client::{Call, Client, Grant, new_key, whole},
    fairness::assert_in_order,
    harness::{
        Cluster, LONG, Origin, SHORT, all, eventually, free_port, pass_time, program, report, run_exclusive, run_parallel,
    },
    load::Load,
    members::{CHANGED_WITHIN, assert_same_state, create_token, delete, ids, patch, rows, settled, view},
    pace::assert_within,
    rolling_restart::{COUNTER, queue},
    strangers::log_line,
    trial,
    watching::Watching,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// This many successful operations, and grants among them, show that the cluster works.
const BUSY: usize = 60;
const BUSY_GRANTS: usize = 5;
/// The longest gap of the service at a step that moves the leader.
const GAP_WITH_ANOTHER_LEADER: Duration = Duration::from_secs(1);
const WRITERS: usize = 10;
const QUEUING: usize = 4;

/// The longest gap at any other step. In the short form other tests have just used the machine.
fn gap_max() -> Duration {
    trial::size(Duration::from_millis(500), Duration::from_millis(200))
}

/// The pause of a writer between two writes: ten of them make about 100 or 500 writes a second.
fn between_writes() -> Duration {
    trial::size(Duration::from_millis(100), Duration::from_millis(20))
}

/// Writes one node of the tree until the load is over. The version counts the writes, so each took effect once.
pub(crate) async fn count_writes(client: Client, load: Load, number: usize) -> u64 {
    let mut written = 0;
    while !load.is_over() {
        let answer = client.write(&Call::put(&format!("/v1/nodes/written-{number}"), written.to_string())).await;
        assert_eq!(answer.number("version"), written, "a write was lost, or made twice: {answer:?}");
        written += 1;
        load.succeeded();
        pass_time(between_writes()).await;
    }
    written
}

/// A step of an operator, and the longest time in which no client succeeded meanwhile.
struct Step {
    what: String,
    moves_leader: bool,
    silence: Duration,
}

struct Steps<'a> {
    load: &'a Load,
    done: Vec<Step>,
}

impl Steps<'_> {
    async fn record(&mut self, what: String, moves_leader: bool, begun: Instant) {
        self.load.wait_until_busy(BUSY, BUSY_GRANTS).await;
        let silence = self.load.longest_silence(begun, Instant::now());
        report(&format!("membership: {what}: the longest gap was {silence:.0?}"));
        self.done.push(Step { what, moves_leader, silence });
    }
}

#[test]
fn a_cluster_grows_from_one_node_to_five_and_shrinks_to_three_under_load() {
    run_exclusive(2 * LONG, async {
        let mut cluster = Cluster::start_of(1).await;
        let (client, load) = (cluster.client(0), Load::default());
        client.write(&Call::put(&format!("/v1/nodes/{COUNTER}"), "0 0")).await;
        let queuing: Vec<_> = (0..QUEUING).map(|number| tokio::spawn(queue(cluster.client(number), load.clone()))).collect();
        let writing = (0..WRITERS).map(|number| tokio::spawn(count_writes(cluster.client(number), load.clone(), number)));
        let writing: Vec<_> = writing.collect();
        load.wait_until_busy(BUSY, BUSY_GRANTS).await;

        let mut steps = Steps { load: &load, done: Vec::new() };
        for id in 2..=5 {
            let begun = Instant::now();
            let joined = cluster.join(&json!({})).await;
            assert_eq!(cluster.nodes[joined].id, id, "each id is given once, in order");
            assert_eq!(ids(&view(&client).await, "members"), (1..=id).collect::<Vec<_>>());
            steps.record(format!("node {id} joined"), false, begun).await;
        }
        for _ in 0..2 {
            // First the leader, which hands over, and then another member.
            let moves_leader = steps.done.len() == 4;
            let index = if moves_leader { cluster.leader().await } else { cluster.follower().await };
            if moves_leader {
                cluster.expect_elections(1, "a leader hands over before it is removed");
            }
            let begun = Instant::now();
            cluster.remove(index).await;
            steps.record(format!("node {} was removed", cluster.nodes[index].id), moves_leader, begun).await;
        }
        let done = steps.done;
        load.end();
        let mut grants: Vec<Grant> = all(queuing).await.into_iter().flatten().collect();
        let written = all(writing).await;
        report(&format!("membership: {} grants, {} writes", grants.len(), written.iter().sum::<u64>()));

        assert_in_order(&mut grants);
        let last = grants.last().map_or(0, |grant| grant.token);
        assert_eq!(client.value(COUNTER).await, format!("{} {last}", grants.len()), "each grant counted once");
        let members = cluster.running_members();
        assert_eq!(members.len(), 3);
        for index in &members {
            for (number, count) in written.iter().enumerate() {
                let read = cluster.client(*index).once(&Call::get(&format!("/v1/nodes/written-{number}"))).await;
                let (value, version) = ((count - 1).to_string(), format!("\"{}\"", count - 1));
                assert_eq!((read.text.as_str(), read.header("etag")), (value.as_str(), Some(version.as_str())), "{read:?}");
            }
        }
        assert_same_state(&client, &members).await;
        let leader = cluster.leader().await;
        for Step { what, moves_leader, silence } in done {
            let limit = if moves_leader { GAP_WITH_ANOTHER_LEADER } else { gap_max() };
            assert_within(&cluster.client(leader), &format!("the gap when {what}"), silence, limit).await;
        }

        // A majority of these three is enough, so no other node counts.
        let other = cluster.follower().await;
        cluster.nodes[other].kill().await;
        client.write(&Call::put("/v1/nodes/after", "x")).await;
    });
}

/// The role of a member.
async fn role(client: &Client, id: usize) -> String {
    let view = view(client).await;
    let member = rows(&view, "members").iter().find(|member| member["id"] == id).unwrap_or_else(|| panic!("no {id}: {view}"));
    member["role"].as_str().expect("a role").to_owned()
}

#[test]
fn a_learner_serves_reads_has_no_vote_and_becomes_a_voter() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let learner = cluster.join(&json!({"role": "learner"})).await;
        let id = cluster.nodes[learner].id;
        assert_eq!((id, role(&client, id).await.as_str()), (4, "learner"));
        cluster.client(learner).write(&Call::put("/v1/nodes/kept", "by the learner")).await;
        assert_eq!(cluster.client(learner).value("kept").await, "by the learner");

        let voters = cluster.followers().await;
        for index in voters {
            cluster.nodes[index].kill().await;
        }
        cluster.expect_elections(2, "a learner counts as a node for the harness, and not for a majority");
        let write = Call::put("/v1/nodes/kept", "by a minority").with("fairhold-timeout", "2s");
        let refused = cluster.client(learner).once(&write).await;
        assert!(matches!(refused.status, 503 | 504), "one voter and a learner are no quorum: {refused:?}");
        for index in voters {
            cluster.restart(index).await;
        }

        let promote = patch(id, &json!({"voter": true}));
        eventually("it is promoted once it has caught up", CHANGED_WITHIN, || async {
            let answer = client.send(&promote).await;
            match answer.status {
                200 => Some(()),
                _ => {
                    answer.expect_problem(409, "not_caught_up");
                    None
                }
            }
        })
        .await;
        settled(&client).await;
        assert_eq!(role(&client, id).await, "follower");
        client.send(&patch(id, &json!({"voter": false}))).await.expect_status(200);
        settled(&client).await;
        assert_eq!(role(&client, id).await, "learner");
        cluster.remove(learner).await;
        assert_eq!(ids(&view(&client).await, "members"), [1, 2, 3]);
    });
}

#[test]
fn a_change_that_could_end_the_service_or_makes_no_sense_is_refused() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [down, healthy] = cluster.followers().await;
        let client = cluster.client(leader);
        client.send(&delete(99)).await.expect_problem(404, "not_found");
        let strange = Call::post("/v1/cluster/join-tokens").json(&json!({"replaces": 99}));
        client.send(&strange).await.expect_problem(404, "not_found");

        // At once: the leader cannot have noticed yet.
        cluster.nodes[down].kill().await;
        let down_id = cluster.nodes[down].id;
        for index in [healthy, leader] {
            let id = cluster.nodes[index].id;
            client.send(&delete(id)).await.expect_problem(409, "would_lose_quorum");
            client.send(&patch(id, &json!({ "voter": false }))).await.expect_problem(409, "would_lose_quorum");
        }
        let nowhere = json!({ "peer": format!("127.0.0.1:{}", free_port()), "force": true });
        let lost = client.send(&patch(cluster.nodes[healthy].id, &nowhere)).await;
        lost.expect_problem(409, "would_lose_quorum");
        client.write(&Call::put("/v1/nodes/still-served", "x")).await;
        client.send(&delete(down_id)).await.expect_status(204);
        let left = settled(&client).await;
        assert_eq!((ids(&left, "members").len(), ids(&left, "removed")), (2, vec![down_id]));
        client.send(&delete(down_id)).await.expect_status(204);
        cluster.nodes[down].leave();

        cluster.remove(healthy).await;
        let last = cluster.nodes[leader].id;
        let refused = client.send(&delete(last)).await.expect_problem(409, "would_lose_quorum");
        assert!(refused.text.contains(&last.to_string()), "{refused:?}");
        client.write(&Call::put("/v1/nodes/alone", "x")).await;
    });
}

/// Each of the removals alone would leave a voter.
#[test]
fn of_the_removals_of_both_voters_at_once_one_is_refused() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start_of(1).await;
        let mut older = 0;
        for round in 1..=4 {
            let newer = cluster.join(&json!({})).await;
            cluster.expect_elections(1, "a leader hands over before it is removed");
            let requests = [older, newer].map(|index| (cluster.client(index), delete(cluster.nodes[index].id)));
            let [(first, of_older), (second, of_newer)] = &requests;
            let (first, second) = tokio::join!(first.send(of_older), second.send(of_newer));
            let (gone, stays, refused) = if first.status == 204 { (older, newer, second) } else { (newer, older, first) };
            // The second code, if the other removal was complete by then.
            assert_eq!(refused.status, 409, "round {round}: {refused:?}");
            assert!(["change_in_progress", "would_lose_quorum"].contains(&refused.code()), "round {round}: {refused:?}");
            cluster.ends_as_removed(gone).await;
            let client = cluster.client(stays);
            let left = settled(&client).await;
            assert_eq!(ids(&left, "members"), [cluster.nodes[stays].id], "round {round}: {left}");
            client.write(&Call::put("/v1/nodes/still-served", round.to_string())).await;
            older = stays;
        }
    });
}

#[test]
fn a_node_that_replaces_a_member_gets_its_role() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let learner = cluster.join(&json!({"role": "learner"})).await;
        let id = cluster.nodes[learner].id;
        for other in [json!({"replaces": id, "role": "voter"}), json!({"replaces": 3, "role": "learner"})] {
            let refused = client.send(&Call::post("/v1/cluster/join-tokens").json(&other)).await;
            refused.expect_problem(400, "bad_request");
        }
        let mut invite = program();
        invite.args(["cluster", "invite", "-e", &cluster.nodes[0].url, "--replaces", &id.to_string(), "-o", "json"]);
        let invited = invite.output().await.expect("it runs");
        assert!(invited.status.success(), "{invited:?}");
        let created: Value = serde_json::from_slice(&invited.stdout).expect("the answer of the server");
        assert_eq!((&created["role"], &created["replaces"]), (&json!("learner"), &json!(id)), "{created}");

        let new = cluster.replace(learner).await;
        let left = settled(&client).await;
        assert_eq!(ids(&left, "members"), [1, 2, 3, cluster.nodes[new].id]);
        assert_eq!(role(&client, cluster.nodes[new].id).await, "learner");
    });
}

#[test]
fn a_member_moves_to_other_addresses_once_it_answers_there() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [moved, other] = cluster.followers().await;
        let client = cluster.client(leader);
        let id = cluster.nodes[moved].id;
        let theirs = json!({ "peer": cluster.nodes[other].peer_address });
        client.send(&patch(id, &theirs)).await.expect_problem(409, "wrong_node");
        let nowhere = json!({ "peer": format!("127.0.0.1:{}", free_port()) });
        client.send(&patch(id, &nowhere)).await.expect_status(409);
        for url in ["http://127.0.0.1:1/v1", "http://0.0.0.0:7171"] {
            client.send(&patch(id, &json!({ "url": url }))).await.expect_problem(400, "bad_request");
        }

        assert!(cluster.nodes[moved].terminate().await.success());
        cluster.move_to_free_ports(moved);
        cluster.nodes[moved].start();
        let addresses = json!({ "url": cluster.nodes[moved].url, "peer": cluster.nodes[moved].peer_address });
        // It reaches the leader, but not the other way round. Nothing was written since, so a read would be answered.
        eventually("the node says why it is not ready", CHANGED_WITHIN, || async {
            let answer = client.send_to(moved, &Call::get("/readyz")).await.ok()?;
            (answer.status == 503 && answer.text.contains("the leader does not reach this node")).then_some(())
        })
        .await;
        eventually("the leader reaches it at its new address", CHANGED_WITHIN, || async {
            let answer = client.send(&patch(id, &addresses)).await;
            (answer.status == 200).then_some(())
        })
        .await;
        cluster.node_ready(moved).await;
        client.write(&Call::put("/v1/nodes/kept", "x")).await;
        assert_eq!(cluster.client(moved).value("kept").await, "x");
        // The lists of the others still have the old addresses, but the change counts.
        assert!(cluster.nodes[other].terminate().await.success());
        cluster.restart(other).await;
        eventually("a restarted node uses the new address", CHANGED_WITHIN, || async {
            let shown = cluster.client(other).once(&Call::get("/v1/cluster")).await.expect_status(200);
            let member = rows(&shown.json, "members").iter().find(|member| member["id"] == id).expect("the moved member");
            (member["peer"] == cluster.nodes[moved].peer_address.as_str()).then_some(())
        })
        .await;
    });
}

#[test]
fn a_voter_with_a_higher_priority_gets_the_leadership_and_keeps_its_zone() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [wanted, _] = cluster.followers().await;
        let id = cluster.nodes[wanted].id;
        cluster.expect_elections(1, "a leader hands over to a voter with a higher priority");
        let set = patch(id, &json!({"priority": 90, "zone": "cellar"}));
        let shown = cluster.client(leader).send(&set).await.expect_status(200).json;
        let member = rows(&shown, "members").iter().find(|member| member["id"] == id).expect("the member");
        assert_eq!((&member["priority"], &member["zone"]), (&json!(90), &json!("cellar")), "{shown}");
        eventually("the leader hands over after half a minute", 2 * CHANGED_WITHIN, || async {
            (cluster.leader().await == wanted).then_some(())
        })
        .await;
    });
}

#[test]
fn a_timing_profile_counts_from_the_next_start_and_sets_the_shortest_ttl() {
    run_parallel(LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let settings = client.send(&Call::get("/v1/cluster/settings")).await.expect_status(200);
        assert_eq!((settings.string("timing"), settings.number("cluster_version")), ("lan", 2));
        let set = Call::patch("/v1/cluster/settings").key(&new_key()).json(&json!({"timing": "metro", "force": true}));
        client.send(&set).await.expect_status(200);
        client.send(&Call::post("/v1/locks/brief?ttl=1s")).await.expect_problem(400, "bad_request");
        let grant = client.acquire("brief", "ttl=2s").await;
        client.release(&grant.id).await;
        for node in &cluster.nodes {
            let file = node.data.join("TIMING");
            eventually("the node knows the profile for its next start", CHANGED_WITHIN, || async { file.exists().then_some(()) })
                .await;
            // The node logs it after it has written the file.
            let told = || async { node.log_text().contains("restart").then_some(()) };
            eventually("the operator is told", CHANGED_WITHIN, told).await;
        }
        cluster.expect_elections(3, "while two profiles are at work, an election may be needless");
        for index in 0..cluster.nodes.len() {
            assert!(cluster.nodes[index].terminate().await.success());
            cluster.restart(index).await;
        }
        client.write(&Call::put("/v1/nodes/later", "x")).await;
        let timing = client.send(&Call::get("/v1/cluster/timing")).await.expect_status(200);
        assert_eq!(timing.string("timing"), "metro", "{timing:?}");
    });
}

/// The next events of a watch of the cluster.
async fn next_changes(watching: &mut Watching, count: usize) -> Vec<Value> {
    let mut changes = Vec::new();
    while changes.len() < count {
        changes.push(watching.next_event().await);
    }
    changes
}

#[test]
fn a_watch_of_the_cluster_tells_its_changes_in_order_and_replays_them() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut watching = Watching::open(&client, 0, "cluster").await;
        watching.expect("bookmark").await;
        // Neither of them is a change of the cluster.
        client.write(&Call::put("/v1/nodes/kept", "x")).await;
        create_token(&client, &json!({})).await;

        let joined = cluster.join(&json!({"role": "learner"})).await;
        let id = cluster.nodes[joined].id;
        client.send(&patch(id, &json!({"zone": "north"}))).await.expect_status(200);
        cluster.remove(joined).await;
        let changes = next_changes(&mut watching, 5).await;
        let removed = rows(&view(&client).await, "removed")[0].clone();
        let by = removed["by"].clone();
        let with_revision = |mut line: Value, change: &Value| {
            line["revision"] = change["revision"].clone();
            line
        };
        let expected = [
            json!({"type": "joining", "member": id, "role": "learner"}),
            json!({"type": "joined", "member": id, "role": "learner"}),
            json!({"type": "set", "member": id, "by": by}),
            json!({"type": "removing", "member": id, "by": by}),
            json!({"type": "removed", "member": id, "by": by}),
        ];
        for (change, expected) in changes.iter().zip(expected) {
            assert_eq!(*change, with_revision(expected, change), "{changes:?}");
        }
        let revisions: Vec<u64> = changes.iter().map(|change| whole(change, "revision")).collect();
        assert!(revisions.is_sorted(), "{revisions:?}");
        assert_eq!(removed["revision"], changes[4]["revision"]);

        // Every node has the same events, and so does a node that starts again.
        let follower = cluster.follower().await;
        assert!(cluster.nodes[follower].terminate().await.success());
        cluster.restart(follower).await;
        for index in cluster.running_members() {
            for from in [0, 3] {
                let mut again = Watching::open(&client, index, &format!("cluster&from={}", revisions[from])).await;
                assert_eq!(next_changes(&mut again, changes.len() - from).await, changes[from..], "node index {index}");
            }
        }
        let timing = Call::patch("/v1/cluster/settings").key(&new_key()).json(&json!({"timing": "metro", "force": true}));
        client.send(&timing).await.expect_status(200);
        let set = watching.next_event().await;
        assert_eq!((&set["type"], &set["timing"], &set["by"]), (&json!("set"), &json!("metro"), &by), "{set}");
        let both = Watching::try_open(&client, 0, "cluster&path=/jobs").await.expect("the node runs");
        both.expect_err("one or the other").expect_problem(400, "bad_request");
    });
}

#[test]
fn a_node_that_joins_starts_with_the_timing_profile_of_the_cluster() {
    run_parallel(LONG, async {
        let mut cluster = Cluster::start_with(&["--timing", "wan"]).await;
        let client = cluster.client(0);
        eventually("the cluster has the profile of its nodes", CHANGED_WITHIN, || async {
            let settings = client.send(&Call::get("/v1/cluster/settings")).await.expect_status(200);
            (settings.string("timing") == "wan").then_some(())
        })
        .await;
        let joined = cluster.join(&json!({})).await;
        let listening = log_line(&cluster.nodes[joined], 0, &["listening"]).await;
        assert!(listening.contains("timing=wan"), "{listening}");
        assert!(!cluster.nodes[joined].log_text().contains("restart this node"), "it uses the profile already");
        assert!(cluster.nodes[joined].terminate().await.success());
        let before = cluster.nodes[joined].log_text().len();
        cluster.restart(joined).await;
        let again = log_line(&cluster.nodes[joined], before, &["listening"]).await;
        assert!(again.contains("timing=wan"), "{again}");
    });
}

/// Starts a node with this token until it gives up. Returns its exit code and its log.
async fn refused(cluster: &mut Cluster, token: &str) -> (Option<i32>, String) {
    let index = cluster.start_joining(token, None);
    let status = cluster.nodes[index].exited().await;
    (status.code(), cluster.nodes[index].log_text())
}

#[test]
fn a_join_token_counts_once_for_one_directory_and_is_refused_with_advice_otherwise() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let call = Call::post("/v1/cluster/join-tokens").json(&json!({"role": "learner"}));
        let created = client.send(&call).await.expect_status(201);
        let token = created.string("token").to_owned();
        let again = client.send(&call).await.expect_status(201);
        assert_eq!((again.number("number"), &again.json["token"]), (created.number("number"), &Value::Null), "shown once");
        assert!(created.string("command").contains("fairhold serve") && created.string("command").contains("--join-file"));

        let joining = cluster.start_joining(&token, None);
        cluster.admitted(joining).await;
        let id = cluster.nodes[joining].id;
        // The same directory may show it again.
        cluster.nodes[joining].kill().await;
        cluster.nodes[joining].start();
        let shown = settled(&client).await;
        assert_eq!(ids(&shown, "members"), [1, 2, 3, id]);
        cluster.node_ready(joining).await;
        let listed = client.send(&Call::get("/v1/cluster/join-tokens")).await.expect_status(200);
        assert!(!listed.text.contains("fhj1."), "a list has no secrets: {listed:?}");
        assert_eq!(listed.json["tokens"][0]["used_by"], id, "{listed:?}");

        let (code, log) = refused(&mut cluster, &token).await;
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains("used") && log.contains(&format!("node {id}")), "{log}");
        let cut = token[..token.len() - 1].to_owned();
        let middle = token.len() / 2;
        let letter = if token.as_bytes()[middle] == b'A' { "B" } else { "A" };
        let changed = format!("{}{letter}{}", &token[..middle], &token[middle + 1..]);
        for damaged in [cut, changed, "fhj1.".to_owned(), String::new()] {
            let (code, log) = refused(&mut cluster, &damaged).await;
            assert_eq!(code, Some(2), "{damaged:?}: {log}");
            assert!(log.contains("join token"), "{damaged:?}: {log}");
        }
        let revoked = create_token(&client, &json!({})).await;
        let revoke = Call::delete(&format!("/v1/cluster/join-tokens/{}", revoked.number("number")));
        client.send(&revoke).await.expect_status(204);
        client.send(&revoke).await.expect_status(204);
        let (code, log) = refused(&mut cluster, revoked.string("token")).await;
        assert_eq!(code, Some(2), "{log}");
        assert_eq!(ids(&settled(&client).await, "members"), [1, 2, 3, id], "none of them came in");

        // After the join, the directory is enough.
        assert!(cluster.nodes[joining].terminate().await.success());
        cluster.nodes[joining].origin = Origin::Directory;
        cluster.restart(joining).await;
        let empty = tempfile::tempdir().expect("a folder");
        let serve = program().arg("serve").arg("--data").arg(empty.path().join("data")).output().await.expect("it runs");
        assert_eq!(serve.status.code(), Some(2), "an empty directory needs a member list or a token: {serve:?}");
    });
}
