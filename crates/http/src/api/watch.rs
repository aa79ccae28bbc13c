//! `GET /v1/watch`: events as they happen, as lines of JSON or as server-sent events.

use crate::{
    edge::error::{at_end_of_stream, of_read},
    edge::frames::{Frames, Lines},
    edge::headers,
    edge::names::refuse_reserved,
    edge::problem::Problem,
    edge::request::Received,
    edge::request_kind::RequestKind,
    edge::stream::StreamFormat,
};
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use fairhold_node::{
    Node,
    change::{Change, ChangedContender},
    watch::{InitialItem, NodeWatch, RevisionChanges, WatchItem, WatchStart},
    watch_filter::WatchFilter,
};
use fairhold_state::command::ClusterEvent;
use fairhold_types::{
    Path, Revision, SessionNumber, call, duration,
    watch::{WatchLine, What},
};
use http::HeaderMap;
use openraft_rt::AsyncRuntime;
use std::{convert::Infallible, sync::Arc, time::Duration};

/// `GET /v1/watch`
pub(crate) async fn watch<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::Watch = received.query()?;
    let filters = filters(&params)?;
    let start = start(&params, received.headers())?;
    let read = received.read_options(params.consistency)?;
    let form = StreamFormat::requested_or_default(received.headers())?;
    let watch = node.watch(filters, start, read).await.map_err(of_read)?;
    let revision = watch.revision();
    Ok(form.answer(body(watch, Frames::new(form, received.memory().cloned(), revision)), revision))
}

/// What to watch: each parameter adds to it; without any, everything.
fn filters(params: &call::Watch) -> Result<Vec<WatchFilter>, Problem> {
    let call::Watch { recursive, children, .. } = *params;
    if params.cluster {
        return of_cluster(params);
    }
    if recursive && children {
        return Err(Problem::bad_request("pass either recursive or children, not both: everything below a node, or one level"));
    }
    let path = params.path.clone();
    if path.as_ref().is_some_and(Path::is_under_locks) {
        return Err(Problem::bad_request("watch a lock by its name: lock=NAME, or locks for all locks"));
    }
    let lock = params.lock.clone();
    lock.as_ref().map_or(Ok(()), refuse_reserved)?;
    if (recursive && path.is_none() && lock.is_none()) || (children && path.is_none()) {
        return Err(Problem::bad_request("recursive needs path or lock, and children needs path"));
    }
    let of_path = path.map(|path| match (recursive, children) {
        (true, _) => WatchFilter::Subtree(path),
        (false, true) => WatchFilter::Children(path),
        (false, false) => WatchFilter::Node(path),
    });
    let of_lock = lock.map(|lock| if recursive { WatchFilter::LocksBelow(lock) } else { WatchFilter::Lock(lock) });
    let locks = params.locks.then_some(WatchFilter::Locks);
    let session = params.session.map(|number| WatchFilter::Session(SessionNumber(number.get())));
    let sessions = params.sessions.then_some(WatchFilter::Sessions);
    // A filter within another one would send the initial state twice.
    let of_lock = of_lock.filter(|_| locks.is_none());
    let session = session.filter(|_| sessions.is_none());
    let filters: Vec<WatchFilter> = [of_path, of_lock, locks, session, sessions].into_iter().flatten().collect();
    Ok(if filters.is_empty() {
        vec![WatchFilter::Subtree(Path::root()), WatchFilter::Locks, WatchFilter::Sessions]
    } else {
        filters
    })
}

/// The filter of a watch of the cluster, which watches nothing else.
fn of_cluster(params: &call::Watch) -> Result<Vec<WatchFilter>, Problem> {
    let call::Watch { path, recursive, children, lock, locks, session, sessions, cluster: _, from: _, initial, consistency: _ } =
        params;
    let named = path.is_some() || lock.is_some() || session.is_some();
    if named || *recursive || *children || *locks || *sessions {
        return Err(Problem::bad_request("pass cluster alone: watch nodes, locks and sessions with another request"));
    }
    if *initial {
        return Err(Problem::bad_request("pass cluster without initial: start the watch, and then read GET /v1/cluster/members"));
    }
    Ok(vec![WatchFilter::Cluster])
}

