//! `POST /v1/batch`: many calls in one request, each as if it were made alone. For programs that do many things at once: what a
//! request costs is paid once for all of them, and they are committed together.
//!
//! Only calls that are answered at once are taken: an acquire of a session, which waits in its queue without a request, a
//! release, and a renewal. So no call holds up the others, and nothing depends on whether the answer arrives. A batch with a
//! call that cannot be understood is refused before any of it is begun; so is one for whose answers there is no room.
//!
//! Calls with different ids are made at the same time, and have no order. Those with one id are made one after the other, as the
//! request has them: what goes first in a node's queue, as a release does, would overtake its acquire.

use crate::{
    advice::bounded,
    answer,
    asked::RequestKind,
    error::problem_of,
    grants::call_of,
    names::lock_name,
    params::{BodyFields, KnownParams, Params, expected},
    problem::{NO_STORE, Problem},
    request::Received,
    room::{HasRoom, NoRoom, with_room},
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use fairhold_node::{
    Node,
    api::{AcquireCall, Acquired},
};
use fairhold_state::command::{Acquire, Claimant};
use fairhold_types::{
    Code, GrantId, Revision, SessionId,
    batch::{BatchAnswer, Body},
    dto::{Contender, Meta},
    limits::{BATCH_ACQUIRE_BYTES_MAX, BATCH_CALLS_MAX, BATCH_RELEASE_BYTES_MAX, LOCK_NAME_BYTES_MAX},
    problem::{Effect, Facts},
};
use futures_util::future::join_all;
use http::{HeaderValue, StatusCode, header};
use openraft_rt::{AsyncRuntime, Instant};
use serde::Deserialize;
use std::{collections::BTreeMap, time::Duration};

pub(crate) const BATCH: KnownParams = KnownParams { now: &[], later: &[] };
/// What an acquire says here. It has no `wait`: it takes a place in the queue with `queue`, or is refused.
pub(crate) const ACQUIRE: KnownParams = KnownParams {
    now: &[
        "id",
        "lock",
        "session",
        "queue",
        "mode",
        "limit",
        "permits",
        "owner",
        "priority",
        "lock_delay",
        "max_hold",
        "meta",
        "reentrant",
    ],
    later: &[],
};
pub(crate) const RELEASE: KnownParams = KnownParams { now: &["id", "session"], later: &[] };
pub(crate) const RENEW: KnownParams = KnownParams { now: &["id"], later: &[] };

/// Of those ahead of a caller, how many the answer to a call names.
const AHEAD_IN_BATCH: usize = 1;
/// After how many seconds a call that was turned away should be made again.
const RETRY_AFTER: u64 = 1;
const EXAMPLE: &str = r#"{"calls":[{"acquire":{"id":…,"lock":"deploy","session":…}},{"release":{"id":…}}]}"#;

/// The calls.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = r#"an object with a list of calls, such as {"calls": [{"renew": {"id": "…"}}]}"#)]
struct BatchCalls {
    calls: Vec<BatchCall>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BatchCall {
    Acquire(BodyFields),
    Release(BodyFields),
    Renew(BodyFields),
}

/// A call that is understood.
enum Understood {
    Acquire(Box<AcquireCall>),
    Release(GrantId, Option<SessionId>),
    Renew(GrantId),
}

impl Understood {
    fn id(&self) -> GrantId {
        match self {
            Understood::Acquire(call) => call.acquire.grant,
            Understood::Release(id, _) | Understood::Renew(id) => *id,
        }
    }

    /// The most bytes of its answer.
    fn answer_bytes_max(&self) -> usize {
        match self {
            Understood::Acquire(_) => BATCH_ACQUIRE_BYTES_MAX,
            Understood::Release(..) | Understood::Renew(_) => BATCH_RELEASE_BYTES_MAX,
        }
    }
}

/// What came of a call, and the revision that it shows.
type Done = (BatchAnswer, Option<Revision>);
/// The same, with the answer as JSON: what is kept until all calls are answered has a bound.
type Written = (Vec<u8>, Option<Revision>);

/// `POST /v1/batch`
pub(crate) async fn batch<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, mut body) = Received::with_list::<RT>(request).await?;
    received.query(&BATCH)?;
    let calls: Vec<Understood> = (0..)
        .zip(calls(&std::mem::take(&mut body.bytes))?)
        .map(|(index, call): (usize, BatchCall)| understood(&received, call).map_err(|problem| misunderstood(index, problem)))
        .collect::<Result<_, _>>()?;
    let room = received.room().map(|room| room.answer(calls.iter().map(Understood::answer_bytes_max).sum()));
    let room = room.transpose().map_err(|NoRoom| {
        Problem::new(Code::Overloaded, "too many large answers are waiting for clients to read them: try again after a pause")
            .facts(Facts { outcome: Some(Effect::None), ..Facts::default() })
    })?;
    let deadline = RT::Instant::now() + received.timeout;
    let made = chains(calls).into_iter().map(|chain| make_in_order(&node, deadline, chain));
    let mut done: Vec<(usize, Written)> = join_all(made).await.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(index, _)| *index);
    let revision = done.iter().filter_map(|(_, (_, revision))| *revision).max().unwrap_or_else(|| node.revision());
    let body = Bytes::from(together(done.into_iter().map(|(_, (answer, _))| answer)));
    let body = match room.flatten() {
        Some(mut room) => {
            room.shrink_to(body.len());
            with_room(body, room)
        }
        None => body,
    };
    let mut response = Response::new(body.into());
    response.extensions_mut().insert(HasRoom);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
    answer::stamp(&mut response, revision);
    Ok(response)
}

