//! `GET /v1/locks/{name}/history`: the holders of a lock, newest first, as pages of JSON or as lines for export.
//! `GET /v1/history`: the holders of all locks, in the order of the locks' names.

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
    histories::{HistoriesQuery, HoldPeriod},
    history::HistoryKey,
    history_page::{HistoryEntry, HistoryQuery, When},
    statistics::{HoldHistogram, Statistics},
};
use fairhold_types::{
    Revision, call, dto,
    limits::{HISTORY_PER_LOCK_MAX, PAGE_MAX},
    time::WallMillis,
};
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
    let query = HistoryQuery { lock, when: moment("at", params.at)?, after: cursor(params.cursor)?, limit };
    let found = node.history(&query, read).await.map_err(of_read)?;
    let next_cursor = found.value.next.map(paging::history_cursor);
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

/// `GET /v1/history`
pub(crate) async fn all<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ListHistories = received.query()?;
    let read = received.read_options(params.consistency)?;
    let query = HistoriesQuery {
        when: period(params.at, params.from, params.to)?,
        owner: params.owner.map(call::OwnerName::into_string),
        prefix: params.prefix.map(call::LockPrefix::into_string).unwrap_or_default(),
        ended: params.ended,
        after: paging::histories_key(params.cursor)?,
        limit: paging::limit(params.limit),
    };
    let found = node.histories(&query, read).await.map_err(of_read)?;
    let now = node.wall_now();
    let of_lock = |entry: HistoryEntry| dto::Holding { lock: Some(entry.holding.lock.clone()), ..holding(entry, now) };
    let page = dto::LockHistories {
        items: found.value.items.into_iter().map(of_lock).collect(),
        next_cursor: found.value.next.as_ref().map(paging::histories_cursor),
        kept_per_lock: HISTORY_PER_LOCK_MAX as u64,
        oldest: found.value.oldest.map(WallMillis::to_rfc3339),
    };
    let response = answer::json(StatusCode::OK, found.revision, &page)?;
    paging::link_next(response, received.uri(), page.next_cursor.as_deref())
}

/// The moment or window of the holds of an answer. A window of two times, or of two revisions, must not be empty.
fn period(
    at: Option<call::MomentText>,
    from: Option<call::MomentText>,
    to: Option<call::MomentText>,
) -> Result<Option<HoldPeriod>, Problem> {
    match (moment("at", at)?, moment("from", from)?, moment("to", to)?) {
        (None, None, None) => Ok(None),
        (Some(when), None, None) => Ok(Some(HoldPeriod::At(when))),
        (Some(_), _, _) => Err(Problem::bad_request("pass either \"at\", or \"from\" and \"to\": not both")),
        (None, Some(When::At(from)), Some(When::At(to))) if from >= to => Err(expected("to", "a time after \"from\"")),
        (None, Some(When::Revision(from)), Some(When::Revision(to))) if from >= to => {
            Err(expected("to", "a revision after \"from\""))
        }
        (None, from, to) => Ok(Some(HoldPeriod::Overlapping { from, to })),
    }
}

fn asks_for_lines(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("application/x-ndjson"))
}

fn moment(name: &str, moment: Option<call::MomentText>) -> Result<Option<When>, Problem> {
    let Some(text) = moment.as_ref().map(call::MomentText::as_str) else { return Ok(None) };
    let revision = digits(text).map(|revision| When::Revision(Revision(revision)));
    match revision.or_else(|| WallMillis::from_rfc3339(text).map(When::At)) {
        Some(when) => Ok(Some(when)),
        None => Err(expected(name, "a revision, or a time like 2026-11-21T14:03:27Z (write the + of a time zone as %2B)")),
    }
}

fn cursor(cursor: Option<call::HistoryCursor>) -> Result<Option<HistoryKey>, Problem> {
    let Some(text) = cursor.as_ref().map(call::HistoryCursor::as_str) else { return Ok(None) };
    paging::read_history_cursor(text)
        .map(Some)
        .ok_or_else(|| expected("cursor", "the next_cursor of an earlier page of the same history"))
}

fn holding(entry: HistoryEntry, now: WallMillis) -> dto::Holding {
    let (holding, to) = (entry.holding, entry.ending.as_ref().map(|ending| ending.to));
    let (ended, by, reason) = match entry.ending {
        Some(ending) => (Some(ending.how), ending.by, ending.reason),
        None => (None, String::new(), String::new()),
    };
    dto::Holding {
        lock: None,
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
    use fairhold_types::GrantNumber;

    fn params(query: &str) -> Result<call::History, Problem> {
        crate::edge::params::parse(Some(query), b"").map(|given| given.params)
    }

    #[test]
    fn a_point_in_history_is_a_revision_or_a_time() {
        let read = |query: &str| moment("at", params(query).unwrap().at).ok().flatten();
        assert_eq!(read("at=57"), Some(When::Revision(Revision(57))));
        assert_eq!(read("at=1970-01-01T00:00:27Z"), Some(When::At(WallMillis(27_000))));
        assert_eq!(read("at=1970-01-01T01:00:27%2B01:00"), Some(When::At(WallMillis(27_000))));
        assert_eq!(read(""), None);
        for wrong in ["at=", "at", "at=14:03:27", "at=-1", "at=1970-01-01T01:00:27+01:00", "at=yesterday"] {
            assert!(params(wrong).and_then(|params| moment("at", params.at)).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_period_is_a_point_or_a_window_that_is_not_empty() {
        let read = |query: &str| {
            let params: call::ListHistories = crate::edge::params::parse(Some(query), b"")?.params;
            period(params.at, params.from, params.to)
        };
        let (seven, nine) = (When::Revision(Revision(7)), When::Revision(Revision(9)));
        let window = |from, to| Some(HoldPeriod::Overlapping { from, to });
        for (query, wanted) in [
            ("owner=ci-7", None),
            ("at=7", Some(HoldPeriod::At(seven))),
            ("from=7&to=9", window(Some(seven), Some(nine))),
            ("from=7", window(Some(seven), None)),
            ("to=1970-01-01T00:00:27Z", window(None, Some(When::At(WallMillis(27_000))))),
            ("from=7&to=1970-01-01T00:00:27Z", window(Some(seven), Some(When::At(WallMillis(27_000))))),
        ] {
            assert_eq!(read(query).unwrap_or_else(|_| panic!("{query} was refused")), wanted, "{query}");
        }
        for (query, says) in [
            ("at=7&from=7", "not both"),
            ("at=7&to=9", "not both"),
            ("from=9&to=9", "\"to\": expected a revision after"),
            ("from=1970-01-01T00:00:27Z&to=1970-01-01T00:00:26Z", "\"to\": expected a time after"),
            ("from=noon", "\"from\": expected a revision, or a time like 2026-"),
            ("to=14:03", "\"to\": expected a revision, or a time like 2026-"),
            ("ended=lost", "ended"),
        ] {
            let problem = fairhold_types::problem::Problem::from(read(query).expect_err(query));
            assert!(problem.status == 400 && problem.detail.contains(says), "{query}: {}", problem.detail);
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
