//! Ways around access rights that look possible: races with a grant's own acquire, nodes that are late or cut off,
//! credentials that end while a request is open, answers that name what is hidden, and acts without an entry.

use crate::{
    access::{ENDS_WITHIN, FILE_TOKEN, Guarded, User, expect_denied},
    client::{Call, new_key},
    harness::{LONG, SHORT, eventually, pass_time, report, run_parallel},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

/// How long a node may serve by old rights once it is cut off, as the guide says, and how much longer a test lets it.
const SERVES_BY_OLD_RIGHTS: Duration = Duration::from_secs(5);
const TOLERANCE: Duration = Duration::from_secs(1);
/// How often an attack with a race is tried.
const RACES: usize = 150;

#[test]
fn an_upgrade_sent_together_with_its_acquire_needs_the_right_to_the_lock() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        guarded.enforce().await;
        let rules = json!({ "rules": ["share,inspect locks:read/**"] });
        guarded.file().send(Call::put("/v1/access/roles/readers", "").json(&rules)).await.expect_status(200);
        guarded.bind("readers", "user:reader").await;
        let reader = guarded.user("reader").await;
        for race in 0..RACES {
            let (id, path) = (new_key(), format!("/v1/locks/read%2F{race}?mode=shared&ttl=60s"));
            let upgrade = Call::post(&format!("/v1/grants/{id}/upgrade"));
            let (first, second) = (reader.at(race % 3), reader.at((race / 3) % 3));
            let (taken, upgraded) = tokio::join!(first.send(Call::post(&path).key(&id)), second.send(upgrade));
            taken.expect_status(200);
            assert!([403, 404].contains(&upgraded.status), "{upgraded:?}");
            let grant = reader.send(Call::get(&format!("/v1/grants/{id}"))).await.expect_status(200);
            assert_eq!(grant.string("mode"), "shared", "{grant:?}");
        }
    });
}

#[test]
fn a_right_or_a_token_counts_at_every_node_as_soon_as_it_is_given() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        guarded.enforce().await;
        for number in 0..30 {
            let name = format!("user-{number}");
            let user = guarded.user(&name).await;
            let lock = format!("deploy%2F{number}");
            expect_denied(user.at(number % 3).acquire(&lock, "").await, "acquire", &format!("locks:deploy/{number}"));
            guarded.bind("deployers", &format!("user:{name}")).await;
            user.at((number + 1) % 3).acquire(&lock, "ttl=60s").await.expect_status(200);
            user.at((number + 2) % 3).send(Call::get(&format!("/v1/locks/{lock}"))).await.expect_status(200);
        }
    });
}

#[test]
fn an_operator_cannot_move_the_address_to_which_clients_send_their_tokens() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        guarded.bind("operator", "user:op").await;
        let operator = guarded.user("op").await;
        let member = |body| Call::patch("/v1/cluster/members/2").key(&new_key()).json(&body);
        operator.send(member(json!({ "zone": "east" }))).await.expect_status(200);
        expect_denied(operator.send(member(json!({ "url": "http://127.0.0.1:9" }))).await, "admin", "cluster");
        let url = guarded.cluster.nodes[1].url.replace("127.0.0.1", "localhost");
        root.send(member(json!({ "url": url }))).await.expect_status(200);
    });
}

#[test]
fn an_administrator_that_narrows_its_own_role_sees_that_it_was_done() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        guarded.enforce().await;
        let role = |rule: &str| Call::put("/v1/access/roles/keepers", "").json(&json!({ "rules": [rule] }));
        guarded.file().send(role("admin cluster")).await.expect_status(200);
        guarded.bind("keepers", "user:keeper").await;
        let keeper = guarded.user("keeper").await;
        let put = keeper.send(role("status cluster")).await.expect_status(200);
        assert_eq!(put.json["rules"], json!(["status cluster"]), "{put:?}");
        expect_denied(keeper.send(role("admin cluster")).await, "admin", "cluster");
        // It has no right to see any lock.
        guarded.file().acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
        let list = keeper.send(Call::get("/v1/locks")).await.expect_status(200);
        assert_eq!(list.json["items"], json!([]), "{list:?}");
        let sessions = keeper.send(Call::get("/v1/sessions")).await.expect_status(200);
        let session = sessions.json["items"][0].as_object().expect("the session of the grant");
        assert_eq!(session["grants"], json!([]), "{sessions:?}");
        assert!(!session.contains_key("grant_count") && !session.contains_key("ephemeral_count"), "{sessions:?}");
    });
}

