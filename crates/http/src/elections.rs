//! Elections: standing for one, proclaiming, and asking or observing who leads.

use crate::{
    answer::{self, span},
    asked::RequestKind,
    error::problem_of,
    grants::{self, candidate_call},
    headers,
    names::lock_name,
    params::{KnownParams, Params, expected},
    problem::{NO_STORE, Problem},
    request::{LongPoll, Received},
    stream::StreamFormat,
};
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use fairhold_node::{
    Node,
    api::At,
    elections::{LeaderEvent, LeaderView, Observation, ProclaimCall},
    watch_filter::WatchFilter,
};
use fairhold_state::value::Value;
use fairhold_types::{
    Code, GrantId, LockName, Revision,
    dto::{Contender, Meta},
    election::{self, ElectionLine, What},
    limits::ELECTION_VALUE_BYTES_MAX,
    time::WallMillis,
};
use http::{HeaderValue, StatusCode, header};
use openraft_rt::AsyncRuntime;
use std::convert::Infallible;

pub(crate) const STAND: KnownParams = KnownParams {
    now: &["value", "wait", "ttl", "session", "owner", "priority", "lock_delay", "max_hold", "meta", "hold"],
    later: &[],
};
pub(crate) const PROCLAIM: KnownParams = KnownParams { now: &["grant", "value"], later: &[] };
pub(crate) const LEADER: KnownParams = KnownParams { now: &["wait", "after", "from", "consistency"], later: &[] };

/// `POST /v1/elections/{name}`: a grant whose value is told when it leads.
pub(crate) async fn stand<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let election = lock_name(&received.segment()?)?;
    let (id, given) = received.key_or_new(&node)?;
    let mut params = received.params(body, &STAND)?;
    let value = value(&mut params)?.unwrap_or_default();
    let (call, manner) = candidate_call(&received, params, election, id, value)?;
    grants::answer_in(manner, node, call, given).await
}

/// `PUT /v1/elections/{name}`
pub(crate) async fn proclaim<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let election = lock_name(&received.segment()?)?;
    let (key, _) = received.key_or_new(&node)?;
    let mut params = received.params(body, &PROCLAIM)?;
    let grant = params.parsed::<GrantId>("grant")?.ok_or_else(|| expected("grant", "the id of the leader's grant"))?;
    let value = value(&mut params)?.ok_or_else(|| expected("value", "the text to proclaim"))?;
    let call = ProclaimCall {
        key,
        election: election.clone(),
        grant,
        value: Value::from(value.into_bytes()),
        timeout: received.timeout,
    };
    let done = node.proclaim(call).await.map_err(|error| problem_of(error, RequestKind::Write { key }))?;
    let proclaimed = election::Proclaimed { election, version: done.value, revision: done.revision };
    answer::json(StatusCode::OK, done.revision, &proclaimed)
}

/// `GET /v1/elections/{name}`: who leads, or as a stream who leads from now on.
pub(crate) async fn leader<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let election = lock_name(&received.segment()?)?;
    let mut params = received.query(&LEADER)?;
    let (mut read, poll) = (received.read_options(&mut params)?, received.long_poll(&mut params)?);
    let from = params.integer("from", 1..=u64::MAX)?.map(Revision);
    if let Some(form) = StreamFormat::asked_for(received.headers())? {
        if poll.is_some() {
            return Err(Problem::bad_request("wait and after are for a single answer; for a stream, use from"));
        }
        let from = headers::last_event_id(received.headers())?.map(Revision::next).or(from);
        let observation = node.observe(&election, from, read).await.map_err(|error| problem_of(error, RequestKind::Read))?;
        return Ok(stream(observation, form));
    }
    if from.is_some() {
        return Err(Problem::bad_request("from is only for streams: send Accept: application/x-ndjson or text/event-stream"));
    }
    if let Some(revision) = LongPoll::nothing_newer(poll, &node, || WatchFilter::Leader(election.clone()), &mut read).await? {
        return Ok(answer::empty(StatusCode::NOT_MODIFIED, revision));
    }
    let found = node.leader(&election, read).await.map_err(|error| problem_of(error, RequestKind::Read))?;
    let Some(leader) = found.value else {
        let mut response =
            axum::response::IntoResponse::into_response(Problem::new(Code::NoLeader, "this election has no leader"));
        // A client that waits for a leader continues from here.
        answer::stamp(&mut response, found.revision);
        return Ok(response);
    };
    answer::json(StatusCode::OK, found.revision, &of_leader(election, leader, node.wall_now()))
}

fn value(params: &mut Params<'_>) -> Result<Option<String>, Problem> {
    params.text("value", ELECTION_VALUE_BYTES_MAX)
}

fn stream<RT: AsyncRuntime>(observation: Observation<RT>, form: StreamFormat) -> Response {
    let revision = observation.revision();
    let body = futures_util::stream::unfold(observation, move |mut observation| async move {
        let seen = observation.next().await?;
        Some((Ok::<Bytes, Infallible>(render(form, seen)), observation))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, form.content_type());
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    answer::stamp(&mut response, revision);
    response
}

fn render(form: StreamFormat, seen: At<LeaderEvent>) -> Bytes {
    let (revision, mut out) = (seen.revision, Vec::new());
    // A browser that comes back goes on after the last line with an id.
    let (what, complete) = match seen.value {
        LeaderEvent::Initial(Some(leader)) => (What::Leader(line_of(leader)), true),
        LeaderEvent::Initial(None) | LeaderEvent::Vacant => (What::Vacant, true),
        LeaderEvent::Elected(leader) => (What::Elected(line_of(leader)), true),
        LeaderEvent::Proclaimed(leader) => (What::Proclaimed(line_of(leader)), true),
        LeaderEvent::Bookmark => (What::Bookmark, true),
        LeaderEvent::GoAway => (What::Goaway, false),
        LeaderEvent::Failed(error) => {
            let problem: fairhold_types::problem::Problem = problem_of(error, RequestKind::Read).into();
            (What::Error(Box::new(problem.into())), false)
        }
    };
    form.write(&ElectionLine { revision, what }, complete.then_some(revision), &mut out);
    out.into()
}

/// The API accepts only texts, so a value is one.
fn text(value: &Value) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn line_of(leader: LeaderView) -> election::Leader {
    election::Leader {
        token: leader.token,
        value: text(&leader.value),
        version: leader.version,
        number: leader.number,
        session: leader.session,
        owner: leader.owner.as_ref().to_owned(),
    }
}

fn of_leader(election: LockName, leader: LeaderView, now: WallMillis) -> election::Election {
    election::Election {
        election,
        value: text(&leader.value),
        token: leader.token,
        version: leader.version,
        session: leader.session,
        value_since: leader.value_since,
        leader: Contender {
            number: leader.number,
            owner: leader.owner.as_ref().to_owned(),
            since: leader.held_since.map(WallMillis::to_rfc3339),
            token: Some(leader.token),
            held_for: leader.held_since.map(|since| span(since, now)),
            meta: Meta::new(),
        },
    }
}
