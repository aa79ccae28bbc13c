//! The hot routes without the node's work, for benchmarks: reading a request, writing an answer. No server uses this.

use crate::{api::grants, api::nodes, edge::answer, edge::names::lock_name, edge::request::Received};
use axum::{extract::Request, response::Response};
use fairhold_node::api::{AcquireCall, GrantView};
use fairhold_state::record::Znode;
use fairhold_types::{GrantId, Path, Revision, time::WallMillis};
use futures_util::FutureExt;
use http::StatusCode;
use openraft_rt::AsyncRuntime;

/// Reads `POST /v1/locks/{name}`, whose body has arrived, as the route does. `None` if the route would refuse it.
pub fn read_acquire<RT: AsyncRuntime>(request: Request, new: GrantId) -> Option<AcquireCall> {
    let (received, body) = Received::with_params::<RT>(request).now_or_never()?.ok()?;
    let lock = lock_name(&received.segment().ok()?).ok()?;
    let key = received.key().ok()?;
    grants::single_lock_call(&received, body, lock, key.unwrap_or(new), key.is_some()).ok().map(|(call, _)| call)
}

/// Writes the answer to that call, as the route does. `None` if writing fails.
#[must_use]
pub fn write_grant(view: GrantView, revision: Revision, now: WallMillis) -> Option<Response> {
    answer::json(StatusCode::OK, revision, &answer::grant(view, now)).ok()
}

/// Writes the answer to `GET /v1/nodes/{path}`, or with `?meta`. `None` if writing fails.
#[must_use]
pub fn write_node(path: Path, node: &Znode, meta: bool, revision: Revision) -> Option<Response> {
    nodes::found(path, node, meta, revision).ok()
}
