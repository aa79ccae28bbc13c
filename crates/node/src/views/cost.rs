//! The cost of a view depends on what it shows, not on how large the state is: no reader delays the others.

#[expect(dead_code, reason = "the most expensive form of each command is for the tests of the state")]
#[path = "../../../state/tests/bounded/crowd.rs"]
mod crowd;
#[expect(dead_code, reason = "commands are measured by the tests of the state")]
#[path = "../../../state/tests/bounded/meter.rs"]
mod meter;

use super::*;
use crowd::Crowd;
use fairhold_state::queue_view::QueueAnchor;
use fairhold_types::SessionNumber;

/// Reads a view, and returns how many entries it shows.
type Read<'a> = &'a dyn Fn(&State) -> usize;

fn owned(state: &State, number: SessionNumber) -> usize {
    let of = state.session(number).expect("the session is open");
    let view = session(state, of, &PageQuery::first());
    view.grants.len() + view.ephemeral_nodes.len()
}

fn queued(state: &State, name: &str) -> usize {
    let name = LockName::parse(name).expect("a name");
    queue_page(state, &name, PageQuery::first(), Before { count: 0, blocker: None }).items.len()
}

fn last_queued(state: &State, name: &str) -> usize {
    let name = LockName::parse(name).expect("a name");
    let PageQuery { limit, .. } = PageQuery::<QueueKey>::first();
    let last = state.queue_key(&name, QueueAnchor::Last).expect("it has contenders");
    let page = PageQuery { after: state.page_around(&name, last, limit), limit };
    queue_page(state, &name, page, Before { count: 0, blocker: None }).items.len()
}

fn held(state: &State, name: &str) -> usize {
    lock(state, &LockName::parse(name).expect("a name")).holders.len()
}

fn ahead(state: &State, id: &GrantId) -> usize {
    let view = grant_in_queue(state, id).expect("it waits");
    view.queue_position.expect("others are ahead of it").ahead.len()
}

#[test]
fn a_view_of_a_large_state_costs_no_more_than_what_it_shows() {
    let crowd = Crowd::new();
    let locks_of = crowd.locks_of.1;
    let nodes_of = crowd.nodes_of.1;
    let last = crowd.last;
    let reads: [(&str, Read<'_>); 8] = [
        ("a session with 100,000 locks", &|state| owned(state, locks_of)),
        ("a session with 100,000 ephemeral nodes", &|state| owned(state, nodes_of)),
        ("a lock that 100,000 hold", &|state| held(state, "pool")),
        ("the queue of a lock that 100,000 hold", &|state| queued(state, "pool")),
        ("the queue of 10,000 behind 40,000 readers", &|state| queued(state, "map")),
        ("the end of the queue of 10,000 behind 40,000 readers", &|state| last_queued(state, "map")),
        ("the last of 10,000 behind 40,000 readers", &|state| ahead(state, &last)),
        ("all totals", &|state| usize::from(state.census().locks > 0)),
    ];
    for (what, read) in reads {
        let shown = read(&crowd.state);
        assert!((1..=PageQuery::<()>::first().limit).contains(&shown), "{what} shows {shown}");
        let complaint = crowd.meter.complaint_of_read(shown, || read(&crowd.state));
        assert_eq!(complaint, None, "{what}, which shows {shown}");
    }
}

#[test]
fn all_contenders_ahead_are_listed_but_at_most_sixteen() {
    let crowd = Crowd::new();
    let written = LockName::parse("written").expect("a name");
    let map = LockName::parse("map").expect("a name");
    for (position, named) in [(1, 0), (2, 1), (4, 3), (17, 16), (9_000, 16)] {
        assert_eq!(positions::of(&crowd.state, &written, position).ahead.len(), named, "at position {position}");
    }
    let first = crowd.state.front(&map, 1).next().expect("it has a holder").number;
    let others = positions::of_upgrade(&crowd.state, &map, first);
    assert_eq!((others.ahead.len(), others.position), (16, 40_000));
    assert!(others.ahead.iter().all(|other| other.facts.number != first));
}
