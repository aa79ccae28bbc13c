//! The calls on a lock: those that look at it, list it, check a token, and the administrator's who breaks it.

use crate::{
    answer,
    asked::RequestKind,
    error::problem_of,
    history,
    names::lock_name,
    paging,
    params::{KnownParams, expected},
    problem::Problem,
    request::{LongPoll, Received, up_to},
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
use fairhold_types::{
    FencingToken, GrantId, GrantNumber, LockName, dto, duration,
    limits::{LOCK_NAME_BYTES_MAX, MAX_HOLD_MAX, MAX_HOLD_MIN, PERMITS_MAX, REASON_BYTES_MAX, WAITERS_MAX},
    time::WallMillis,
};
use http::StatusCode;
use openraft_rt::AsyncRuntime;
use std::time::Duration;

pub(crate) const LIST: KnownParams =
    KnownParams { now: &["prefix", "state", "sort", "limit", "cursor", "consistency"], later: &[] };
pub(crate) const BREAK: KnownParams = KnownParams { now: &["reason", "token"], later: &[] };
pub(crate) const SET: KnownParams = KnownParams { now: &["limit", "max_waiters", "max_hold"], later: &[] };
pub(crate) const REVOKE: KnownParams = KnownParams { now: &["reason"], later: &[] };
pub(crate) const SHOW: KnownParams = KnownParams { now: &["limit", "cursor", "wait", "after", "consistency"], later: &[] };
pub(crate) const QUEUE: KnownParams = KnownParams { now: &["limit", "cursor", "wait", "after", "consistency"], later: &[] };
pub(crate) const FENCE: KnownParams = KnownParams { now: &["token", "grant", "consistency"], later: &[] };

/// `GET /v1/locks`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let mut params = received.query(&LIST)?;
    let read = received.read_options(&mut params)?;
    let sort = match params.text("sort", usize::MAX)?.as_deref() {
        None | Some("name") => LockSort::Name,
        Some("waiters") => LockSort::Waiters,
        Some("longest_wait") => LockSort::LongestWait,
        Some("wait") => LockSort::Wait,
        Some("hold") => LockSort::Hold,
        Some("contention") => LockSort::Contention,
        Some(_) => return Err(expected("sort", "name, waiters, longest_wait, wait, hold or contention")),
    };
    let filter = match params.text("state", usize::MAX)?.as_deref() {
        None => None,
        Some("held") => Some(LockFilter::Held),
        Some("queued") => Some(LockFilter::Queued),
        Some("cooling") => Some(LockFilter::Cooling),
        Some("idle") => Some(LockFilter::Idle),
        Some(_) => return Err(expected("state", "held, queued, cooling or idle")),
    };
    let query = LockQuery {
        prefix: params.text("prefix", LOCK_NAME_BYTES_MAX)?.unwrap_or_default(),
        filter,
        sort,
        after: paging::lock_key(&mut params, sort)?,
        limit: paging::limit(&mut params)?,
    };
    let found = node.locks(&query, read).await.map_err(|error| problem_of(error, RequestKind::Read))?;
    let next_cursor = found.value.next.map(|key| paging::lock_cursor(sort, &key));
    let now = node.wall_now();
    let page =
        dto::Page { items: found.value.items.into_iter().map(|lock| answer::listed_lock(lock, now)).collect(), next_cursor };
    let mut response = answer::json(StatusCode::OK, found.revision, &page)?;
    paging::link_next(&mut response, received.uri(), page.next_cursor.as_deref())?;
    Ok(response)
}

/// `DELETE /v1/locks/{name}/holders`: `204` also where nobody holds it, so that it is safe to repeat.
pub(crate) async fn break_lock<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let lock = lock_name(&received.segment()?)?;
    let (key, _) = received.key_or_new(&node)?;
    let mut params = received.query(&BREAK)?;
    let reason = params.words("reason", REASON_BYTES_MAX)?.unwrap_or_default();
    let token = params.integer("token", 0..=u64::MAX)?.map(FencingToken);
    let call = BreakCall { key, lock, token, by: received.caller(), reason, timeout: received.timeout };
    let revision = node.break_lock(call).await.map_err(|error| problem_of(error, RequestKind::Write { key }))?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