#[test]
fn a_deadlock_is_shown_without_the_locks_that_the_caller_may_not_see() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        let opened = async |user: &User| {
            let session = user.send(Call::post("/v1/sessions").json(&json!({ "ttl": "60s" }))).await.expect_status(201);
            session.string("id").to_owned()
        };
        let (mine, other, third) = (opened(&ci).await, opened(&root).await, opened(&root).await);
        let as_owner = |session: &str| format!("session={session}&owner={session}");
        ci.acquire("deploy%2Fa", &as_owner(&mine)).await.expect_status(200);
        root.acquire("deploy%2Fb", &as_owner(&other)).await.expect_status(200);
        root.acquire("secret", &as_owner(&third)).await.expect_status(200);
        let waits = [("secret", &other), ("deploy%2Fa", &third)].map(|(lock, session)| {
            let (root, parameters) = (root.clone(), format!("{}&wait=60s", as_owner(session)));
            tokio::spawn(async move { root.acquire(lock, &parameters).await })
        });
        for lock in ["secret", "deploy%2Fa"] {
            eventually("it waits", ENDS_WITHIN, || async {
                let lock = root.send(Call::get(&format!("/v1/locks/{lock}"))).await;
                (lock.json["queue_length"] == 1).then_some(())
            })
            .await;
        }
        let refused = ci.acquire("deploy%2Fb", &format!("{}&wait=60s", as_owner(&mine))).await;
        let refused = refused.expect_problem(409, "would_deadlock");
        assert!(refused.text.contains("deploy/a") && !refused.text.contains("secret"), "{refused:?}");
        for wait in waits {
            wait.abort();
        }
    });
}

#[test]
fn a_caller_with_fewer_rights_gets_no_answer_that_others_share() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        for lock in ["secret", "deploy%2Fa"] {
            root.acquire(lock, "ttl=60s").await.expect_status(200);
            let queued = Call::post(&format!("/v1/locks/{lock}?ttl=60s")).with("prefer", "respond-async");
            root.send(queued).await.expect_status(202);
        }
        // From here on this node's own state has the waiters.
        root.send(Call::get("/v1/locks")).await.expect_status(200);
        for path in ["/v1/waits", "/v1/locks?sort=waiters&consistency=local"] {
            let all = root.send(Call::get(path)).await.expect_status(200);
            assert!(all.text.contains("deploy/a") && all.text.contains("secret"), "{all:?}");
            let own = ci.send(Call::get(path)).await.expect_status(200);
            assert!(own.text.contains("deploy/a") && !own.text.contains("secret"), "{own:?}");
        }
    });
}

#[test]
fn a_wait_ends_when_the_token_expires_and_a_watch_when_the_file_changes() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        root.acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
        let body = json!({ "user": "ci", "ttl": "3s" });
        let created = guarded.file().send(Call::post("/v1/access/tokens").json(&body)).await.expect_status(201);
        let short = User { token: created.string("token").to_owned(), ..guarded.file() };
        let watch = guarded.file().stream("/v1/watch?lock=deploy%2Fa").await;
        let wait = short.acquire("deploy%2Fa", "wait=60s&ttl=60s");
        let refused = tokio::time::timeout(ENDS_WITHIN, wait).await.expect("the wait ends");
        assert_eq!(refused.expect_problem(401, "unauthenticated").string("credential"), "expired");
        let lock = root.send(Call::get("/v1/locks/deploy%2Fa")).await;
        assert_eq!(lock.json["queue_length"], 0, "its place is withdrawn: {lock:?}");

        guarded.write_file("another-new-token\n");
        let last = watch.last().await;
        assert_eq!((&last["code"], &last["retryable"]), (&"unauthenticated".into(), &true.into()), "{last}");
        eventually("the old token is unknown", ENDS_WITHIN, || async {
            (guarded.file().send(Call::get("/v1/access/whoami")).await.status == 401).then_some(())
        })
        .await;
    });
}

