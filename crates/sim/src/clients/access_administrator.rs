//! An administrator who takes the rights of users away and gives them back while the users work, and puts their tenants.

use super::{
    held_grant::TRIES,
    user_acts::{UserTask, act, watch},
};
use crate::{
    access_user::{AccessUser, UserRight},
    client::{ClientReply, ClientRequest, SimClient},
    coverage::Probe,
};
use fairhold_access::BearerToken;
use fairhold_state::command::AccessFault;
use futures_util::future::join_all;
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use serde_json::{Value, json};

/// How many changes there are in each round.
const CHANGES: u32 = 4;
/// How many clients of a user act at a time.
const ACTING: u32 = 2;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    let tasks = AccessUser::ALL.map(UserTask::new);
    // Rights can be enforced only if somebody may change them.
    change(&mut client, Method::PUT, "/v1/access/bindings/admin/user:root1", None).await;
    for task in &tasks {
        let user = task.user;
        put_node(&mut client, &user.own()).await;
        put_node(&mut client, &user.shown()).await;
        give_role(&mut client, user).await;
        give_token(&mut client, task).await;
    }
    let mut clients = Vec::new();
    for task in &tasks {
        for number in 0..ACTING {
            clients.push(SimRuntime::spawn(act(further(&mut client, task.user, number), task.clone())));
        }
        clients.push(SimRuntime::spawn(watch(further(&mut client, task.user, ACTING), task.clone())));
    }
    change(&mut client, Method::POST, "/v1/access/enable", Some(json!({}))).await;
    for _ in 0..rounds * CHANGES {
        client.idle(500).await;
        let task = &tasks[client.rng.random_range(0..tasks.len())];
        take_and_give(&mut client, task).await;
        report_decisions(&client);
    }
    // Rights stay enforced, so that what is left must end all the same.
    change(&mut client, Method::POST, "/v1/access/enable", Some(json!({}))).await;
    tasks.iter().for_each(UserTask::end);
    drop(join_all(clients).await);
    report_decisions(&client);
}

/// Another client, of a user.
fn further(client: &mut SimClient, user: AccessUser, number: u32) -> SimClient {
    let name = format!("{}-u{}-{number}", client.name, user.number());
    SimClient::new(client.world.clone(), name, client.rng.random())
}

async fn take_and_give(client: &mut SimClient, task: &UserTask) {
    let (user, number) = (task.user, task.user.number());
    let binding = format!("/v1/access/bindings/rights-{number}/user:user{number}");
    let person = format!("/v1/access/users/user{number}");
    match client.rng.random_range(0..9) {
        0 => {
            narrow(client, Method::DELETE, &binding, None).await;
            without_right(client, user).await;
            change(client, Method::PUT, &binding, None).await;
        }
        1 | 2 => {
            let lost = UserRight::ALL[client.rng.random_range(0..UserRight::ALL.len())];
            put_role(client, user, |right| right != lost).await;
            client.world.coverage.probe(Probe::RightTaken);
            without_right(client, user).await;
            put_role(client, user, |_| true).await;
        }
        3 => {
            narrow(client, Method::DELETE, &format!("/v1/access/roles/rights-{number}?force"), None).await;
            without_right(client, user).await;
            give_role(client, user).await;
        }
        4 => {
            if let Some(token) = task.token_number() {
                narrow(client, Method::DELETE, &format!("/v1/access/tokens/{token}"), None).await;
            }
            without_right(client, user).await;
            give_token(client, task).await;
        }
        5 => {
            let end_sessions = client.rng.random_range(0..2) == 0;
            let body = json!({"disabled": true, "end_sessions": end_sessions});
            let is_disabled = narrow(client, Method::PUT, &person, Some(body)).await;
            task.disabled(is_disabled);
            without_right(client, user).await;
            if change(client, Method::PUT, &person, Some(json!({"disabled": false}))).await.is_some() {
                task.enabled();
            }
            give_token(client, task).await;
        }
        6 => {
            // Nobody loses anything.
            let other: u32 = client.rng.random_range(1..=9);
            change(client, Method::PUT, &format!("/v1/access/bindings/viewer/user:other{other}"), None).await;
        }
        7 => {
            narrow(client, Method::POST, "/v1/access/disable", Some(json!({}))).await;
            client.idle(600).await;
            change(client, Method::POST, "/v1/access/enable", Some(json!({}))).await;
            client.world.coverage.probe(Probe::AccessSwitched);
        }
        _ => put_tenant(client, user).await,
    }
}

