//! The command lines of the HTTP contract, word for word, run by curl on each port.

use crate::{
    client::{Call, new_key, whole},
    harness::{Cluster, NODES, SHORT, run_parallel, same_address},
};
use serde_json::Value;
use tokio::process::Command;

/// Runs a line from the documentation, with its port replaced by that of a node.
async fn shell(line: &str, url: &str) -> String {
    let port = url.rsplit(':').next().expect("a port");
    let line = line.replace("localhost:7171", &format!("localhost:{port}"));
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("no_proxy", "*").kill_on_drop(true);
    let output = command.output().await.expect("a shell");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
fn assert_time(text: &Value) {
    let text = text.as_str().expect("a time is a text");
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    assert!(shape.starts_with("9999-99-99T99:99:99") && shape.ends_with('Z'), "no RFC 3339 time in UTC: {text}");
}

#[test]
fn the_curl_lines_of_the_contract_work_word_for_word_on_each_port() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let mut last_token = 0;
        for node in &cluster.nodes {
            let taken = shell("curl -X POST 'localhost:7171/v1/locks/deploy?wait=30s'", &node.url).await;
            let grant: Value = serde_json::from_str(&taken).unwrap_or_else(|error| panic!("{error}: {taken:?}"));
            let id = grant["id"].as_str().expect("an id");
            assert!(ulid::Ulid::from_string(id).is_ok(), "{id} is no ULID");
            assert_eq!(
                (&grant["lock"], &grant["state"], &grant["mode"]),
                (&"deploy".into(), &"held".into(), &"exclusive".into())
            );
            let owner = grant["owner"].as_str().expect("an owner");
            assert!(["curl@127.0.0.1", "curl@::1"].contains(&owner), "the owner: {owner}");
            let expires_in = grant["expires_in"].as_str().expect("a duration");
            assert!(expires_in == "30s" || (expires_in.starts_with("29") && expires_in.ends_with("ms")), "{expires_in}");
            assert_time(&grant["expires_at"]);
            let token = whole(&grant, "token");
            assert!(token > last_token, "{token} after {last_token}");
            last_token = token;

            let shown = shell("curl localhost:7171/v1/locks/deploy/queue", &node.url).await;
            assert!(!shown.contains(id) && shown.contains(owner), "numbers and owners, no ids: {shown}");
            let release = format!("curl -X DELETE localhost:7171/v1/grants/{id}");
            assert_eq!(shell(&release, &node.url).await, "");
            let shown = shell("curl localhost:7171/v1/locks/deploy", &node.url).await;
            let shown: Value = serde_json::from_str(&shown).expect("JSON");
            assert_eq!(shown["holders"], Value::Array(Vec::new()), "{shown}");
        }
    });
}

#[test]
fn every_answer_of_every_node_names_its_cluster_its_revision_its_leader_and_the_request() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let id = cluster.client(0).send(&Call::get("/v1/cluster")).await.string("cluster").to_owned();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        let leader = cluster.nodes[cluster.leader().await].url.clone();
        for node in 0..NODES {
            let client = cluster.client(node);
            let lock = format!("/v1/locks/signed-{node}");
            let key = new_key();
            let calls = [
                (Call::post(&lock).key(&key), 200),
                (Call::post(&lock), 409),
                (Call::post(&format!("{lock}?colour=red")), 400),
                (Call::post(&lock).key(&key), 200),
                (Call::get(&lock), 200),
                (Call::get(&format!("{lock}/queue")), 200),
                (Call::get(&format!("{lock}/fence?token=123456789")), 409),
                (Call::get("/v1/locks/never-used"), 200),
                (Call::get(&format!("/v1/grants/{key}")), 200),
                (Call::post(&format!("/v1/grants/{key}/renew")), 200),
                (Call::delete(&format!("/v1/grants/{key}")), 204),
                (Call::get(&format!("/v1/grants/{key}")), 410),
                (Call::put(&format!("/v1/nodes/signed-{node}"), "x"), 201),
                (Call::get(&format!("/v1/nodes/signed-{node}")), 200),
                (Call::get("/v1/nodes/nothing"), 404),
                (Call::get("/v1/sessions"), 200),
                (Call::get("/v1/cluster"), 200),
                (Call::get("/v1/nothing"), 404),
                (Call::get("/livez"), 200),
                (Call::get("/readyz"), 200),
                (Call::get("/version"), 200),
                (Call::get("/metrics"), 200),
                (Call::get("/openapi.json"), 200),
                (Call::get("/v1/watch?from=999999999"), 400),
                (Call::patch("/v1/cluster"), 405),
            ];
            for (call, status) in calls {
                let answer = client.once(&call).await.expect_status(status);
                assert!(answer.revision() > 0 || status != 200, "{call:?}: {answer:?}");
                let leader_url =
                    answer.header("fairhold-leader").unwrap_or_else(|| panic!("no Fairhold-Leader: {call:?} {answer:?}"));
                assert!(same_address(leader_url, &leader), "{leader_url}, and {leader} leads");
                let request = answer.header("fairhold-request-id").unwrap_or_default();
                assert!(!request.is_empty(), "no Fairhold-Request-Id: {call:?} {answer:?}");
                assert_eq!(answer.header("fairhold-cluster"), Some(&*id), "{call:?} {answer:?}");
            }
            // A request that names another cluster has no effect.
            let other = Call::post(&format!("/v1/locks/others-{node}")).with("fairhold-cluster", &"0".repeat(32));
            client.once(&other).await.expect_problem(421, "wrong_cluster");
            client.once(&Call::get(&lock).with("fairhold-cluster", &id)).await.expect_status(200);
            let untouched = client.once(&Call::get(&format!("/v1/locks/others-{node}"))).await.expect_status(200);
            assert!(untouched.json["last_token"].is_null(), "{untouched:?}");
            // Refused before the request is complete.
            let too_long = client.once(&Call::get(&format!("/{}", "x".repeat(20_000)))).await.expect_status(431);
            assert_eq!(too_long.header("fairhold-cluster"), Some(&*id), "{too_long:?}");
        }
    });
}

