//! The calls on a grant: take it, look at it, renew it, give it back.

use crate::{
    answer,
    asked::RequestKind,
    delivery::Undelivered,
    error::problem_of,
    headers, hold,
    names::{lock_name, refuse_reserved},
    params::{KnownParams, Params, expected},
    problem::Problem,
    request::{Received, ReceivedBody, up_to},
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
use fairhold_types::{
    GrantId, LockName, Mode, SessionId, dto, duration,
    limits::{
        LOCK_DELAY_MAX, LOCKS_TOGETHER_MAX, MAX_HOLD_MAX, MAX_HOLD_MIN, OWNER_BYTES_MAX, PERMITS_MAX, SESSION_TIMEOUT_DEFAULT,
        SESSION_TIMEOUT_MAX, SESSION_TIMEOUT_MIN, WAIT_MAX,
    },
    time::WallMillis,
};
use http::{StatusCode, header};
use openraft_rt::AsyncRuntime;
use std::collections::BTreeSet;

pub(crate) const ACQUIRE: KnownParams = KnownParams {
    now: &[
        "wait",
        "ttl",
        "session",
        "mode",
        "limit",
        "permits",
        "owner",
        "priority",
        "lock_delay",
        "max_hold",
        "meta",
        "reentrant",
        "hold",
    ],
    later: &[],
};
pub(crate) const ACQUIRE_MANY: KnownParams = KnownParams {
    now: &["locks", "wait", "ttl", "session", "owner", "priority", "lock_delay", "max_hold", "meta", "hold"],
    later: &[],
};
pub(crate) const LOOK: KnownParams = KnownParams { now: &["wait", "consistency"], later: &[] };
pub(crate) const RENEW: KnownParams = KnownParams { now: &["ttl"], later: &[] };
pub(crate) const DOWNGRADE: KnownParams = KnownParams { now: &[], later: &[] };
pub(crate) const UPGRADE: KnownParams = KnownParams { now: &["wait"], later: &[] };
pub(crate) const RELEASE: KnownParams = KnownParams { now: &["session"], later: &["reason"] };

/// `POST /v1/locks/{name}`
pub(crate) async fn acquire<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let lock = lock_name(&received.segment()?)?;
    let (id, given) = received.key_or_new(&node)?;
    let (call, manner) = acquire_call(&received, body, lock, id)?;
    answer_in(manner, node, call, given).await
}

/// Takes the grant, and answers as the caller wishes.
pub(crate) async fn answer_in<RT: AsyncRuntime>(
    manner: ResponseMode,
    node: Node<RT>,
    mut call: AcquireCall,
    given: bool,
) -> Result<Response, Problem> {
    call.acquire.id_given = given;
    match manner {
        ResponseMode::Answer => answer_once(&node, call, given).await,
        ResponseMode::Stream => hold::answer(node, call, given).await,
    }
}

