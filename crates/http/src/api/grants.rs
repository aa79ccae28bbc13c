//! The calls on a grant: acquire, get, renew, downgrade, upgrade, release.

use crate::{
    api::hold,
    edge::answer,
    edge::delivery::Undelivered,
    edge::error::{of_change, of_read, problem_of},
    edge::headers,
    edge::names::{lock_name, refuse_reserved},
    edge::problem::Problem,
    edge::request::{Received, ReceivedBody},
    edge::request_kind::RequestKind,
};
use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use fairhold_node::{
    Node,
    api::{AcquireCall, Acquired, GrantLookup},
};
use fairhold_state::command::{Acquire, Claimant, IfBusy, Owner, Rejection, Want};
use fairhold_types::{GrantId, LockName, Mode, call, duration::millis, limits::SESSION_TIMEOUT_DEFAULT, time::WallMillis};
use http::{StatusCode, header};
use openraft_rt::AsyncRuntime;

/// `POST /v1/locks/{name}`
pub(crate) async fn acquire<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let lock = lock_name(&received.segment()?)?;
    let (id, id_given) = received.key_or_new(&node)?;
    let (call, response_mode) = single_lock_call(&received, body, lock, id, id_given)?;
    // The call may wait for minutes, and needs no more of the request.
    drop(received);
    acquire_and_answer(response_mode, node, call).await
}

/// Acquires the grant and answers in the mode that the caller chose.
pub(crate) async fn acquire_and_answer<RT: AsyncRuntime>(
    response_mode: ResponseMode,
    node: Node<RT>,
    call: AcquireCall,
) -> Result<Response, Problem> {
    match response_mode {
        ResponseMode::Answer => answer_once(&node, call).await,
        // In a box, so that the other requests need no room for it.
        ResponseMode::Stream => Box::pin(hold::answer(node, call)).await,
    }
}

/// Acquires the grant and answers once.
async fn answer_once<RT: AsyncRuntime>(node: &Node<RT>, call: AcquireCall) -> Result<Response, Problem> {
    let id = call.acquire.grant;
    let id_given = call.acquire.id_given;
    let answer = node.acquire(call).await;
    let now = node.wall_now();
    let acquired = match answer {
        Ok(acquired) => acquired,
        Err(error) => {
            let caller_lacks_id = error.is_unknown() && !id_given;
            let problem = problem_of(error, RequestKind::Acquire { id, id_given, now });
            return if caller_lacks_id { Ok(unknown_outcome(node, id, problem)) } else { Err(problem) };
        }
    };
    match acquired.value {
        Acquired::Held(view) => {
            let attempt_to_abandon = view.attempt_to_abandon;
            let mut response = answer::json(StatusCode::OK, acquired.revision, &answer::grant(view, now))?;
            if let Some(attempt) = attempt_to_abandon {
                let node = node.clone();
                let undelivered = Undelivered::on_loss(move || node.abandon_soon(id, attempt));
                response.extensions_mut().insert(undelivered);
            }
            Ok(response)
        }
        Acquired::Queued(view) => {
            let location = answer::header_value(format!("/v1/grants/{}", view.id))?;
            let mut response = answer::json(StatusCode::ACCEPTED, acquired.revision, &answer::grant(view, now))?;
            response.headers_mut().insert(header::LOCATION, location);
            Ok(response)
        }
    }
}

/// The answer to an acquire whose outcome is unknown. It names the id that the server generated: if the answer does not arrive,
/// nobody can retry with that id, so the node ends the grant.
fn unknown_outcome<RT: AsyncRuntime>(node: &Node<RT>, id: GrantId, problem: Problem) -> Response {
    let (mut response, node) = (problem.into_response(), node.clone());
    response.extensions_mut().insert(Undelivered::on_loss(move || node.release_unknown_soon(id)));
    response
}

/// `POST /v1/locks`
pub(crate) async fn acquire_many<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_list::<RT>(request).await?;
    let (id, id_given) = received.key_or_new(&node)?;
    let mut params: call::AcquireMany = received.params(body)?;
    let options = params.take_options();
    let wants = params.locks.into_vec();
    wants.iter().try_for_each(|want| refuse_reserved(&want.name))?;
    let wants = wants.into_iter().map(|want| Want { lock: want.name, mode: want.mode }).collect();
    let (call, response_mode) = acquire_call(&received, options, wants, id, id_given)?;
    drop(received);
    acquire_and_answer(response_mode, node, call).await
}

