//! Tests of `batch`.

use super::*;
use axum::body::Body as RequestBody;
use fairhold_types::{
    FencingToken, GrantNumber, LockName, SessionNumber,
    limits::{CYCLE_NAMED_MAX, DETAIL_BYTES_MAX, META_BYTES_MAX, OWNER_BYTES_MAX, REASON_BYTES_MAX},
    problem::{Blocked, Facts},
    time::WallMillis,
};
use openraft_rt_tokio::TokioRuntime;
use serde_json::{Value, json};

const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const SESSION: &str = "0123456789abcdef0123456789abcdef";

async fn acquire_of(fields: Value) -> Result<AcquireCall, Problem> {
    let request = Request::post("/v1/batch").header("prefer", "respond-async").body(RequestBody::empty()).unwrap();
    let (received, _) = Received::with_list::<TokioRuntime>(request).await.unwrap();
    batch_acquire_call(&received, read_fields(serde_json::from_str(&fields.to_string()).unwrap())?)
}

#[tokio::test]
async fn an_acquire_needs_a_session_and_queues_only_with_queue() {
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
        assert!(acquire_of(wrong.clone()).await.is_err(), "{wrong} was accepted");
    }
}

/// A string of that length; JSON doubles its size.
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
fn the_longest_answer_fits_and_keeps_what_a_program_needs() {
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
    let answer = BatchAnswer { status: 409, retry_after: Some(1), body: Some(Body::Problem(Box::new(problem))) };
    let written = write(answer, BATCH_ACQUIRE_BYTES_MAX);
    assert!(written.len() <= BATCH_ACQUIRE_BYTES_MAX, "{} bytes", written.len());
    let json: Value = serde_json::from_slice(&written).unwrap();
    let body = &json["body"];
    assert_eq!((&body["code"], &body["position"], &body["holder"]["token"]), (&"lock_held".into(), &17.into(), &u64::MAX.into()));
    assert_eq!(BATCH_CALLS_MAX * BATCH_ACQUIRE_BYTES_MAX, 1024 * 1024, "the longest answer to a batch");
}

#[test]
fn answers_written_one_by_one_form_the_described_body() {
    let renewed = |id: u128| BatchAnswer {
        status: 200,
        retry_after: None,
        body: Some(Body::Renewed(answer::renewed_grant(GrantId::from_ulid(id), Duration::from_secs(30), WallMillis(0)))),
    };
    for answers in [vec![renewed(1)], vec![renewed(1), BatchAnswer { status: 204, retry_after: None, body: None }, renewed(2)]] {
        let one_by_one = together(answers.iter().map(|answer| write(answer.clone(), BATCH_RELEASE_BYTES_MAX)));
        let described = serde_json::to_string(&fairhold_types::batch::BatchAnswers { answers }).unwrap();
        assert_eq!(String::from_utf8(one_by_one).unwrap(), described + "\n");
    }
}

#[test]
fn calls_with_one_id_form_a_chain_in_request_order() {
    let id = |number| GrantId::from_ulid(number);
    let calls = [2, 1, 2, 3, 2, 1].map(|number| ValidCall::Release(id(number), None));
    let chains = chains(calls.into());
    let places: Vec<Vec<usize>> = chains.iter().map(|chain| chain.iter().map(|(index, _)| *index).collect()).collect();
    assert_eq!(places, [vec![0, 2, 4], vec![1, 5], vec![3]]);
    assert!(chains.iter().flatten().map(|(_, call)| call.id()).eq([2, 2, 2, 1, 1, 3].map(id)));
}

#[test]
fn a_batch_has_at_least_one_call_and_not_too_many() {
    let of = |count: usize| json!({ "calls": vec![json!({ "release": { "id": ID } }); count] }).to_string();
    for (count, fits) in [(0, false), (1, true), (BATCH_CALLS_MAX, true), (BATCH_CALLS_MAX + 1, false)] {
        assert_eq!(read(of(count).as_bytes()).is_ok(), fits, "{count}");
    }
    for wrong in ["", "[]", r#"{"calls":[{"renew":{}}]}"#, r#"{"calls":[{"release":{}}]}"#, r#"{"calls":[],"more":1}"#] {
        assert!(read(wrong.as_bytes()).is_err(), "{wrong} was accepted");
    }
}
