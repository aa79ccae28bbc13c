//! Access rights at running nodes: what a user with few rights may do, and what happens when it loses them.

use crate::{
    client::{Answer, Call, Client, new_key, whole},
    harness::{Cluster, SHORT, eventually, free_port, run_parallel, write_secret},
};
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const FILE_TOKEN: &str = "s3cret-of-the-file";
/// A revocation must end a wait or a stream within this time.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A cluster whose administrators by a file have a token.
pub(crate) struct Guarded {
    pub(crate) cluster: Cluster,
    folder: TempDir,
}

/// A client that shows a token.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) client: Client,
    pub(crate) token: String,
}

impl User {
    pub(crate) async fn send(&self, call: Call) -> Answer {
        self.client.send(&call.with("authorization", &format!("Bearer {}", self.token))).await
    }

    pub(crate) fn at(&self, node: usize) -> User {
        User { client: self.client.beginning_with(node), token: self.token.clone() }
    }

    pub(crate) async fn acquire(&self, lock: &str, parameters: &str) -> Answer {
        self.send(Call::post(&format!("/v1/locks/{lock}?{parameters}"))).await
    }

    pub(crate) async fn stream(&self, path: &str) -> Lines {
        self.stream_at(0, path).await
    }

    pub(crate) async fn stream_at(&self, node: usize, path: &str) -> Lines {
        let authorization = format!("Bearer {}", self.token);
        let response =
            self.client.stream_from(node, path, &[("authorization", authorization.as_str())]).await.expect("the node runs");
        assert_eq!(response.status().as_u16(), 200, "{path}");
        Lines { response, text: Vec::new() }
    }
}

/// The lines of a stream.
pub(crate) struct Lines {
    response: reqwest::Response,
    text: Vec<u8>,
}

impl Lines {
    /// The last line before the stream ends.
    pub(crate) async fn last(mut self) -> Value {
        let read = async {
            while let Some(chunk) = self.response.chunk().await.expect("the stream ends cleanly") {
                self.text.extend_from_slice(&chunk);
            }
        };
        tokio::time::timeout(ENDS_WITHIN, read).await.expect("the stream ends");
        let text = String::from_utf8(self.text).expect("UTF-8");
        serde_json::from_str(text.lines().last().expect("a line")).expect("JSON")
    }
}

impl Guarded {
    pub(crate) async fn start() -> Guarded {
        Guarded::start_with(|_| {}).await
    }

    /// Like `start`, with nodes that are prepared before their start.
    pub(crate) async fn start_with(prepare: impl FnOnce(&mut Cluster)) -> Guarded {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        write_secret(&file, &format!("another-token-of-it\n{FILE_TOKEN}\n"));
        let mut cluster = Cluster::plan();
        for node in &mut cluster.nodes {
            node.flags = vec!["--admin-token-file".to_owned(), file.to_str().expect("a name in UTF-8").to_owned()];
        }
        prepare(&mut cluster);
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.ready().await;
        Guarded { cluster, folder }
    }

    /// Replaces the tokens of the administrators' file.
    pub(crate) fn write_file(&self, lines: &str) {
        write_secret(&self.folder.path().join("token"), lines);
    }

    pub(crate) fn file(&self) -> User {
        User { client: self.cluster.client(0), token: FILE_TOKEN.to_owned() }
    }

    /// A user with a new token.
    pub(crate) async fn user(&self, name: &str) -> User {
        let created = self.file().send(Call::post("/v1/access/tokens").json(&json!({ "user": name }))).await.expect_status(201);
        User { client: self.cluster.client(0), token: created.string("token").to_owned() }
    }

    pub(crate) async fn bind(&self, role: &str, subject: &str) {
        self.file().send(Call::put(&format!("/v1/access/bindings/{role}/{subject}"), "")).await.expect_status(204);
    }

    pub(crate) async fn unbind(&self, role: &str, subject: &str) -> Answer {
        self.file().send(Call::delete(&format!("/v1/access/bindings/{role}/{subject}"))).await.expect_status(204)
    }

    /// Enforces rights: `root` may do everything, and `ci` may deploy.
    pub(crate) async fn enforce(&self) -> (User, User) {
        let rules = json!({ "rules": ["acquire,inspect locks:deploy/**", "read,write nodes:app/{user}/**"] });
        self.file().send(Call::put("/v1/access/roles/deployers", "").json(&rules)).await.expect_status(200);
        self.bind("admin", "user:root").await;
        self.bind("deployers", "user:ci").await;
        let users = (self.user("root").await, self.user("ci").await);
        let enabled = self.file().send(Call::post("/v1/access/enable")).await.expect_status(200);
        assert_eq!(enabled.string("mode"), "on");
        users
    }
}

