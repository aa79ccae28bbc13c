//! `POST /v1/batch`: many calls in one request, each as if it were made alone. A program that makes many calls at once pays the
//! cost of a request once, and the calls are committed together.
//!
//! A batch accepts only calls that the server can answer at once: an acquire for a session, which waits in its queue without a
//! request, a release, and a renewal. So no call delays the others, and nothing depends on whether the answer arrives. The
//! server refuses a batch before it starts any call if one call is malformed, or if it has no memory for the answers.
//!
//! Calls with different ids run concurrently and have no order. Calls with the same id run one after the other, in the order of
//! the request: a release is urgent in a node's queue and would overtake its acquire.

use crate::{
    api::grants::acquire_call,
    audit::{request::AuditGate, unavailable},
    edge::advice::bounded,
    edge::answer,
    edge::body::{self, JSON},
    edge::error::{of_change, of_read, problem_of},
    edge::json_fault,
    edge::memory_quota::{AlreadyCounted, NoMemory, with_share},
    edge::names::refuse_reserved,
    edge::params::{BodyFields, read_fields},
    edge::problem::{Problem, outcome},
    edge::request::Received,
    edge::request_kind::RequestKind,
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
use fairhold_state::command::Want;
use fairhold_types::{
    Code, GrantId, Revision, SessionId,
    batch::{BatchAnswer, Body},
    call::{self, BatchAcquire, BatchCall},
    dto::{Contender, Meta},
    limits::{BATCH_ACQUIRE_BYTES_MAX, BATCH_CALLS_MAX, BATCH_RELEASE_BYTES_MAX},
    problem::Effect,
};
use futures_util::future::join_all;
use http::StatusCode;
use openraft_rt::{AsyncRuntime, Instant};
use serde::Deserialize;
use std::{collections::BTreeMap, time::Duration};

/// The number of grants ahead that the answer to one call names.
const AHEAD_IN_BATCH: usize = 1;
/// The seconds after which to retry a call that the server turned away.
const RETRY_AFTER: u64 = 1;
const EXAMPLE: &str = r#"{"calls":[{"acquire":{"id":…,"lock":"deploy","session":…}},{"release":{"id":…}}]}"#;

/// The calls of `fairhold_types::call::BatchCalls` before their fields are read: a refusal can then name the call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = r#"an object with a list of calls, such as {"calls": [{"renew": {"id": "…"}}]}"#)]
struct UnreadBatch<'a> {
    #[serde(borrow)]
    calls: Vec<UnreadCall<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UnreadCall<'a> {
    #[serde(borrow)]
    Acquire(BodyFields<'a>),
    #[serde(borrow)]
    Release(BodyFields<'a>),
    #[serde(borrow)]
    Renew(BodyFields<'a>),
}

/// A valid call.
enum ValidCall {
    Acquire(Box<AcquireCall>),
    /// An acquire that the audit log must have, and cannot.
    Unaudited(GrantId),
    Release(GrantId, Option<SessionId>),
    Renew(GrantId),
}

impl ValidCall {
    fn id(&self) -> GrantId {
        match self {
            ValidCall::Acquire(call) => call.acquire.grant,
            ValidCall::Unaudited(id) | ValidCall::Release(id, _) | ValidCall::Renew(id) => *id,
        }
    }

    /// The maximum size of its answer in bytes.
    fn answer_bytes_max(&self) -> usize {
        match self {
            ValidCall::Acquire(_) | ValidCall::Unaudited(_) => BATCH_ACQUIRE_BYTES_MAX,
            ValidCall::Release(..) | ValidCall::Renew(_) => BATCH_RELEASE_BYTES_MAX,
        }
    }
}

/// The answer to a call, and the revision that it reflects.
type Done = (BatchAnswer, Option<Revision>);
/// The answer to a call as JSON of bounded size, and the revision that it reflects.
type EncodedAnswer = (Vec<u8>, Option<Revision>);

/// `POST /v1/batch`
pub(crate) async fn batch<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, mut body) = Received::with_list::<RT>(request).await?;
    let call::Empty {} = received.query()?;
    let calls = valid_calls(&received, &std::mem::take(&mut body.bytes))?;
    let share = received.memory().map(|memory| memory.answer(calls.iter().map(ValidCall::answer_bytes_max).sum()));
    let share = share.transpose().map_err(|NoMemory| {
        Problem::new(Code::Overloaded, "too many large answers are waiting for clients to read them: try again after a pause")
            .facts(outcome(Effect::None, None))
    })?;
    let renews = calls.iter().any(|call| matches!(call, ValidCall::Renew(_)));
    let deadline = RT::Instant::now() + received.timeout;
    let made = chains(calls).into_iter().map(|chain| make_in_order(&node, deadline, chain));
    let mut done: Vec<(usize, EncodedAnswer)> = join_all(made).await.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(index, _)| *index);
    let revision = done.iter().filter_map(|(_, (_, revision))| *revision).max().unwrap_or_else(|| node.revision());
    let body = Bytes::from(together(done.into_iter().map(|(_, (answer, _))| answer)));
    let body = match share.flatten() {
        Some(mut share) => {
            share.shrink_to(body.len());
            with_share(body, share)
        }
        None => body,
    };
    let mut response = answer::stamped(body::answer(JSON, body), revision);
    response.extensions_mut().insert(AlreadyCounted);
    Ok(if renews { answer::with_members(response, node.members_index()) } else { response })
}

