//! The calls on locks: list, show, check a token, and the administrators' calls: set, revoke, break.

use crate::{
    api::history,
    edge::answer,
    edge::error::{of_change, of_read, problem_of},
    edge::names::lock_name,
    edge::paging,
    edge::params::expected,
    edge::problem::Problem,
    edge::request::{Received, nothing_newer},
    edge::request_kind::RequestKind,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_node::{
    Node,
    api::{BreakCall, LockInfo, RevokeCall, SetLockCall},
    watch_filter::WatchFilter,
};
use fairhold_state::listing::{LockFilter, LockQuery, LockSort};
use fairhold_types::{FencingToken, GrantNumber, LockName, call, dto, duration, limits::MAX_HOLD_MIN, time::WallMillis};
use http::StatusCode;
use openraft_rt::AsyncRuntime;
use std::time::Duration;

/// `GET /v1/locks`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ListLocks = received.query()?;
    let read = received.read_options(params.consistency)?;
    let sort = params.sort.map_or(LockSort::Name, sort);
    let query = LockQuery {
        prefix: params.prefix.map(call::LockPrefix::into_string).unwrap_or_default(),
        part: params.name_part.map(call::LockNamePart::into_string).unwrap_or_default(),
        owner: params.owner.map(call::OwnerName::into_string),
        filter: params.state.map(filter),
        sort,
        after: paging::lock_key(params.cursor, sort)?,
        limit: paging::limit(params.limit),
    };
    let found = node.locks(&query, read).await.map_err(of_read)?;
    let next_cursor = found.value.next.map(|key| paging::lock_cursor(sort, &key));
    let now = node.wall_now();
    let page =
        dto::Page { items: found.value.items.into_iter().map(|lock| answer::listed_lock(lock, now)).collect(), next_cursor };
    let response = answer::json(StatusCode::OK, found.revision, &page)?;
    paging::link_next(response, received.uri(), page.next_cursor.as_deref())
}

fn sort(params: call::LockOrder) -> LockSort {
    match params {
        call::LockOrder::Name => LockSort::Name,
        call::LockOrder::Waiters => LockSort::Waiters,
        call::LockOrder::LongestWait => LockSort::LongestWait,
        call::LockOrder::HeldFor => LockSort::HeldFor,
        call::LockOrder::Wait => LockSort::Wait,
        call::LockOrder::Hold => LockSort::Hold,
        call::LockOrder::Contention => LockSort::Contention,
    }
}

fn filter(params: call::LockFilter) -> LockFilter {
    match params {
        call::LockFilter::Held => LockFilter::Held,
        call::LockFilter::Queued => LockFilter::Queued,
        call::LockFilter::Cooling => LockFilter::Cooling,
        call::LockFilter::Idle => LockFilter::Idle,
    }
}

/// `DELETE /v1/locks/{name}/holders`: `204` even if nobody holds it, so it is safe to repeat.
pub(crate) async fn break_lock<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let lock = lock_name(&received.segment()?)?;
    let (key, _) = received.key_or_new(&node)?;
    let params: call::BreakLock = received.query()?;
    let reason = params.reason.map(call::Reason::into_string).unwrap_or_default();
    let token = params.token.map(|token| FencingToken(token.get()));
    let call = BreakCall { key, lock, token, by: received.caller(), reason, timeout: received.timeout };
    let revision = node.break_lock(call).await.map_err(|error| problem_of(error, RequestKind::Write { key }))?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

/// `PATCH /v1/locks/{name}`
pub(crate) async fn set<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let lock = lock_name(&received.segment()?)?;
    let params: call::SetLock = received.params(body)?;
    let call = SetLockCall {
        key: received.key()?,
        lock: lock.clone(),
        limit: params.limit.map(call::PermitLimit::get),
        max_waiters: params.max_waiters.map(call::MaxWaiters::get),
        max_hold: params.max_hold.map(call::MaxHoldSetting::get),
        by: received.caller(),
        timeout: received.timeout,
    };
    if call.limit.is_none() && call.max_waiters.is_none() && call.max_hold.is_none() {
        return Err(Problem::bad_request("pass at least one of limit, max_waiters and max_hold"));
    }
    if call.max_hold.is_some_and(|most| most > Duration::ZERO && most < MAX_HOLD_MIN) {
        return Err(expected("max_hold", "0 for no limit, or at least 1s"));
    }
    let set = node.set_lock(call).await.map_err(of_change)?;
    answer::json(StatusCode::OK, set.revision, &lock_dto(lock, set.value, node.wall_now()))
}