/// A browser that reconnects repeats its parameters and names the last event that it received.
fn start(params: &call::Watch, headers: &HeaderMap) -> Result<WatchStart, Problem> {
    let from = params.from.map(|revision| Revision(revision.get()));
    let initial = params.initial;
    if initial && from.is_some() {
        return Err(Problem::bad_request(
            "pass either from or initial, not both: continue from a revision, or start with the current state",
        ));
    }
    let last = headers::last_event_id(headers)?;
    Ok(match (last, from, initial) {
        (Some(last), _, _) => WatchStart::From(last.next()),
        (None, Some(from), _) => WatchStart::From(from),
        (None, None, true) => WatchStart::Initial,
        (None, None, false) => WatchStart::Now,
    })
}

/// The lines of an item. Only the last line of a revision has an id.
fn lines(item: WatchItem) -> Lines {
    let one = |revision, what, id| -> Lines { Box::new(std::iter::once((WatchLine { revision, what }, id))) };
    match item {
        WatchItem::Initial(revision, list) => {
            Box::new(list.into_iter().map(move |item| (WatchLine { revision, what: of_initial(item) }, None)))
        }
        WatchItem::Changes(revisions) => {
            Box::new(revisions.into_iter().flat_map(|RevisionChanges { revision, changes, complete }| {
                let last = changes.len().saturating_sub(1);
                let id = move |index: usize| (complete && index == last).then_some(revision);
                let changes = changes.into_iter().enumerate();
                changes.map(move |(index, change)| (WatchLine { revision, what: of_change(change) }, id(index)))
            }))
        }
        WatchItem::Bookmark(revision) => one(revision, What::Bookmark, Some(revision)),
        WatchItem::CredentialExpires(revision) => one(revision, What::CredentialExpires, None),
        WatchItem::GoAway(revision) => one(revision, What::Goaway, None),
        WatchItem::Failed(revision, error) => {
            one(revision, What::Error(Box::new(at_end_of_stream(error, RequestKind::Read).into())), None)
        }
    }
}

/// A body that reads from the watch only when the connection accepts more.
fn body<RT: AsyncRuntime>(watch: NodeWatch<RT>, frames: Frames) -> Body {
    Body::from_stream(futures_util::stream::unfold((watch, frames), move |(mut watch, mut frames)| async move {
        loop {
            if let Some(frame) = frames.next() {
                return Some((Ok::<Bytes, Infallible>(frame), (watch, frames)));
            }
            if frames.ended() {
                return None;
            }
            frames.add(lines(watch.next().await?));
        }
    }))
}

fn span(millis: u64) -> String {
    duration::format(Duration::from_millis(millis))
}