#[test]
fn a_write_on_one_node_is_readable_on_every_other() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        for round in 0..20 {
            let (writes, reads) = (cluster.client(round), cluster.client(round + 1 + round % 2));
            let written = writes.write(&Call::put("/v1/nodes/seen", round.to_string())).await;
            let read = reads.once(&Call::get("/v1/nodes/seen")).await.expect_status(200);
            assert_eq!(read.text, round.to_string(), "a read is linearizable by default");
            assert!(read.revision() >= written.revision());
            let local = Call::get("/v1/nodes/seen?consistency=local");
            let own = local.with("fairhold-min-revision", &written.revision().to_string());
            assert_eq!(reads.once(&own).await.expect_status(200).text, round.to_string(), "read your own writes from a follower");
        }
    });
}

#[test]
fn a_request_for_a_redirect_is_redirected_to_the_leader() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let path = "/v1/locks/signpost?wait=5s&owner=a%20b";
        for node in 0..NODES {
            let client = cluster.client(node);
            let answer = client.once(&Call::post(path).with("fairhold-route", "redirect")).await;
            if node == leader {
                let grant = crate::client::Grant::from_answer(&answer);
                client.release(&grant.id).await;
            } else {
                let answer = answer.expect_status(307);
                assert_eq!(answer.header("location"), Some(format!("{}{path}", cluster.nodes[leader].url).as_str()));
            }
            // The receiving node answers requests that need no other node.
            for (path, status) in [("/v1/locks/signpost?consistency=local", 200), ("/v1/nothing", 404)] {
                client.once(&Call::get(path).with("fairhold-route", "redirect")).await.expect_status(status);
            }
        }
        assert!(cluster.client(leader).queue("signpost").await.is_empty(), "a redirected request is in no queue");
    });
}

/// The lines of a page that begin with `$ curl`, without their comments.
fn lines_of(page: &str) -> Vec<String> {
    let joined = page.replace("\\\n", "");
    let lines = joined.lines().filter_map(|line| line.strip_prefix("$ curl "));
    lines.map(|line| line.split_once("  #").map_or(line, |(line, _)| line).trim().to_owned()).collect()
}

#[test]
fn each_command_line_of_the_page_of_locks_is_valid() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let lines = lines_of(include_str!("../../docs/locks.md"));
        for (index, line) in lines.iter().enumerate() {
            let grant = client.acquire(&format!("own-{index}"), "").await;
            let session = client.open_session("60s", "page").await;
            let line =
                ["30s", "60s", "10m"].iter().fold(line.clone(), |line, wait| line.replace(&format!("wait={wait}"), "wait=50ms"));
            let line = line.replace("after=57", "after=1").replace("grants/ID", &format!("grants/{}", grant.id));
            let line =
                line.replace("sessions/ID", &format!("sessions/{}", session.id)).replace(r#""ID""#, &format!("{:?}", session.id));
            let line = line.replace("sessions/41", &format!("sessions/{}", session.number));
            // The reader of a stream stops it when it has read enough; the line has not failed.
            let whole = format!("AUTH='x: y'; curl -s -o /dev/null -w '%{{http_code}}' --max-time 2 {line} || test $? = 28");
            let status = shell(&whole, &cluster.nodes[index % NODES].url).await;
            // A fence that is no longer current is refused: a check with 409, a dependent write with 412.
            assert!(["200", "201", "202", "204", "304", "409", "412"].contains(&status.as_str()), "{status}: {line}");
        }
        assert!(lines.len() > 25, "the page has {} lines for curl", lines.len());
    });
}