pub(crate) fn expect_denied(answer: Answer, needs: &str, on: &str) {
    let answer = answer.expect_problem(403, "denied");
    assert_eq!((answer.string("needs"), answer.string("on")), (needs, on));
}

#[test]
fn a_user_may_do_what_its_roles_allow_at_every_node() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let anyone = guarded.cluster.client(0);
        let held = anyone.acquire("other", "ttl=60s&owner=ann").await;
        let refused = guarded.file().send(Call::post("/v1/access/enable")).await.expect_problem(409, "would_lock_out");
        assert!(refused.string("advice").contains("fairhold access bind"), "{refused:?}");
        anyone.send(&Call::get("/v1/access")).await.expect_problem(401, "unauthenticated");
        let (root, ci) = guarded.enforce().await;

        for node in 0..3 {
            let missing = anyone.beginning_with(node).send(&Call::post("/v1/locks/deploy%2Fa")).await;
            let missing = missing.expect_problem(401, "unauthenticated");
            assert_eq!((missing.string("credential"), missing.header("www-authenticate")), ("missing", Some("Bearer")));
            let ci = ci.at(node);
            let grant = ci.acquire(&format!("deploy%2Fn{node}"), "ttl=60s").await.expect_status(200);
            let id = grant.string("id");
            ci.send(Call::post(&format!("/v1/grants/{id}/renew"))).await.expect_status(200);
            for lock in ["other", "never-used", "deployed"] {
                expect_denied(ci.acquire(lock, "ttl=60s").await, "acquire", &format!("locks:{lock}"));
                expect_denied(ci.send(Call::get(&format!("/v1/locks/{lock}"))).await, "inspect", &format!("locks:{lock}"));
                expect_denied(ci.send(Call::get(&format!("/v1/nodes/locks/{lock}"))).await, "inspect", &format!("locks:{lock}"));
            }
            expect_denied(ci.acquire("deploy%2Fx", "priority=5").await, "acquire,priority<=5", "locks:deploy/x");
            expect_denied(ci.send(Call::delete("/v1/locks/deploy%2Fx/holders")).await, "break", "locks:deploy/x");
            expect_denied(ci.send(Call::get("/v1/sessions")).await, "status", "cluster");
            expect_denied(ci.send(Call::get("/v1/cluster")).await, "status", "cluster");
            expect_denied(ci.send(Call::get("/v1/access")).await, "admin", "cluster");
            expect_denied(ci.send(Call::get("/v1/watch")).await, "read", "nodes:**");
            expect_denied(ci.send(Call::get("/v1/watch?lock=deploy&recursive&locks")).await, "inspect", "locks:**");
            let transfer = Call::post("/v1/cluster/leader").json(&json!({ "to": 1 }));
            expect_denied(ci.send(transfer).await, "operate", "cluster");
            let removal = ci.send(Call::delete("/v1/cluster/members/9")).await;
            expect_denied(removal, "operate", "cluster");
            ci.send(Call::put(&format!("/v1/nodes/app/ci/n{node}?parents"), "x")).await.expect_problem(403, "denied");
            root.at(node).send(Call::get("/v1/cluster")).await.expect_status(200);
        }
        for (query, wanted) in [
            ("", &["deploy/n0", "deploy/n1", "deploy/n2"][..]),
            ("?match=E&sort=held_for", &["deploy/n0", "deploy/n1", "deploy/n2"]),
            ("?owner=ann", &[]),
        ] {
            let listed = ci.send(Call::get(&format!("/v1/locks{query}"))).await.expect_status(200);
            let names: Vec<&str> =
                listed.json["items"].as_array().expect("a list").iter().filter_map(|lock| lock["lock"].as_str()).collect();
            assert_eq!(names, wanted, "{query}: {listed:?}");
            let all = root.send(Call::get(&format!("/v1/locks{query}"))).await.expect_status(200);
            assert!(all.text.contains("\"other\""), "{query}: {all:?}");
        }

        // The id of a grant is a right of its own.
        ci.send(Call::delete(&format!("/v1/grants/{}", held.id))).await.expect_status(204);
        root.send(Call::put("/v1/nodes/app/ci?parents", "")).await.expect_status(201);
        ci.send(Call::put("/v1/nodes/app/ci/x", "1")).await.expect_status(201);
        expect_denied(ci.send(Call::put("/v1/nodes/app/cd", "1")).await, "write", "nodes:app/cd");
        let conditional = json!({ "if": [{ "path": "/app/secret", "exists": true }], "then": [], "else": [] });
        expect_denied(ci.send(Call::post("/v1/txn").json(&conditional)).await, "read", "nodes:app/secret");

        ci.send(Call::post("/v1/access/disable")).await.expect_problem(403, "denied");
        root.send(Call::post("/v1/access/disable")).await.expect_problem(403, "denied");
        guarded.file().send(Call::post("/v1/access/disable")).await.expect_status(200);
        anyone.acquire("other", "ttl=60s").await;
    });
}

