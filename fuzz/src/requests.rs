//! HTTP requests to a whole node, from the router to the machine: any request gets an answer that the contract knows.

use crate::memory::start_node;
use axum::{Router, body::Body, response::Response};
use fairhold_http::{Admin, Exposition, PeerAddress, ServerInfo, router};
use fairhold_types::dto::Host;
use http::{Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use std::{
    cell::RefCell,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

/// A node that has served so many is replaced by a new one: what a request does must not depend on all that ever came.
const REQUESTS_PER_NODE: usize = 2_000;
/// A request that waits is given up after this, as by a client that goes away.
const PATIENCE: Duration = Duration::from_millis(20);
/// A problem is shorter.
const PROBLEM_BYTES_MAX: usize = 64 * 1024;

struct Server {
    runtime: Runtime,
    router: Router,
    served: usize,
}

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

/// The bytes are a request as HTTP/1.1 writes it, more or less: `POST /v1/locks/a?wait=1s`, header lines, an empty line, a body.
pub fn run(bytes: &[u8]) {
    let Some(request) = request(bytes) else { return };
    let shown = format!("{} {}", request.method(), request.uri());
    SERVER.with_borrow_mut(|slot| {
        if slot.as_ref().is_some_and(|server| server.served >= REQUESTS_PER_NODE)
            && let Some(server) = slot.take()
        {
            server.runtime.shutdown_background();
        }
        let server = slot.get_or_insert_with(start);
        server.served += 1;
        let answered = server.router.clone().oneshot(request);
        let answer = server.runtime.block_on(async { tokio::time::timeout(PATIENCE, answered).await });
        match answer {
            Ok(Ok(answer)) => server.runtime.block_on(check(&shown, answer)),
            Ok(Err(never)) => match never {},
            // It waits, as it may have asked to.
            Err(_) => {}
        }
    });
}

fn start() -> Server {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime can be had");
    let node = runtime.block_on(start_node());
    let info = ServerInfo { version: "fuzz", host: Host::default };
    Server { router: router(node, info, Admin::open(), Exposition::default()), runtime, served: 0 }
}

/// A head that is none of HTTP's never gets as far as the router: `None`.
fn request(bytes: &[u8]) -> Option<Request<Body>> {
    let (head, body) = match bytes.windows(2).position(|pair| pair == b"\n\n") {
        Some(end) => (&bytes[..end], &bytes[end + 2..]),
        None => (bytes, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let (method, target) = first.split_at_checked(first.iter().position(|byte| *byte == b' ')?)?;
    let mut request = Request::builder().method(method).uri(target.get(1..)?);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line.get(colon + 1..)?.trim_ascii());
    }
    let request = request.extension(PeerAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    request.body(Body::from(body.to_vec())).ok()
}

async fn check(request: &str, answer: Response) {
    let status = answer.status();
    assert!(answer.headers().contains_key("fairhold-request-id"), "{request}: {status} without a request id");
    if !(status.is_client_error() || status.is_server_error()) {
        return;
    }
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{request}");
    if request.starts_with("HEAD ") {
        return;
    }
    let kind = answer.headers().get(CONTENT_TYPE).cloned();
    let body = Limited::new(answer.into_body(), PROBLEM_BYTES_MAX).collect().await.expect("a problem is short").to_bytes();
    assert_eq!(kind.expect("a problem has a type"), "application/problem+json", "{request}: {status} {body:?}");
    let problem: serde_json::Value = serde_json::from_slice(&body).expect("a problem is JSON");
    assert_eq!(problem["status"], status.as_u16(), "{request}: {problem}");
    for text in ["code", "title", "detail"] {
        assert!(problem[text].as_str().is_some_and(|text| !text.is_empty()), "{request}: no {text} in {problem}");
    }
    assert!(problem["retryable"].is_boolean(), "{request}: {problem}");
}