/// Lets some time pass, and writes what the user may not see.
async fn without_right(client: &mut SimClient, user: AccessUser) {
    for _ in 0..client.rng.random_range(0..4) {
        client.idle(250).await;
        let number = client.rng.random_range(1..=2);
        put_node(client, &format!("{}/n{number}", user.shown())).await;
    }
}

async fn give_role(client: &mut SimClient, user: AccessUser) {
    put_role(client, user, |_| true).await;
    let number = user.number();
    change(client, Method::PUT, &format!("/v1/access/bindings/rights-{number}/user:user{number}"), None).await;
}

/// Gives the role of a user the rules with these rights.
async fn put_role(client: &mut SimClient, user: AccessUser, has: impl Fn(UserRight) -> bool) {
    let rules: Vec<String> = UserRight::ALL.into_iter().filter(|right| has(*right)).map(|right| user.rule(right)).collect();
    change(client, Method::PUT, &format!("/v1/access/roles/rights-{}", user.number()), Some(json!({"rules": rules}))).await;
}

/// Gives a user a token, and its clients use it.
async fn give_token(client: &mut SimClient, task: &UserTask) {
    let token = BearerToken::from_random(client.rng.random());
    let body = json!({"user": task.user.name().to_string(), "hash": token.hash().to_hex()});
    let is_of_disabled =
        |reply: &ClientReply| task.may_be_disabled() && reply.field("detail") == AccessFault::UserDisabled.to_string();
    let created = change_or(client, (Method::POST, "/v1/access/tokens"), Some(body), is_of_disabled).await;
    // If the outcome is unknown, the user tries it all the same.
    task.set_token(token.expose(), created.and_then(|reply| reply["number"].as_u64()));
}

async fn put_tenant(client: &mut SimClient, user: AccessUser) {
    let (number, rng) = (user.number(), &mut client.rng);
    let uri = format!("/v1/access/tenants/tenant-{number}");
    if rng.random_range(0..4) == 0 {
        change(client, Method::DELETE, &uri, None).await;
        return;
    }
    let mut body = json!({"subjects": [format!("user:user{number}")]});
    body["prefixes"] = json!([format!("nodes:own-{number}/**"), format!("locks:own-{number}/**")]);
    body["nodes"] = json!(rng.random_range(3..=8));
    body["contenders"] = json!(rng.random_range(1..=2));
    body["sessions"] = json!(rng.random_range(1..=2));
    change(client, Method::PUT, &uri, Some(body)).await;
}

async fn put_node(client: &mut SimClient, path: &str) {
    let key = client.key();
    let request = ClientRequest::new(Method::PUT, format!("/v1/nodes{path}")).header("idempotency-key", key.clone()).body(key);
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return };
    match reply.status {
        // The node above it was not created, because its outcome stayed unknown.
        StatusCode::OK | StatusCode::CREATED | StatusCode::NOT_FOUND | StatusCode::GONE => {}
        _ => client.unexpected("an administrator's write", &reply),
    }
}

/// Takes something away from a user. Returns whether an answer says so.
async fn narrow(client: &mut SimClient, method: Method, uri: &str, body: Option<Value>) -> bool {
    let is_narrowed = change(client, method, uri, body).await.is_some();
    if is_narrowed {
        client.world.coverage.probe(Probe::RightTaken);
    }
    is_narrowed
}

/// Changes the access data. Returns the answer, if it was changed.
async fn change(client: &mut SimClient, method: Method, uri: &str, body: Option<Value>) -> Option<Value> {
    change_or(client, (method, uri), body, |_| false).await
}

/// The same for a change that may also be refused like that.
async fn change_or(
    client: &mut SimClient,
    (method, uri): (Method, &str),
    body: Option<Value>,
    may_be_refused: impl Fn(&ClientReply) -> bool,
) -> Option<Value> {
    let request = ClientRequest::new(method, uri).header("idempotency-key", client.key());
    let request = match body {
        Some(body) => request.header("content-type", "application/json").body(body.to_string()),
        None => request,
    };
    let reply = client.call_until_known(&request, TRIES).await?;
    match (reply.status, reply.field("code")) {
        (status, _) if status.is_success() => return Some(reply.json),
        // An earlier change, whose outcome stayed unknown, was not made: a role is missing.
        (StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::CONFLICT, _) => {}
        _ if may_be_refused(&reply) => {}
        _ => client.unexpected("a change of rights", &reply),
    }
    None
}

/// Reports what every node decides now.
fn report_decisions(client: &SimClient) {
    for id in client.world.ids() {
        client.world.report_decisions(id);
    }
}
