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
    answer,
    error::{Asked, NO_STORE, Problem},
    grants::call_of,
    names::lock_name,
    params::{Fields, Known, Params, expected},
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
    batch::{Answer, Body},
    dto::{Contender, Meta},
    limits::{BATCH_ACQUIRE_BYTES_MAX, BATCH_CALLS_MAX, BATCH_RELEASE_BYTES_MAX, LOCK_NAME_BYTES_MAX},
    problem::{Effect, Facts},
};
use futures_util::future::join_all;
use http::{HeaderValue, StatusCode, header};
use openraft_rt::{AsyncRuntime, Instant};
use serde::Deserialize;
use std::{collections::BTreeMap, time::Duration};

pub(crate) const BATCH: Known = Known { now: &[], later: &[] };
/// What an acquire says here. It has no `wait`: it takes a place in the queue with `queue`, or is refused.
pub(crate) const ACQUIRE: Known = Known {
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
pub(crate) const RELEASE: Known = Known { now: &["id", "session"], later: &[] };
pub(crate) const RENEW: Known = Known { now: &["id"], later: &[] };

/// Of those ahead of a caller, how many the answer to a call names.
const AHEAD_IN_BATCH: usize = 1;
/// After how many seconds a call that was turned away should be made again.
const RETRY_AFTER: u64 = 1;
const EXAMPLE: &str = r#"{"calls":[{"acquire":{"id":…,"lock":"deploy","session":…}},{"release":{"id":…}}]}"#;

/// The calls.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = r#"an object with a list of calls, such as {"calls": [{"renew": {"id": "…"}}]}"#)]
struct Calls {
    calls: Vec<Call>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Call {
    Acquire(Fields),
    Release(Fields),
    Renew(Fields),
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
type Done = (Answer, Option<Revision>);
/// The same, with the answer as JSON: what is kept until all calls are answered has a bound.
type Written = (Vec<u8>, Option<Revision>);

/// `POST /v1/batch`
pub(crate) async fn batch<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, mut body) = Received::with_list::<RT>(request).await?;
    received.query(&BATCH)?;
    let calls: Vec<Understood> = (0..)
        .zip(calls(&std::mem::take(&mut body.bytes))?)
        .map(|(index, call): (usize, Call)| understood(&received, call).map_err(|problem| misunderstood(index, problem)))
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

/// All answers, as `fairhold_types::batch::Answers` has them.
fn together(answers: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut body = br#"{"answers":["#.to_vec();
    for (index, answer) in answers.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&answer);
    }
    body.extend_from_slice(b"]}");
    body
}

