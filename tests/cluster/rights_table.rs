//! The table of rights of `docs/rights.md`, at running nodes: each call, by a caller with each built-in role, by a caller
//! without a role, and by one without a credential.

use crate::{
    access::{Guarded, User},
    client::{Answer, Call, new_key},
    harness::{SHORT, run_parallel},
};
use serde_json::json;
use std::time::Duration;

const PAGE: &str = include_str!("../../docs/rights.md");
/// A caller with a valid token and no role.
const NO_ROLE: &str = "none";

/// One row of the page.
struct Row {
    /// `METHOD path`.
    call: String,
    needs: String,
    /// For each role of the head: `yes`, `partly` or `no`.
    cells: Vec<String>,
}

/// The roles of the head, and the rows.
fn page() -> (Vec<String>, Vec<Row>) {
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let mut lines = PAGE.lines().filter(|line| line.starts_with('|')).map(cells);
    let roles = lines.next().expect("a head").split_off(2);
    let rows = lines.skip(1).map(|mut cells| {
        let rest = cells.split_off(2);
        Row { call: cells[0].trim_matches('`').to_owned(), needs: cells[1].clone(), cells: rest }
    });
    (roles, rows.collect())
}

/// What an administrator keeps, and what each caller knows the ids of.
struct Kept {
    session: String,
    /// A shared grant, to upgrade.
    grant: String,
}

/// A valid request of a call. It needs something that a role lacks which the page calls `partly`. It is harmless if it is
/// allowed: it ends nothing that a later row needs.
fn request(call: &str, name: &str, kept: &Kept) -> Call {
    let (method, route) = call.split_once(' ').expect("METHOD path");
    let id = new_key();
    let fill = |text: &str, value: &str| route.replace(text, value);
    let path = match route {
        "/v1/grants/{id}" => fill("{id}", &id),
        "/v1/grants/{id}/upgrade" => fill("{id}", &kept.grant),
        "/v1/grants/{id}/renew" | "/v1/grants/{id}/downgrade" => fill("{id}", &id),
        "/v1/sessions/{id}" => fill("{id}", "999999"),
        "/v1/sessions/{id}/keepalive" => fill("{id}", &id),
        "/v1/cluster/members/{id}" => fill("{id}", "99"),
        "/v1/cluster/join-tokens/{number}" | "/v1/access/tokens/{number}" => fill("{number}", "999999"),
        "/v1/access/bindings/{role}/{subject}" => format!("/v1/access/bindings/viewer/user:{name}"),
        "/v1/locks/{name}/fence" => format!("{}?token=1", fill("{name}", name)),
        "/v1/elections/{name}" if method == "PUT" => format!("{}?grant={id}&value=a", fill("{name}", name)),
        "/v1/locks/{name}" if method == "POST" => format!("{}?ttl=5s", fill("{name}", name)),
        "/v1/locks/{name}/holders" => format!("{}?reason=test", fill("{name}", name)),
        "/v1/nodes/" if method == "POST" => "/v1/nodes/?sequential".to_owned(),
        "/v1/nodes/{*path}" if method == "POST" => format!("/v1/nodes/{name}?sequential&parents"),
        "/v1/nodes/{*path}" => format!("/v1/nodes/{name}"),
        "/ui/{*path}" => "/ui/0123456789abcdef/app/main.js".to_owned(),
        "/v1/watch" => format!("/v1/watch?path=/{name}"),
        "/readyz" => "/readyz?verbose".to_owned(),
        route => route.replace("{name}", name),
    };
    let call = match method {
        "GET" => Call::get(&path),
        "POST" => Call::post(&path),
        "PUT" => Call::put(&path, ""),
        "PATCH" => Call::patch(&path),
        "DELETE" => Call::delete(&path),
        method => panic!("{method}: add it"),
    };
    match (method, route) {
        ("POST", "/v1/locks") => call.json(&json!({ "locks": [{ "name": name }], "ttl": "5s" })),
        ("POST", "/v1/batch") => {
            let acquire = json!({ "acquire": { "id": id, "lock": name, "session": kept.session } });
            call.json(&json!({ "calls": [acquire] }))
        }
        ("POST", "/v1/sessions") => call.json(&json!({ "ttl": "5s" })),
        ("POST", "/v1/sessions/keepalive") => call.json(&json!({ "ids": [id] })),
        ("POST", "/v1/grants/{id}/renew") => call.json(&json!({})),
        ("POST", "/v1/txn") => call.json(&json!({ "then": [{ "put": { "path": format!("/{name}"), "value": "a" } }] })),
        ("PATCH", "/v1/locks/{name}") => call.json(&json!({ "limit": 2 })),
        ("POST", "/v1/cluster/leader") => call.json(&json!({ "to": 99 })),
        ("POST", "/v1/cluster/upgrade/finalize") => call.json(&json!({ "to": 2 })),
        ("POST", "/v1/cluster/join-tokens") => call.json(&json!({ "ttl": "1h" })),
        ("PATCH", "/v1/cluster/members/{id}") => call.json(&json!({ "zone": "a" })),
        ("PATCH", "/v1/cluster/settings") => call.json(&json!({ "timing": "lan", "force": true })),
        ("POST", "/v1/access/check") => call.json(&json!({ "verb": "acquire", "on": "locks:a" })),
        ("PUT", "/v1/access/roles/{name}") => call.json(&json!({ "rules": ["share locks:a"] })),
        ("PUT", "/v1/access/tenants/{name}") => call.json(&json!({ "nodes": 3 })),
        ("PUT", "/v1/access/users/{name}") => call.json(&json!({ "disabled": false })),
        ("POST", "/v1/access/tokens") => call.json(&json!({ "user": name })),
        _ => call,
    }
}

