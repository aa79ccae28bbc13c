//! Every invalid request gets an answer that says what is wrong with it, and the server continues.

use crate::{
    client::Call,
    harness::{Cluster, NODES, SHORT, run_parallel},
    raw::{Raw, raw},
};

/// A request, the status and the code of its refusal, and a word that the answer must contain.
type Case = (Raw, u16, &'static str, &'static str);

const LOCK: &str = "/v1/locks/x";
const KEY: &str = "Idempotency-Key: ";

fn bad_parameters() -> Vec<Case> {
    let bad = |raw: Raw, word: &'static str| (raw, 400, "bad_request", word);
    let query = |parameters: &str| raw("POST", &format!("{LOCK}?{parameters}"));
    let body = |body: &str| raw("POST", LOCK).json(body);
    let session = |body: &str| raw("POST", "/v1/sessions").json(body);
    vec![
        bad(query("wait=-1"), "wait"),
        bad(query("wait=11m"), "wait"),
        bad(query("wait=soon"), "wait"),
        bad(query("ttl=0s"), "ttl"),
        bad(query("ttl=999ms"), "ttl"),
        bad(query("ttl=2h"), "ttl"),
        bad(query("ttl=9999999999999999999999"), "ttl"),
        bad(query("mode=both"), "mode"),
        bad(query("permits=0"), "permits"),
        bad(query("permits=2"), "permits"),
        bad(query("limit=3&permits=4"), "permits"),
        bad(query("limit=0"), "limit"),
        bad(query("limit=-1"), "limit"),
        bad(query("limit=1.5"), "limit"),
        bad(query("limit=99999999999999999999999"), "limit"),
        bad(query("limit=2&mode=shared"), "shared"),
        bad(query("priority=high"), "priority"),
        bad(query("lock_delay=-1s"), "lock_delay"),
        bad(query("colour=red"), "colour"),
        bad(query("wait=1s&wait=2s"), "wait"),
        bad(query("session=nobody"), "session"),
        bad(query("session=1"), "session"),
        bad(query(&format!("session={}&ttl=5s", "0".repeat(32))), "ttl"),
        bad(query(&format!("owner={}", "o".repeat(257))), "owner"),
        bad(body("{"), ""),
        bad(body("[]"), ""),
        bad(body("\"wait\""), ""),
        bad(body(r#"{"wait":{}}"#), "wait"),
        bad(body(r#"{"wait":"-1s"}"#), "wait"),
        bad(body(r#"{"permits":"many"}"#), "permits"),
        bad(body(r#"{"permits":-1}"#), "permits"),
        bad(body(r#"{"owner":7}"#), "owner"),
        bad(body(r#"{"meta":"text"}"#), "meta"),
        bad(body(r#"{"meta":{"a":1}}"#), "meta"),
        bad(body(r#"{"colour":"red"}"#), "colour"),
        bad(body(&format!(r#"{{"meta":{{"a":"{}"}}}}"#, "v".repeat(1025))), "meta"),
        bad(body(&"[".repeat(60_000)), ""),
        bad(raw("POST", LOCK).json("x").body(vec![0xff, 0xfe, 0x00]), ""),
        bad(raw("POST", "/v1/locks").json(r#"{"locks":["a"]}"#), "an object with a lock's name"),
        bad(raw("POST", "/v1/locks").json(r#"{"locks":"a"}"#), "locks"),
        bad(raw("POST", "/v1/txn").json(r#""x""#), "a transaction, such as"),
        bad(raw("POST", "/v1/txn").json(r#"{"if":["x"]}"#), "a condition, such as"),
        bad(raw("POST", "/v1/txn").json(r#"{"if":[{"fence":"x"}]}"#), "a lock and a token, such as"),
        bad(raw("POST", "/v1/txn").json(r#"{"then":[7]}"#), "like {"),
        bad(raw("POST", "/v1/txn").json(r#"{"then":[{"put":"/a"}]}"#), "a path and a value, such as"),
        bad(raw("POST", "/v1/txn").json(r#"{"then":[{"delete":"/a"}]}"#), "a path, such as"),
        bad(raw("POST", "/v1/batch").json(r#""x""#), "a list of calls, such as"),
        bad(raw("POST", "/v1/batch").json(r#"{"calls":[7]}"#), "like {"),
        bad(raw("POST", "/v1/batch").json(r#"{"calls":[{"renew":7}]}"#), "calls"),
        bad(session(r#"{"ttl":"0s"}"#), "ttl"),
        bad(session(r#"{"ttl":"2h"}"#), "ttl"),
        bad(session(r#"{"ttl":[]}"#), "ttl"),
        bad(session(r#"{"name":7}"#), "name"),
        bad(session(r#"{"colour":"red"}"#), "colour"),
        bad(raw("POST", "/v1/sessions/keepalive").json(r#"{"ids":"all"}"#), "ids"),
        bad(raw("POST", "/v1/sessions/keepalive").json(r#"{"ids":["x"]}"#), ""),
        bad(raw("GET", &format!("{LOCK}?consistency=eventual")), "consistency"),
        bad(raw("GET", &format!("{LOCK}/fence?token=many")), "token"),
        bad(raw("GET", &format!("{LOCK}/fence")), "token"),
        bad(raw("GET", "/v1/locks/x?colour=red"), "colour"),
        bad(raw("GET", "/v1/overview/series?step=1h"), "expected 1s or 1m"),
        bad(raw("GET", "/v1/overview/series?after=7"), "the next of an earlier answer"),
    ]
}

fn bad_queries_of_lists() -> Vec<Case> {
    let bad = |path: &str, word: &'static str| (raw("GET", &format!("/v1/{path}")), 400, "bad_request", word);
    let long = "p".repeat(513);
    vec![
        bad("events?lock=2-lock-0000000000", "reserved"),
        bad("events?lock=a%00b", "lock"),
        bad("events?limit=0", "limit"),
        bad("locks?limit=0", "limit"),
        bad("elections?limit=0", "limit"),
        bad("grants?limit=0", "limit"),
        bad("history?limit=0", "limit"),
        bad("locks/x/queue?around=first", "around"),
        bad("locks/x/queue?around=-1", "around"),
        bad("locks/x/queue?around=12345678901234567", "around"),
        bad("locks/x/queue?around=1&cursor=held-1", "not both"),
        bad(&format!("events?prefix={long}"), "prefix"),
        bad(&format!("locks?match={long}"), "match"),
        bad(&format!("elections?prefix={long}"), "prefix"),
        bad(&format!("grants?prefix={long}"), "prefix"),
        bad(&format!("history?prefix={long}"), "prefix"),
        bad("locks?owner=a%00b", "owner"),
        bad("locks?match=a&match=b", "match"),
        bad("locks?sort=held", "sort"),
        bad("grants?owner=a%00b", "owner"),
        bad("grants?session=0123456789abcdef0123456789abcdef", "session"),
        bad("history?owner=a%00b", "owner"),
        // The cursors of other lists, and of another order.
        bad("locks?sort=held_for&cursor=6e303a61", "cursor"),
        bad("events?cursor=6e303a61", "cursor"),
        bad("elections?cursor=57-1", "cursor"),
        bad("grants?cursor=6e303a61", "cursor"),
        bad("history?cursor=6e303a61", "cursor"),
        bad("overview/series?after=57-1", "the next of an earlier answer"),
    ]
}

fn bad_names_and_headers() -> Vec<Case> {
    let bad = |raw: Raw, word: &'static str| (raw, 400, "bad_request", word);
    let lock = |name: &str| raw("POST", &format!("/v1/locks/{name}"));
    let deep = vec!["a"; 33].join("%2F");
    vec![
        bad(lock(&"n".repeat(513)), ""),
        bad(lock(&deep), ""),
        bad(lock(".."), ""),
        bad(lock("%2e%2e"), ""),
        bad(lock("a%2F..%2Fb"), ""),
        bad(lock("a%2F.%2Fb"), ""),
        bad(lock("a%2F%2Fb"), ""),
        bad(lock("%2Fa"), ""),
        bad(lock("a%2F"), ""),
        bad(lock("a%00b"), ""),
        bad(lock("a%0Ab"), ""),
        bad(lock("a%7Fb"), ""),
        bad(lock("%ff%fe"), ""),
        bad(lock("%zz"), ""),
        bad(lock("a%2"), ""),
        bad(raw("PUT", "/v1/nodes/a//b").body(b"x".to_vec()), ""),
        bad(raw("PUT", "/v1/nodes/a/../b").body(b"x".to_vec()), ""),
        bad(raw("PUT", "/v1/nodes/a/").body(b"x".to_vec()), ""),
        bad(raw("PUT", "/v1/nodes/a%zz").body(b"x".to_vec()), ""),
        bad(raw("PUT", &format!("/v1/nodes/{}", "p".repeat(1024))).body(b"x".to_vec()), ""),
        bad(raw("POST", LOCK).with(&format!("{KEY}42")), "Idempotency-Key"),
        bad(raw("POST", LOCK).with(&format!("{KEY}f47ac10b-58cc-4372-a567-0e02b2c3d479")), "Idempotency-Key"),
        bad(raw("POST", LOCK).with(&format!("{KEY}8ZZZZZZZZZZZZZZZZZZZZZZZZZ")), "Idempotency-Key"),
        bad(raw("POST", LOCK).with("Fairhold-Timeout: never"), "Fairhold-Timeout"),
        bad(raw("GET", LOCK).with("Fairhold-Min-Revision: -1"), "Fairhold-Min-Revision"),
        bad(raw("PUT", "/v1/nodes/a").with("Fairhold-Fence: nonsense").body(b"x".to_vec()), "Fairhold-Fence"),
        bad(raw("PUT", "/v1/nodes/a").with("Fairhold-Fence: x=abc").body(b"x".to_vec()), "Fairhold-Fence"),
        bad(raw("PUT", "/v1/nodes/a").with("If-Match: 17x").body(b"x".to_vec()), "If-Match"),
        bad(raw("DELETE", "/v1/grants/42"), ""),
        bad(raw("GET", "/v1/grants/%2e%2e"), ""),
    ]
}

fn not_there_not_allowed_or_too_large() -> Vec<Case> {
    let mebibyte = 1024 * 1024;
    vec![
        (raw("PUT", "/v1/nodes/large").body(vec![b'x'; mebibyte + 1]), 413, "too_large", ""),
        (raw("PUT", "/v1/nodes/large").body(vec![b'x'; 2 * mebibyte]), 413, "too_large", ""),
        (raw("POST", LOCK).json(&format!("{{\"owner\":\"{}\"}}", "x".repeat(2 * mebibyte))), 413, "too_large", ""),
        (raw("PUT", "/v1/nodes/locks/x").body(b"x".to_vec()), 403, "denied", ""),
        (raw("POST", "/v1/sessions/1/keepalive"), 403, "denied", "secret id"),
        (raw("DELETE", "/v1/sessions/1"), 404, "session_not_found", ""),
        (raw("GET", LOCK).with(&format!("X: {}", "x".repeat(100_000))), 431, "too_large", "16384 bytes"),
        (raw("GET", &format!("/v1/locks/{}", "x".repeat(20_000))), 431, "too_large", "16384 bytes"),
        (raw("GET", "/v1/locks/a b"), 400, "bad_request", "HTTP/1.1"),
        (raw("GET", "/v1/nodes/nothing/here"), 404, "no_node", ""),
        (raw("GET", "/v1/grants/01ARZ3NDEKTSV4RRFFQ69G5FAV"), 404, "grant_not_found", ""),
        (raw("POST", &format!("{LOCK}?session={}", "0".repeat(32))), 404, "session_not_found", ""),
        (raw("GET", "/v1/sessions/999999999"), 404, "session_not_found", ""),
        (raw("GET", "/v1/locks/x/queue?around=999999999"), 404, "grant_not_found", "grant 999999999 neither holds x"),
        (raw("GET", "/v1/nonsense"), 404, "not_found", ""),
        (raw("GET", "/nonsense"), 404, "not_found", ""),
        (raw("PATCH", "/v1/grants/01ARZ3NDEKTSV4RRFFQ69G5FAV"), 405, "method_not_allowed", ""),
    ]
}

#[test]
fn every_invalid_request_gets_an_answer_that_names_the_problem_and_the_server_continues() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let cases =
            [bad_parameters(), bad_queries_of_lists(), bad_names_and_headers(), not_there_not_allowed_or_too_large()].concat();
        let mut complaints = Vec::new();
        for (index, (request, status, code, word)) in cases.iter().enumerate() {
            let node = &cluster.nodes[index % NODES];
            let (found, content_type, problem) = request.send(node.url.trim_start_matches("http://")).await;
            let fine = (found, problem["code"].as_str()) == (*status, Some(*code))
                && content_type.starts_with("application/problem+json")
                && problem["retryable"].is_boolean()
                && problem["status"].as_u64() == Some(u64::from(*status))
                && problem["title"].is_string()
                // An answer must not show the names of the program's own types.
                && !["struct ", "enum ", "newtype"].iter().any(|word| problem.to_string().contains(word))
                && problem.to_string().to_lowercase().contains(&word.to_lowercase());
            if !fine {
                let shown = format!("{:?}", Raw { body: request.body.iter().copied().take(80).collect(), ..request.clone() });
                complaints.push(format!("{shown:.300}\n  wanted {status} {code} {word}, got {found} {content_type} {problem}"));
            }
        }
        assert!(complaints.is_empty(), "{} of {} cases:\n{}", complaints.len(), cases.len(), complaints.join("\n"));
        for index in 0..NODES {
            assert!(!cluster.nodes[index].has_exited(), "node {} has ended", index + 1);
            let client = cluster.client(index);
            assert!(client.queue("x").await.is_empty(), "no refused request is in a queue");
            let grant = client.acquire("x", "").await;
            client.release(&grant.id).await;
        }
    });
}

#[test]
fn requests_just_within_a_limit_are_accepted() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let address = cluster.nodes[0].url.trim_start_matches("http://").to_owned();
        let deep = vec!["a"; 32].join("%2F");
        let taken = [
            (raw("POST", &format!("/v1/locks/{}", "n".repeat(512))), 200),
            (raw("POST", "/v1/locks/orders%2F42?wait=10m&ttl=1h"), 200),
            (raw("POST", "/v1/locks/short?ttl=1s&wait=0"), 200),
            (raw("POST", &format!("/v1/locks/own?owner={}", "o".repeat(256))), 200),
            (raw("POST", "/v1/locks/sem?limit=3&permits=3"), 200),
            (raw("POST", "/v1/locks/number").json(r#"{"wait":5,"ttl":"90s","meta":{"a":"b"}}"#), 200),
            (raw("POST", "/v1/locks/uuid").with(&format!("{KEY}{}", uuid::Uuid::now_v7())), 200),
            (raw("PUT", "/v1/nodes/large").body(vec![b'x'; 1024 * 1024]), 201),
            (raw("PUT", "/v1/nodes/empty"), 201),
            (raw("PUT", &format!("/v1/nodes/{}?parents", deep.replace("%2F", "/"))), 201),
            // A prefix need not be a name.
            (raw("GET", &format!("/v1/events?prefix={}", "p".repeat(512))), 200),
            (raw("GET", "/v1/elections?prefix=%00"), 200),
            (raw("GET", &format!("/v1/grants?prefix=%00&owner={}", "o".repeat(256))), 200),
            (raw("GET", "/v1/history?prefix=2-lock-0000000000"), 200),
        ];
        for (request, status) in taken {
            let (found, _, answer) = request.send(&address).await;
            let shown = Raw { body: Vec::new(), ..request };
            assert_eq!(found, status, "{shown:?}: {answer}");
        }
        let client = cluster.client(1);
        let large = client.send(&Call::get("/v1/nodes/large")).await.expect_status(200);
        assert_eq!(large.text.len(), 1024 * 1024);
    });
}

/// The message repeats a wrong value. A regression test: escaped, it was seven times as long as the request.
#[test]
fn a_long_wrong_body_gets_a_short_answer() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let body = format!("\"{}\"", "\u{7f}".repeat(1_570_000));
        for route in ["/v1/txn", "/v1/batch"] {
            let answer =
                cluster.client(0).once(&Call::post(route).with("content-type", "application/json").body(body.clone())).await;
            assert!(answer.text.len() < 8_192, "{} bytes", answer.text.len());
            answer.expect_problem(400, "bad_request");
        }
    });
}
