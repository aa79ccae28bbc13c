//! Tenants at running nodes: a tenant over its quota is refused, and the others are served.

use crate::{
    access::{ENDS_WITHIN, Guarded, User},
    client::{Answer, Call, new_key, whole},
    harness::{SHORT, all, eventually, run_parallel},
};
use serde_json::{Value, json};

/// Two tenants with a user each, which may do everything below their names. `red` has these quotas.
pub(crate) async fn two_tenants(guarded: &Guarded, quotas: Value) -> (User, User, User) {
    let (root, _) = guarded.enforce().await;
    let rules = json!({ "rules": ["acquire,inspect locks:{user}/**", "read,write nodes:{user}/**"] });
    root.send(Call::put("/v1/access/roles/teams", "").json(&rules)).await.expect_status(200);
    for (name, quotas) in [("red", quotas), ("blue", json!({}))] {
        put(&root, name, quotas).await.expect_status(200);
        root.send(Call::put(&format!("/v1/access/bindings/teams/user:{name}"), "")).await.expect_status(204);
    }
    let users = (guarded.user("red").await, guarded.user("blue").await);
    (root, users.0, users.1)
}

/// Puts a tenant of this user with these quotas.
async fn put(root: &User, name: &str, mut quotas: Value) -> Answer {
    quotas["subjects"] = json!([format!("user:{name}")]);
    quotas["prefixes"] = json!([format!("locks:{name}/**"), format!("nodes:{name}/**")]);
    root.send(Call::put(&format!("/v1/access/tenants/{name}"), "").json(&quotas)).await
}

async fn used(root: &User, tenant: &str, quota: &str) -> u64 {
    let answer = root.send(Call::get(&format!("/v1/access/tenants/{tenant}"))).await.expect_status(200);
    whole(&answer.json["quotas"][quota], "used")
}

#[track_caller]
fn expect_over_quota(answer: Answer, quota: &str, limit: u64, used: u64) {
    let answer = answer.expect_problem(429, "quota_exceeded");
    assert_eq!((answer.string("tenant"), answer.string("quota")), ("red", quota), "{answer:?}");
    assert_eq!((answer.number("limit"), answer.number("used")), (limit, used), "{answer:?}");
    let frees_itself = !["nodes", "bytes", "tokens"].contains(&quota);
    assert_eq!((&answer.json["retryable"], answer.json["outcome"].as_str()), (&frees_itself.into(), Some("none")));
    assert_eq!(answer.header("retry-after").is_some(), frees_itself, "{answer:?}");
}