/// All answers, as `fairhold_types::batch::BatchAnswers` has them.
fn together(answers: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut body = br#"{"answers":["#.to_vec();
    for (index, answer) in answers.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&answer);
    }
    body.extend_from_slice(b"]}\n");
    body
}

/// Writes an answer within this many bytes. A longer answer leaves out the texts that are only for people.
fn write(mut answer: BatchAnswer, bytes_max: usize) -> Vec<u8> {
    let json = |answer: &BatchAnswer| {
        serde_json::to_vec(answer).unwrap_or_else(|error| {
            tracing::error!(%error, "an answer of a batch could not be encoded as JSON");
            b"null".to_vec()
        })
    };
    let full = json(&answer);
    if full.len() <= bytes_max {
        return full;
    }
    shorten(&mut answer);
    json(&answer)
}

/// Removes from an answer the texts that are only for people and may be long.
fn shorten(answer: &mut BatchAnswer) {
    let bare = |contender: &mut Contender| contender.meta = Meta::new();
    match &mut answer.body {
        Some(Body::Grant(grant)) => {
            grant.ahead.clear();
            grant.meta.clear();
            grant.waits_for.as_mut().map(bare);
        }
        Some(Body::Problem(problem)) => {
            problem.advice = None;
            problem.facts.ahead.clear();
            problem.facts.holder.as_mut().map(bare);
            (problem.facts.cycle, problem.facts.note) = (None, None);
        }
        Some(Body::Renewed(_)) | None => {}
    }
}

/// The calls with their places in the request: those of one id together, in order.
fn chains(calls: Vec<Understood>) -> Vec<Vec<(usize, Understood)>> {
    let (mut chains, mut of_ids): (Vec<Vec<_>>, BTreeMap<GrantId, usize>) = (Vec::new(), BTreeMap::new());
    for (index, call) in calls.into_iter().enumerate() {
        let chain = *of_ids.entry(call.id()).or_insert(chains.len());
        match chains.get_mut(chain) {
            Some(chain) => chain.push((index, call)),
            None => chains.push(vec![(index, call)]),
        }
    }
    chains
}

/// Makes calls one after the other, each when the one before is answered, all of them by that time.
async fn make_in_order<RT: AsyncRuntime>(
    node: &Node<RT>,
    deadline: RT::Instant,
    chain: Vec<(usize, Understood)>,
) -> Vec<(usize, Written)> {
    let mut done = Vec::with_capacity(chain.len());
    for (index, call) in chain {
        let (left, bytes_max) = (deadline.saturating_duration_since(RT::Instant::now()), call.answer_bytes_max());
        let (answer, revision) = answer_to(node, left, call).await;
        done.push((index, (write(answer, bytes_max), revision)));
    }
    done
}

fn calls(body: &[u8]) -> Result<Vec<BatchCall>, Problem> {
    let BatchCalls { calls } = serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request(bounded(format!("the body must be a batch, like {EXAMPLE}: {error}"))))?;
    if (1..=BATCH_CALLS_MAX).contains(&calls.len()) {
        return Ok(calls);
    }
    let length = calls.len();
    Err(Problem::bad_request(format!("\"calls\" has {length} entries: a batch has 1 to {BATCH_CALLS_MAX}")))
}

fn understood(received: &Received, call: BatchCall) -> Result<Understood, Problem> {
    match call {
        BatchCall::Acquire(fields) => acquire_call(received, fields).map(|call| Understood::Acquire(Box::new(call))),
        BatchCall::Release(fields) => {
            let mut params = Params::of(fields, &RELEASE)?;
            Ok(Understood::Release(id(&mut params)?, params.parsed("session")?))
        }
        BatchCall::Renew(fields) => id(&mut Params::of(fields, &RENEW)?).map(Understood::Renew),
    }
}