/// A change, as the API shows it.
pub(crate) fn of_change(change: Change) -> What {
    let text = |text: Arc<str>| (*text).to_owned();
    match change {
        Change::NodeCreated(path) => What::NodeCreated { path },
        Change::NodeChanged { path, version } => What::NodeChanged { path, version },
        Change::NodeDeleted(path) => What::NodeDeleted { path },
        Change::Queued(ChangedContender { lock, number, session, owner }) => {
            What::Queued { lock, number, session, owner: text(owner) }
        }
        Change::Granted(ChangedContender { lock, number, session, owner }, token) => {
            What::Granted { lock, number, token, session, owner: text(owner) }
        }
        Change::GrantEnded { lock, number, session, reason } => What::GrantEnded { lock, number, session, reason },
        Change::Cooling { lock, number, delay_ms } => What::Cooling { lock, number, delay: span(delay_ms) },
        Change::Downgraded { lock, number } => What::Downgraded { lock, number },
        Change::Cooled { lock, number } => What::Cooled { lock, number },
        Change::Broken { lock, by, reason } => What::Broken { lock, by: text(by), reason: text(reason) },
        Change::Proclaimed { leader, token, version, value: _ } => What::Proclaimed {
            lock: leader.lock,
            number: leader.number,
            token,
            version,
            session: leader.session,
            owner: text(leader.owner),
        },
        Change::Vacated { lock, number } => What::Vacated { lock, number },
        Change::LockSet { lock, by } => What::LockSet { lock, by: text(by) },
        Change::Revoked { lock, number, by, reason } => What::Revoked { lock, number, by: text(by), reason: text(reason) },
        Change::LockForgotten(lock) => What::LockForgotten { lock },
        Change::SessionOpened { session, timeout_ms } => What::SessionOpened { session, ttl: span(timeout_ms) },
        Change::SessionChanged { session, timeout_ms } => What::SessionChanged { session, ttl: span(timeout_ms) },
        Change::SessionEnded { session, reason } => What::SessionEnded { session, reason },
        Change::Cluster(event) => of_cluster_event(*event),
    }
}

fn of_cluster_event(event: ClusterEvent) -> What {
    match event {
        ClusterEvent::Joining { node, role, replaces } => What::MemberJoining { member: node, role, replaces },
        ClusterEvent::Joined { node, role } => What::MemberJoined { member: node, role },
        ClusterEvent::Removing { node, by } => What::MemberRemoving { member: node, by },
        ClusterEvent::Removed { node, by } => What::MemberRemoved { member: node, by },
        ClusterEvent::MemberSet { node, by } => What::MemberSet { member: node, by },
        ClusterEvent::TimingSet { timing, by } => What::TimingSet { timing, by },
        ClusterEvent::Finalized { version } => What::UpgradeFinalized { cluster_version: version },
    }
}

