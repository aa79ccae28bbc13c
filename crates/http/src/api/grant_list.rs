//! `GET /v1/grants`: the grants over all locks.

use crate::{
    edge::answer::{self, span},
    edge::error::of_read,
    edge::paging,
    edge::problem::Problem,
    edge::request::Received,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_node::Node;
use fairhold_state::grant_list::{GrantEntry, GrantPhase, GrantQuery, GrantSort};
use fairhold_types::{
    SessionNumber, call,
    dto::{GrantState, ListedGrant, Page},
    time::WallMillis,
};
use http::StatusCode;
use openraft_rt::AsyncRuntime;

/// `GET /v1/grants`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ListGrants = received.query()?;
    let read = received.read_options(params.consistency)?;
    let query = query(params)?;
    let found = node.grants(&query, read).await.map_err(of_read)?;
    let next_cursor = found.value.next.as_ref().map(paging::grant_cursor);
    let now = node.wall_now();
    let page = Page { items: found.value.items.into_iter().map(|entry| listed(entry, now)).collect(), next_cursor };
    let response = answer::json(StatusCode::OK, found.revision, &page)?;
    paging::link_next(response, received.uri(), page.next_cursor.as_deref())
}

fn query(params: call::ListGrants) -> Result<GrantQuery, Problem> {
    let sort = params.sort.map_or(GrantSort::Queued, sort);
    Ok(GrantQuery {
        prefix: params.prefix.map(call::LockPrefix::into_string).unwrap_or_default(),
        owner: params.owner.map(call::OwnerName::into_string),
        session: params.session.map(|number| SessionNumber(number.get())),
        phase: params.state.map(phase),
        sort,
        after: paging::grant_key(params.cursor, sort)?,
        limit: paging::limit(params.limit),
    })
}

fn sort(order: call::GrantOrder) -> GrantSort {
    match order {
        call::GrantOrder::Since => GrantSort::Queued,
        call::GrantOrder::Lock => GrantSort::Lock,
    }
}

fn phase(filter: call::GrantFilter) -> GrantPhase {
    match filter {
        call::GrantFilter::Queued => GrantPhase::Queued,
        call::GrantFilter::Held => GrantPhase::Held,
        call::GrantFilter::Cooling => GrantPhase::Cooling,
    }
}

fn listed(entry: GrantEntry, now: WallMillis) -> ListedGrant {
    let state = match entry.phase {
        GrantPhase::Queued => GrantState::Queued,
        GrantPhase::Held => GrantState::Held,
        GrantPhase::Cooling => GrantState::Cooling,
    };
    ListedGrant {
        lock: entry.lock,
        number: entry.number,
        session: entry.session,
        owner: entry.owner,
        state,
        position: entry.position,
        token: entry.token,
        mode: entry.mode,
        permits: entry.permits,
        since: entry.held_since.unwrap_or(entry.queued_at).to_rfc3339(),
        queued_at: entry.queued_at.to_rfc3339(),
        held_for: entry.held_since.filter(|_| state == GrantState::Held).map(|since| span(since, now)),
        waits_for: entry.waits_for.map(|(number, owner)| answer::named(number, owner)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{FencingToken, GrantNumber, LockName, Mode, limits::PAGE_DEFAULT};

    fn read(text: &str) -> Result<GrantQuery, Problem> {
        crate::edge::params::parse(Some(text), b"").and_then(|given| query(given.params))
    }

    #[test]
    fn every_parameter_reaches_the_query() {
        let of = |text: &str| read(text).unwrap_or_else(|_| panic!("{text} was refused"));
        let all = of("");
        assert_eq!((all.owner.as_ref(), all.session, all.phase, all.sort), (None, None, None, GrantSort::Queued));
        assert_eq!((all.prefix.as_str(), all.after.is_none(), all.limit), ("", true, PAGE_DEFAULT));
        let some = of("owner=ci-7&session=41&prefix=orders%2F&state=queued&sort=lock&limit=7");
        assert_eq!((some.owner.as_deref(), some.session), (Some("ci-7"), Some(SessionNumber(41))));
        assert_eq!((some.prefix.as_str(), some.phase, some.sort), ("orders/", Some(GrantPhase::Queued), GrantSort::Lock));
        assert_eq!(some.limit, 7);
        // The cursors of this order: s41-0, and lheld-41:a.
        assert!(of("cursor=7334312d30").after.is_some() && of("sort=lock&cursor=6c68656c642d34313a61").after.is_some());
    }

    #[test]
    fn a_wrong_parameter_is_refused_with_its_name() {
        for (text, says) in [
            ("owner=a%00b", "\"owner\""),
            ("session=0123456789abcdef0123456789abcdef", "\"session\""),
            ("session=-1", "\"session\""),
            ("state=idle", "state"),
            ("sort=name", "sort"),
            ("limit=0", "\"limit\""),
            ("cursor=41", "\"cursor\": expected the next_cursor of an earlier page"),
            ("sort=lock&cursor=7334312d30", "\"cursor\": expected the next_cursor of an earlier page"),
            ("lock=deploy", "lock"),
        ] {
            let problem = fairhold_types::problem::Problem::from(read(text).expect_err(text));
            assert!(problem.status == 400 && problem.detail.contains(says), "{text}: {}", problem.detail);
        }
    }

    #[test]
    fn a_listed_grant_has_the_documented_json_and_no_secret() {
        let entry = |phase, token: Option<u64>| GrantEntry {
            lock: LockName::parse("deploy").unwrap(),
            number: GrantNumber(91),
            session: SessionNumber(52),
            owner: "ci-9".to_owned(),
            phase,
            mode: Mode::Exclusive,
            permits: 1,
            position: (phase == GrantPhase::Queued).then_some(2),
            token: token.map(FencingToken),
            queued_at: WallMillis(1_000),
            held_since: (phase != GrantPhase::Queued).then_some(WallMillis(2_000)),
            waits_for: (phase == GrantPhase::Queued).then(|| (GrantNumber(88), "ci-7".to_owned())),
        };
        let json = |entry| serde_json::to_value(listed(entry, WallMillis(5_000))).unwrap();
        let queued = serde_json::json!({
            "lock": "deploy", "number": 91, "session": 52, "owner": "ci-9", "state": "queued", "position": 2, "mode": "exclusive",
            "permits": 1, "since": "1970-01-01T00:00:01.000Z", "queued_at": "1970-01-01T00:00:01.000Z",
            "waits_for": { "number": 88, "owner": "ci-7" },
        });
        assert_eq!(json(entry(GrantPhase::Queued, None)), queued);
        let held = serde_json::json!({
            "lock": "deploy", "number": 91, "session": 52, "owner": "ci-9", "state": "held", "token": 42, "mode": "exclusive",
            "permits": 1, "since": "1970-01-01T00:00:02.000Z", "queued_at": "1970-01-01T00:00:01.000Z", "held_for": "3s",
        });
        assert_eq!(json(entry(GrantPhase::Held, Some(42))), held);
        let cooling = json(entry(GrantPhase::Cooling, None));
        assert_eq!((&cooling["state"], cooling.get("held_for"), cooling.get("token")), (&"cooling".into(), None, None));
    }
}