/// Writes an answer within this many bytes. A longer answer leaves out the texts that are only for people.
fn write(mut answer: Answer, bytes_max: usize) -> Vec<u8> {
    let json = |answer: &Answer| {
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
fn shorten(answer: &mut Answer) {
    let bare = |contender: &mut Contender| contender.meta = Meta::new();
    match &mut answer.body {
        Some(Body::Grant(grant)) => {
            grant.ahead.clear();
            grant.meta.clear();
            grant.waits_for.as_mut().map(bare);
        }
        Some(Body::Problem(problem)) => {
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

fn calls(body: &[u8]) -> Result<Vec<Call>, Problem> {
    let Calls { calls } = serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request(format!("the body must be a batch, like {EXAMPLE}: {error}")))?;
    if (1..=BATCH_CALLS_MAX).contains(&calls.len()) {
        return Ok(calls);
    }
    let length = calls.len();
    Err(Problem::bad_request(format!("\"calls\" has {length} entries: a batch has 1 to {BATCH_CALLS_MAX}")))
}

fn understood(received: &Received, call: Call) -> Result<Understood, Problem> {
    match call {
        Call::Acquire(fields) => acquire_call(received, fields).map(|call| Understood::Acquire(Box::new(call))),
        Call::Release(fields) => {
            let mut params = Params::of(fields, &RELEASE)?;
            Ok(Understood::Release(id(&mut params)?, params.parsed("session")?))
        }
        Call::Renew(fields) => id(&mut Params::of(fields, &RENEW)?).map(Understood::Renew),
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
        let retry_after = matches!(problem.status, 429 | 503).then_some(RETRY_AFTER);
        (Answer { status: problem.status, retry_after, body: Some(Body::Problem(Box::new(problem))) }, None)
    })
}

async fn acquire<RT: AsyncRuntime>(node: &Node<RT>, call: AcquireCall) -> Result<Done, Problem> {
    let id = call.acquire.grant;
    let answer = node.acquire(call).await;
    let now = node.wall_now();
    let acquired = answer.map_err(|error| Problem::of(error, Asked::AcquireInBatch { id, now }))?;
    let (status, view) = match acquired.value {
        Acquired::Held(view) => (StatusCode::OK, view),
        Acquired::Queued(view) => (StatusCode::ACCEPTED, view),
    };
    let mut grant = answer::grant(view, now);
    grant.ahead.truncate(AHEAD_IN_BATCH);
    let body = Some(Body::Grant(Box::new(grant)));
    Ok((Answer { status: status.as_u16(), retry_after: None, body }, Some(acquired.revision)))
}

fn acquire_call(received: &Received, fields: Fields) -> Result<AcquireCall, Problem> {
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
    let revision = node.release(id, session, timeout).await.map_err(|error| Problem::of(error, Asked::Change))?;
    Ok((Answer { status: StatusCode::NO_CONTENT.as_u16(), retry_after: None, body: None }, Some(revision)))
}

async fn renew<RT: AsyncRuntime>(node: &Node<RT>, timeout: Duration, id: GrantId) -> Result<Done, Problem> {
    let renewed = node.renew_grant(id, None, None, timeout).await.map_err(|error| Problem::of(error, Asked::Change))?;
    let body = Some(Body::Renewed(answer::renewed_grant(id, renewed.value, node.wall_now())));
    Ok((Answer { status: StatusCode::OK.as_u16(), retry_after: None, body }, Some(renewed.revision)))
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
            Call::Acquire(fields) => (fields, &ACQUIRE),
            Call::Release(fields) => (fields, &RELEASE),
            Call::Renew(fields) => (fields, &RENEW),
        };
        id(&mut Params::of(fields, known)?)?;
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body as RequestBody;
    use fairhold_types::{
        FencingToken, GrantNumber, LockName, SessionNumber,
        limits::{CYCLE_NAMED_MAX, DETAIL_BYTES_MAX, META_BYTES_MAX, OWNER_BYTES_MAX, REASON_BYTES_MAX},
        problem::Blocked,
        time::WallMillis,
    };
    use openraft_rt_tokio::TokioRuntime;
    use serde_json::{Value, json};

    const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    const SESSION: &str = "0123456789abcdef0123456789abcdef";

    async fn acquire_of(fields: Value) -> Result<AcquireCall, Problem> {
        let request = Request::post("/v1/batch").header("prefer", "respond-async").body(RequestBody::empty()).unwrap();
        let (received, _) = Received::with_list::<TokioRuntime>(request).await.unwrap();
        acquire_call(&received, serde_json::from_value(fields).unwrap())
    }

    #[tokio::test]
    async fn an_acquire_is_of_a_session_and_waits_in_its_queue_only_where_it_says_so() {
        for (queue, waits) in [(json!(true), true), (json!(false), false), (Value::Null, false)] {
            let call = acquire_of(json!({ "id": ID, "lock": "orders/42", "session": SESSION, "queue": queue, "permits": 2 }));
            let call = call.await.unwrap();
            assert_eq!((call.respond_async, call.wait.is_zero(), call.acquire.permits), (waits, true, 2));
            assert_eq!(call.acquire.wants[0].lock.as_str(), "orders/42");
            assert_eq!(call.acquire.grant, ID.parse().unwrap());
        }
        for wrong in [
            json!({ "lock": "a", "session": SESSION }),
            json!({ "id": ID, "session": SESSION }),
            json!({ "id": ID, "lock": "a//b", "session": SESSION }),
            json!({ "id": ID, "lock": "a" }),
            json!({ "id": ID, "lock": "a", "session": SESSION, "wait": "1s" }),
            json!({ "id": ID, "lock": "a", "ttl": "10s" }),
            json!({ "id": ID, "lock": "a", "session": SESSION, "hold": "stream" }),
        ] {
            assert!(acquire_of(wrong.clone()).await.is_err(), "{wrong} was taken");
        }
    }

    /// As long as a text may be, and twice as long in JSON.
    fn longest(bytes: usize) -> String {
        "\"".repeat(bytes)
    }

    fn longest_contender() -> Contender {
        Contender {
            number: GrantNumber(u64::MAX),
            owner: longest(OWNER_BYTES_MAX),
            since: Some(WallMillis(0).to_rfc3339()),
            token: Some(FencingToken(u64::MAX)),
            held_for: Some("1000000h".to_owned()),
            meta: Meta::from([("k".to_owned(), longest(META_BYTES_MAX - 1))]),
        }
    }

    #[test]
    fn the_longest_answer_in_a_batch_keeps_what_a_program_needs_within_its_bytes() {
        let detail = longest(DETAIL_BYTES_MAX / 2);
        let blocked = Blocked { session: SessionNumber(1), owner: longest(OWNER_BYTES_MAX), lock: LockName::parse("a").unwrap() };
        let facts = Facts {
            holder: Some(longest_contender()),
            position: Some(17),
            ahead: vec![longest_contender(); 16],
            estimate: Some("40s".to_owned()),
            cycle: Some(vec![blocked; CYCLE_NAMED_MAX]),
            note: Some(longest(REASON_BYTES_MAX)),
            ..Facts::default()
        };
        let problem = fairhold_types::problem::Problem { facts, ..Problem::new(Code::LockHeld, detail).into() };
        let answer = Answer { status: 409, retry_after: Some(1), body: Some(Body::Problem(Box::new(problem))) };
        let written = write(answer, BATCH_ACQUIRE_BYTES_MAX);
        assert!(written.len() <= BATCH_ACQUIRE_BYTES_MAX, "{} bytes", written.len());
        let json: Value = serde_json::from_slice(&written).unwrap();
        let body = &json["body"];
        assert_eq!(
            (&body["code"], &body["position"], &body["holder"]["token"]),
            (&"lock_held".into(), &17.into(), &u64::MAX.into())
        );
        assert_eq!(BATCH_CALLS_MAX * BATCH_ACQUIRE_BYTES_MAX, 1024 * 1024, "the longest answer to a batch");
    }

    #[test]
    fn answers_written_one_by_one_are_the_body_that_is_described() {
        let renewed = |id: u128| Answer {
            status: 200,
            retry_after: None,
            body: Some(Body::Renewed(answer::renewed_grant(GrantId::from_ulid(id), Duration::from_secs(30), WallMillis(0)))),
        };
        for answers in [vec![renewed(1)], vec![renewed(1), Answer { status: 204, retry_after: None, body: None }, renewed(2)]] {
            let one_by_one = together(answers.iter().map(|answer| write(answer.clone(), BATCH_RELEASE_BYTES_MAX)));
            assert_eq!(one_by_one, serde_json::to_vec(&fairhold_types::batch::Answers { answers }).unwrap());
        }
    }

    #[test]
    fn calls_of_one_id_are_a_chain_in_the_order_of_the_request() {
        let id = |number| GrantId::from_ulid(number);
        let calls = [2, 1, 2, 3, 2, 1].map(|number| Understood::Release(id(number), None));
        let chains = chains(calls.into());
        let places: Vec<Vec<usize>> = chains.iter().map(|chain| chain.iter().map(|(index, _)| *index).collect()).collect();
        assert_eq!(places, [vec![0, 2, 4], vec![1, 5], vec![3]]);
        assert!(chains.iter().flatten().map(|(_, call)| call.id()).eq([2, 2, 2, 1, 1, 3].map(id)));
    }

    #[test]
    fn a_batch_has_a_call_at_least_and_not_too_many() {
        let of = |count: usize| json!({ "calls": vec![json!({ "release": { "id": ID } }); count] }).to_string();
        for (count, fits) in [(0, false), (1, true), (BATCH_CALLS_MAX, true), (BATCH_CALLS_MAX + 1, false)] {
            assert_eq!(read(of(count).as_bytes()).is_ok(), fits, "{count}");
        }
        for wrong in ["", "[]", r#"{"calls":[{"renew":{}}]}"#, r#"{"calls":[{"release":{}}]}"#, r#"{"calls":[],"more":1}"#] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong} was taken");
        }
    }
}
