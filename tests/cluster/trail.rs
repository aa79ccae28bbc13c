//! The audit of administrative acts at running nodes: the same chain everywhere, also after the death of a leader, and an
//! export that shows every change.

use crate::{
    access::{FILE_TOKEN, Guarded, User},
    client::{Answer, Call, Client, new_key},
    harness::{READY_WITHIN, SHORT, eventually, program, run_parallel, write_secret},
};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Output, time::Duration};
use tokio::task::JoinHandle;

/// A long poll must end within this time, and well before its own end.
const WOKEN_WITHIN: Duration = Duration::from_secs(20);

fn lines(answer: &Answer) -> Vec<Value> {
    answer.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn acts(user: &User, query: &str) -> Vec<Value> {
    lines(&user.send(Call::get(&format!("/v1/audit?{query}"))).await.expect_status(200))
}

/// The entries of one node, by its own state, once it has this many.
async fn acts_of_node(user: &User, node: usize, count: usize) -> Vec<Value> {
    let call = Call::get("/v1/audit?consistency=local").with("authorization", &format!("Bearer {}", user.token));
    eventually("the entries of a node", READY_WITHIN, || async {
        let found = user.client.send_to(node, &call).await.ok().filter(|answer| answer.status == 200)?;
        Some(lines(&found)).filter(|acts| acts.len() >= count)
    })
    .await
}

fn facts(act: &Value) -> [&str; 4] {
    ["principal", "verb", "on", "result"].map(|field| act[field].as_str().expect("a text"))
}

fn set_limit(lock: &str, limit: u64) -> Call {
    Call::patch(&format!("/v1/locks/{lock}")).key(&new_key()).json(&json!({ "limit": limit }))
}

/// Runs `fairhold audit`.
async fn audit(arguments: &[&str]) -> Output {
    program().arg("audit").args(arguments).output().await.expect("the program runs")
}

async fn verify(file: &Path, head: Option<&str>) -> (Option<i32>, String) {
    let mut arguments = vec!["verify", file.to_str().expect("UTF-8")];
    arguments.extend(head.into_iter().flat_map(|head| ["--head", head]));
    let done = audit(&arguments).await;
    let text = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8(text).expect("UTF-8"))
}

#[test]
fn acts_of_several_principals_are_one_chain_at_every_node_and_survive_the_leader() {
    run_parallel(SHORT, async {
        let mut guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        let ops = guarded.user("ops").await;
        guarded.bind("operator", "user:ops").await;
        let before = acts(&root, "").await.len();
        // A caller without the right leaves no entry.
        assert_eq!(ci.send(set_limit("deploy%2Fa", 2)).await.status, 403);
        assert_eq!(ci.send(Call::get("/v1/audit")).await.status, 403);
        ci.acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
        let key = new_key();
        let broken = Call::delete("/v1/locks/deploy%2Fa/holders?reason=stuck").key(&key);
        root.send(broken.clone()).await.expect_status(204);
        // A repeated request is one act, whichever node gets it.
        root.at(1).send(broken).await.expect_status(204);
        root.at(2).send(Call::delete("/v1/sessions/999999")).await.expect_status(404);
        root.send(set_limit("pool", 3)).await.expect_status(200);
        let snapshot = ops.at(1).send(Call::post("/v1/cluster/snapshot").json(&json!({}))).await.expect_status(200);
        let token = root.send(Call::post("/v1/access/tokens").json(&json!({ "user": "ci" }))).await.expect_status(201);
        let number = token.number("number").to_string();
        root.send(Call::delete(&format!("/v1/access/tokens/{number}"))).await.expect_status(204);
        let found = acts(&root, "").await;
        let node = snapshot.number("id").to_string();
        let made: Vec<[&str; 4]> = found.iter().skip(before).map(facts).collect();
        let expected = [
            ["user:root", "break", "locks:deploy/a", "ok"],
            ["user:root", "end", "sessions:999999", "session_not_found"],
            ["user:root", "set", "locks:pool", "ok"],
            ["user:ops", "cluster.snapshot", &node, "ok"],
            ["user:root", "tokens.create", &number, "ok"],
            ["user:root", "tokens.revoke", &number, "ok"],
        ];
        assert_eq!(made, expected);
        assert_eq!((found[before]["reason"].as_str(), found[before]["address"].as_str()), (Some("stuck"), Some("127.0.0.1")));
        assert!(found.iter().all(|act| !act["request"].as_str().expect("an id").is_empty()));
        let text: String = found.iter().map(Value::to_string).collect();
        for secret in [FILE_TOKEN, &root.token, &ci.token, token.string("token"), &key] {
            assert!(!text.contains(secret), "a secret is in the audit");
        }
        assert_eq!(acts(&root, "principal=user:ops").await.len(), 1);
        assert_eq!(facts(&acts(&root, "verb=tokens.create&newest&limit=1").await[0])[2], number);
        survives_the_leader(&mut guarded, &root, &found).await;
    });
}

