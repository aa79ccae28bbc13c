//! `GET /v1/events`: pages of the events that the node keeps for watches, newest first.

use crate::{
    api::watch::of_change, edge::answer, edge::error::of_read, edge::names::refuse_reserved, edge::paging,
    edge::problem::Problem, edge::request::Received,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_node::{
    Node,
    events::{EventPosition, EventQuery},
};
use fairhold_types::{
    Revision, SessionNumber, call,
    limits::EVENT_PAGE_DEFAULT,
    watch::{RecentEvents, WatchLine},
};
use http::StatusCode;
use openraft_rt::AsyncRuntime;

/// `GET /v1/events`
pub(crate) async fn list<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ListEvents = received.query()?;
    let read = received.read_options(params.consistency)?;
    let found = node.events(&query(params)?, read).await.map_err(of_read)?;
    let next_cursor = found.next.map(paging::event_cursor);
    let line = |(revision, change)| WatchLine { revision, what: of_change(change) };
    let page = RecentEvents {
        items: found.items.into_iter().map(line).collect(),
        next_cursor,
        skipped: found.skipped,
        oldest: found.oldest,
        revision: found.revision,
    };
    let response = answer::json(StatusCode::OK, page.revision, &page)?;
    paging::link_next(response, received.uri(), page.next_cursor.as_deref())
}

fn query(params: call::ListEvents) -> Result<EventQuery, Problem> {
    params.lock.as_ref().map_or(Ok(()), refuse_reserved)?;
    let before = params.before.map(|revision| EventPosition { revision: Revision(revision.get()), index: 0 });
    let cursor = paging::event_position(params.cursor)?;
    Ok(EventQuery {
        // A page stays within the range of its listing.
        before: [before, cursor].into_iter().flatten().min(),
        after: params.after.map(|revision| Revision(revision.get())),
        lock: params.lock,
        prefix: params.prefix.map(call::LockPrefix::into_string).unwrap_or_default(),
        session: params.session.map(|number| SessionNumber(number.get())),
        event_type: params.event_type,
        limit: if params.limit.is_some() { paging::limit(params.limit) } else { EVENT_PAGE_DEFAULT },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_node::change::{Change, ChangedContender};
    use fairhold_state::command::ClusterEvent;
    use fairhold_types::{
        ClusterVersion, EndReason, FencingToken, GrantNumber, LockName, MemberRole, Path, Timing, watch::SessionEnd,
    };
    use serde_json::json;
    use std::sync::Arc;

    fn query_of(text: &str) -> Result<EventQuery, Problem> {
        query(crate::edge::params::parse(Some(text), &[])?.params)
    }

    #[test]
    fn the_parameters_name_a_range_and_what_to_select() {
        let given = query_of("after=5&before=60&lock=orders/42&prefix=ord&session=7&type=granted&limit=9").unwrap();
        let wanted = EventQuery {
            before: Some(EventPosition { revision: Revision(60), index: 0 }),
            after: Some(Revision(5)),
            lock: Some(LockName::parse("orders/42").unwrap()),
            prefix: "ord".to_owned(),
            session: Some(SessionNumber(7)),
            event_type: Some(call::EventType::Granted),
            limit: 9,
        };
        assert_eq!(given, wanted);
        assert_eq!(query_of("").unwrap(), EventQuery { limit: EVENT_PAGE_DEFAULT, ..EventQuery::default() });
        for wrong in
            ["before=0", "after=-1", "type=error", "type=", "cursor=7", "limit=0", "limit=1001", "owner=ci-7", "lock=%2F"]
        {
            assert!(query_of(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_cursor_never_leaves_the_range_of_its_listing() {
        let before = |text: &str| query_of(text).unwrap().before;
        let position = |revision, index| Some(EventPosition { revision: Revision(revision), index });
        assert_eq!(before("before=60&cursor=57-2"), position(57, 2));
        assert_eq!(before("before=50&cursor=57-2"), position(50, 0));
        assert_eq!(before("cursor=57-0"), position(57, 0));
    }

    /// A change of each kind.
    fn changes() -> Vec<Change> {
        let (path, lock) = (Path::parse("/a").unwrap(), LockName::parse("deploy").unwrap());
        let (number, session, token, text) = (GrantNumber(1), SessionNumber(1), FencingToken(2), || Arc::<str>::from("x"));
        let contender = ChangedContender { lock: lock.clone(), number, session, owner: text() };
        let (role, by) = (MemberRole::Voter, || "x".to_owned());
        let cluster = [
            ClusterEvent::Joining { node: 4, role, replaces: None },
            ClusterEvent::Joined { node: 4, role },
            ClusterEvent::Removing { node: 4, by: by() },
            ClusterEvent::Removed { node: 4, by: by() },
            ClusterEvent::MemberSet { node: 4, by: by() },
            ClusterEvent::TimingSet { timing: Timing::Wan, by: by() },
            ClusterEvent::Finalized { version: ClusterVersion(2) },
        ];
        let mut changes = vec![
            Change::NodeCreated(path.clone()),
            Change::NodeChanged { path: path.clone(), version: 1 },
            Change::NodeDeleted(path),
            Change::Queued(contender.clone()),
            Change::Granted(contender.clone(), token),
            Change::GrantEnded { lock: lock.clone(), number, session, reason: EndReason::Released },
            Change::Cooling { lock: lock.clone(), number, delay_ms: 1 },
            Change::Cooled { lock: lock.clone(), number },
            Change::Downgraded { lock: lock.clone(), number },
            Change::LockSet { lock: lock.clone(), by: text() },
            Change::Revoked { lock: lock.clone(), number, by: text(), reason: text() },
            Change::Broken { lock: lock.clone(), by: text(), reason: text() },
            Change::Proclaimed { leader: contender, token, version: 0, value: Vec::<u8>::new().into() },
            Change::Vacated { lock: lock.clone(), number },
            Change::LockForgotten(lock),
            Change::SessionOpened { session, timeout_ms: 1 },
            Change::SessionChanged { session, timeout_ms: 1 },
            Change::SessionEnded { session, reason: SessionEnd::Closed },
        ];
        changes.extend(cluster.map(|event| Change::Cluster(Box::new(event))));
        changes
    }

    #[test]
    fn an_event_is_selected_by_the_type_that_it_is_shown_with() {
        for change in changes() {
            let selected = json!(change.event_type());
            let shown = json!(WatchLine { revision: Revision(1), what: of_change(change) });
            assert_eq!(shown["type"], selected, "{shown}");
        }
    }
}