#[test]
fn sessions_are_not_said_to_end_by_a_token_that_is_gone() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        ci.acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
        for _ in 0..2 {
            root.send(Call::delete("/v1/access/tokens/2")).await.expect_status(204);
        }
        let gone = root.send(Call::delete("/v1/access/tokens/2?end_sessions=true")).await.expect_problem(404, "not_found");
        assert!(gone.string("detail").contains("disable the user"), "{gone:?}");
        root.send(Call::put("/v1/access/users/ci", "").json(&json!({ "disabled": true, "end_sessions": true })))
            .await
            .expect_status(200);
        root.acquire("deploy%2Fa", "ttl=60s").await.expect_status(200);
    });
}

#[test]
fn a_node_that_is_cut_off_serves_by_old_rights_for_five_seconds_at_most() {
    run_parallel(LONG, async {
        let mut guarded = Guarded::start().await;
        let (_, ci) = guarded.enforce().await;
        let alone = 0;
        let local = Call::get("/v1/locks/deploy%2Fa?consistency=local");
        ci.at(alone).acquire("deploy%2Fa", "ttl=600s").await.expect_status(200);
        let watch = ci.stream("/v1/watch?lock=deploy%2Fa").await;
        ci.at(alone).send(local.clone()).await.expect_status(200);
        let cut_at = Instant::now();
        for node in [1, 2] {
            guarded.cluster.nodes[node].kill().await;
        }
        let watching = tokio::spawn(async move { (watch.last().await, Instant::now()) });
        let mut served_at = cut_at;
        let refused = loop {
            let with_token = local.clone().with("authorization", &format!("Bearer {}", ci.token));
            let answer = ci.client.send_to(alone, &with_token).await.expect("the node runs");
            if answer.status != 200 {
                break answer;
            }
            served_at = Instant::now();
            pass_time(Duration::from_millis(50)).await;
        };
        refused.expect_problem(503, "no_quorum");
        let (last, ended_at) = watching.await.expect("the stream ends");
        assert_eq!((&last["type"], &last["code"]), (&"error".into(), &"no_quorum".into()), "{last}");
        let (served, watched) = (served_at - cut_at, ended_at - cut_at);
        report(&format!("cut off: local reads for {served:.1?}, a watch for {watched:.1?}"));
        assert!(served.max(watched) <= SERVES_BY_OLD_RIGHTS + TOLERANCE, "{served:?}, {watched:?}");
        // An administrator by the file can look at it.
        let as_file = local.with("authorization", &format!("Bearer {FILE_TOKEN}"));
        ci.client.send_to(alone, &as_file).await.expect("the node runs").expect_status(200);
    });
}

#[test]
fn a_node_that_lost_its_data_refuses_no_administrator_before_it_hears_from_its_cluster() {
    run_parallel(LONG, async {
        let mut guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        for node in &mut guarded.cluster.nodes {
            node.kill().await;
        }
        let wiped = &mut guarded.cluster.nodes[0];
        fs::remove_dir_all(&wiped.data).expect("its data can be removed");
        wiped.start();
        let unbind = Call::delete("/v1/access/bindings/deployers/user:ci");
        let as_root = unbind.with("authorization", &format!("Bearer {}", root.token));
        let ask = async || root.client.send_to(0, &as_root).await.ok();
        let answer = eventually("the node answers", Duration::from_secs(20), ask).await;
        // It does not know that rights are enforced, and a refusal would be final.
        answer.expect_problem(503, "no_quorum");
    });
}