/// Joins all answers to the JSON of `fairhold_types::batch::BatchAnswers`.
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

/// Writes an answer within this many bytes. A longer answer leaves out the fields that are only for people.
fn write(mut answer: BatchAnswer, bytes_max: usize) -> Vec<u8> {
    let mut json = Vec::new();
    body::write_json(&answer, &mut json);
    if json.len() > bytes_max {
        shorten(&mut answer);
        json.clear();
        body::write_json(&answer, &mut json);
    }
    json
}

/// Removes from an answer the fields that are only for people and may be long.
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

/// The calls with their positions in the request. Calls with the same id form a chain, in order.
fn chains(calls: Vec<ValidCall>) -> Vec<Vec<(usize, ValidCall)>> {
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

/// Makes the calls of a chain one after the other, all before the deadline.
async fn make_in_order<RT: AsyncRuntime>(
    node: &Node<RT>,
    deadline: RT::Instant,
    chain: Vec<(usize, ValidCall)>,
) -> Vec<(usize, EncodedAnswer)> {
    let mut done = Vec::with_capacity(chain.len());
    for (index, call) in chain {
        let (left, bytes_max) = (deadline.saturating_duration_since(RT::Instant::now()), call.answer_bytes_max());
        let (answer, revision) = answer_to(node, left, call).await;
        done.push((index, (write(answer, bytes_max), revision)));
    }
    done
}

fn malformed_body(detail: String) -> Problem {
    Problem::bad_request(bounded(detail))
}

fn calls(body: &[u8]) -> Result<Vec<UnreadCall<'_>>, Problem> {
    let UnreadBatch { calls } = serde_json::from_slice(body)
        .map_err(|error| malformed_body(format!("the body must be a batch, like {EXAMPLE}: {}", json_fault::describe(&error))))?;
    if (1..=BATCH_CALLS_MAX).contains(&calls.len()) {
        return Ok(calls);
    }
    let length = calls.len();
    Err(Problem::bad_request(format!("\"calls\" has {length} entries: a batch has 1 to {BATCH_CALLS_MAX}")))
}