/// Takes the grant, and leaves it to the caller.
async fn answer_once<RT: AsyncRuntime>(node: &Node<RT>, call: AcquireCall, given: bool) -> Result<Response, Problem> {
    let id = call.acquire.grant;
    let answer = node.acquire(call).await;
    let now = node.wall_now();
    let acquired = match answer {
        Ok(acquired) => acquired,
        Err(error) => {
            let unknown_to_all = error.is_unknown() && !given;
            let problem = problem_of(error, RequestKind::Acquire { id, given, now });
            return if unknown_to_all { Ok(known_by_answer(node, id, problem)) } else { Err(problem) };
        }
    };
    match acquired.value {
        Acquired::Held(view) => {
            let leaves_with_caller = view.leaves_with_caller;
            let mut response = answer::json(StatusCode::OK, acquired.revision, &answer::grant(view, now))?;
            if let Some(attempt) = leaves_with_caller {
                let node = node.clone();
                let undelivered = Undelivered::then(move || node.abandon_soon(id, attempt));
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

/// The answer to an acquire whose outcome is not known. It names the id that the server made: where it does not arrive, nobody
/// can ask again with that id, and nobody can hold by it.
fn known_by_answer<RT: AsyncRuntime>(node: &Node<RT>, id: GrantId, problem: Problem) -> Response {
    let (mut response, node) = (problem.into_response(), node.clone());
    response.extensions_mut().insert(Undelivered::then(move || node.release_unknown_soon(id)));
    response
}

/// `POST /v1/locks`
pub(crate) async fn acquire_many<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_list::<RT>(request).await?;
    let (id, given) = received.key_or_new(&node)?;
    let (call, manner) = acquire_many_call(&received, body, id)?;
    answer_in(manner, node, call, given).await
}

/// How the caller of an acquire is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseMode {
    /// Once.
    Answer,
    /// `hold=stream`: for as long as it listens.
    Stream,
}

pub(crate) fn acquire_call(
    received: &Received,
    body: ReceivedBody,
    lock: LockName,
    grant: GrantId,
) -> Result<(AcquireCall, ResponseMode), Problem> {
    call_of(received, received.params(body, &ACQUIRE)?, lock, grant)
}

/// The same with parameters that were read elsewhere.
pub(crate) fn call_of(
    received: &Received,
    mut params: Params<'_>,
    lock: LockName,
    grant: GrantId,
) -> Result<(AcquireCall, ResponseMode), Problem> {
    let mode = params.mode("mode")?;
    let limit = params.count("limit", 1..=PERMITS_MAX)?;
    let permits = params.count("permits", 1..=PERMITS_MAX)?.unwrap_or(1);
    if limit.is_some_and(|limit| permits > limit) {
        return Err(Problem::bad_request("the parameter \"permits\" must not exceed the parameter \"limit\""));
    }
    if mode == Mode::Shared && limit.is_some_and(|limit| limit > 1) {
        return Err(Problem::bad_request("the parameter \"mode\": shared is only for locks with a limit of 1"));
    }
    let reentrant = params.flag("reentrant")?;
    let (mut call, manner) = common_call(received, &mut params, vec![Want { lock, mode }], grant)?;
    (call.acquire.limit, call.acquire.permits, call.acquire.reentrant) = (limit, permits, reentrant);
    Ok((call, manner))
}

/// The same for an election: it is exclusive, and the candidate comes with a value.
pub(crate) fn candidate_call(
    received: &Received,
    mut params: Params<'_>,
    election: LockName,
    grant: GrantId,
    value: String,
) -> Result<(AcquireCall, ResponseMode), Problem> {
    let wants = vec![Want { lock: election, mode: Mode::Exclusive }];
    let (mut call, manner) = common_call(received, &mut params, wants, grant)?;
    call.acquire.value = Some(value.into_bytes());
    Ok((call, manner))
}

fn acquire_many_call(received: &Received, body: ReceivedBody, grant: GrantId) -> Result<(AcquireCall, ResponseMode), Problem> {
    let mut params = received.params(body, &ACQUIRE_MANY)?;
    let wants = params.objects::<dto::Want>("locks", LOCKS_TOGETHER_MAX)?;
    let names: BTreeSet<&LockName> = wants.iter().map(|want| &want.name).collect();
    if names.is_empty() || names.len() != wants.len() {
        return Err(expected("locks", "a list of different locks, each named once, such as [{\"name\": \"orders\"}]"));
    }
    names.into_iter().try_for_each(refuse_reserved)?;
    let wants = wants.into_iter().map(|want| Want { lock: want.name, mode: want.mode }).collect();
    common_call(received, &mut params, wants, grant)
}

/// What one lock and several have in common: one permit each, of whatever limit they have.
fn common_call(
    received: &Received,
    params: &mut Params<'_>,
    wants: Vec<Want>,
    grant: GrantId,
) -> Result<(AcquireCall, ResponseMode), Problem> {
    let claimant = claimant(params)?;
    let manner = manner(params, &claimant)?;
    // An empty text would name nobody in the messages to others.
    let owner = match params.words("owner", OWNER_BYTES_MAX)?.filter(|owner| !owner.is_empty()) {
        Some(text) => Owner { text, given: true },
        None => Owner { text: received.caller(), given: false },
    };
    let lock_delay = params.duration("lock_delay", up_to(LOCK_DELAY_MAX))?.unwrap_or_default();
    let call = AcquireCall {
        wait: params.duration("wait", up_to(WAIT_MAX))?.unwrap_or_default(),
        respond_async: headers::respond_async(received.headers()),
        timeout: received.timeout,
        acquire: Acquire {
            grant,
            // Where the server made it, `answer_in` says so.
            id_given: true,
            wants,
            claimant,
            if_busy: IfBusy::Queue,
            limit: None,
            permits: 1,
            priority: params.signed("priority")?.unwrap_or(0),
            owner,
            meta: params.meta("meta")?,
            lock_delay_ms: duration::millis(lock_delay),
            reentrant: false,
            max_hold_ms: params.duration("max_hold", MAX_HOLD_MIN..=MAX_HOLD_MAX)?.map(duration::millis),
            value: None,
            at: WallMillis(0),
        },
    };
    Ok((call, manner))
}

fn manner(params: &mut Params<'_>, claimant: &Claimant) -> Result<ResponseMode, Problem> {
    match (params.text("hold", usize::MAX)?.as_deref(), claimant) {
        (None, _) => Ok(ResponseMode::Answer),
        (Some("stream"), Claimant::Anonymous { .. }) => Ok(ResponseMode::Stream),
        (Some("stream"), Claimant::Session(_)) => Err(Problem::bad_request(
            "pass either \"hold\" or \"session\", not both: with hold=stream the connection is the session",
        )),
        (Some(_), _) => Err(expected("hold", "stream")),
    }
}

fn claimant(params: &mut Params<'_>) -> Result<Claimant, Problem> {
    let ttl = params.duration("ttl", SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX)?;
    match (params.parsed::<SessionId>("session")?, ttl) {
        (Some(_), Some(_)) => {
            Err(Problem::bad_request("pass either \"ttl\" or \"session\", not both: the session has its own ttl"))
        }
        (Some(session), None) => Ok(Claimant::Session(session)),
        (None, ttl) => Ok(Claimant::Anonymous { timeout_ms: duration::millis(ttl.unwrap_or(SESSION_TIMEOUT_DEFAULT)) }),
    }
}

/// `GET /v1/grants/{id}`
pub(crate) async fn look<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let mut params = received.query(&LOOK)?;
    let wait = params.duration("wait", up_to(WAIT_MAX))?.unwrap_or_default();
    let read = received.read_options(&mut params)?;
    let found = node.grant(received.grant()?, wait, read).await.map_err(|error| problem_of(error, RequestKind::Read))?;
    match found.value {
        GrantLookup::Live(view) => answer::json(StatusCode::OK, found.revision, &answer::grant(*view, node.wall_now())),
        GrantLookup::Ended { reason, note } => {
            let rejection = Rejection::GrantEnded { reason, note };
            Err(problem_of(rejection.into(), RequestKind::Read))
        }
        GrantLookup::Unknown => Err(problem_of(Rejection::NoGrant.into(), RequestKind::Read)),
    }
}

/// `POST /v1/grants/{id}/renew`
pub(crate) async fn renew<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let ttl = received.params(body, &RENEW)?.duration("ttl", SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX)?;
    let (id, key) = (received.grant()?, received.key()?);
    let renewed = node.renew_grant(id, key, ttl, received.timeout).await;
    let renewed = renewed.map_err(|error| problem_of(error, RequestKind::Change))?;
    answer::json(StatusCode::OK, renewed.revision, &answer::renewed_grant(id, renewed.value, node.wall_now()))
}

