//! `GET /v1/locks/{name}/history`: the holders of a lock, newest first, as pages of JSON or as lines for export.

use crate::{
    edge::answer::{self, span},
    edge::body::{self, NDJSON},
    edge::error::of_read,
    edge::names::lock_name,
    edge::paging,
    edge::params::{digits, expected},
    edge::problem::Problem,
    edge::request::Received,
    edge::stream::StreamFormat,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_node::Node;
use fairhold_state::{
    history::HistoryKey,
    history_page::{HistoryEntry, HistoryQuery, When},
    statistics::{HoldHistogram, Statistics},
};
use fairhold_types::{GrantNumber, Revision, call, dto, limits::PAGE_MAX, time::WallMillis};
use http::{HeaderMap, StatusCode, header};
use openraft_rt::AsyncRuntime;

/// `GET /v1/locks/{name}/history`
pub(crate) async fn history<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let lines = asks_for_lines(request.headers());
    let received = Received::without_body(request)?;
    let lock = lock_name(&received.segment()?)?;
    let params: call::History = received.query()?;
    let read = received.read_options(params.consistency)?;
    let limit = if lines && params.limit.is_none() { PAGE_MAX } else { paging::limit(params.limit) };
    let query = HistoryQuery { lock, when: moment(params.at)?, after: cursor(params.cursor)?, limit };
    let found = node.history(&query, read).await.map_err(of_read)?;
    let next_cursor = found.value.next.map(|key| format!("{}-{}", key.ended.0, key.number));
    let now = node.wall_now();
    let items: Vec<dto::Holding> = found.value.items.into_iter().map(|entry| holding(entry, now)).collect();
    let response = if lines {
        let mut lines = Vec::new();
        items.iter().for_each(|item| StreamFormat::Lines.write(item, None, &mut lines));
        answer::stamped(body::answer(NDJSON, lines), found.revision)
    } else {
        answer::json(StatusCode::OK, found.revision, &dto::Page { items, next_cursor: next_cursor.clone() })?
    };
    paging::link_next(response, received.uri(), next_cursor.as_deref())
}

fn asks_for_lines(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("application/x-ndjson"))
}

fn moment(moment: Option<call::MomentText>) -> Result<Option<When>, Problem> {
    let Some(text) = moment.as_ref().map(call::MomentText::as_str) else { return Ok(None) };
    let revision = digits(text).map(|revision| When::Revision(Revision(revision)));
    match revision.or_else(|| WallMillis::from_rfc3339(text).map(When::At)) {
        Some(when) => Ok(Some(when)),
        None => Err(expected("at", "a revision, or a time like 2026-11-21T14:03:27Z (the + of a zone is written %2B)")),
    }
}

fn cursor(cursor: Option<call::HistoryCursor>) -> Result<Option<HistoryKey>, Problem> {
    let Some(text) = cursor.as_ref().map(call::HistoryCursor::as_str) else { return Ok(None) };
    let key = |(ended, grant)| Some(HistoryKey { ended: Revision(digits(ended)?), number: GrantNumber(digits(grant)?) });
    let key = text.split_once('-').and_then(key);
    key.map(Some).ok_or_else(|| expected("cursor", "the next_cursor of an earlier page of the same history"))
}

fn holding(entry: HistoryEntry, now: WallMillis) -> dto::Holding {
    let (holding, to) = (entry.holding, entry.ending.as_ref().map(|ending| ending.to));
    let (ended, by, reason) = match entry.ending {
        Some(ending) => (Some(ending.how), ending.by, ending.reason),
        None => (None, String::new(), String::new()),
    };
    dto::Holding {
        number: holding.number,
        session: holding.session,
        owner: holding.owner,
        mode: holding.mode,
        permits: holding.permits,
        token: holding.token,
        queued_at: holding.queued_at.to_rfc3339(),
        from: holding.from.at.to_rfc3339(),
        from_revision: holding.from.revision,
        to: to.map(|to| to.at.to_rfc3339()),
        to_revision: to.map(|to| to.revision),
        held_for: span(holding.from.at, to.map_or(now, |to| to.at)),
        ended,
        by,
        reason,
    }
}

/// The statistics of a lock as JSON.
pub(crate) fn statistics(counted: Statistics) -> dto::LockStatistics {
    let spans = |spans: HoldHistogram| dto::Spans { count: spans.total(), sum_ms: spans.sum_ms, buckets: spans.counts.to_vec() };
    dto::LockStatistics {
        waited: spans(counted.waited),
        held: spans(counted.held),
        hand_overs: counted.hand_overs,
        released: counted.released,
        expired: counted.expired,
        broken: counted.broken,
        abandoned: counted.abandoned,
        gave_up: counted.gave_up,
        changed_mode: counted.changed_mode,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Result<call::History, Problem> {
        crate::edge::params::parse(Some(query), b"").map(|given| given.params)
    }

    #[test]
    fn a_point_in_history_is_a_revision_or_a_time() {
        let read = |query: &str| moment(params(query).unwrap().at).ok().flatten();
        assert_eq!(read("at=57"), Some(When::Revision(Revision(57))));
        assert_eq!(read("at=1970-01-01T00:00:27Z"), Some(When::At(WallMillis(27_000))));
        assert_eq!(read("at=1970-01-01T01:00:27%2B01:00"), Some(When::At(WallMillis(27_000))));
        assert_eq!(read(""), None);
        for wrong in ["at=", "at", "at=14:03:27", "at=-1", "at=1970-01-01T01:00:27+01:00", "at=yesterday"] {
            assert!(params(wrong).and_then(|params| moment(params.at)).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_cursor_is_the_one_that_a_page_returned() {
        let read = |query: &str| cursor(params(query).unwrap().cursor).ok().flatten();
        let held = HistoryKey { ended: Revision(u64::MAX), number: GrantNumber(7) };
        assert_eq!(read(&format!("cursor={}-7", u64::MAX)), Some(held));
        for wrong in ["cursor=", "cursor=7", "cursor=-7", "cursor=7-", "cursor=a-b"] {
            assert!(params(wrong).and_then(|params| cursor(params.cursor)).is_err(), "{wrong} was accepted");
        }
    }
}