/// How the server answers an acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseMode {
    /// With one response.
    Answer,
    /// `hold=stream`: with a stream that lasts as long as the caller reads it.
    Stream,
}

/// Converts a request for one lock to the node's call and its response mode.
pub(crate) fn single_lock_call(
    received: &Received,
    body: ReceivedBody,
    lock: LockName,
    id: GrantId,
    id_given: bool,
) -> Result<(AcquireCall, ResponseMode), Problem> {
    let params: call::Acquire = received.params(body)?;
    let mode = params.mode.unwrap_or_default();
    acquire_call(received, params, vec![Want { lock, mode }], id, id_given)
}

/// Converts any request for a grant to the node's call and its response mode, and checks the rules between its options.
pub(crate) fn acquire_call(
    received: &Received,
    params: call::Acquire,
    wants: Vec<Want>,
    id: GrantId,
    id_given: bool,
) -> Result<(AcquireCall, ResponseMode), Problem> {
    let limit = params.limit.map(call::PermitLimit::get);
    let permits = params.permits.map_or(1, call::Permits::get);
    if limit.is_some_and(|limit| permits > limit) {
        return Err(Problem::bad_request("the parameter \"permits\" must not exceed the parameter \"limit\""));
    }
    if params.mode == Some(Mode::Shared) && limit.is_some_and(|limit| limit > 1) {
        return Err(Problem::bad_request("the parameter \"mode\": shared is only for locks with a limit of 1"));
    }
    let response_mode = response_mode(&params)?;
    let call = AcquireCall {
        wait: params.wait.map(call::Wait::get).unwrap_or_default(),
        respond_async: headers::respond_async(received.headers()),
        timeout: received.timeout,
        acquire: Acquire {
            grant: id,
            id_given,
            wants,
            claimant: claimant(&params)?,
            // The node sets this, from `wait` and `respond_async`.
            if_busy: IfBusy::Queue,
            limit,
            permits,
            priority: params.priority.map_or(0, call::Priority::get),
            owner: owner(received, params.owner),
            meta: params.meta.map(call::MetaPairs::into_inner).unwrap_or_default(),
            lock_delay_ms: params.lock_delay.map_or(0, call::LockDelay::millis),
            reentrant: params.reentrant,
            max_hold_ms: params.max_hold.map(call::MaxHold::millis),
            value: None,
            // The node sets this, when it proposes the command.
            at: WallMillis(0),
        },
    };
    Ok((call, response_mode))
}

fn response_mode(params: &call::Acquire) -> Result<ResponseMode, Problem> {
    match (params.hold, params.session) {
        (None, _) => Ok(ResponseMode::Answer),
        (Some(call::HoldMode::Stream), None) => Ok(ResponseMode::Stream),
        (Some(call::HoldMode::Stream), Some(_)) => Err(Problem::bad_request(
            "pass either \"hold\" or \"session\", not both: with hold=stream the connection is the session",
        )),
    }
}

fn claimant(params: &call::Acquire) -> Result<Claimant, Problem> {
    match (params.session, params.ttl) {
        (Some(_), Some(_)) => {
            Err(Problem::bad_request("pass either \"ttl\" or \"session\", not both: the session has its own ttl"))
        }
        (Some(session), None) => Ok(Claimant::Session(session)),
        (None, ttl) => Ok(Claimant::Anonymous { timeout_ms: ttl.map_or(millis(SESSION_TIMEOUT_DEFAULT), call::Ttl::millis) }),
    }
}

/// The owner that the caller named, or else the client. An empty name would identify nobody.
fn owner(received: &Received, params: Option<call::OwnerName>) -> Owner {
    match params.map(call::OwnerName::into_string).filter(|owner| !owner.is_empty()) {
        Some(text) => Owner { text, given: true },
        None => Owner { text: received.caller(), given: false },
    }
}

