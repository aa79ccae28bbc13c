//! The calls on sessions: open, keep alive, list, show, close.

use crate::{
    edge::answer,
    edge::error::{of_change, of_read, problem_of},
    edge::paging,
    edge::params::digits,
    edge::problem::Problem,
    edge::request::Received,
    edge::request_kind::RequestKind,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_node::{
    Node,
    api::{OpenSessionCall, SessionRef, SessionView},
};
use fairhold_state::command::Rejection;
use fairhold_types::{Code, SessionNumber, call, dto, duration, limits::SESSION_TIMEOUT_DEFAULT};
use http::StatusCode;
use openraft_rt::AsyncRuntime;

/// `POST /v1/sessions`
pub(crate) async fn open<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let (key, key_given) = received.key_or_new(&node)?;
    let params: call::OpenSession = received.params(body)?;
    let call = OpenSessionCall {
        key,
        key_given,
        timeout: params.ttl.map_or(SESSION_TIMEOUT_DEFAULT, call::Ttl::get),
        name: params.name.map(call::OwnerName::into_string).unwrap_or_default(),
        meta: params.meta.map(call::MetaPairs::into_inner).unwrap_or_default(),
        work_timeout: received.timeout,
    };
    let opened = node.open_session(call).await.map_err(|error| problem_of(error, RequestKind::Write { key }))?;
    let ttl = duration::format(opened.value.timeout);
    let session = dto::OpenedSession { id: opened.value.id, number: opened.value.number, expires_in: ttl.clone(), ttl };
    answer::json(StatusCode::CREATED, opened.revision, &session)
}

/// `POST /v1/sessions/{id}/keepalive`
pub(crate) async fn keepalive<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, body) = Received::with_params::<RT>(request).await?;
    let call::Empty {} = received.params(body)?;
    received.key()?;
    let SessionRef::Id(id) = session_ref(&received.segment()?)? else {
        return Err(Problem::new(Code::Denied, "use the session's secret id to keep it alive, not its number"));
    };
    let kept = node.keepalive(vec![id], received.timeout).await.map_err(of_change)?;
    match kept.value.first().copied().flatten() {
        Some(ttl) => {
            let response = answer::json(StatusCode::OK, kept.revision, &answer::renewed_session(id, ttl, node.wall_now()))?;
            Ok(answer::with_members(response, node.members_index()))
        }
        None => Err(Problem::new(Code::SessionExpired, "the session has ended or never existed")),
    }
}

/// `POST /v1/sessions/keepalive`
pub(crate) async fn keepalive_many<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    request: Request,
) -> Result<Response, Problem> {
    let (received, body) = Received::with_list::<RT>(request).await?;
    let params: call::KeepAliveMany = received.params(body)?;
    let ids = params.ids.into_vec();
    received.key()?;
    let kept = node.keepalive(ids.clone(), received.timeout).await.map_err(of_change)?;
    let mut body = dto::KeptAlive { renewed: Vec::new(), ttls: Vec::new(), expired: Vec::new() };
    for (id, ttl) in ids.into_iter().zip(kept.value) {
        match ttl {
            Some(ttl) => {
                body.renewed.push(id);
                body.ttls.push(duration::format(ttl));
            }
            None => body.expired.push(id),
        }
    }
    let response = answer::json(StatusCode::OK, kept.revision, &body)?;
    Ok(answer::with_members(response, node.members_index()))
}

/// `GET /v1/sessions`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ListSessions = received.query()?;
    let read = received.read_options(params.consistency)?;
    let after = params.cursor.map(|number| SessionNumber(number.get()));
    let page = paging::page(params.limit, after);
    let found = node.sessions(page, read).await.map_err(of_read)?;
    let (views, next) = found.value;
    let page = dto::Page { items: views.into_iter().map(shown).collect(), next_cursor: next.map(|last| last.to_string()) };
    let response = answer::json(StatusCode::OK, found.revision, &page)?;
    paging::link_next(response, received.uri(), page.next_cursor.as_deref())
}

/// `GET /v1/sessions/{id or number}`
pub(crate) async fn show<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ShowSession = received.query()?;
    let read = received.read_options(params.consistency)?;
    let page = paging::page(params.limit, paging::owned_after(params.cursor)?);
    let found = node.session(session_ref(&received.segment()?)?, &page, read).await.map_err(of_read)?;
    let Some(view) = found.value else { return Err(of_read(Rejection::NoSession.into())) };
    let session = shown(view);
    let response = answer::json(StatusCode::OK, found.revision, &session)?;
    paging::link_next(response, received.uri(), session.next_cursor.as_deref())
}

/// `DELETE /v1/sessions/{id or number}`: with the id the owner closes it, with the number an administrator ends it.
pub(crate) async fn close<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let reason = |received: &Received| received.query().map(|params: call::CloseSession| params.reason);
    let ended = match session_ref(&received.segment()?)? {
        SessionRef::Id(id) => {
            if reason(&received)?.is_some() {
                return Err(Problem::bad_request(
                    "the parameter \"reason\" is only for administrators: name the session by its number, or leave it out",
                ));
            }
            node.close_session(id, received.timeout).await
        }
        SessionRef::Number(number) => {
            received.require_admin()?;
            let reason = reason(&received)?.map(call::Reason::into_string).unwrap_or_default();
            node.end_session(number, received.caller(), reason, received.timeout).await
        }
    };
    let revision = ended.map_err(of_change)?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

fn shown(view: SessionView) -> dto::Session {
    let next_cursor = view.next.as_ref().map(paging::owned_cursor);
    answer::session(view, next_cursor)
}

fn session_ref(text: &str) -> Result<SessionRef, Problem> {
    if let Ok(id) = text.parse() {
        return Ok(SessionRef::Id(id));
    }
    let number = digits(text).map(|number| SessionRef::Number(SessionNumber(number)));
    number.ok_or_else(|| Problem::bad_request("the session: expected its id (32 hexadecimal digits in lower case) or its number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_by_its_id_or_by_its_number() {
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(session_ref(id).unwrap(), SessionRef::Id(id.parse().unwrap()));
        assert_eq!(session_ref("12").unwrap(), SessionRef::Number(SessionNumber(12)));
        for wrong in ["", "-1", "0123456789ABCDEF0123456789ABCDEF", "0123456789abcdef", "99999999999999999999999"] {
            assert!(session_ref(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