/// `PATCH /v1/locks/{name}`
pub(crate) async fn set<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let lock = lock_name(&received.segment()?)?;
    let mut params = received.params(body, &SET)?;
    let call = SetLockCall {
        key: received.key()?,
        lock: lock.clone(),
        limit: params.count("limit", 1..=PERMITS_MAX)?,
        max_waiters: params.integer("max_waiters", 0..=WAITERS_MAX as u64)?,
        max_hold: params.duration("max_hold", up_to(MAX_HOLD_MAX))?,
        by: received.caller(),
        timeout: received.timeout,
    };
    if call.limit.is_none() && call.max_waiters.is_none() && call.max_hold.is_none() {
        return Err(Problem::bad_request("pass at least one of limit, max_waiters and max_hold"));
    }
    if call.max_hold.is_some_and(|most| most > Duration::ZERO && most < MAX_HOLD_MIN) {
        return Err(expected("max_hold", "0 for no limit, or at least 1s"));
    }
    let set = node.set_lock(call).await.map_err(|error| problem_of(error, RequestKind::Change))?;
    answer::json(StatusCode::OK, set.revision, &lock_dto(lock, set.value, node.wall_now()))
}

/// `POST /v1/locks/{name}/holders/revoke`
pub(crate) async fn revoke<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.require_admin()?;
    let call = RevokeCall {
        key: received.key()?,
        lock: lock_name(&received.segment()?)?,
        by: received.caller(),
        reason: received.params(body, &REVOKE)?.words("reason", REASON_BYTES_MAX)?.unwrap_or_default(),
        timeout: received.timeout,
    };
    let revision = node.revoke(call).await.map_err(|error| problem_of(error, RequestKind::Change))?;
    Ok(answer::empty(StatusCode::ACCEPTED, revision))
}

/// `GET /v1/locks/{name}`
pub(crate) async fn show<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let name = lock_name(&received.segment()?)?;
    let mut params = received.query(&SHOW)?;
    let (mut read, poll) = (received.read_options(&mut params)?, received.long_poll(&mut params)?);
    let after = params.integer("cursor", 0..=u64::MAX)?.map(GrantNumber);
    let page = paging::page(&mut params, after)?;
    if let Some(revision) = LongPoll::nothing_newer(poll, &node, || WatchFilter::Lock(name.clone()), &mut read).await? {
        return Ok(answer::empty(StatusCode::NOT_MODIFIED, revision));
    }
    let found = node.lock(&name, page, read).await.map_err(|error| problem_of(error, RequestKind::Read))?;
    let lock = lock_dto(name, found.value, node.wall_now());
    let mut response = answer::json(StatusCode::OK, found.revision, &lock)?;
    paging::link_next(&mut response, received.uri(), lock.next_cursor.as_deref())?;
    Ok(response)
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
    let mut params = received.query(&QUEUE)?;
    let (mut read, poll) = (received.read_options(&mut params)?, received.long_poll(&mut params)?);
    let after = paging::queue_key(&mut params)?;
    let page = paging::page(&mut params, after)?;
    if let Some(revision) = LongPoll::nothing_newer(poll, &node, || WatchFilter::Lock(name.clone()), &mut read).await? {
        return Ok(answer::empty(StatusCode::NOT_MODIFIED, revision));
    }
    let found = node.queue(&name, page, read).await.map_err(|error| problem_of(error, RequestKind::Read))?;
    let (queue, now) = (found.value, node.wall_now());
    let queue = dto::Queue {
        lock: name,
        items: queue.items.into_iter().map(|item| answer::queue_item(item, now)).collect(),
        holder_count: queue.holder_count,
        queue_length: queue.waiting,
        next_cursor: queue.next.map(paging::queue_cursor),
    };
    let mut response = answer::json(StatusCode::OK, found.revision, &queue)?;
    paging::link_next(&mut response, received.uri(), queue.next_cursor.as_deref())?;
    Ok(response)
}

/// `GET /v1/locks/{name}/fence?token=42`
pub(crate) async fn fence<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let name = lock_name(&received.segment()?)?;
    let mut params = received.query(&FENCE)?;
    let read = received.read_options(&mut params)?;
    let token = params.integer("token", 0..=u64::MAX)?.ok_or_else(|| expected("token", "the fencing token to check"))?;
    let grant = params.parsed::<GrantId>("grant")?;
    let checked = node.verify_fence(&name, FencingToken(token), grant, read).await;
    let revision = checked.map_err(|error| problem_of(error, RequestKind::Read))?;
    answer::json(StatusCode::OK, revision, &dto::FenceCheck { current: true })
}
