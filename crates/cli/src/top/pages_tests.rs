//! Tests of the pages of text: from answers to lines.

use super::*;
use fairhold_health::cluster_probe::ProbedMember;
use serde_json::json;

/// A lock with a holder and a waiter, as `GET /v1/locks/{name}/queue` and its history have them.
fn lock_frame(name: &str) -> TopFrame {
    let url = "http://10.0.0.2:7171".to_owned();
    let node = ProbedMember {
        id: 2,
        url,
        peer: String::new(),
        role: Ok(String::new()),
        lag: None,
        silent_for: None,
        priority: None,
        zone: None,
    };
    TopFrame {
        nodes: vec![node],
        overview: json!({ "id": 2 }),
        locks: vec![json!({ "lock": name, "usual_hold": "40s" })],
        page: TopPage::Lock(name.to_owned()),
        queue_of: Some(name.to_owned()),
        queue: vec![
            json!({ "position": 1, "state": "held", "number": 88, "owner": "ci-7", "token": 91, "mode": "exclusive",
                    "held_for": "10920s", "since": "2026-11-22T00:10:31.123Z" }),
            json!({ "position": 2, "state": "queued", "number": 92, "owner": "ci-9", "estimate": "40s",
                    "waits_for": { "number": 88, "owner": "ci-7" }, "since": "2026-11-22T00:11:02.123Z" }),
        ],
        rows: vec![json!({ "number": 80, "owner": "ci-3", "token": 81, "ended": "broken", "reason": "it hangs" })],
        ..TopFrame::default()
    }
}

#[test]
fn the_page_of_a_lock_has_its_queue_its_history_and_the_command_that_breaks_it() {
    let frame = lock_frame("deploy");
    let lines = lines(&frame, &frame.page);
    assert_eq!(lines[0], "deploy: held by ci-7 for 3h02m, usually 40s; 1 waiting");
    assert_eq!(lines[1], "to break it: fairhold locks break --token 91 --reason 'WHY' -e http://10.0.0.2:7171 deploy");
    let row = |text: &str| lines.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {lines:#?}"));
    for text in ["queued", "92", "ci-9", "ci-7", "40s", "2026-11-22T00:11:02Z"] {
        assert!(row("ci-9").contains(text), "{lines:#?}");
    }
    assert!(row("it hangs").contains("ci-3") && row("it hangs").contains("broken"), "{lines:#?}");
}

#[test]
fn a_waiter_behind_a_holder_that_exceeds_its_usual_time_has_no_estimate() {
    let mut frame = TopFrame { usual_of_queue: json!("40s"), ..lock_frame("deploy") };
    let has = |frame: &TopFrame, text: &str| lines(frame, &frame.page).iter().any(|line| line.ends_with(text));
    assert!(!has(&frame, "unknown: the holder exceeds its usual time"), "it has an estimate");
    frame.queue[1]["estimate"] = Value::Null;
    assert!(has(&frame, "unknown: the holder exceeds its usual time"));
    frame.usual_of_queue = Value::Null;
    assert!(!has(&frame, "unknown: the holder exceeds its usual time"), "nothing is usual yet");
}

#[test]
fn a_free_lock_has_no_command_and_a_strange_name_is_quoted() {
    let free = TopFrame { queue: Vec::new(), ..lock_frame("deploy") };
    assert_eq!(lines(&free, &free.page)[..2], ["deploy: held by nobody; 0 waiting", ""]);
    for (name, end) in [("a b", " 'a b'"), ("-x", " -- '-x'"), ("a\u{202e}b", " $'a\\U0000202eb'")] {
        let frame = lock_frame(name);
        assert!(lines(&frame, &frame.page)[1].ends_with(end), "{name}");
    }
}

#[test]
fn the_tree_of_waits_is_indented_below_its_root() {
    let rows = vec![
        json!({ "depth": 0, "owner": "ci-7", "session": 41, "blocks": 2, "blocks_for": "10860s",
                "holds": [{ "lock": "deploy", "token": 88, "held_for": "3h" }, { "lock": "a" },
                          { "lock": "b", "token": 1, "held_for": "1s" }, { "lock": "c", "token": 2 }], "holds_left_out": 4 }),
        json!({ "depth": 1, "owner": "ci-9", "waits": { "lock": "deploy", "number": 91, "position": 2, "waiting": "10860s" } }),
        json!({ "depth": 2, "owner": "batch", "repeated": true,
                "waits": { "lock": "orders/42", "position": 3, "waiting": "1200ms" } }),
    ];
    let frame = TopFrame { page: TopPage::Waits, rows, is_complete: false, ..TopFrame::default() };
    let expected = [
        "■ ci-7 (session 41) blocks 2, the longest for 3h01m; holds deploy for 3h; does not hold a now; \
         holds b for 1s; and 5 more",
        "  ▸ ci-9 has waited 3h01m for deploy, place 2",
        "    ▸ batch has waited 1.2s for orders/42, place 3 (shown above)",
        "further rows are left out",
    ];
    assert_eq!(lines(&frame, &TopPage::Waits), expected);
    let empty = TopFrame { page: TopPage::Waits, ..TopFrame::default() };
    assert_eq!(lines(&empty, &TopPage::Waits), ["nobody waits for anybody"]);
}

#[test]
fn events_are_a_table_and_long_texts_are_cut_in_the_middle() {
    let long = format!("{}END", "x".repeat(500));
    let rows = vec![
        json!({ "revision": 9330, "type": "granted", "lock": long, "owner": "ci-9", "number": 91, "session": 52, "token": 9330 }),
        json!({ "revision": 9329, "type": "changed", "path": "/jobs/a" }),
    ];
    let frame = TopFrame { page: TopPage::Events, rows, is_complete: true, ..TopFrame::default() };
    let lines = lines(&frame, &TopPage::Events);
    assert!(lines[0].starts_with("REVISION  TYPE") && lines.len() == 3, "{lines:#?}");
    assert!(lines[1].contains("xxx…x") && lines[1].contains("END  ") && lines[1].contains("ci-9"), "{lines:#?}");
    assert!(lines[1].chars().count() < 150 && lines[2].contains("/jobs/a"), "{lines:#?}");
}

#[test]
fn problems_come_with_their_solutions() {
    let problem =
        json!({ "severity": "critical", "check": "disk_full", "seen": "1 % free", "do": "free space", "since": "then" });
    let frame = TopFrame { page: TopPage::Cluster, overview: json!({ "problems": [problem] }), ..TopFrame::default() };
    assert_eq!(lines(&frame, &TopPage::Cluster), ["⬣ disk_full: 1 % free, since then", "    → free space"]);
    let well = TopFrame { page: TopPage::Cluster, overview: json!({ "problems": [] }), ..TopFrame::default() };
    assert_eq!(lines(&well, &TopPage::Cluster), ["no problems"]);
}

#[test]
fn a_page_that_is_not_polled_yet_shows_nothing_of_another() {
    let frame = lock_frame("deploy");
    for page in [TopPage::Lock("other".to_owned()), TopPage::Waits, TopPage::Events, TopPage::Cluster] {
        assert_eq!(lines(&frame, &page), ["loading"]);
    }
    assert!(lines(&frame, &TopPage::Help).iter().any(|line| line.contains("who waits for whom")));
}
