//! The calls that look at a lock: its holders, its queue, and whether a token is current.

use crate::{
    answer,
    error::{Asked, Problem, lock_name},
    params::{Known, expected},
    request::Received,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_node::Node;
use fairhold_types::{FencingToken, GrantId, dto};
use http::StatusCode;
use openraft_rt::AsyncRuntime;

const SHOW: Known = Known { now: &["consistency"], later: &["wait", "after"] };
const QUEUE: Known = Known { now: &["consistency"], later: &["limit", "cursor"] };
const FENCE: Known = Known { now: &["token", "grant", "consistency"], later: &[] };

/// `GET /v1/locks`
pub(crate) async fn list(_: Request) -> Problem {
    Problem::unsupported("the list of locks")
}

/// `GET /v1/locks/{name}`
pub(crate) async fn show<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let name = lock_name(&received.segment()?)?;
    let read = received.read_options(&mut received.params(&SHOW)?)?;
    let found = node.lock(&name, read).await.map_err(|error| Problem::of(error, Asked::Read))?;
    let now = node.wall_now();
    let info = found.value;
    let lock = dto::Lock {
        lock: name,
        holders: info.holders.into_iter().map(|item| answer::queue_item(item, now)).collect(),
        queue_length: info.waiting,
        limit: info.limit,
        last_token: info.last_token,
    };
    answer::json(StatusCode::OK, found.revision, &lock)
}

/// `GET /v1/locks/{name}/queue`
pub(crate) async fn queue<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let name = lock_name(&received.segment()?)?;
    let read = received.read_options(&mut received.params(&QUEUE)?)?;
    let found = node.queue(&name, read).await.map_err(|error| Problem::of(error, Asked::Read))?;
    let now = node.wall_now();
    let items = found.value.into_iter().map(|item| answer::queue_item(item, now)).collect();
    answer::json(StatusCode::OK, found.revision, &dto::Queue { lock: name, items })
}

/// `GET /v1/locks/{name}/fence?token=42`
pub(crate) async fn fence<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let name = lock_name(&received.segment()?)?;
    let mut params = received.params(&FENCE)?;
    let read = received.read_options(&mut params)?;
    let token = params.integer("token", 0..=u64::MAX)?.ok_or_else(|| expected("token", "the fencing token to check"))?;
    let grant = params.parsed::<GrantId>("grant")?;
    let checked = node.verify_fence(&name, FencingToken(token), grant, read).await;
    let revision = checked.map_err(|error| Problem::of(error, Asked::Read))?;
    answer::json(StatusCode::OK, revision, &dto::FenceCheck { current: true })
}