/// `GET /v1/grants/{id}`
pub(crate) async fn show<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::GetGrant = received.query()?;
    let wait = params.wait.map(call::Wait::get).unwrap_or_default();
    let read = received.read_options(params.consistency)?;
    let found = node.grant(received.grant()?, wait, read).await.map_err(of_read)?;
    match found.value {
        GrantLookup::Live(view) => answer::json(StatusCode::OK, found.revision, &answer::grant(*view, node.wall_now())),
        GrantLookup::Ended { reason, note } => Err(of_read(Rejection::GrantEnded { reason, note }.into())),
        GrantLookup::Unknown => Err(of_read(Rejection::NoGrant.into())),
    }
}

/// `POST /v1/grants/{id}/renew`
pub(crate) async fn renew<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let params: call::Renew = received.params(body)?;
    let (id, key) = (received.grant()?, received.key()?);
    let renewed = node.renew_grant(id, key, params.ttl.map(call::Ttl::get), received.timeout).await.map_err(of_change)?;
    let response = answer::json(StatusCode::OK, renewed.revision, &answer::renewed_grant(id, renewed.value, node.wall_now()))?;
    Ok(answer::with_members(response, node.members_index()))
}

/// `POST /v1/grants/{id}/downgrade`
pub(crate) async fn downgrade<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let call::Empty {} = received.params(body)?;
    let downgraded = node.downgrade(received.grant()?, received.key()?, received.timeout).await.map_err(of_change)?;
    answer::json(StatusCode::OK, downgraded.revision, &answer::grant(downgraded.value, node.wall_now()))
}

/// `POST /v1/grants/{id}/upgrade`
pub(crate) async fn upgrade<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let params: call::Upgrade = received.params(body)?;
    let wait = params.wait.map(call::Wait::get).unwrap_or_default();
    let upgraded = node.upgrade(received.grant()?, received.key()?, wait, received.timeout).await.map_err(of_change)?;
    answer::json(StatusCode::OK, upgraded.revision, &answer::grant(upgraded.value, node.wall_now()))
}

