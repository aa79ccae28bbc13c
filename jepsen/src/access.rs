//! Access rights of a run: each kind of client has its own user, with the rights that it needs.

use crate::{
    cluster::ChaosCluster,
    http::{Http, Request},
    new_key,
};
use serde_json::json;
use std::time::Duration;

/// How long one step of the preparation may take.
const STEP_WITHIN: Duration = Duration::from_secs(30);

/// The users of the fixed clients: the name, and the rules of its role, or the built-in role that it gets.
const CLIENTS: (&str, Role) = (
    "chaos-clients",
    Role::Rules(&["acquire,share,inspect,fence locks:*", "read,write nodes:chaos", "read,write nodes:chaos/**"]),
);
/// It also breaks locks and ends sessions.
const OPERATOR: (&str, Role) = ("chaos-operator", Role::Rules(&["set,break,revoke locks:*", "end sessions"]));
const WATCHER: (&str, Role) = ("chaos-watcher", Role::BuiltIn("viewer"));
const ADMINISTRATOR: (&str, Role) = ("chaos-administrator", Role::BuiltIn("admin"));

/// The role of a user.
#[derive(Debug, Clone, Copy)]
enum Role {
    Rules(&'static [&'static str]),
    BuiltIn(&'static str),
}

/// The clients of a run, each kind as its user. Without access rights they are all the same.
#[derive(Debug, Clone)]
pub(crate) struct Identities {
    /// The clients of the workloads.
    pub(crate) clients: Http,
    /// Sets and breaks locks, and ends sessions.
    pub(crate) operator: Http,
    /// Watches everything.
    pub(crate) watcher: Http,
    /// Changes the rights of users.
    pub(crate) administrator: Http,
}

impl Identities {
    /// All are the same.
    pub(crate) fn open(http: &Http) -> Identities {
        let http = || http.clone();
        Identities { clients: http(), operator: http(), watcher: http(), administrator: http() }
    }

    /// Creates the users, and begins to enforce rights.
    pub(crate) async fn enforced(cluster: &ChaosCluster) -> Result<Identities, String> {
        let clients = user(cluster, CLIENTS).await?;
        let operator = user(cluster, OPERATOR).await?;
        let watcher = user(cluster, WATCHER).await?;
        let administrator = user(cluster, ADMINISTRATOR).await?;
        accepted(cluster, Request::post("/v1/access/enable", &new_key())).await?;
        Ok(Identities { clients, operator, watcher, administrator })
    }
}

/// A client as a new user with this role.
async fn user(cluster: &ChaosCluster, (name, role): (&str, Role)) -> Result<Http, String> {
    let role = match role {
        Role::BuiltIn(role) => role,
        Role::Rules(rules) => {
            accepted(cluster, put_role(name, rules)).await?;
            name
        }
    };
    accepted(cluster, bind(role, name)).await?;
    let create = Request::post("/v1/access/tokens", &new_key()).json(&json!({ "user": name }));
    let created = accepted(cluster, create).await?;
    let token = created.as_str().ok_or_else(|| format!("the cluster made no token for {name}"))?;
    Ok(cluster.http.with_token(token))
}

/// The token of the answer, if there is one.
async fn accepted(cluster: &ChaosCluster, request: Request) -> Result<serde_json::Value, String> {
    let reply = cluster.ask_until_accepted(&request, STEP_WITHIN).await;
    reply.map(|reply| reply.json["token"].clone()).map_err(|why| format!("access rights: {why}"))
}

/// The request to put a role.
pub(crate) fn put_role(role: &str, rules: &[&str]) -> Request {
    Request::put_without_key(format!("/v1/access/roles/{role}")).json(&json!({ "rules": rules }))
}

/// The request to give a role to a user.
pub(crate) fn bind(role: &str, user: &str) -> Request {
    Request::put_without_key(format!("/v1/access/bindings/{role}/user:{user}"))
}

/// The request to take a role from a user.
pub(crate) fn unbind(role: &str, user: &str) -> Request {
    Request::delete(format!("/v1/access/bindings/{role}/user:{user}"))
}

/// The request to disable or enable a user.
pub(crate) fn set_user(user: &str, disabled: bool) -> Request {
    Request::put_without_key(format!("/v1/access/users/{user}")).json(&json!({ "disabled": disabled }))
}