#[test]
fn a_lost_right_ends_waits_and_watches() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        root.acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
        let waiting: Vec<_> = (0..3)
            .map(|node| {
                let ci = ci.at(node);
                tokio::spawn(async move { ci.acquire("deploy%2Fa", "wait=60s&ttl=60s").await })
            })
            .collect();
        let watch = ci.stream("/v1/watch?lock=deploy%2Fa").await;
        eventually("all of them wait", ENDS_WITHIN, || async {
            let lock = root.send(Call::get("/v1/locks/deploy%2Fa")).await;
            (lock.json["queue_length"] == 3).then_some(())
        })
        .await;
        guarded.unbind("deployers", "user:ci").await;
        for wait in waiting {
            let answer = tokio::time::timeout(ENDS_WITHIN, wait).await.expect("the wait ends").expect("its task");
            expect_denied(answer, "acquire", "locks:deploy/a");
        }
        let last = watch.last().await;
        assert_eq!(
            (&last["type"], &last["code"], &last["retryable"]),
            (&"error".into(), &"denied".into(), &false.into()),
            "{last}"
        );
        let lock = root.send(Call::get("/v1/locks/deploy%2Fa")).await;
        assert_eq!(lock.json["queue_length"], 0, "their places are withdrawn: {lock:?}");
    });
}

#[test]
fn a_revoked_token_ends_its_streams_and_renews_nothing() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        let watch = ci.stream("/v1/watch?lock=deploy%2Fa").await;
        let session = ci.send(Call::post("/v1/sessions").json(&json!({ "ttl": "60s" }))).await.expect_status(201);
        let held = ci.acquire("deploy%2Fa", &format!("session={}", session.string("id"))).await.expect_status(200);
        let other = guarded.user("ci").await;
        let tokens = root.send(Call::get("/v1/access/tokens")).await.expect_status(200);
        assert!(!tokens.text.contains("fht_"), "a list shows no secret");
        root.send(Call::delete("/v1/access/tokens/2")).await.expect_status(204);
        let last = watch.last().await;
        assert_eq!((&last["code"], &last["retryable"]), (&"unauthenticated".into(), &true.into()), "{last}");
        for node in 0..3 {
            let renew = Call::post(&format!("/v1/sessions/{}/keepalive", session.string("id")));
            let refused = eventually("the node knows", ENDS_WITHIN, || async {
                let answer = ci.at(node).send(renew.clone()).await;
                (answer.status == 401).then_some(answer)
            })
            .await;
            assert_eq!(refused.string("credential"), "unknown");
        }
        // Another token of the same user is as good as before.
        other.send(Call::get(&format!("/v1/grants/{}", held.string("id")))).await.expect_status(200);
        root.send(Call::put("/v1/access/users/ci", "").json(&json!({ "disabled": true, "end_sessions": true })))
            .await
            .expect_status(200);
        other.acquire("deploy%2Fb", "").await.expect_problem(401, "unauthenticated");
        let check = Call::post("/v1/access/check");
        let check = check.json(&json!({ "as": "user:ci", "verb": "acquire", "on": "locks:deploy/b" }));
        let because = eventually("the node knows that the user is disabled", ENDS_WITHIN, || async {
            let answer = root.send(check.clone()).await.expect_status(200);
            (answer.json["allowed"] == false).then(|| answer.string("because").to_owned())
        })
        .await;
        assert_eq!(because, "the user ci is disabled; to enable it: fairhold users enable ci");
        root.send(Call::put("/v1/access/users/ci", "").json(&json!({ "disabled": false }))).await.expect_status(200);
        eventually("the node knows that the user is enabled again", ENDS_WITHIN, || async {
            let answer = root.send(check.clone()).await.expect_status(200);
            (answer.json["allowed"] == true).then_some(())
        })
        .await;
        root.acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
    });
}

