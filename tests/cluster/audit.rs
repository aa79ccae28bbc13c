//! The audit log of requests at running nodes: what it has, what it leaves out, and what happens when its disk is full.

use crate::{
    access::{ENDS_WITHIN, FILE_TOKEN, Guarded, User, expect_denied},
    client::{Answer, Call, new_key},
    confined::Mount,
    harness::{Cluster, NodeProcess, SHORT, eventually, run_parallel, signal_pid},
    without::MOUNTS,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::process::Command;

/// An entry must be in the file within this time.
const WRITTEN_WITHIN: Duration = Duration::from_secs(20);
/// What a client stores, and the log must not have.
const VALUE: &str = "canary-of-a-value";
const OWNER: &str = "canary-of-an-owner";

/// Gives every node an audit log with these lines in its table. Returns the files.
fn with_logs(cluster: &mut Cluster, table: &str) -> Vec<PathBuf> {
    let folder = cluster.folder().to_owned();
    let one = |node: &mut NodeProcess| {
        let log = folder.join(format!("audit-{}.log", node.id));
        set_log(node, &folder, &log, table);
        log
    };
    cluster.nodes.iter_mut().map(one).collect()
}

fn set_log(node: &mut NodeProcess, folder: &Path, log: &Path, table: &str) {
    let config = folder.join(format!("node-{}.toml", node.id));
    fs::write(&config, format!("[audit]\nfile = {:?}\n{table}\n", log.display().to_string())).expect("a configuration");
    node.flags.extend(["--config".to_owned(), config.display().to_string()]);
}

/// The entries of a log: each line is whole.
fn entries(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The first entry that fits.
async fn entry(log: &Path, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    eventually(what, WRITTEN_WITHIN, || async { entries(log).into_iter().find(|entry| fits(entry)) }).await
}

/// The entry of the request with this answer.
async fn entry_of(log: &Path, answer: &Answer) -> Value {
    let id = answer.header("fairhold-request-id").expect("every answer has one").to_owned();
    entry(log, "the entry of a request", move |entry| entry["request"] == id.as_str()).await
}

#[test]
fn a_denied_acquire_is_in_the_audit_log_with_its_user_and_the_right_that_it_lacks() {
    run_parallel(SHORT, async {
        let mut logs = Vec::new();
        let guarded = Guarded::start_with(|cluster| logs = with_logs(cluster, "")).await;
        let (root, ci) = guarded.enforce().await;
        ci.acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
        for (index, log) in logs.iter().enumerate() {
            let denied = ci.at(index).acquire("other", "ttl=60s&owner=canary-of-an-owner").await;
            let found = entry_of(log, &denied).await;
            expect_denied(denied, "acquire", "locks:other");
            assert_eq!(found["names"], json!([{ "name": "locks:other", "verb": "acquire", "denied": true }]));
            let facts = ["event", "principal", "address", "method", "route", "decision", "status", "code"].map(|key| &found[key]);
            let expected = [
                json!("request"),
                json!("user:ci"),
                json!("127.0.0.1"),
                json!("POST"),
                json!("/v1/locks/{name}"),
                json!("denied"),
                json!(403),
                json!("denied"),
            ];
            assert_eq!(facts, expected.each_ref(), "{found}");
        }
        // A batch is refused in part: its entry has all names.
        let session = ci.send(Call::post("/v1/sessions").json(&json!({ "ttl": "60s" }))).await.expect_status(201);
        let acquire = |lock: &str| json!({ "acquire": { "id": new_key(), "lock": lock, "session": session.string("id") } });
        let batch = json!({ "calls": [acquire("deploy/b"), acquire("db")] });
        let answer = ci.send(Call::post("/v1/batch").json(&batch)).await.expect_status(200);
        let found = entry_of(&logs[0], &answer).await;
        let mut names = found["names"].as_array().expect("names").clone();
        names.sort_by_key(|name| name["name"].to_string());
        let expected = [
            json!({ "name": "locks:db", "verb": "acquire", "denied": true }),
            json!({ "name": "locks:deploy/b", "verb": "acquire", "role": "deployers" }),
        ];
        assert_eq!((names.as_slice(), &found["decision"]), (&expected[..], &json!("denied")), "{found}");
        // A wrong token, and a stream whose right is lost.
        let stranger = User { token: "fht_wrong".to_owned(), ..ci.clone() };
        let unknown = stranger.acquire("deploy%2Fa", "").await.expect_problem(401, "unauthenticated");
        let found = entry_of(&logs[0], &unknown).await;
        assert_eq!((&found["decision"], &found["principal"]), (&json!("unauthenticated"), &Value::Null), "{found}");
        assert_eq!(found["names"], json!([{ "name": "locks:deploy/a" }]));
        let watch = ci.stream("/v1/watch?lock=deploy%2Fa").await;
        guarded.unbind("deployers", "user:ci").await;
        watch.last().await;
        let ended = entry(&logs[0], "the end of the watch", |entry| entry["event"] == "end").await;
        let facts = ["principal", "route", "decision", "reason"].map(|key| &ended[key]);
        assert_eq!(facts, [json!("user:ci"), json!("/v1/watch"), json!("denied"), json!("revoked")].each_ref(), "{ended}");
        root.acquire("deploy%2Fb2", "").await.expect_status(200);
        let is_refusal = |entry: &Value| entry["decision"] == "denied" || entry["decision"] == "unauthenticated";
        assert!(entries(&logs[0]).iter().all(is_refusal), "only refusals: {:?}", entries(&logs[0]));
        let mode = fs::metadata(&logs[0]).expect("the log").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    });
}

#[test]
fn the_log_of_all_requests_names_what_they_touched_and_has_no_secret() {
    run_parallel(SHORT, async {
        let mut logs = Vec::new();
        let mut guarded = Guarded::start_with(|cluster| logs = with_logs(cluster, "what = \"all\"")).await;
        let (_, ci) = guarded.enforce().await;
        let log = &logs[0];
        let session = ci.send(Call::post("/v1/sessions").json(&json!({ "ttl": "60s", "name": OWNER }))).await.expect_status(201);
        let grant = ci.acquire("deploy%2Fa", &format!("ttl=60s&owner={OWNER}")).await.expect_status(200);
        let found = entry_of(log, &grant).await;
        let names = json!([{ "name": "locks:deploy/a", "verb": "acquire", "role": "deployers" }]);
        assert_eq!((&found["names"], &found["decision"]), (&names, &json!("allowed")), "{found}");
        assert_eq!(found["revision"].as_u64(), Some(grant.revision()));
        let id = grant.string("id").to_owned();
        for call in [
            Call::post(&format!("/v1/grants/{id}/renew")),
            Call::get(&format!("/v1/grants/{id}")),
            Call::post(&format!("/v1/sessions/{}/keepalive", session.string("id"))),
        ] {
            ci.send(call).await.expect_status(200);
        }
        let released = ci.send(Call::delete(&format!("/v1/grants/{id}"))).await.expect_status(204);
        let found = entry_of(log, &released).await;
        assert_eq!((&found["route"], &found["names"]), (&json!("/v1/grants/{id}"), &json!([{ "name": "locks:deploy/a" }])));
        guarded.file().send(Call::put("/v1/nodes/app/ci?parents", "")).await.expect_status(201);
        ci.send(Call::put("/v1/nodes/app/ci/x", VALUE)).await.expect_status(201);
        let put = json!({ "then": [{ "put": { "path": "/app/ci/y", "value": VALUE } }] });
        ci.send(Call::post("/v1/txn").json(&put)).await;
        ci.send(Call::get(&format!("/v1/locks?token={}", ci.token))).await.expect_problem(400, "bad_request");
        let hostile = Call::get("/v1/locks/a%0Ab%22").with("user-agent", "evil\"} {\"event\":\"request\"");
        let hostile = ci.send(hostile).await.expect_problem(400, "bad_request");
        entry_of(log, &hostile).await;

        // A kill leaves whole lines, and a part of a line of an earlier run harms no later entry.
        guarded.cluster.nodes[0].kill().await;
        OpenOptions::new().append(true).open(log).expect("the log").write_all(b"{\"time\":\"2026").expect("a part of a line");
        guarded.cluster.restart(0).await;
        let again = served_by_first(&ci, &Call::post("/v1/locks/deploy%2Fa?ttl=60s")).await;
        entry_of(log, &again).await;
        // Another program takes the file away: SIGHUP makes another one, and does not stop the node.
        let taken = log.with_extension("taken");
        fs::rename(log, &taken).expect("it can be renamed");
        let node = &guarded.cluster.nodes[0];
        signal_pid(node.pid(), Signal::HUP);
        eventually("the log is opened again", WRITTEN_WITHIN, || async {
            (log.exists() && node.log_text().contains("SIGHUP: opening the audit log again")).then_some(())
        })
        .await;
        let last = served_by_first(&ci, &Call::get("/v1/locks/deploy%2Fa")).await;
        entry_of(log, &last).await;

        let text = fs::read_to_string(&taken).expect("the log") + &fs::read_to_string(log).expect("the log");
        let broken: Vec<&str> = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).collect();
        assert_eq!(broken, ["{\"time\":\"2026"], "only the part of a line that the test wrote");
        let (secret_id, session_id) = (id.as_str(), session.string("id"));
        for secret in [VALUE, OWNER, FILE_TOKEN, &ci.token, "fht_", secret_id, session_id, "evil"] {
            assert!(!text.contains(secret), "{secret} is in the audit log");
        }
    });
}

/// Sends a call to the first node until it succeeds there.
async fn served_by_first(user: &User, call: &Call) -> Answer {
    let call = call.clone().with("authorization", &format!("Bearer {}", user.token));
    eventually("the first node serves", WRITTEN_WITHIN, || async {
        user.client.send_to(0, &call).await.ok().filter(|answer| answer.status == 200)
    })
    .await
}

/// Sends a call to one node, once.
async fn at_first(user: &User, call: Call) -> Answer {
    user.client.once(&call.with("authorization", &format!("Bearer {}", user.token))).await
}

#[test]
fn a_required_log_that_cannot_be_written_refuses_calls_but_no_renewal_and_no_release() {
    run_parallel(SHORT, async {
        let mut log = PathBuf::new();
        let guarded = Guarded::start_with(|cluster| {
            let folder = cluster.folder().to_owned();
            log = folder.join("audit.log");
            symlink("/dev/full", &log).expect("a link");
            set_log(&mut cluster.nodes[0], &folder, &log, "what = \"writes\"\nrequired = true");
        })
        .await;
        // The other nodes have no audit log.
        let admin = guarded.file().at(1);
        let session = admin.send(Call::post("/v1/sessions").json(&json!({ "ttl": "60s" }))).await.expect_status(201);
        let session = session.string("id");
        let (held, queued) = (admin.acquire("a", "ttl=60s").await, admin.acquire("b", "ttl=60s").await);
        let here = guarded.file();
        eventually("the log is known to fail", WRITTEN_WITHIN, || async {
            let answer = at_first(&here, Call::post("/v1/locks/c?ttl=1s")).await;
            (answer.code() == "audit_unavailable").then(|| assert_eq!(answer.string("outcome"), "none"))
        })
        .await;
        let acquire = |id: &str| json!({ "acquire": { "id": id, "lock": "d", "session": session } });
        for _ in 0..20 {
            at_first(&here, Call::post(&format!("/v1/grants/{}/renew", held.string("id")))).await.expect_status(200);
            at_first(&here, Call::post(&format!("/v1/sessions/{session}/keepalive"))).await.expect_status(200);
        }
        let release = json!({ "release": { "id": queued.string("id") } });
        let batch = json!({ "calls": [acquire(&new_key()), release] });
        let batch = at_first(&here, Call::post("/v1/batch").json(&batch)).await.expect_status(200);
        let statuses: Vec<u64> =
            batch.json["answers"].as_array().expect("answers").iter().map(|a| a["status"].as_u64().expect("a status")).collect();
        assert_eq!(statuses, [503, 204], "each call of a batch is judged alone: {batch:?}");
        at_first(&here, Call::get("/v1/locks/a")).await.expect_status(200);
        at_first(&here, Call::put("/v1/nodes/x", "1")).await.expect_problem(503, "audit_unavailable");
        let doctor = doctor(&guarded.cluster.nodes[0].url).await;
        assert!(doctor.contains("cannot write its audit log") && doctor.contains("No space left on device"), "{doctor}");
        at_first(&here, Call::delete(&format!("/v1/grants/{}", held.string("id")))).await.expect_status(204);
        at_first(&here, Call::delete(&format!("/v1/sessions/{session}"))).await.expect_status(204);

        fs::remove_file(&log).expect("it is a link");
        eventually("the log is written again", WRITTEN_WITHIN, || async {
            (at_first(&here, Call::post("/v1/locks/c?ttl=1s")).await.status == 200).then_some(())
        })
        .await;
        let released = entry(&log, "the release is not lost", |entry| entry["method"] == "DELETE").await;
        assert_eq!(released["names"], json!([{ "name": "locks:a" }]), "{released}");
    });
}

async fn doctor(url: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairhold"));
    command.args(["doctor", "-e", url]).env_remove("FAIRHOLD_ENDPOINT").kill_on_drop(true);
    String::from_utf8(command.output().await.expect("fairhold doctor runs").stdout).expect("text")
}

#[test]
fn a_full_disk_loses_entries_and_no_request_and_raises_one_alarm() {
    run_parallel(SHORT, async {
        let (mut logs, mut mount) = (Vec::new(), None);
        let guarded = Guarded::start_with(|cluster| {
            let folder = cluster.folder().join("small");
            // Room for everything that waits in memory while the disk is full.
            mount = MOUNTS.or_without(Mount::memory_at(&folder, 32));
            for node in &mut cluster.nodes[..1] {
                let log = folder.join("audit.log");
                fs::create_dir_all(&folder).expect("a folder");
                set_log(node, &folder, &log, "what = \"all\"");
                logs.push(log);
            }
        })
        .await;
        let Some(mount) = mount else { return };
        let here = guarded.file();
        let first = at_first(&here, Call::post("/v1/locks/a?ttl=60s")).await.expect_status(200);
        entry_of(&logs[0], &first).await;
        mount.leave(0);
        let session = here.send(Call::post("/v1/sessions").json(&json!({ "ttl": "60s" }))).await.expect_status(201);
        let keepalive = || Call::post(&format!("/v1/sessions/{}/keepalive", session.string("id")));
        let full = "fairhold_audit_faulty 1";
        eventually("the disk is full", WRITTEN_WITHIN, || async {
            // More than fits into the rest of a block.
            for _ in 0..50 {
                at_first(&here, keepalive()).await.expect_status(200);
            }
            at_first(&here, Call::get("/metrics")).await.text.contains(full).then_some(())
        })
        .await;
        let warned = eventually("the node warns", ENDS_WITHIN, || async {
            let ready = at_first(&here, Call::get("/readyz?verbose")).await.expect_status(200);
            ready.json["warning"].as_str().is_some_and(|text| text.contains("audit log")).then_some(ready)
        })
        .await;
        assert!(warned.json["host"]["audit"]["fault"].is_string(), "{warned:?}");
        // More than the queue holds. Each of these requests has seven long names.
        let long = |number: u32| json!({ "path": format!("/{number}{}", "n".repeat(1_000)), "exists": true });
        let conditions: Vec<Value> = (1..8).map(long).collect();
        let large = Call::post("/v1/txn").json(&json!({ "if": conditions, "then": [], "else": [] }));
        eventually("entries are lost", Duration::from_secs(60), || async {
            for _ in 0..100 {
                at_first(&here, large.clone().key(&new_key())).await.expect_status(200);
            }
            at_first(&here, keepalive()).await.expect_status(200);
            let ready = at_first(&here, Call::get("/readyz?verbose")).await;
            ready.json["host"]["audit"]["entries_lost"].as_u64().filter(|lost| *lost > 0)
        })
        .await;
        let text = fs::read_to_string(&logs[0]).expect("the log");
        assert!(text.ends_with('\n') && text.lines().count() == entries(&logs[0]).len(), "only whole lines: {text}");
        mount.make_room();
        at_first(&here, Call::get("/v1/locks/a")).await.expect_status(200);
        eventually("the alarm ends", Duration::from_secs(40), || async {
            let ready = at_first(&here, Call::get("/readyz?verbose")).await;
            ready.json["warning"].is_null().then_some(())
        })
        .await;
        let log = guarded.cluster.nodes[0].log_text();
        // The alarm of the node says the same in its own line.
        let count = |text: &str| log.lines().filter(|line| line.contains(text) && !line.contains("alarm=")).count();
        assert_eq!((count("the audit log cannot be written"), count("the audit log is written again")), (1, 1), "{log}");
    });
}