/// `DELETE /v1/grants/{id}`
pub(crate) async fn release<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::Release = received.query()?;
    let (grant, timeout) = (received.grant()?, received.timeout);
    drop(received);
    let revision = node.release(grant, params.session, timeout).await.map_err(of_change)?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::request::HttpPeer;
    use axum::body::Body;
    use openraft_rt_tokio::TokioRuntime;
    use std::time::Duration;

    const SESSION: &str = "0123456789abcdef0123456789abcdef";

    fn post(uri: &str) -> http::request::Builder {
        Request::post(uri).extension(HttpPeer::at("::ffff:127.0.0.1".parse().unwrap())).header("user-agent", "curl/8.5.0")
    }

    async fn call(request: Request) -> Result<AcquireCall, Problem> {
        let (received, body) = Received::with_params::<TokioRuntime>(request).await?;
        let lock = lock_name(&received.segment()?)?;
        single_lock_call(&received, body, lock, GrantId::from_ulid(1), true).map(|(call, _)| call)
    }

    async fn call_to(uri: &str) -> Result<AcquireCall, Problem> {
        call(post(uri).body(Body::empty()).unwrap()).await
    }

    #[tokio::test]
    async fn a_call_without_parameters_has_defaults() {
        let call = call_to("/v1/locks/deploy").await.unwrap();
        let acquire = call.acquire;
        assert_eq!((call.wait, call.timeout, call.respond_async), (Duration::ZERO, Duration::from_secs(10), false));
        assert_eq!(acquire.wants, [Want { lock: LockName::parse("deploy").unwrap(), mode: Mode::Exclusive }]);
        assert_eq!(acquire.claimant, Claimant::Anonymous { timeout_ms: 30_000 });
        assert_eq!(acquire.owner, Owner { text: "curl@127.0.0.1".to_owned(), given: false });
        assert_eq!((acquire.limit, acquire.permits, acquire.priority, acquire.lock_delay_ms), (None, 1, 0, 0));
    }

    #[tokio::test]
    async fn every_parameter_arrives_from_the_query_and_from_a_body() {
        let query = format!("wait=30s&session={SESSION}&limit=5&permits=2&owner=ci-7&priority=-3&lock_delay=10s");
        let numbers = r#""wait":30,"limit":5,"permits":2,"priority":-3"#;
        let texts = format!(r#""session":"{SESSION}","owner":"ci-7","lock_delay":"10s","meta":{{"a":"b"}}"#);
        let body = format!("{{{numbers},{texts}}}");
        let from_query = call_to(&format!("/v1/locks/orders%2F42?{query}&meta=%7B%22a%22:%22b%22%7D")).await.unwrap();
        let json =
            post("/v1/locks/orders%2F42").header("content-type", "application/json; charset=utf-8").body(body.into()).unwrap();
        let from_body = call(json).await.unwrap();
        for call in [from_query, from_body] {
            let acquire = call.acquire;
            assert_eq!(call.wait, Duration::from_secs(30));
            assert_eq!(acquire.wants[0].lock.as_str(), "orders/42");
            assert_eq!(acquire.claimant, Claimant::Session(SESSION.parse().unwrap()));
            assert_eq!((acquire.limit, acquire.permits, acquire.priority, acquire.lock_delay_ms), (Some(5), 2, -3, 10_000));
            assert_eq!(acquire.owner, Owner { text: "ci-7".to_owned(), given: true });
            assert_eq!(acquire.meta["a"], "b");
        }
    }

    #[tokio::test]
    async fn an_invalid_request_is_refused() {
        for uri in [
            "/v1/locks/a%2F%2Fb",
            "/v1/locks/%zz",
            "/v1/locks/%ff",
            "/v1/locks/%2e%2e",
            "/v1/locks/a%2F",
            "/v1/locks/a%00",
            "/v1/locks/a?ttl=999ms",
            "/v1/locks/a?ttl=3601s",
            "/v1/locks/a?wait=601s",
            "/v1/locks/a?lock_delay=3601s",
            "/v1/locks/a?permits=0",
            "/v1/locks/a?limit=0",
            "/v1/locks/a?limit=1000001",
            "/v1/locks/a?limit=2&permits=3",
            "/v1/locks/a?limit=2&mode=shared",
            "/v1/locks/a?mode=Shared",
            "/v1/locks/a?session=7",
            "/v1/locks/a?hold",
            "/v1/locks/a?hold=true",
            "/v1/locks/a?hold=stream&session=0123456789abcdef0123456789abcdef",
            "/v1/locks/a?reentrant=yes",
            "/v1/locks/a?max_hold=999ms",
            "/v1/locks/a?max_hold=31d",
            "/v1/locks/a?ttl=10s&session=0123456789abcdef0123456789abcdef",
        ] {
            assert!(call_to(uri).await.is_err(), "{uri} was accepted");
        }
        for uri in [
            "/v1/locks/a?ttl=1s",
            "/v1/locks/a?ttl=1h",
            "/v1/locks/a?wait=10m",
            "/v1/locks/a?limit=1&mode=shared",
            "/v1/locks/a?hold=stream&ttl=1s",
            "/v1/locks/a?reentrant&max_hold=1s",
        ] {
            assert!(call_to(uri).await.is_ok(), "{uri} was refused");
        }
    }

    #[tokio::test]
    async fn a_form_is_refused_with_the_content_type_to_send_instead() {
        let form = |body: &'static str| {
            let form = post("/v1/locks/a").header("content-type", "application/x-www-form-urlencoded");
            form.body(Body::from(body)).unwrap()
        };
        let problem = format!("{:?}", call(form("wait=30s")).await.unwrap_err());
        assert!(problem.contains("Content-Type is application/x-www-form-urlencoded"), "{problem}");
        assert!(call(form("")).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_is_read_to_its_end_before_it_is_refused() {
        use fairhold_types::limits::PARAMS_BYTES_MAX;
        use futures_util::{StreamExt, stream};
        use std::sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        };
        let read = Arc::new(AtomicUsize::new(0));
        let send = |bytes: usize| {
            let read = Arc::clone(&read);
            let chunks = stream::iter(vec![vec![b' '; bytes - 2], b"{}".to_vec()]);
            let counted = chunks.map(move |chunk| {
                read.fetch_add(chunk.len(), Ordering::Relaxed);
                Ok::<_, std::io::Error>(chunk)
            });
            call(post("/v1/locks/a").body(Body::from_stream(counted)).unwrap())
        };
        assert!(send(PARAMS_BYTES_MAX).await.is_ok());
        let before = read.load(Ordering::Relaxed);
        assert!(format!("{:?}", send(PARAMS_BYTES_MAX + 1).await.unwrap_err()).contains("TooLarge"));
        assert_eq!(read.load(Ordering::Relaxed) - before, PARAMS_BYTES_MAX + 1);
    }
}