#[test]
fn a_tenant_over_its_quota_is_refused_and_the_other_is_served() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let quotas = json!({ "contenders": 3, "nodes": 4, "bytes": 8, "waiters": 1, "sessions": 6 });
        let (root, red, blue) = two_tenants(&guarded, quotas).await;
        for (name, user) in [("red", &red), ("blue", &blue)] {
            let shown = user.send(Call::get("/v1/access/whoami")).await.expect_status(200);
            assert_eq!(shown.string("tenant"), name);
        }
        let shown = root.send(Call::get("/v1/access/whoami")).await.expect_status(200);
        assert_eq!(shown.json["tenant"], Value::Null);

        let held = red.acquire("red%2Fa", "ttl=60s").await.expect_status(200);
        let waiting = "wait=60s&ttl=60s";
        let waits = tokio::spawn({
            let red = red.clone();
            async move { red.acquire("red%2Fa", waiting).await }
        });
        eventually("it waits", ENDS_WITHIN, || async { (used(&root, "red", "contenders").await == 2).then_some(()) }).await;
        expect_over_quota(red.at(1).acquire("red%2Fa", waiting).await, "waiters", 1, 1);
        red.acquire("red%2Fb", "ttl=60s").await.expect_status(200);
        expect_over_quota(red.at(2).acquire("red%2Fb%2Fc", "ttl=60s").await, "contenders", 3, 3);
        // The three locks that it has used are nodes, too.
        let write = |path: &str, value: &str| Call::put(&format!("/v1/nodes/{path}?parents"), value);
        expect_over_quota(red.send(write("red/x", "1")).await, "nodes", 4, 3);
        red.send(write("red", "1234")).await.expect_status(201);
        expect_over_quota(red.send(write("red", "123456789")).await, "bytes", 8, 4);
        let several = json!({ "then": [
            { "put": { "path": "/red", "value": "12345678" } },
            { "create": { "path": "/red/y", "value": "" } },
        ] });
        let refused = red.send(Call::post("/v1/txn").json(&several)).await;
        assert_eq!(whole(&refused.json["failed"], "index"), 1, "{refused:?}");
        expect_over_quota(refused, "nodes", 4, 4);
        assert_eq!(used(&root, "red", "bytes").await, 4, "a refused transaction changes nothing");
        for number in 0..5 {
            blue.acquire(&format!("blue%2F{number}"), "ttl=60s").await.expect_status(200);
            blue.send(write(&format!("blue/{number}"), "123456789")).await.expect_status(201);
        }

        // A lower quota takes nothing away. What ends makes room only below it.
        put(&root, "red", json!({ "contenders": 1, "nodes": 0, "sessions": 0 })).await.expect_status(200);
        assert_eq!((used(&root, "red", "contenders").await, used(&root, "red", "sessions").await), (3, 3));
        expect_over_quota(red.send(Call::post("/v1/sessions").json(&json!({}))).await, "sessions", 0, 3);
        let release = Call::delete(&format!("/v1/grants/{}", held.string("id")));
        red.send(release).await.expect_status(204);
        let granted = tokio::time::timeout(ENDS_WITHIN, waits).await.expect("the lock is free").expect("its task");
        granted.expect_status(200);
        expect_over_quota(red.acquire("red%2Fb", "wait=1s").await, "sessions", 0, 2);
        root.send(Call::delete("/v1/access/tenants/red")).await.expect_status(204);
        red.acquire("red%2Fc", "ttl=60s").await.expect_status(200);
    });
}

#[test]
fn tenants_are_put_on_conditions_and_have_nothing_in_common() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, red, _) = two_tenants(&guarded, json!({ "nodes": 100 })).await;
        let tenant = |name: &str| Call::put(&format!("/v1/access/tenants/{name}"), "");
        for (body, on) in [
            (json!({ "prefixes": ["locks:red/a/**"] }), "red"),
            (json!({ "prefixes": ["nodes:**"] }), ""),
            (json!({ "subjects": ["user:*"] }), ""),
            (json!({ "subjects": ["user:blue"] }), "blue"),
        ] {
            let refused = root.send(tenant("green").json(&body)).await.expect_problem(409, "overlaps");
            assert!(["red", "blue"].contains(&refused.string("tenant")) && refused.string("tenant").contains(on), "{refused:?}");
        }
        for body in [json!({ "prefixes": ["locks:a"] }), json!({ "subjects": ["file:admin"] }), json!({ "burst": 1 })] {
            root.send(tenant("green").json(&body)).await.expect_problem(400, "bad_request");
        }
        let made = root.send(tenant("green").with("if-none-match", "*").json(&json!({ "nodes": 3 }))).await.expect_status(200);
        let tag = made.header("etag").expect("an ETag").to_owned();
        root.send(tenant("green").with("if-none-match", "*").json(&json!({}))).await.expect_problem(412, "version_mismatch");
        root.send(tenant("green").with("if-match", &tag).json(&json!({ "nodes": 4 }))).await.expect_status(200);
        root.send(tenant("green").with("if-match", &tag).json(&json!({}))).await.expect_problem(412, "version_mismatch");
        let key = new_key();
        for _ in 0..2 {
            root.send(tenant("green").json(&json!({ "nodes": 7 })).key(&key)).await.expect_status(200);
        }
        root.send(tenant("green").json(&json!({ "nodes": 8 })).key(&key)).await.expect_problem(422, "idempotency_mismatch");
        let list = root.send(Call::get("/v1/access/tenants")).await.expect_status(200);
        let names: Vec<&str> =
            list.json["tenants"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["blue", "green", "red"]);
        root.send(Call::delete("/v1/access/tenants/green").with("if-match", &tag)).await.expect_problem(412, "version_mismatch");
        for _ in 0..2 {
            root.send(Call::delete("/v1/access/tenants/green")).await.expect_status(204);
        }
        root.send(Call::get("/v1/access/tenants/green")).await.expect_problem(404, "not_found");
        for call in [Call::get("/v1/access/tenants"), Call::get("/v1/access/tenants/red"), Call::delete("/v1/access/tenants/red")]
        {
            red.send(call).await.expect_problem(403, "denied");
        }
    });
}

