//! The calls on elections: list, stand, proclaim, get or observe the leader.

use crate::{
    api::grants,
    edge::answer::{self, span},
    edge::error::{at_end_of_stream, of_read, problem_of},
    edge::headers,
    edge::names::lock_name,
    edge::paging,
    edge::problem::Problem,
    edge::request::{Received, nothing_newer},
    edge::request_kind::RequestKind,
    edge::stream::StreamFormat,
};
use axum::{
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use fairhold_node::{
    Node,
    api::At,
    elections::{ElectionView, LeaderEvent, LeaderView, Observation, ProclaimCall},
    watch_filter::WatchFilter,
};
use fairhold_state::{command::Want, listing::LockSort, value::Value};
use fairhold_types::{
    Code, LockName, Mode, Revision, call,
    dto::{Contender, Page},
    election::{self, ElectionLine, What},
    time::WallMillis,
};
use http::StatusCode;
use openraft_rt::AsyncRuntime;
use std::convert::Infallible;

/// `GET /v1/elections`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ListElections = received.query()?;
    let read = received.read_options(params.consistency)?;
    let prefix = params.prefix.map(call::LockPrefix::into_string).unwrap_or_default();
    let page = paging::page(params.limit, paging::lock_key(params.cursor, LockSort::Name)?);
    let found = node.elections(prefix, page, read).await.map_err(of_read)?;
    let next_cursor = found.value.next.map(|key| paging::lock_cursor(LockSort::Name, &key));
    let now = node.wall_now();
    let page = Page { items: found.value.items.into_iter().map(|election| listed(election, now)).collect(), next_cursor };
    let response = answer::json(StatusCode::OK, found.revision, &page)?;
    paging::link_next(response, received.uri(), page.next_cursor.as_deref())
}

/// `POST /v1/elections/{name}`: a grant with a value, which observers see when it leads.
pub(crate) async fn stand<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let election = lock_name(&received.segment()?)?;
    let (id, id_given) = received.key_or_new(&node)?;
    let mut params: call::Stand = received.params(body)?;
    let wants = vec![Want { lock: election, mode: Mode::Exclusive }];
    let (mut call, response_mode) = grants::acquire_call(&received, params.take_options(), wants, id, id_given)?;
    let value = params.value.map(call::ElectionValue::into_string).unwrap_or_default();
    call.acquire.value = Some(value.into_bytes());
    grants::acquire_and_answer(response_mode, node, call).await
}

/// `PUT /v1/elections/{name}`
pub(crate) async fn proclaim<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let election = lock_name(&received.segment()?)?;
    let (key, _) = received.key_or_new(&node)?;
    let params: call::Proclaim = received.params(body)?;
    let call = ProclaimCall {
        key,
        election: election.clone(),
        grant: params.grant,
        value: Value::from(params.value.into_string().into_bytes()),
        timeout: received.timeout,
    };
    let done = node.proclaim(call).await.map_err(|error| problem_of(error, RequestKind::Write { key }))?;
    let proclaimed = election::Proclaimed { election, version: done.value, revision: done.revision };
    answer::json(StatusCode::OK, done.revision, &proclaimed)
}

/// `GET /v1/elections/{name}`: the current leader, or a stream of leaders.
pub(crate) async fn leader<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let election = lock_name(&received.segment()?)?;
    let params: call::GetLeader = received.query()?;
    let mut read = received.read_options(params.consistency)?;
    let from = params.from.map(|revision| Revision(revision.get()));
    if let Some(form) = StreamFormat::requested(received.headers())? {
        if params.wait.is_some() || params.after.is_some() {
            return Err(Problem::bad_request("wait and after are for a single answer; for a stream, use from"));
        }
        let from = headers::last_event_id(received.headers())?.map(Revision::next).or(from);
        let observation = node.observe(&election, from, read).await.map_err(of_read)?;
        return Ok(stream(observation, form));
    }
    if from.is_some() {
        return Err(Problem::bad_request("from is only for streams: send Accept: application/x-ndjson or text/event-stream"));
    }
    if let Some(revision) =
        nothing_newer(&node, (params.wait, params.after), || WatchFilter::Leader(election.clone()), &mut read).await?
    {
        return Ok(answer::empty(StatusCode::NOT_MODIFIED, revision));
    }
    let found = node.leader(&election, read).await.map_err(of_read)?;
    let Some(leader) = found.value else {
        let problem = Problem::new(Code::NoLeader, "this election has no leader");
        // A client that waits for a leader continues from here.
        return Ok(answer::stamped(problem.into_response(), found.revision));
    };
    answer::json(StatusCode::OK, found.revision, &of_leader(election, leader, node.wall_now()))
}

fn stream<RT: AsyncRuntime>(observation: Observation<RT>, form: StreamFormat) -> Response {
    let revision = observation.revision();
    let body = futures_util::stream::unfold(observation, move |mut observation| async move {
        let seen = observation.next().await?;
        Some((Ok::<Bytes, Infallible>(render(form, seen)), observation))
    });
    form.answer(Body::from_stream(body), revision)
}

fn render(form: StreamFormat, seen: At<LeaderEvent>) -> Bytes {
    let (revision, mut out) = (seen.revision, Vec::new());
    // A browser that reconnects continues after the last line with an id.
    let (what, complete) = match seen.value {
        LeaderEvent::Initial(Some(leader)) => (What::Leader(line_of(leader)), true),
        LeaderEvent::Initial(None) | LeaderEvent::Vacant => (What::Vacant, true),
        LeaderEvent::Elected(leader) => (What::Elected(line_of(leader)), true),
        LeaderEvent::Proclaimed(leader) => (What::Proclaimed(line_of(leader)), true),
        LeaderEvent::Bookmark => (What::Bookmark, true),
        LeaderEvent::CredentialExpires => (What::CredentialExpires, false),
        LeaderEvent::GoAway => (What::Goaway, false),
        LeaderEvent::Failed(error) => (What::Error(Box::new(at_end_of_stream(error, RequestKind::Read).into())), false),
    };
    form.write(&ElectionLine { revision, what }, complete.then_some(revision), &mut out);
    out.into()
}

/// The API accepts only UTF-8 strings, so a value is one.
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

fn listed(view: ElectionView, now: WallMillis) -> election::ListedElection {
    election::ListedElection {
        election: view.election,
        value: view.leader.as_ref().map(|leader| text(&leader.value)),
        token: view.leader.as_ref().map(|leader| leader.token),
        leader: view.leader.map(|leader| contender(&leader, now)),
        waiting: view.waiting as u64,
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
        leader: contender(&leader, now),
    }
}

fn contender(leader: &LeaderView, now: WallMillis) -> Contender {
    Contender {
        since: leader.held_since.map(WallMillis::to_rfc3339),
        token: Some(leader.token),
        held_for: leader.held_since.map(|since| span(since, now)),
        ..answer::named(leader.number, leader.owner.as_ref().to_owned())
    }
}
