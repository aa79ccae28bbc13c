//! The calls on users. A user is a name that roles are bound to and that tokens stand for: nobody creates it.

use super::make;
use crate::{edge::answer, edge::error::of_read, edge::problem::Problem, edge::request::Received};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_access::UserName;
use fairhold_node::Node;
use fairhold_state::command::AccessChange;
use fairhold_types::{call, dto};
use http::StatusCode;
use openraft_rt::AsyncRuntime;

/// `GET /v1/access/users`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::ReadAccess = received.query()?;
    let found = node.read_access(received.read_options(params.consistency)?).await.map_err(of_read)?;
    let users = found.value.disabled_users().map(|(name, user)| dto::UserEntry {
        name: name.to_string(),
        disabled: true,
        by: Some(user.by.to_string()),
        at: Some(user.at.to_rfc3339()),
    });
    answer::json(StatusCode::OK, found.revision, &dto::UserList { users: users.collect() })
}

/// `PUT /v1/access/users/{name}`
pub(crate) async fn set<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let call::SetUser { disabled, end_sessions } = received.params(body)?;
    let user = user_name(&received.path_after("/v1/access/users/")?)?;
    let revision = make(&node, &received, AccessChange::SetUser { user: user.clone(), disabled, end_sessions }).await?;
    let body = dto::UserEntry { name: user.to_string(), disabled, by: None, at: None };
    answer::json(StatusCode::OK, revision, &body)
}

pub(super) fn user_name(text: &str) -> Result<UserName, Problem> {
    UserName::parse(text).map_err(|error| Problem::bad_request(format!("the user: {error}")))
}