/// The answer: of a stream, only its head.
async fn answer(user: &User, row: &Row, (name, kept): (&str, &Kept), token: Option<&str>) -> (u16, String) {
    let call = request(&row.call, name, kept).within(Duration::from_secs(20));
    if row.call == "GET /v1/watch" || row.call == "GET /v1/cluster/backup" {
        let authorization = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = authorization.iter().map(|value| ("authorization", value.as_str())).collect();
        let (_, route) = row.call.split_once(' ').expect("METHOD path");
        let path = if route == "/v1/watch" { format!("{route}?path=/{name}") } else { route.to_owned() };
        let response = user.client.stream_from(0, &path, &headers).await.expect("the node runs");
        let status = response.status().as_u16();
        let text = if status == 200 { String::new() } else { response.text().await.expect("a problem") };
        let problem: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        return (status, problem["code"].as_str().unwrap_or_default().to_owned());
    }
    // A browser is sent to the dashboard, whose files are open to anyone.
    let call = if row.call == "GET /" { call.with("accept", "text/html") } else { call };
    let answer: Answer = match token {
        Some(token) => user.client.send(&call.with("authorization", &format!("Bearer {token}"))).await,
        None => user.client.send(&call).await,
    };
    let code = answer.json["code"].as_str().unwrap_or_default().to_owned();
    (answer.status, if row.call == "POST /v1/batch" { in_batch(&answer, &code) } else { code })
}

/// The code of the only call of a batch.
fn in_batch(answer: &Answer, code: &str) -> String {
    answer.json["answers"][0]["body"]["code"].as_str().unwrap_or(code).to_owned()
}

/// Whether a caller with a valid credential and this cell is denied.
fn is_denied(row: &Row, cell: &str) -> bool {
    match row.call.as_str() {
        // A list leaves out what the caller may not see.
        "GET /v1/locks" | "GET /v1/history" | "GET /v1/elections" | "GET /v1/grants" | "GET /v1/waits" | "GET /v1/events" => {
            false
        }
        // The root always exists.
        "DELETE /v1/nodes/" => true,
        _ => cell != "yes",
    }
}

#[test]
fn each_call_answers_each_role_as_the_page_about_rights_says() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (roles, rows) = page();
        assert!(rows.len() > 60 && roles.len() == 5, "{} rows, roles {roles:?}", rows.len());
        guarded.enforce().await;
        let mut callers = Vec::new();
        for (index, role) in roles.iter().enumerate() {
            guarded.bind(role, &format!("user:a-{role}")).await;
            callers.push((role.as_str(), guarded.user(&format!("a-{role}")).await, Some(index)));
        }
        callers.push((NO_ROLE, guarded.user("without-role").await, None));

        let session = guarded.file().send(Call::post("/v1/sessions").json(&json!({ "ttl": "10m" }))).await.expect_status(201);
        let shared = guarded.file().acquire("to-upgrade", "mode=shared&ttl=10m").await.expect_status(200);
        let kept = Kept { session: session.string("id").to_owned(), grant: shared.string("id").to_owned() };

        let mut wrong = Vec::new();
        for row in &rows {
            let is_open = row.needs.starts_with("anyone") && !row.needs.contains("with details");
            let of_anyone = is_open || row.needs == "any credential";
            for (role, user, index) in &callers {
                let cell = index.map_or(if of_anyone { "yes" } else { "no" }, |index| row.cells[index].as_str());
                let (status, code) = answer(user, row, (&format!("of-{role}"), &kept), Some(&user.token)).await;
                let is_right =
                    if is_denied(row, cell) { code == "denied" } else { status != 401 && code != "denied" && status < 500 };
                if !is_right {
                    wrong.push(format!("{} as {role}, which may: {cell}: {status} {code}", row.call));
                }
            }
            let (status, code) = answer(&callers[0].1, row, ("of-nobody", &kept), None).await;
            if (status == 401) == is_open {
                wrong.push(format!("{} without a credential: {status} {code}", row.call));
            }
        }
        assert!(wrong.is_empty(), "{} of the answers differ from docs/rights.md:\n{}", wrong.len(), wrong.join("\n"));
    });
}