/// More nodes than one command counts.
const EXISTING: u64 = 6_000;

#[test]
fn what_exists_counts_for_a_new_tenant_at_every_node_also_after_a_restart() {
    run_parallel(SHORT, async {
        let mut guarded = Guarded::start().await;
        let file = guarded.file();
        for from in (0..EXISTING).step_by(500) {
            let create = |number: u64| json!({ "put": { "path": format!("/old/{number}"), "value": "12", "parents": true } });
            let steps: Vec<Value> = (from..from + 500).map(create).collect();
            file.send(Call::post("/v1/txn").json(&json!({ "then": steps }))).await.expect_status(200);
        }
        // Rights need not be enforced for quotas of names.
        let tenant = json!({ "prefixes": ["nodes:old/**"], "nodes": EXISTING + 1, "bytes": 2 * EXISTING + 1 });
        let put = file.send(Call::put("/v1/access/tenants/old", "").json(&tenant)).await.expect_status(200);
        assert_eq!(
            (&put.json["counting"], whole(&put.json["quotas"]["nodes"], "used")),
            (&false.into(), EXISTING + 1),
            "{put:?}"
        );
        let write = |node: usize, value: &str| {
            let (file, call) = (file.at(node), Call::put("/v1/nodes/old/new", value));
            async move { file.send(call).await }
        };
        for node in 0..3 {
            write(node, "").await.expect_problem(429, "quota_exceeded");
        }
        file.send(Call::delete("/v1/nodes/old/7")).await.expect_status(204);
        write(0, "1234").await.expect_problem(429, "quota_exceeded");
        write(0, "123").await.expect_status(201);
        for node in 0..3 {
            file.at(node).send(Call::post("/v1/cluster/snapshot")).await.expect_status(200);
            guarded.cluster.nodes[node].kill().await;
            guarded.cluster.restart(node).await;
        }
        for node in 0..3 {
            let shown = file.at(node).send(Call::get("/v1/access/tenants/old")).await.expect_status(200);
            let quotas = &shown.json["quotas"];
            assert_eq!(
                (whole(&quotas["nodes"], "used"), whole(&quotas["bytes"], "used")),
                (EXISTING + 1, 2 * EXISTING + 1),
                "{shown:?}"
            );
            write(node, "1234").await.expect_problem(429, "quota_exceeded");
        }
    });
}