/// Which call is wrong, and why.
fn misunderstood(index: usize, problem: Problem) -> Problem {
    let said = fairhold_types::problem::Problem::from(problem);
    Problem::bad_request(format!("calls[{index}]: {}", said.detail))
}

async fn answer_to<RT: AsyncRuntime>(node: &Node<RT>, timeout: Duration, call: Understood) -> Done {
    let done = match call {
        _ if timeout.is_zero() => Err(Problem::new(Code::DeadlineExceeded, "the earlier calls with this id took all the time")
            .facts(Facts { outcome: Some(Effect::None), ..Facts::default() })),
        Understood::Acquire(call) => acquire(node, AcquireCall { timeout, ..*call }).await,
        Understood::Release(id, session) => release(node, timeout, id, session).await,
        Understood::Renew(id) => renew(node, timeout, id).await,
    };
    done.unwrap_or_else(|problem| {
        let mut problem = fairhold_types::problem::Problem::from(problem);
        problem.facts.ahead.truncate(AHEAD_IN_BATCH);
        // As a header says it of a call that is alone.
        let retry_after = (problem.retryable && matches!(problem.status, 429 | 503)).then_some(RETRY_AFTER);
        (BatchAnswer { status: problem.status, retry_after, body: Some(Body::Problem(Box::new(problem))) }, None)
    })
}

async fn acquire<RT: AsyncRuntime>(node: &Node<RT>, call: AcquireCall) -> Result<Done, Problem> {
    let id = call.acquire.grant;
    let answer = node.acquire(call).await;
    let now = node.wall_now();
    let acquired = answer.map_err(|error| problem_of(error, RequestKind::AcquireInBatch { id, now }))?;
    let (status, view) = match acquired.value {
        Acquired::Held(view) => (StatusCode::OK, view),
        Acquired::Queued(view) => (StatusCode::ACCEPTED, view),
    };
    let mut grant = answer::grant(view, now);
    grant.ahead.truncate(AHEAD_IN_BATCH);
    let body = Some(Body::Grant(Box::new(grant)));
    Ok((BatchAnswer { status: status.as_u16(), retry_after: None, body }, Some(acquired.revision)))
}

fn acquire_call(received: &Received, fields: BodyFields) -> Result<AcquireCall, Problem> {
    let mut params = Params::of(fields, &ACQUIRE)?;
    let id = id(&mut params)?;
    let lock = params.text("lock", LOCK_NAME_BYTES_MAX)?.ok_or_else(|| expected("lock", "the lock's name"))?;
    let queue = params.flag("queue")?;
    // It has neither a `wait` nor a `hold`, so it is answered once and at once.
    let (call, _) = call_of(received, params, lock_name(&lock)?, id)?;
    match call.acquire.claimant {
        Claimant::Session(_) => {
            let acquire = Acquire { id_given: true, ..call.acquire };
            Ok(AcquireCall { acquire, respond_async: queue, ..call })
        }
        Claimant::Anonymous { .. } => Err(expected("session", "the id of the session to own it")),
    }
}

async fn release<RT: AsyncRuntime>(
    node: &Node<RT>,
    timeout: Duration,
    id: GrantId,
    session: Option<SessionId>,
) -> Result<Done, Problem> {
    let revision = node.release(id, session, timeout).await.map_err(|error| problem_of(error, RequestKind::Change))?;
    Ok((BatchAnswer { status: StatusCode::NO_CONTENT.as_u16(), retry_after: None, body: None }, Some(revision)))
}

async fn renew<RT: AsyncRuntime>(node: &Node<RT>, timeout: Duration, id: GrantId) -> Result<Done, Problem> {
    let renewed = node.renew_grant(id, None, None, timeout).await.map_err(|error| problem_of(error, RequestKind::Change))?;
    let body = Some(Body::Renewed(answer::renewed_grant(id, renewed.value, node.wall_now())));
    Ok((BatchAnswer { status: StatusCode::OK.as_u16(), retry_after: None, body }, Some(renewed.revision)))
}

fn id(params: &mut Params<'_>) -> Result<GrantId, Problem> {
    params.parsed("id")?.ok_or_else(|| expected("id", "the grant's id, a ULID or a UUIDv7"))
}

/// Reads a batch with all that its calls say; how many they are.
#[cfg(test)]
pub(crate) fn read(body: &[u8]) -> Result<usize, Problem> {
    let calls = calls(body)?;
    let length = calls.len();
    for call in calls {
        let (fields, known) = match call {
            BatchCall::Acquire(fields) => (fields, &ACQUIRE),
            BatchCall::Release(fields) => (fields, &RELEASE),
            BatchCall::Renew(fields) => (fields, &RENEW),
        };
        id(&mut Params::of(fields, known)?)?;
    }
    Ok(length)
}

#[cfg(test)]
mod tests;