#[test]
fn no_acquire_is_applied_after_the_answer_to_a_revocation() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (_, ci) = guarded.enforce().await;
        let mut tasks = Vec::new();
        for number in 0..90 {
            let ci = ci.at(number % 3);
            tasks.push(tokio::spawn(async move {
                let mut taken = Vec::new();
                for round in 0..20 {
                    let answer = ci.acquire(&format!("deploy%2F{number}-{round}"), "ttl=60s").await;
                    match answer.status {
                        200 => taken.push(whole(&answer.json, "number")),
                        403 => return (taken, true),
                        status => panic!("{status}: {answer:?}"),
                    }
                }
                (taken, false)
            }));
        }
        wait_for_locks(&guarded, 60).await;
        let narrowed = guarded.unbind("deployers", "user:ci").await.revision();
        let mut refused = 0;
        for task in tasks {
            let (taken, was_refused) = task.await.expect("the task");
            refused += usize::from(was_refused);
            assert!(taken.iter().all(|number| *number <= narrowed), "{taken:?} after {narrowed}");
        }
        assert!(refused > 0, "the revocation came too late to refuse anything");
    });
}

/// Waits until there are this many locks.
async fn wait_for_locks(guarded: &Guarded, count: usize) {
    eventually("some locks are taken", ENDS_WITHIN, || async {
        let list = guarded.file().send(Call::get("/v1/locks?limit=1000&consistency=local")).await;
        let locks = list.json["items"].as_array().map_or(0, Vec::len);
        (locks >= count).then_some(())
    })
    .await;
}

#[test]
fn requests_with_two_tokens_or_with_one_in_the_url_are_refused() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (_, ci) = guarded.enforce().await;
        let in_url = Call::get(&format!("/v1/locks?token={}", ci.token));
        guarded.cluster.client(0).send(&in_url).await.expect_problem(400, "bad_request");
        let basic = Call::get("/v1/locks").with("authorization", "Basic cm9vdDpyb290");
        guarded.cluster.client(0).send(&basic).await.expect_problem(401, "unauthenticated");
        let repeated = Call::post("/v1/access/tokens").json(&json!({ "user": "cd" })).key(&new_key());
        let first = guarded.file().send(repeated.clone()).await.expect_status(201);
        assert!(first.string("token").starts_with("fht_"));
        guarded.file().send(repeated).await.expect_problem(409, "already_issued");
        guarded
            .file()
            .send(Call::put("/v1/access/roles/admin", "").json(&json!({ "rules": ["acquire locks:a"] })))
            .await
            .expect_problem(409, "in_use");
        guarded
            .file()
            .send(Call::put("/v1/access/roles/x", "").json(&json!({ "rules": ["acquire locks:a//b"] })))
            .await
            .expect_problem(422, "bad_rule");
        guarded.file().send(Call::delete("/v1/access/roles/deployers")).await.expect_problem(409, "in_use");
        guarded.file().send(Call::delete("/v1/access/tokens/99")).await.expect_problem(404, "not_found");
        for path in ["/livez", "/readyz", "/version", "/metrics"] {
            guarded.cluster.client(0).send(&Call::get(path)).await.expect_status(200);
        }
        guarded.cluster.client(0).send(&Call::get("/readyz?verbose")).await.expect_problem(401, "unauthenticated");
    });
}

#[test]
fn the_status_port_shows_no_details_while_rights_are_enforced() {
    run_parallel(SHORT, async {
        let address = format!("127.0.0.1:{}", free_port());
        let guarded = Guarded::start_with(|cluster| {
            cluster.nodes[0].flags.extend(["--listen-status".to_owned(), address.clone()]);
        })
        .await;
        let status = guarded.cluster.client(0).of(vec![format!("http://{address}")]);
        let verbose = Call::get("/readyz?verbose");
        let open = status.send(&verbose).await.expect_status(200);
        assert!(open.json["leader"].is_string() && open.json["host"]["time"].is_string(), "{open:?}");
        guarded.enforce().await;
        // Another node may have answered the call, so this one hears of it later.
        let is_brief = || async {
            let answer = status.send(&verbose).await.expect_status(200);
            (answer.json["host"] == json!({})).then_some(answer)
        };
        let brief = eventually("the status port knows that rights are enforced", SHORT, is_brief).await;
        let shown = json!({ "ready": true, "shutting_down": false, "revision": brief.json["revision"], "host": {} });
        assert_eq!(brief.json, shown);
        let plain = status.send(&Call::get("/readyz")).await.expect_status(200);
        assert_eq!(plain.text, "ok\n");
        guarded.file().send(Call::post("/v1/access/disable")).await.expect_status(200);
        eventually("the status port shows the details again", SHORT, || async {
            let answer = status.send(&verbose).await.expect_status(200);
            answer.json["host"]["time"].is_string().then_some(())
        })
        .await;
    });
}