/// `POST /v1/locks/{name}/holders/revoke`
pub(crate) async fn revoke<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let params: call::RevokeLock = received.params(body)?;
    let call = RevokeCall {
        key: received.key()?,
        lock: lock_name(&received.segment()?)?,
        by: received.caller(),
        reason: params.reason.map(call::Reason::into_string).unwrap_or_default(),
        timeout: received.timeout,
    };
    let revision = node.revoke(call).await.map_err(of_change)?;
    Ok(answer::empty(StatusCode::ACCEPTED, revision))
}

/// `GET /v1/locks/{name}`
pub(crate) async fn show<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let name = lock_name(&received.segment()?)?;
    let params: call::ShowLock = received.query()?;
    let mut read = received.read_options(params.consistency)?;
    let page = paging::page(params.limit, params.cursor.map(|number| GrantNumber(number.get())));
    if let Some(revision) =
        nothing_newer(&node, (params.wait, params.after), || WatchFilter::Lock(name.clone()), &mut read).await?
    {
        return Ok(answer::empty(StatusCode::NOT_MODIFIED, revision));
    }
    let found = node.lock(&name, page, read).await.map_err(of_read)?;
    let lock = lock_dto(name, found.value, node.wall_now());
    let response = answer::json(StatusCode::OK, found.revision, &lock)?;
    paging::link_next(response, received.uri(), lock.next_cursor.as_deref())
}

fn lock_dto(name: LockName, info: LockInfo, now: WallMillis) -> dto::Lock {
    dto::Lock {
        lock: name,
        holders: info.holders.into_iter().map(|item| answer::queue_item(item, now)).collect(),
        holder_count: info.holder_count,
        queue_length: info.waiting,
        limit: info.limit,
        max_waiters: info.max_waiters,
        max_hold: info.max_hold.map(duration::format),
        last_token: info.last_token,
        statistics: info.statistics.map(history::statistics),
        next_cursor: info.next.map(|last| last.to_string()),
    }
}

/// `GET /v1/locks/{name}/queue`
pub(crate) async fn queue<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let name = lock_name(&received.segment()?)?;
    let params: call::ShowQueue = received.query()?;
    let mut read = received.read_options(params.consistency)?;
    let around = paging::queue_anchor(params.around)?;
    if around.is_some() && params.cursor.is_some() {
        return Err(Problem::bad_request("pass either \"around\" or \"cursor\": not both"));
    }
    let page = paging::page(params.limit, paging::queue_key(params.cursor)?);
    if let Some(revision) =
        nothing_newer(&node, (params.wait, params.after), || WatchFilter::Lock(name.clone()), &mut read).await?
    {
        return Ok(answer::empty(StatusCode::NOT_MODIFIED, revision));
    }
    let found = node.queue(&name, page, around, read).await.map_err(of_read)?;
    let (queue, now) = (found.value, node.wall_now());
    let queue = dto::Queue {
        lock: name,
        items: queue.items.into_iter().map(|item| answer::queue_item(item, now)).collect(),
        holder_count: queue.holder_count,
        queue_length: queue.waiting,
        total: queue.holder_count + queue.waiting,
        usual_hold: queue.usual_hold.map(duration::format),
        next_cursor: queue.next.map(paging::queue_cursor),
    };
    let response = answer::json(StatusCode::OK, found.revision, &queue)?;
    paging::link_next(response, received.uri(), queue.next_cursor.as_deref())
}

/// `GET /v1/locks/{name}/fence?token=42`
pub(crate) async fn fence<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let name = lock_name(&received.segment()?)?;
    let params: call::CheckFence = received.query()?;
    let read = received.read_options(params.consistency)?;
    let token = FencingToken(params.token.get());
    let revision = node.verify_fence(&name, token, params.grant, read).await.map_err(of_read)?;
    answer::json(StatusCode::OK, revision, &dto::FenceCheck { current: true })
}