#[test]
fn a_queue_does_not_tell_that_a_grant_has_hidden_locks_too() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        let take = |locks: &[&str]| {
            let locks: Vec<_> = locks.iter().map(|name| json!({ "name": name })).collect();
            Call::post("/v1/locks").json(&json!({ "locks": locks, "ttl": "60s" })).with("prefer", "respond-async")
        };
        root.send(take(&["deploy/a", "secret/1"])).await.expect_status(200);
        root.send(take(&["deploy/a", "secret/2"])).await.expect_status(202);
        root.send(take(&["deploy/b", "secret/3", "deploy/c"])).await.expect_status(200);
        ci.acquire("deploy%2Fd", "ttl=60s").await.expect_status(200);
        let queue = async |lock: &str| {
            let queue = ci.send(Call::get(&format!("/v1/locks/deploy%2F{lock}/queue"))).await.expect_status(200);
            assert!(!queue.text.contains("secret"), "{queue:?}");
            queue
        };
        let (several, one) = (queue("a").await, queue("d").await);
        let fields = |item: &Value| item.as_object().expect("an entry").keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(fields(&several.items()[0]), fields(&one.items()[0]), "a holder of two locks looks like one of one lock");
        assert!(several.items()[1].get("locks").is_none(), "{several:?}");
        let seen = queue("b").await;
        let locks = seen.items()[0]["locks"].as_array().expect("a list");
        let names: Vec<&str> = locks.iter().map(|lock| lock["name"].as_str().expect("a name")).collect();
        assert_eq!(names, ["deploy/b", "deploy/c"]);
    });
}

/// The key under which the cluster once remembered the note of an act with this key: everybody can compute it.
fn key_of_note(key: &str) -> String {
    let digest: [u8; 32] = Sha256::new().chain_update("note of an act").chain_update(key).finalize().into();
    let number = digest.iter().take(16).fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    ulid::Ulid(number).to_string()
}

/// The acts of a verb: their objects and their details.
async fn acts(root: &User, verb: &str) -> Vec<(String, String)> {
    let answer = root.send(Call::get(&format!("/v1/audit?verb={verb}"))).await.expect_status(200);
    let lines = answer.text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|act| (act["on"].as_str().expect("text").to_owned(), act["detail"].as_str().expect("text").to_owned())).collect()
}

#[test]
fn an_address_cannot_be_changed_without_an_entry_by_a_request_with_the_key_of_its_note() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        let before = guarded.cluster.nodes[1].url.as_str();
        let set = |key: &str, url: &str| Call::patch("/v1/cluster/members/2").key(key).json(&json!({ "url": url }));
        let (key, evil) = (new_key(), "http://evil.example:9472");
        for (key, url) in [(key_of_note(&key), evil), (new_key(), before), (key, evil)] {
            root.send(set(&key, url)).await.expect_status(200);
        }
        let expected = [evil, before, evil].map(|url| ("2".to_owned(), format!("url={url}")));
        assert_eq!(acts(&root, "members.set").await, expected);
    });
}

#[test]
fn the_leadership_cannot_be_moved_without_an_entry_by_a_request_with_the_key_of_its_note() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        guarded.bind("operator", "user:op").await;
        let operator = guarded.user("op").await;
        let leader = guarded.cluster.leader().await;
        let (first, other) = (guarded.cluster.nodes[leader].id, guarded.cluster.nodes[(leader + 1) % 3].id);
        let key = new_key();
        for (key, to) in [(key_of_note(&key), other), (new_key(), first), (key, other)] {
            let call = Call::post("/v1/cluster/leader").key(&key).json(&json!({ "to": to }));
            // A node that has just lost the leadership may have to catch up.
            eventually("the node leads", ENDS_WITHIN, || async {
                let answer = operator.send(call.clone()).await;
                (answer.code() != "not_caught_up").then(|| answer.expect_status(200))
            })
            .await;
        }
        let expected = [other, first, other].map(|to| (to.to_string(), String::new()));
        assert_eq!(acts(&root, "cluster.lead").await, expected);
    });
}