/// Reads a batch and the parameters of its calls.
pub(crate) fn read(body: &[u8]) -> Result<Vec<BatchCall>, Problem> {
    let one = |(index, call)| {
        let read = match call {
            UnreadCall::Acquire(fields) => read_fields(fields).map(BatchCall::Acquire),
            UnreadCall::Release(fields) => read_fields(fields).map(BatchCall::Release),
            UnreadCall::Renew(fields) => read_fields(fields).map(BatchCall::Renew),
        };
        read.map_err(|problem| malformed(index, problem))
    };
    calls(body)?.into_iter().enumerate().map(one).collect()
}

fn valid_calls(received: &Received, body: &[u8]) -> Result<Vec<ValidCall>, Problem> {
    let is_audited = received.extension::<AuditGate>().is_none_or(|gate| !gate.is_closed());
    let one = |(index, call)| {
        Ok(match call {
            BatchCall::Acquire(params) => {
                let call = batch_acquire_call(received, *params).map_err(|problem| malformed(index, problem))?;
                if is_audited { ValidCall::Acquire(Box::new(call)) } else { ValidCall::Unaudited(call.acquire.grant) }
            }
            BatchCall::Release(params) => ValidCall::Release(params.id, params.session),
            BatchCall::Renew(params) => ValidCall::Renew(params.id),
        })
    };
    read(body)?.into_iter().enumerate().map(one).collect()
}

/// Names the malformed call.
fn malformed(index: usize, problem: Problem) -> Problem {
    let problem = fairhold_types::problem::Problem::from(problem);
    Problem::bad_request(format!("calls[{index}]: {}", problem.detail))
}

async fn answer_to<RT: AsyncRuntime>(node: &Node<RT>, timeout: Duration, call: ValidCall) -> Done {
    let done = match call {
        _ if timeout.is_zero() => Err(Problem::new(Code::DeadlineExceeded, "the earlier calls with this id took all the time")
            .facts(outcome(Effect::None, None))),
        ValidCall::Acquire(call) => match node.take_request() {
            Ok(()) => acquire(node, AcquireCall { timeout, ..*call }).await,
            Err(error) => Err(of_read(error)),
        },
        ValidCall::Unaudited(_) => Err(unavailable()),
        ValidCall::Release(id, session) => release(node, timeout, id, session).await,
        ValidCall::Renew(id) => renew(node, timeout, id).await,
    };
    done.unwrap_or_else(|problem| {
        let mut problem = fairhold_types::problem::Problem::from(problem);
        problem.facts.ahead.truncate(AHEAD_IN_BATCH);
        // A single call has this as a header.
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

/// Converts an acquire in a batch to the node's call. Its id always comes from the caller.
fn batch_acquire_call(received: &Received, mut params: BatchAcquire) -> Result<AcquireCall, Problem> {
    let options = call::Acquire { session: Some(params.session), ..params.take_options() };
    refuse_reserved(&params.lock)?;
    let wants = vec![Want { lock: params.lock, mode: options.mode.unwrap_or_default() }];
    // Without `wait` and `hold` the server answers at once.
    let (call, _) = acquire_call(received, options, wants, params.id, true)?;
    Ok(AcquireCall { respond_async: params.queue, ..call })
}

async fn release<RT: AsyncRuntime>(
    node: &Node<RT>,
    timeout: Duration,
    id: GrantId,
    session: Option<SessionId>,
) -> Result<Done, Problem> {
    let revision = node.release(id, session, timeout).await.map_err(of_change)?;
    Ok((BatchAnswer { status: StatusCode::NO_CONTENT.as_u16(), retry_after: None, body: None }, Some(revision)))
}

async fn renew<RT: AsyncRuntime>(node: &Node<RT>, timeout: Duration, id: GrantId) -> Result<Done, Problem> {
    let renewed = node.renew_grant(id, None, None, timeout).await.map_err(of_change)?;
    let body = Some(Body::Renewed(answer::renewed_grant(id, renewed.value, node.wall_now())));
    Ok((BatchAnswer { status: StatusCode::OK.as_u16(), retry_after: None, body }, Some(renewed.revision)))
}

#[cfg(test)]
mod tests;
