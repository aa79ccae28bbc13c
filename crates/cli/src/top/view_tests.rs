//! Tests of the screen: from the last result and the user's choice to characters.

use super::*;
use fairhold_types::text::is_plain;
use ratatui::{Terminal, backend::TestBackend};
use serde_json::json;
use std::time::Instant;

fn screen_of(content: &TopFrame, choice: &TopChoice, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, content, choice)).unwrap();
    terminal.backend().to_string()
}

fn screen(content: &TopFrame, columns: u16, rows: u16) -> String {
    screen_of(content, &TopChoice::default(), columns, rows)
}

fn node(id: u64, role: Result<&str, &str>) -> ProbedMember {
    let role = role.map(str::to_owned).map_err(str::to_owned);
    let (url, peer) = (format!("http://10.0.0.{id}:7171"), format!("10.0.0.{id}:7271"));
    ProbedMember { id, url, peer, role, lag: Some(0), silent_for: None, priority: None, zone: None }
}

fn problem(check: &str) -> Value {
    json!({ "severity": "warning", "check": check, "seen": "it is slow", "do": "wait" })
}

fn content() -> TopFrame {
    let lock = json!({
        "lock": "deploy", "state": "held", "queue_length": 2, "held_for": "84769ms", "owner": "ci-7",
        "waiting_since": "2026-11-22T04:48:55.123Z",
    });
    let waiter = |place: u64| json!({"position": place, "state": "queued", "number": 40 + place, "owner": format!("ci-{place}")});
    TopFrame {
        summary: "3 of 3 nodes answer, node 2 leads in term 3, 1 more may fail".to_owned(),
        nodes: vec![node(1, Ok("follower")), node(2, Ok("leader")), node(3, Ok("follower"))],
        overview: json!({
            "id": 2, "revision": 90112, "totals": { "held": 640, "queued": 95, "sessions": 702 }, "problems": [],
            "held_longest": [{ "lock": "deploy", "usual": "40s" }],
        }),
        locks: vec![lock; 40],
        queue_of: Some("deploy".to_owned()),
        queue: (1..40).map(waiter).collect(),
        seen: Some(Instant::now()),
        ..TopFrame::default()
    }
}

fn every_page() -> [TopPage; 6] {
    let lock = TopPage::Lock("deploy".to_owned());
    [TopPage::Locks, lock, TopPage::Waits, TopPage::Events, TopPage::Cluster, TopPage::Help]
}

#[test]
fn nodes_locks_and_the_queue_fit_on_100_by_24() {
    let drawn = screen(&content(), 100, 24);
    for text in ["node 2 leads", "http://10.0.0.3:7171", "deploy", "1m24s", "ci-7", "ci-1", "WAITING", "2026-11-22T04:48:55Z"] {
        assert!(drawn.contains(text), "{text} is missing on\n{drawn}");
    }
    assert!(drawn.contains("USUAL") && drawn.contains("40s"), "{drawn}");
    for page in every_page() {
        for (columns, rows) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            let choice = TopChoice { page: page.clone(), scroll: 1_000, ..TopChoice::default() };
            screen_of(&TopFrame { page: page.clone(), ..content() }, &choice, columns, rows);
        }
    }
}

#[test]
fn a_node_that_does_not_answer_is_not_shown_as_alive() {
    let nodes = vec![node(1, Ok("leader")), node(2, Err("Connection refused")), node(3, Ok("follower"))];
    let drawn = screen(&TopFrame { nodes, ..content() }, 120, 24);
    assert!(drawn.contains("NO ANSWER: Connection refused"), "{drawn}");
}

#[test]
fn old_content_shows_its_age_on_every_page() {
    let seen = Instant::now().checked_sub(Duration::from_secs(7));
    for page in every_page() {
        let old = TopFrame { seen, error: Some("no answer within 1s".to_owned()), page: page.clone(), ..content() };
        let drawn = screen_of(&old, &TopChoice { page, ..TopChoice::default() }, 160, 24);
        assert!(drawn.contains("figures seen 7s ago: no answer within 1s"), "{drawn}");
    }
    let drawn = screen(&TopFrame::default(), 100, 24);
    assert!(drawn.contains("asking the cluster; no figures yet"), "{drawn}");
}

#[test]
fn every_page_has_the_revision_the_totals_and_the_first_problems() {
    let problems: Vec<Value> = ["one", "two", "three", "four"].map(problem).to_vec();
    let mut content = content();
    content.overview["problems"] = problems.into();
    for page in every_page() {
        let drawn = screen_of(&content, &TopChoice { page: page.clone(), ..TopChoice::default() }, 160, 24);
        assert!(drawn.contains("revision 90112 at node 2, seen "), "{drawn}");
        assert!(drawn.contains("640 held, 95 queued, 702 sessions; c lists all 4 problems"), "{drawn}");
        assert!(drawn.contains("▲ three: it is slow"), "{drawn}");
    }
    // A program without an overview.
    let drawn = screen(&TopFrame { overview: Value::Null, ..content }, 160, 24);
    assert!(drawn.contains("deploy") && !drawn.contains("revision"), "{drawn}");
}

#[test]
fn the_user_sees_the_search_the_sort_and_the_pause() {
    let choice = |search: &str, typed: Option<&str>, is_paused| TopChoice {
        search: search.to_owned(),
        typed: typed.map(str::to_owned),
        is_paused,
        sort: 1,
        ..TopChoice::default()
    };
    let drawn = screen_of(&content(), &choice("state:held", None, true), 160, 24);
    assert!(drawn.contains("PAUSED, p continues") && drawn.contains("sorted by waiters; search state:held"), "{drawn}");
    let drawn = screen_of(&content(), &choice("", Some("orders/\u{1b}"), false), 160, 24);
    assert!(drawn.contains("search: orders/\\u{1b}_"), "{drawn}");
}

#[test]
fn what_people_wrote_cannot_control_the_terminal_on_any_page() {
    let evil = "a\u{1b}]0;x\u{7}\u{202e}b";
    let lock = json!({ "lock": evil, "state": evil, "owner": evil, "since": evil, "usual_hold": evil });
    let waits = json!({ "lock": evil, "waiting": evil, "position": 2, "token": 1, "held_for": evil });
    let row = json!({
        "owner": evil, "lock": evil, "path": evil, "reason": evil, "by": evil, "type": evil, "waits": waits, "holds": [waits],
    });
    let holder = json!({ "state": "held", "owner": evil, "token": 7, "since": evil, "mode": evil, "held_for": evil });
    let mut overview = content().overview;
    overview["problems"] = json!([{ "severity": evil, "check": evil, "seen": evil, "do": evil, "lock": evil, "since": evil }]);
    for page in every_page() {
        let page = if matches!(page, TopPage::Lock(_)) { TopPage::Lock(evil.to_owned()) } else { page };
        let content = TopFrame {
            summary: evil.to_owned(),
            nodes: vec![ProbedMember { url: evil.to_owned(), ..node(2, Err(evil)) }],
            overview: overview.clone(),
            locks: vec![lock.clone()],
            page: page.clone(),
            queue_of: Some(evil.to_owned()),
            queue: vec![holder.clone()],
            rows: vec![row.clone()],
            error: Some(evil.to_owned()),
            ..content()
        };
        let choice = TopChoice { page, search: evil.to_owned(), ..TopChoice::default() };
        let drawn = screen_of(&content, &choice, 200, 40);
        assert_eq!(drawn.chars().find(|c| !is_plain(*c) && *c != '\n'), None, "{drawn}");
        assert!(drawn.contains("\\u{202e}b"), "{drawn}");
    }
}