/// The leader is killed, acts go on, and in the end every node has the same chain.
async fn survives_the_leader(guarded: &mut Guarded, root: &User, found: &[Value]) {
    let leader = guarded.cluster.leader().await;
    guarded.cluster.nodes[leader].kill().await;
    let other = root.at((leader + 1) % 3);
    let to = Call::put("/v1/access/users/mallory", "").key(&new_key()).json(&json!({ "disabled": true }));
    other.send(to).await.expect_status(200);
    guarded.cluster.restart(leader).await;
    let next = (guarded.cluster.leader().await + 1) % 3;
    let id = guarded.cluster.nodes[next].id;
    let transfer = Call::post("/v1/cluster/leader").key(&new_key()).json(&json!({ "to": id }));
    root.send(transfer.clone()).await.expect_status(200);
    root.send(transfer).await.expect_status(200);
    let mut chains = Vec::new();
    for node in 0..3 {
        chains.push(acts_of_node(root, node, found.len() + 2).await);
    }
    assert!(chains.iter().all(|chain| *chain == chains[0]), "the nodes have different chains: {chains:#?}");
    assert_eq!(&chains[0][..found.len()], found);
    let made: Vec<[&str; 4]> = chains[0].iter().skip(found.len()).map(facts).collect();
    let id = id.to_string();
    assert_eq!(made, [["user:root", "users.disable", "mallory", "ok"], ["user:root", "cluster.lead", &id, "ok"]]);
    let newest = chains[0].last().expect("an act");
    for node in 0..3 {
        let cluster = root.at(node).send(Call::get("/v1/cluster")).await.expect_status(200);
        assert_eq!((&cluster.json["audit"]["seq"], &cluster.json["audit"]["hash"]), (&newest["seq"], &newest["hash"]));
    }
}

/// How many requests are in progress at a node, with this one.
async fn in_flight(client: &Client, node: usize) -> u64 {
    let answer = client.send_to(node, &Call::get("/metrics")).await.expect("the node runs").expect_status(200);
    let value = answer.text.lines().find_map(|line| line.strip_prefix("fairhold_http_requests_in_flight "));
    value.and_then(|value| value.parse().ok()).expect("a number")
}

/// Waits for an act from this number on, at a node. Returns when the node has the request, and has answered a later one.
async fn waits_for(user: &User, node: usize, from: usize) -> JoinHandle<Answer> {
    let (user, path) = (user.at(node), format!("/v1/audit?from={from}"));
    let before = in_flight(&user.client, node).await;
    let waiting = tokio::spawn({
        let (user, path) = (user.clone(), format!("{path}&wait=60s"));
        async move { user.send(Call::get(&path).within(WOKEN_WITHIN)).await }
    });
    eventually("the poll is open", READY_WITHIN, || async { (in_flight(&user.client, node).await > before).then_some(()) }).await;
    user.send(Call::get(&format!("{path}&wait=0s"))).await.expect_status(304);
    waiting
}