fn of_initial(item: InitialItem) -> What {
    match item {
        InitialItem::Node { path, version } => What::NodeThere { path, version },
        InitialItem::Contender(contender) => What::ContenderThere {
            lock: contender.lock,
            number: contender.number,
            state: contender.state,
            token: contender.token,
            session: contender.session,
            owner: contender.owner,
        },
        InitialItem::Session { number, timeout, name } => {
            What::SessionThere { session: number, ttl: duration::format(timeout), name }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_node::api::CallError;
    use fairhold_types::LockName;

    fn read(query: &str) -> Result<call::Watch, Problem> {
        crate::edge::params::parse(Some(query), &[]).map(|given| given.params)
    }

    fn filters_of(query: &str) -> Result<Vec<WatchFilter>, Problem> {
        filters(&read(query)?)
    }

    #[test]
    fn each_parameter_adds_to_what_is_watched_and_none_means_everything() {
        let (a, lock) = (Path::parse("/a").unwrap(), LockName::parse("orders/42").unwrap());
        for (query, wanted) in [
            ("", vec![WatchFilter::Subtree(Path::root()), WatchFilter::Locks, WatchFilter::Sessions]),
            ("path=/a", vec![WatchFilter::Node(a.clone())]),
            ("path=/a&children", vec![WatchFilter::Children(a.clone())]),
            ("path=/a&recursive", vec![WatchFilter::Subtree(a.clone())]),
            ("lock=orders/42", vec![WatchFilter::Lock(lock.clone())]),
            ("lock=orders%2F42&recursive&path=/a", vec![WatchFilter::Subtree(a), WatchFilter::LocksBelow(lock)]),
            ("locks&lock=x&sessions&session=7", vec![WatchFilter::Locks, WatchFilter::Sessions]),
            ("session=7", vec![WatchFilter::Session(SessionNumber(7))]),
            ("cluster", vec![WatchFilter::Cluster]),
            ("cluster&from=7&consistency=local", vec![WatchFilter::Cluster]),
        ] {
            assert_eq!(filters_of(query).unwrap(), wanted, "{query}");
        }
        for wrong in ["recursive", "children", "path=/a&recursive&children", "path=a", "path=/locks/a", "lock=a&children"] {
            assert!(filters_of(wrong).is_err(), "{wrong} was accepted");
        }
        for other in ["path=/a", "recursive", "children", "lock=a", "locks", "session=7", "sessions", "initial"] {
            let refused = filters_of(&format!("cluster&{other}")).unwrap_err();
            let text = format!("{refused:?}");
            assert!(text.contains("pass cluster "), "{other}: {text}");
        }
    }

    #[test]
    fn a_browser_that_reconnects_continues_after_its_last_event() {
        let start = |query: &str, last: Option<&str>| {
            let headers = last.map(|last| (headers::LAST_EVENT_ID, last.parse().unwrap()));
            start(&read(query)?, &headers.into_iter().collect())
        };
        assert_eq!(start("", None).unwrap(), WatchStart::Now);
        assert_eq!(start("initial", None).unwrap(), WatchStart::Initial);
        assert_eq!(start("from=7", None).unwrap(), WatchStart::From(Revision(7)));
        assert_eq!(start("from=7", Some("9")).unwrap(), WatchStart::From(Revision(10)));
        assert_eq!(start("initial", Some("9")).unwrap(), WatchStart::From(Revision(10)));
        assert_eq!(start("initial", Some("")).unwrap(), WatchStart::Initial);
        for (query, last) in [("from=0", None), ("from=-1", None), ("from=1&initial", None), ("", Some("x"))] {
            assert!(start(query, last).is_err(), "{query} {last:?}");
        }
    }

    fn text_of(form: StreamFormat, item: WatchItem) -> String {
        let mut frames = Frames::new(form, None, Revision(0));
        frames.add(lines(item));
        std::iter::from_fn(|| frames.next()).map(|frame| String::from_utf8(frame.to_vec()).unwrap()).collect()
    }

    #[test]
    fn an_event_has_an_id_only_if_its_revision_is_complete() {
        let created = |path: &str| Change::NodeCreated(Path::parse(path).unwrap());
        let changes_of =
            |complete, paths: [&str; 2]| RevisionChanges { revision: Revision(7), changes: paths.map(created).into(), complete };
        let revisions = [changes_of(false, ["/0", "/1"]), changes_of(true, ["/a", "/a/b"])];
        let text = |form: StreamFormat| {
            revisions.iter().map(|changes| text_of(form, WatchItem::Changes(vec![changes.clone()]))).collect::<String>()
        };
        assert_eq!(
            text(StreamFormat::Events),
            "data: {\"revision\":7,\"type\":\"created\",\"path\":\"/0\"}\n\n\
             data: {\"revision\":7,\"type\":\"created\",\"path\":\"/1\"}\n\n\
             data: {\"revision\":7,\"type\":\"created\",\"path\":\"/a\"}\n\n\
             id: 7\ndata: {\"revision\":7,\"type\":\"created\",\"path\":\"/a/b\"}\n\n"
        );
        assert_eq!(
            text(StreamFormat::Lines),
            "{\"revision\":7,\"type\":\"created\",\"path\":\"/0\"}\n{\"revision\":7,\"type\":\"created\",\"path\":\"/1\"}\n\
             {\"revision\":7,\"type\":\"created\",\"path\":\"/a\"}\n{\"revision\":7,\"type\":\"created\",\"path\":\"/a/b\"}\n"
        );
    }

    #[test]
    fn a_watcher_that_is_cut_off_learns_why_and_where_to_continue() {
        let failed = WatchItem::Failed(Revision(90), CallError::Compacted { oldest: Revision(80) });
        let json: serde_json::Value = serde_json::from_str(&text_of(StreamFormat::Lines, failed)).unwrap();
        assert_eq!((&json["type"], &json["code"]), (&"error".into(), &"compacted".into()), "{json}");
        assert_eq!((&json["oldest"], &json["revision"]), (&80.into(), &90.into()), "{json}");
    }
}