#[test]
fn each_node_bounds_the_rate_the_waits_and_the_watches_of_a_tenant() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let quotas = json!({ "requests_per_second": 1, "burst": 40, "waits": 1, "watches": 1 });
        let (root, red, blue) = two_tenants(&guarded, quotas).await;
        let held = red.acquire("red%2Fa", "ttl=60s").await.expect_status(200);
        let session = red.send(Call::post("/v1/sessions").json(&json!({ "ttl": "60s" }))).await.expect_status(201);
        let waits = tokio::spawn({
            let red = red.clone();
            async move { red.acquire("red%2Fa", "wait=60s&ttl=60s").await }
        });
        eventually("it waits", ENDS_WITHIN, || async { (used(&root, "red", "waits").await == 1).then_some(()) }).await;
        expect_over_quota(red.acquire("red%2Fa", "wait=60s&ttl=60s").await, "waits", 1, 1);
        red.acquire("red%2Fb", "").await.expect_status(200);
        let watch = red.stream("/v1/watch?lock=red%2Fa").await;
        expect_over_quota(red.send(Call::get("/v1/watch?lock=red%2Fa")).await, "watches", 1, 1);
        assert_eq!(used(&root, "red", "watches").await, 1);
        // Another node counts its own.
        drop(red.stream_at(1, "/v1/watch?lock=red%2Fa").await);
        drop(watch);
        eventually("the watch has ended", ENDS_WITHIN, || async { (used(&root, "red", "watches").await == 0).then_some(()) })
            .await;
        release_and_wait(&red, &held, waits).await;

        let read = || Call::get("/v1/locks/red%2Fa?consistency=local");
        let flood = (0..80).map(|_| {
            let red = red.clone();
            tokio::spawn(async move { red.client.once(&authorized(&red, read())).await })
        });
        let answers = all(flood.collect()).await;
        let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 429).collect();
        assert!((1..80).contains(&refused.len()), "{} of 80 were refused", refused.len());
        for answer in refused {
            assert_eq!((answer.code(), answer.header("retry-after")), ("rate_limited", Some("1")), "{answer:?}");
            assert_eq!((answer.string("tenant"), answer.number("limit")), ("red", 1), "{answer:?}");
        }
        // What frees and keeps alive is never refused, and does not count.
        let keepalive = Call::post(&format!("/v1/sessions/{}/keepalive", session.string("id")));
        for _ in 0..50 {
            red.client.once(&authorized(&red, keepalive.clone())).await.expect_status(200);
        }
        let acquire = json!({ "id": new_key(), "lock": "red/c", "session": session.string("id") });
        let release = json!({ "calls": [{ "release": { "id": new_key() } }, { "acquire": acquire }] });
        let flooded = all((0..20)
            .map(|_| {
                let red = red.clone();
                let release = release.clone();
                tokio::spawn(async move { red.client.once(&authorized(&red, Call::post("/v1/batch").json(&release))).await })
            })
            .collect())
        .await;
        let calls: Vec<&Value> = flooded.iter().filter_map(|answer| answer.json["answers"].as_array()).flatten().collect();
        let with_status = |status: u64| calls.iter().filter(|call| call["status"] == status).count();
        assert!(with_status(204) >= 20 && with_status(429) > 0, "{calls:?}");
        red.client
            .once(&authorized(&red, Call::delete(&format!("/v1/sessions/{}", session.string("id")))))
            .await
            .expect_status(204);
        blue.acquire("blue%2Fa", "").await.expect_status(200);
        let here = red.at(2).client.once(&authorized(&red, read())).await;
        here.expect_status(200);
    });
}

#[test]
fn denied_requests_count_against_the_rate() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (_, red, blue) = two_tenants(&guarded, json!({ "requests_per_second": 1, "burst": 10 })).await;
        let denied = |user: &User| {
            let (client, call) = (user.client.clone(), authorized(user, Call::get("/v1/locks/other")));
            tokio::spawn(async move { client.once(&call).await })
        };
        let answers = all((0..60).map(|_| denied(&red)).collect()).await;
        let codes: Vec<&str> = answers.iter().map(Answer::code).collect();
        let count = |code: &str| codes.iter().filter(|other| **other == code).count();
        assert_eq!(count("denied") + count("rate_limited"), 60, "{codes:?}");
        assert!(count("denied") >= 10 && count("rate_limited") > 0, "{codes:?}");
        for answer in all((0..20).map(|_| denied(&blue)).collect()).await {
            answer.expect_problem(403, "denied");
        }
    });
}

pub(crate) fn authorized(user: &User, call: Call) -> Call {
    call.with("authorization", &format!("Bearer {}", user.token))
}

async fn release_and_wait(user: &User, held: &Answer, waits: tokio::task::JoinHandle<Answer>) {
    user.send(Call::delete(&format!("/v1/grants/{}", held.string("id")))).await.expect_status(204);
    tokio::time::timeout(ENDS_WITHIN, waits).await.expect("the lock is free").expect("its task").expect_status(200);
}
