//! Tests of the entries that a request gets.

use super::*;
use crate::edge::{answer, body};
use fairhold_access::Principal;
use fairhold_node::access::{Caller, Credential};
use fairhold_types::{
    Revision,
    limits::{AUDIT_QUEUE_BYTES_MAX, AUDIT_REFUSALS_PER_CALLER_MAX},
};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use openraft_rt_tokio::TokioRuntime;
use serde_json::{Value, json};
use std::net::IpAddr;

const NOW: WallMillis = WallMillis(1_763_700_840_120);
const ACQUIRE: (&str, &str, &str) = ("POST", "/v1/locks/{name}", "/v1/locks/orders%2F42?wait=30s&owner=ci");
const SHOW: (&str, &str, &str) = ("GET", "/v1/locks/{name}", "/v1/locks/orders%2F42");
const RENEW: (&str, &str, &str) = ("POST", "/v1/grants/{id}/renew", "/v1/grants/01ARZ3NDEKTSV4RRFFQ69G5FAV/renew");
const RELEASE: (&str, &str, &str) = ("DELETE", "/v1/grants/{id}", "/v1/grants/01ARZ3NDEKTSV4RRFFQ69G5FAV");
const HEALTH: (&str, &str, &str) = ("GET", "/livez", "/livez");

fn begin(audit: &Audit, (method, route, uri): (&str, &'static str, &str)) -> Box<AuditedRequest> {
    let peer = HttpPeer::at(IpAddr::from([10, 0, 0, 7]));
    let mut request = Request::builder().method(method).uri(uri).extension(peer).body(Body::empty()).unwrap();
    let id = HeaderValue::from_static("1-abc-f");
    audit.begin(&mut request, Some(route), &id, || NOW).unwrap()
}

/// The caller of the request is known, and rights are enforced.
fn identify(audited: &AuditedRequest) {
    let principal = Principal::parse("user:ci").unwrap();
    drop(Caller::new(principal, Credential::File).with_trail(Some(audited.trail())));
}

fn refusal(code: Code) -> Response {
    Problem::new(code, "a text for people").into_response()
}

fn done() -> Response {
    answer::empty(StatusCode::NO_CONTENT, Revision(17))
}

fn stream(parts: usize) -> Response {
    let lines = futures_util::stream::iter((0..parts).map(|_| Ok::<_, std::convert::Infallible>(Bytes::from_static(b"{}\n"))));
    body::answer(body::NDJSON, Body::from_stream(lines))
}

fn entries(audit: &Audit) -> Vec<Value> {
    let lines = audit.log().unwrap().take(Duration::ZERO).lines;
    String::from_utf8(lines).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The event, the decision, the status and the reason of each entry.
fn short(audit: &Audit) -> Vec<String> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or("-").to_owned();
    let one = |entry: &Value| {
        format!("{} {} {} {}", text(entry, "event"), text(entry, "decision"), entry["status"], text(entry, "reason"))
    };
    entries(audit).iter().map(one).collect()
}

#[test]
fn an_entry_says_who_asked_for_what_and_what_was_answered() {
    let audit = Audit::new(AuditScope::Denied, false);
    let audited = begin(&audit, ACQUIRE);
    identify(&audited);
    audited.answer(refusal(Code::Denied));
    assert_eq!(
        String::from_utf8(audit.log().unwrap().take(Duration::ZERO).lines).unwrap(),
        "{\"time\":\"2025-11-21T04:54:00.120Z\",\"event\":\"request\",\"request\":\"1-abc-f\",\"principal\":\"user:ci\",\
         \"address\":\"10.0.0.7\",\"method\":\"POST\",\"route\":\"/v1/locks/{name}\",\"names\":[{\"name\":\"locks:orders/42\"}],\
         \"decision\":\"denied\",\"status\":403,\"code\":\"denied\"}\n"
    );
}

#[test]
fn the_scope_selects_the_requests() {
    for (scope, written) in [
        (AuditScope::Denied, &[][..]),
        (AuditScope::Writes, &[ACQUIRE, RELEASE][..]),
        (AuditScope::All, &[ACQUIRE, SHOW, RENEW, RELEASE][..]),
    ] {
        for call in [ACQUIRE, SHOW, RENEW, RELEASE, HEALTH] {
            let audit = Audit::new(scope, false);
            let audited = begin(&audit, call);
            identify(&audited);
            audited.answer(done());
            let expected = if written.contains(&call) { vec!["request allowed 204 -".to_owned()] } else { Vec::new() };
            assert_eq!(short(&audit), expected, "{scope:?} {call:?}");
            // A refusal is always written, whatever the call would have done.
            begin(&audit, call).answer(refusal(Code::Unauthenticated));
            assert_eq!(short(&audit), ["request unauthenticated 401 -"], "{scope:?} {call:?}");
        }
    }
}

#[test]
fn a_request_that_is_not_decided_says_so() {
    let audit = Audit::new(AuditScope::All, false);
    begin(&audit, ACQUIRE).answer(refusal(Code::WrongCluster));
    let unenforced = begin(&audit, ACQUIRE);
    drop(Caller::new(Principal::anonymous(), Credential::Unread).with_trail(Some(unenforced.trail())));
    unenforced.answer(done());
    assert_eq!(short(&audit), ["request undecided 421 -", "request unenforced 204 -"]);
}

#[tokio::test]
async fn a_stream_has_an_entry_at_its_start_and_one_at_its_end() {
    let audit = Audit::new(AuditScope::Writes, false);
    let audited = begin(&audit, ACQUIRE);
    identify(&audited);
    let response = audited.answer(stream(3));
    assert_eq!(short(&audit), ["start allowed 200 -"]);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 9);
    assert_eq!(short(&audit), ["end allowed 200 -"]);

    let audited = begin(&audit, ACQUIRE);
    identify(&audited);
    let mut body = audited.answer(stream(3)).into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    assert_eq!(short(&audit), ["start allowed 200 -", "end allowed 200 disconnected"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_long_wait_has_an_entry_at_its_start_and_one_at_its_end() {
    let audit = Audit::new(AuditScope::Writes, false);
    let (grant, granted) = tokio::sync::oneshot::channel::<()>();
    let mut audited = begin(&audit, ACQUIRE);
    identify(&audited);
    let call = async move { granted.await.map_or_else(|_| refusal(Code::WaitTimeout), |()| done()) };
    let answered = TokioRuntime::spawn(async move {
        let response = audited.answered::<TokioRuntime>(call.boxed()).await;
        audited.answer(response).status()
    });
    // It blocks this thread, and the call goes on in another one.
    let first = audit.log().unwrap().take(Duration::from_secs(60));
    assert!(String::from_utf8(first.lines).unwrap().contains("\"event\":\"start\""));
    grant.send(()).unwrap();
    assert_eq!(answered.await.unwrap(), 204);
    assert_eq!(short(&audit), ["end allowed 204 -"]);
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_an_entry() {
    let audit = Audit::new(AuditScope::Writes, false);
    let mut audited = begin(&audit, ACQUIRE);
    identify(&audited);
    {
        let never = std::future::pending::<Response>().boxed();
        let answered = audited.answered::<TokioRuntime>(never);
        assert!(answered.now_or_never().is_none());
    }
    drop(audited);
    assert_eq!(short(&audit), ["request allowed null disconnected"]);
}

#[test]
fn a_required_log_that_cannot_be_written_refuses_calls_but_never_a_renewal_or_a_release() {
    let is_refused = |scope, call| {
        let audit = Audit::new(scope, true);
        audit.log().unwrap().set_fault(Some("full".to_owned()));
        let audited = begin(&audit, call);
        let is_refused = audited.check_log().is_err();
        let denied = audited.answer(refusal(Code::Denied)).status().as_u16();
        (is_refused, denied)
    };
    for (scope, call, expected) in [
        (AuditScope::Denied, ACQUIRE, (false, 503)),
        (AuditScope::Denied, RENEW, (false, 403)),
        (AuditScope::Writes, ACQUIRE, (true, 503)),
        (AuditScope::Writes, SHOW, (false, 503)),
        (AuditScope::Writes, RENEW, (false, 403)),
        (AuditScope::Writes, RELEASE, (false, 403)),
        (AuditScope::All, SHOW, (true, 503)),
        (AuditScope::All, RENEW, (false, 403)),
        (AuditScope::All, RELEASE, (false, 403)),
        (AuditScope::All, HEALTH, (false, 403)),
    ] {
        assert_eq!(is_refused(scope, call), expected, "{scope:?} {call:?}");
    }
    let audit = Audit::new(AuditScope::All, true);
    audit.log().unwrap().set_fault(Some("full".to_owned()));
    let audited = begin(&audit, ACQUIRE);
    let problem = audited.check_log().unwrap_err();
    audited.answer(problem.into_response());
    assert_eq!(short(&audit), [""; 0], "a call that was not made takes no room from a release");
    let audit = Audit::new(AuditScope::All, false);
    audit.log().unwrap().set_fault(Some("full".to_owned()));
    assert!(begin(&audit, ACQUIRE).check_log().is_ok(), "the service goes on unless the log is required");
}

#[test]
fn a_flood_of_refusals_stays_small_and_its_size_is_known() {
    let audit = Audit::new(AuditScope::Denied, false);
    for _ in 0..100_000 {
        begin(&audit, ACQUIRE).answer(refusal(Code::Denied));
    }
    audit.log().unwrap().summarize_refusals(NOW);
    let all = entries(&audit);
    let own = AUDIT_REFUSALS_PER_CALLER_MAX as usize;
    assert_eq!(all.len(), own + 1);
    let last = &all[own];
    assert_eq!((&last["event"], &last["count"]), (&json!("more_refusals"), &json!(100_000 - own)), "{last}");
    assert_eq!(audit.log().unwrap().entries_lost(), 0);
}

#[test]
fn hostile_input_makes_no_other_line_and_shows_no_secret() {
    let audit = Audit::new(AuditScope::All, false);
    let long = format!("/v1/locks/{}", "x".repeat(60_000));
    for uri in ["/v1/locks/a%0A%7B%22b%22%3A1%7D", "/v1/locks/%22%5C%00", "/v1/locks/%FF%FE", "/v1/locks/fht_secret", &long] {
        let mut request = Request::builder()
            .method("BREW")
            .uri(uri)
            .header("user-agent", HeaderValue::from_bytes(b"a\"\xff\xfe\tb").unwrap())
            .header("authorization", "Bearer canary")
            .body(Body::empty())
            .unwrap();
        let id = HeaderValue::from_static("mine-fht_secret");
        let audited = audit.begin(&mut request, Some("/v1/locks/{name}"), &id, || NOW).unwrap();
        audited.answer(done());
    }
    let lines = audit.log().unwrap().take(Duration::ZERO).lines;
    let text = String::from_utf8(lines).unwrap();
    assert_eq!(text.lines().count(), 5);
    for line in text.lines() {
        assert!(line.len() < 300 && !line.contains("canary") && !line.contains("fht_"), "{line}");
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["method"], "other");
    }
    assert!(text.len() < AUDIT_QUEUE_BYTES_MAX);
}
