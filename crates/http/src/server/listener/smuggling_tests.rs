//! Requests whose end two servers could see at different bytes, as raw bytes on real sockets. Each is followed by a second
//! request, which the server must answer only if the first is unambiguous.

use super::{
    TIMEOUTS,
    tests::{Server, read_all, send, serve},
};
use axum::{Router, routing::any};
use http::Method;

/// The status of an answer that is 400 because the body is malformed.
const BAD_BODY: &str = "400";
const NEXT: &str = "GET /hidden HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const HIDDEN: &str = "the second request was answered";

fn server() -> Server {
    let echo = |method: Method, body: String| async move { format!("{method} got {body:?}") };
    serve(TIMEOUTS, Router::new().route("/", any(echo)).route("/hidden", any(|| async { HIDDEN })))
}

/// The statuses of all answers.
fn statuses(answers: &str) -> Vec<&str> {
    let lines = answers.match_indices("HTTP/1.").filter_map(|(at, _)| answers.get(at + "HTTP/1.1 ".len()..)?.get(..3));
    lines.filter(|status| status.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

/// Sends a request and a second one. A complaint, unless the statuses of the answers are these.
async fn complaint(server: &Server, request: &str, expected: &[&str]) -> Option<String> {
    let answers = read_all(&mut send(server, &format!("{request}{NEXT}")).await).await;
    let hidden_answered = answers.contains(HIDDEN);
    let fits = statuses(&answers) == expected && hidden_answered == expected.ends_with(&["200", "200"]);
    (!fits).then(|| format!("{request:.200?}: expected {expected:?}\n{answers}"))
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

/// Each request is refused with this status, and its connection closed.
async fn assert_refused(cases: &[(&str, &str)]) {
    let server = server();
    let mut complaints = Vec::new();
    for (request, status) in cases {
        complaints.extend(complaint(&server, request, &[status]).await);
        // The same behind a request that is answered.
        let behind = format!("GET / HTTP/1.1\r\nHost: x\r\n\r\n{request}");
        complaints.extend(complaint(&server, &behind, &["200", status]).await);
    }
    assert_none(&complaints);
}

/// A request with these headers and this body.
fn post(headers: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n{body}")
}

/// Requests with these headers, each with the same body.
async fn assert_headers_refused(cases: &[(&str, &str)], body: &str) {
    let requests: Vec<(String, &str)> = cases.iter().map(|(headers, status)| (post(headers, body), *status)).collect();
    let cases: Vec<(&str, &str)> = requests.iter().map(|(request, status)| (request.as_str(), *status)).collect();
    assert_refused(&cases).await;
}

#[tokio::test]
async fn an_unambiguous_request_is_answered_and_so_is_the_next_one() {
    let server = server();
    let mut complaints = Vec::new();
    for request in [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET http://other/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
        "VERY-LONG-METHOD / HTTP/1.1\r\nHost: x\r\n\r\n",
        &post("Content-Length:5", "hello"),
        &post("content-length:\t005 ", "a\n\r\nb"),
        &post("Transfer-Encoding: Chunked", "5\r\nhello\r\n0\r\n\r\n"),
        &post("transfer-encoding:  chunked ", "5;name=\"value\" ;other\r\nhello\r\n000\r\n\r\n"),
        &post("Transfer-Encoding: chunked", "9\r\n0\r\n\r\nGET \r\n0\r\nTrailer: a\r\n\r\n"),
        &post("Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding", "0\r\n\r\n"),
    ] {
        complaints.extend(complaint(&server, request, &["200", "200"]).await);
    }
    assert_none(&complaints);
    // In pieces, as if the network had cut it between any two bytes.
    let request = post("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n");
    for cut in 1..request.len() {
        let mut client = send(&server, &request[..cut]).await;
        tokio::io::AsyncWriteExt::write_all(&mut client, format!("{}{NEXT}", &request[cut..]).as_bytes()).await.unwrap();
        let answers = read_all(&mut client).await;
        assert!(answers.contains("POST got \"hello\"") && answers.contains(HIDDEN), "cut at {cut}: {answers}");
    }
}

#[tokio::test]
async fn two_lengths_are_refused() {
    let cases = [
        ("Content-Length: 0\r\nTransfer-Encoding: chunked", "400"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0", "400"),
        ("Transfer-Encoding: chunked\r\nContent-Length: nonsense", "400"),
        ("Content-Length: 5\r\nContent-Length: 6", "400"),
        ("Content-Length: 5\r\nContent-Length: 5", "400"),
        ("Content-Length: 5\r\ncontent-length:  05", "400"),
        ("Content-Length: 5, 5", "400"),
        ("Content-Length: 5, 6", "400"),
    ];
    assert_headers_refused(&cases, "0\r\n\r\n").await;
}

#[tokio::test]
async fn a_length_that_is_not_made_of_digits_is_refused() {
    let long = format!("Content-Length: {}5", "0".repeat(200));
    let cases = [
        ("Content-Length:", "400"),
        ("Content-Length: +5", "400"),
        ("Content-Length: -5", "400"),
        ("Content-Length: -0", "400"),
        ("Content-Length: 0x5", "400"),
        ("Content-Length: 5.0", "400"),
        ("Content-Length: 5 5", "400"),
        ("Content-Length: 5;", "400"),
        ("Content-Length: \"5\"", "400"),
        ("Content-Length: five", "400"),
        ("Content-Length: \u{665}", "400"),
        ("Content-Length: 18446744073709551616", "400"),
        ("Content-Length: 18446744073709551615", "431"),
        (&long, "400"),
    ];
    assert_headers_refused(&cases, "hello").await;
}

#[tokio::test]
async fn a_coding_other_than_chunked_is_refused() {
    let cases = [
        ("Transfer-Encoding:", "400"),
        ("Transfer-Encoding: identity", "400"),
        ("Transfer-Encoding: gzip", "400"),
        ("Transfer-Encoding: xchunked", "400"),
        ("Transfer-Encoding: \"chunked\"", "400"),
        ("Transfer-Encoding: chunked;q=1", "400"),
        ("Transfer-Encoding: chunked, identity", "400"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "400"),
        ("Transfer-Encoding: chunked,", "400"),
        ("Transfer-Encoding: \u{b}chunked", "400"),
        ("Transfer-Encoding: chunked\u{0}", "400"),
        ("Transfer-Encoding: chunked, chunked", "501"),
        ("Transfer-Encoding: identity, chunked", "501"),
        ("Transfer-Encoding: ,chunked", "501"),
        ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "501"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "501"),
        ("Transfer-Encoding : chunked", "400"),
        ("Transfer-Encoding\t: chunked", "400"),
        (" Transfer-Encoding: chunked", "400"),
        ("X: y\r\n Transfer-Encoding: chunked", "400"),
        ("Transfer-Encoding:\r\n chunked", "400"),
        ("Transfer-Encoding: chun\r\n ked", "400"),
    ];
    assert_headers_refused(&cases, "0\r\n\r\n").await;
    assert_refused(&[(
        "POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "400",
    )])
    .await;
}

#[tokio::test]
async fn a_malformed_head_is_refused() {
    assert_refused(&[
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\n Host: x\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\tc\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n \r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\u{0}c\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\u{1}c\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\u{7f}c\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA\u{0}: b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nExpect: foo\r\n\r\n", "417"),
        ("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n", "405"),
        ("CONNECT / HTTP/1.1\r\nHost: x\r\n\r\n", "405"),
        ("GET /\r\n", "400"),
        ("GET / \r\n\r\n", "400"),
        ("GET / HTTP/0.9\r\nHost: x\r\n\r\n", "400"),
        ("GET / HTTP/1.2\r\nHost: x\r\n\r\n", "400"),
        ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", "400"),
        ("GET / http/1.1\r\nHost: x\r\n\r\n", "400"),
        ("GET / HTTP/1.1 \r\nHost: x\r\n\r\n", "400"),
        ("GET / a HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        ("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        ("GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        ("G(T / HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        (" GET / HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        ("GET /\u{0} HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        (&format!("{} / HTTP/1.1\r\nHost: x\r\n\r\n", "M".repeat(20_000)), "431"),
    ])
    .await;
}

#[tokio::test]
async fn a_line_that_ends_with_a_bare_line_feed_is_refused() {
    assert_refused(&[
        ("\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        ("GET / HTTP/1.1\nHost: x\n\n", "400"),
        ("GET / HTTP/1.1\nHost: x\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\n\n", "400"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
        (&post("Transfer-Encoding: chunked", "5\nhello\r\n0\r\n\r\n"), BAD_BODY),
        (&post("Transfer-Encoding: chunked", "5;a\nhello\r\n0\r\n\r\n"), BAD_BODY),
        (&post("Transfer-Encoding: chunked", "5\r\nhello\n0\r\n\r\n"), BAD_BODY),
        (&post("Transfer-Encoding: chunked", "0\n\r\n"), BAD_BODY),
        (&post("Transfer-Encoding: chunked", "0\r\n\n"), BAD_BODY),
        (&post("Transfer-Encoding: chunked", "0\r\nA: b\n\r\n"), BAD_BODY),
        (&post("Transfer-Encoding: chunked", "0\r\nA: b\n\n"), BAD_BODY),
    ])
    .await;
}

#[tokio::test]
async fn a_malformed_chunk_is_refused() {
    let (zeros, extension) = (format!("{}5", "0".repeat(200)), format!("5;{}", "a".repeat(20_000)));
    let bodies = [
        "",
        "\r\n",
        "x\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "5\r\nhell\r\n0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "10000000000000000\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "0\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\nA : b\r\n\r\n",
        "0\r\nA: b\u{0}\r\n\r\n",
        "0\r\nA: b\r\n c\r\n\r\n",
        &format!("{zeros}\r\nhello\r\n0\r\n\r\n"),
        &format!("{extension}\r\nhello\r\n0\r\n\r\n"),
    ];
    let requests: Vec<String> = bodies.iter().map(|body| post("Transfer-Encoding: chunked", body)).collect();
    let cases: Vec<(&str, &str)> = requests.iter().map(|request| (request.as_str(), BAD_BODY)).collect();
    assert_refused(&cases).await;
}

#[tokio::test]
async fn what_follows_the_preface_of_http2_is_not_read_as_http1() {
    let server = server();
    let answers = read_all(&mut send(&server, &format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{NEXT}")).await).await;
    assert!(!answers.contains(HIDDEN), "{answers}");
}

#[tokio::test]
async fn a_request_with_trailers_that_its_handler_does_not_read_ends_its_connection_if_they_are_malformed() {
    let server = server();
    let request = "POST /hidden HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n";
    let answers = read_all(&mut send(&server, &format!("{request}{NEXT}")).await).await;
    assert_eq!(statuses(&answers).len(), 1, "{answers}");
}
