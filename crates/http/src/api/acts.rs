//! `GET /v1/audit`: the administrative acts, one a line, in the order of their numbers.

use crate::{
    edge::answer,
    edge::body::{self, NDJSON},
    edge::error::of_read,
    edge::paging,
    edge::problem::Problem,
    edge::request::Received,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_access::Principal;
use fairhold_node::Node;
use fairhold_state::audit::AuditQuery;
use fairhold_types::{call, limits::PAGE_MAX};
use http::StatusCode;
use openraft_rt::AsyncRuntime;

/// `GET /v1/audit`. Each line is written as the chain of hashes has it.
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::ReadAudit = received.query()?;
    let read = received.read_options(params.consistency)?;
    let (wait, query) = (params.wait, query(params)?);
    let found = node.acts(&query, wait.map(call::Wait::get).unwrap_or_default(), read).await.map_err(of_read)?;
    if found.value.lines.is_empty() && wait.is_some() {
        return Ok(answer::empty(StatusCode::NOT_MODIFIED, found.revision));
    }
    let mut lines = Vec::new();
    for line in &found.value.lines {
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
    }
    let response = answer::stamped(body::answer(NDJSON, lines), found.revision);
    paging::link_next(response, received.uri(), found.value.next.map(|last| last.to_string()).as_deref())
}

fn query(params: call::ReadAudit) -> Result<AuditQuery, Problem> {
    let principal = params.principal.as_ref().map(|text| Principal::parse(text.as_str())).transpose();
    let principal = principal.map_err(|error| Problem::bad_request(format!("the parameter \"principal\": {error}")))?;
    let from = params.from.map_or(1, call::PositiveNumber::get);
    let after = params.cursor.map_or(0, call::Number::get);
    Ok(AuditQuery {
        from: from.max(after.saturating_add(1)),
        principal,
        verb: params.verb.map(call::ActVerb::into_string),
        newest: params.newest,
        limit: params.limit.map_or(PAGE_MAX, |limit| paging::limit(Some(limit))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_at_the_later_of_from_and_the_place_after_the_cursor() {
        let read = |text: &str| {
            let params = crate::edge::params::parse(Some(text), b"").map(|parsed| parsed.params)?;
            query(params)
        };
        for (text, from) in [("", 1), ("from=7", 7), ("cursor=7", 8), ("from=7&cursor=41", 42), ("from=50&cursor=41", 50)] {
            assert_eq!(read(text).unwrap().from, from, "{text}");
        }
        let all = read("principal=user:ci&verb=break&newest&limit=3").unwrap();
        let principal = Some(Principal::parse("user:ci").unwrap());
        assert_eq!(all, AuditQuery { from: 1, principal, verb: Some("break".to_owned()), newest: true, limit: 3 });
        for wrong in ["principal=ci", "principal=", "from=0", "limit=0", "limit=1001", "cursor=x", "act=break"] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