#[test]
fn a_reader_waits_for_the_next_act() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        let next = acts(&root, "").await.len() + 1;
        let path = format!("/v1/audit?from={next}");
        root.send(Call::get(&format!("{path}&wait=0s"))).await.expect_status(304);
        assert_eq!(acts(&root, &format!("from={next}")).await, [Value::Null; 0]);
        let waiting = waits_for(&root, 1, next).await;
        root.send(set_limit("pool", 3)).await.expect_status(200);
        let found = lines(&waiting.await.expect("the reader gets an answer").expect_status(200));
        assert_eq!(facts(&found[0]), ["user:root", "set", "locks:pool", "ok"]);
        // A reader that loses its right is told so.
        let auditor = guarded.user("ann").await;
        guarded.bind("auditor", "user:ann").await;
        let waiting = waits_for(&auditor, 0, 999).await;
        guarded.unbind("auditor", "user:ann").await;
        waiting.await.expect("the reader gets an answer").expect_problem(403, "denied");
    });
}

#[test]
fn an_export_shows_every_change() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        for limit in 2..8 {
            root.send(set_limit("pool", limit)).await.expect_status(200);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (token, file) = (folder.path().join("token"), folder.path().join("audit.ndjson"));
        write_secret(&token, &root.token);
        let url = guarded.cluster.nodes[0].url.as_str();
        let name = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let connect = ["-e", url, "--auth-token-file", &name(&token)];
        let done = audit(&[&["export", "--out", &name(&file)], &connect[..]].concat()).await;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let cluster = root.send(Call::get("/v1/cluster")).await.expect_status(200);
        let head = cluster.json["audit"]["hash"].as_str().expect("a hash").to_owned();
        assert!(String::from_utf8_lossy(&done.stderr).contains(&head));
        let (code, text) = verify(&file, Some(&head)).await;
        assert_eq!(code, Some(0), "{text}");
        let whole = fs::read_to_string(&file).expect("an export");
        let number = whole.lines().count() - 1;
        let altered = |text: String| {
            let file = folder.path().join("altered.ndjson");
            fs::write(&file, text).expect("a file");
            file
        };
        // One changed byte in the fourth entry.
        let line = whole.lines().nth(4).expect("an entry");
        let (code, text) = verify(&altered(whole.replacen(line, &line.replacen("\"ok\"", "\"no\"", 1), 1)), None).await;
        assert_eq!((code, text.contains("entry 4 was altered")), (Some(1), true), "{text}");
        let without = |left_out: usize| -> String {
            whole.lines().enumerate().filter(|(index, _)| *index != left_out).map(|(_, line)| format!("{line}\n")).collect()
        };
        for left_out in [1, 3, number] {
            let (code, text) = verify(&altered(without(left_out)), None).await;
            let named = text.contains(&format!("entry {left_out} is missing"));
            assert_eq!((code, named), (Some(1), true), "{left_out}: {text}");
        }
        // An earlier export is whole, but has no entry with the later hash.
        root.send(set_limit("pool", 9)).await.expect_status(200);
        let later = root.send(Call::get("/v1/cluster")).await.expect_status(200);
        let (code, text) = verify(&file, later.json["audit"]["hash"].as_str()).await;
        assert_eq!((code, text.contains("is missing after entry")), (Some(1), true), "{text}");
        assert_eq!(verify(&file, Some("abc")).await.0, Some(2), "a hash has 64 digits");
        let listed = audit(&[&["ls", "--newest", "--limit", "2"], &connect[..]].concat()).await;
        let listed = String::from_utf8(listed.stdout).expect("UTF-8");
        assert_eq!(listed.lines().count(), 2, "{listed}");
        assert!(listed.lines().all(|line| line.contains("user:root\t127.0.0.1\tset\tlocks:pool\tlimit=")), "{listed}");
    });
}