/// `POST /v1/grants/{id}/downgrade`
pub(crate) async fn downgrade<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    received.params(body, &DOWNGRADE)?;
    let shared = node.downgrade(received.grant()?, received.key()?, received.timeout).await;
    let shared = shared.map_err(|error| problem_of(error, RequestKind::Change))?;
    answer::json(StatusCode::OK, shared.revision, &answer::grant(shared.value, node.wall_now()))
}

/// `POST /v1/grants/{id}/upgrade`
pub(crate) async fn upgrade<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let wait = received.params(body, &UPGRADE)?.duration("wait", up_to(WAIT_MAX))?.unwrap_or_default();
    let upgraded = node.upgrade(received.grant()?, received.key()?, wait, received.timeout).await;
    let upgraded = upgraded.map_err(|error| problem_of(error, RequestKind::Change))?;
    answer::json(StatusCode::OK, upgraded.revision, &answer::grant(upgraded.value, node.wall_now()))
}

/// `DELETE /v1/grants/{id}`
pub(crate) async fn release<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let session = received.query(&RELEASE)?.parsed::<SessionId>("session")?;
    let revision = node.release(received.grant()?, session, received.timeout).await;
    let revision = revision.map_err(|error| problem_of(error, RequestKind::Change))?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::PeerAddress;
    use axum::body::Body;
    use openraft_rt_tokio::TokioRuntime;
    use std::time::Duration;

    const SESSION: &str = "0123456789abcdef0123456789abcdef";

    fn post(uri: &str) -> http::request::Builder {
        Request::post(uri).extension(PeerAddress("::ffff:127.0.0.1".parse().unwrap())).header("user-agent", "curl/8.5.0")
    }

    async fn call(request: Request) -> Result<AcquireCall, Problem> {
        let (received, body) = Received::with_params::<TokioRuntime>(request).await?;
        let lock = lock_name(&received.segment()?)?;
        acquire_call(&received, body, lock, GrantId::from_ulid(1)).map(|(call, _)| call)
    }

    async fn call_to(uri: &str) -> Result<AcquireCall, Problem> {
        call(post(uri).body(Body::empty()).unwrap()).await
    }

    #[tokio::test]
    async fn the_shortest_call_is_enough() {
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
    async fn what_cannot_be_is_refused() {
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
            assert!(call_to(uri).await.is_err(), "{uri} was taken");
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
    async fn a_form_is_told_what_to_send_instead() {
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
