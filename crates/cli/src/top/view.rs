//! The screen of `fairhold top`: nodes at the top, locks in the middle, the queue of the selected lock at the bottom.

use super::poller::TopFrame;
use crate::remote::format::{cell, rounded, terminal_safe};
use fairhold_health::cluster_probe::ProbedMember;
use fairhold_types::duration;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Style, Stylize as _},
    text::Line,
    widgets::{Block, Borders, Paragraph, Row, Table, TableState},
};
use serde_json::Value;
use std::time::Duration;

/// The most rows for nodes, so that locks stay visible.
const NODES_MAX: usize = 7;
/// From this age on, the content is marked as old.
const OLD: Duration = Duration::from_millis(2_000);

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, content: &TopFrame, selected: usize) {
    let shown = &content.nodes[..content.nodes.len().min(NODES_MAX)];
    let nodes_rows = u16::try_from(shown.len()).unwrap_or(0) + 2;
    let parts = [Constraint::Length(1), Constraint::Length(nodes_rows), Constraint::Fill(3), Constraint::Fill(2)];
    let [head, nodes, locks, queue] = Layout::vertical(parts).areas(frame.area());
    let age = content.seen.map(|seen| seen.elapsed());
    frame.render_widget(Paragraph::new(heading(content, age)), head);
    draw_nodes(frame, nodes, shown);
    // Old content must not look current.
    let style = if age.is_some_and(|age| age >= OLD) { Style::new().dim() } else { Style::new() };
    draw_locks(frame, locks, content, selected, style);
    draw_queue(frame, queue, content, style);
}

/// The state of the cluster, and the age of the rest of the screen.
fn heading(content: &TopFrame, age: Option<Duration>) -> Line<'static> {
    let summary = if content.summary.is_empty() { "asking the cluster" } else { &content.summary };
    match (&content.error, age) {
        (None, Some(age)) if age < OLD => Line::from(format!(" fairhold top: {}; q quits", terminal_safe(summary))),
        (error, age) => {
            let seen = age.map_or_else(|| "nothing seen yet".to_owned(), |age| format!("seen {} ago", duration::rounded(age)));
            let why = error.as_ref().map_or_else(String::new, |why| format!(": {}", terminal_safe(why)));
            Line::from(format!(" fairhold top: {}; locks {seen}{why}", terminal_safe(summary))).reversed()
        }
    }
}

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, nodes: &[ProbedMember]) {
    let dash = || "-".to_owned();
    let row = |node: &ProbedMember| {
        let (role, is_silent) = match &node.role {
            Ok(role) => (role.clone(), false),
            Err(why) => (format!("NO ANSWER: {}", terminal_safe(why)), true),
        };
        let lag = node.lag.map_or_else(dash, |lag| lag.to_string());
        let silent = node.silent_for.as_deref().map_or_else(dash, rounded);
        let row = Row::new([node.id.to_string(), role, terminal_safe(&node.url), lag, silent]);
        if is_silent { row.reversed() } else { row }
    };
    let widths = [Constraint::Length(4), Constraint::Fill(1), Constraint::Fill(1), Constraint::Length(8), Constraint::Length(8)];
    let titles = Row::new(["ID", "ROLE", "URL", "BEHIND", "SILENT"]).bold();
    let table = Table::new(nodes.iter().map(row).collect::<Vec<_>>(), widths).header(titles);
    frame.render_widget(table.block(Block::new().borders(Borders::BOTTOM)), area);
}

fn draw_locks(frame: &mut Frame<'_>, area: Rect, content: &TopFrame, selected: usize, style: Style) {
    let fields = ["lock", "state", "owner", "held_for", "queue_length", "waiting_since"];
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Fill(2),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(20),
    ];
    let titles = Row::new(["LOCK", "STATE", "HELD BY", "HELD FOR", "WAITING", "WAITED FOR SINCE"]).bold();
    let table = Table::new(rows(&content.locks, &fields), widths).header(titles).style(style);
    let mut state = TableState::new().with_selected(Some(selected));
    frame.render_stateful_widget(table.row_highlight_style(Style::new().reversed()), area, &mut state);
}

fn draw_queue(frame: &mut Frame<'_>, area: Rect, content: &TopFrame, style: Style) {
    let widths = [
        Constraint::Length(6),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Fill(1),
        Constraint::Length(20),
    ];
    let titles = Row::new(["PLACE", "STATE", "GRANT", "MODE", "OWNER", "SINCE"]).bold();
    let name = content.queue_of.as_deref().map_or_else(|| "no lock".to_owned(), terminal_safe);
    let block = Block::new().borders(Borders::TOP).title(format!(" {name} "));
    let rows = rows(&content.queue, &["position", "state", "number", "mode", "owner", "since"]);
    frame.render_widget(Table::new(rows, widths).header(titles).block(block).style(style), area);
}

fn rows(items: &[Value], fields: &[&str]) -> Vec<Row<'static>> {
    items.iter().map(|item| Row::new(fields.iter().map(|field| text(item, field)).collect::<Vec<_>>())).collect()
}

/// A cell. Drops the fraction of a second from a time, so that the column does not cut it.
fn text(item: &Value, field: &str) -> String {
    let text = terminal_safe(&cell(item, field));
    match (field, text.split_once('.')) {
        ("since" | "waiting_since", Some((seconds, _))) => format!("{seconds}Z"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::json;
    use std::time::Instant;

    fn screen(content: &TopFrame, columns: u16, rows: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, content, 0)).unwrap();
        terminal.backend().to_string()
    }

    fn node(id: u64, role: Result<&str, &str>) -> ProbedMember {
        let role = role.map(str::to_owned).map_err(str::to_owned);
        let (url, peer) = (format!("http://10.0.0.{id}:7171"), format!("10.0.0.{id}:7271"));
        ProbedMember { id, url, peer, role, lag: Some(0), silent_for: None, priority: None, zone: None }
    }

    fn content() -> TopFrame {
        let lock = json!({
            "lock": "deploy", "state": "held", "queue_length": 2, "held_for": "84769ms", "owner": "ci-7",
            "waiting_since": "2026-11-22T04:48:55.123Z",
        });
        let waiter =
            |place: u64| json!({"position": place, "state": "queued", "number": 40 + place, "owner": format!("ci-{place}")});
        TopFrame {
            summary: "3 of 3 nodes answer, node 2 leads in term 3, 1 more may fail".to_owned(),
            nodes: vec![node(1, Ok("follower")), node(2, Ok("leader")), node(3, Ok("follower"))],
            locks: vec![lock; 40],
            queue_of: Some("deploy".to_owned()),
            queue: (1..40).map(waiter).collect(),
            seen: Some(Instant::now()),
            error: None,
        }
    }

    #[test]
    fn nodes_locks_and_the_queue_fit_on_100_by_24() {
        let drawn = screen(&content(), 100, 24);
        for text in ["node 2 leads", "http://10.0.0.3:7171", "deploy", "1m24s", "ci-7", "ci-1", "WAITING", "2026-11-22T04:48:55Z"]
        {
            assert!(drawn.contains(text), "{text} is missing on\n{drawn}");
        }
        for (columns, rows) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            screen(&content(), columns, rows);
        }
    }

    #[test]
    fn a_node_that_does_not_answer_is_not_shown_as_alive() {
        let nodes = vec![node(1, Ok("leader")), node(2, Err("Connection refused")), node(3, Ok("follower"))];
        let drawn = screen(&TopFrame { nodes, ..content() }, 120, 24);
        assert!(drawn.contains("NO ANSWER: Connection refused"), "{drawn}");
    }

    #[test]
    fn old_content_shows_its_age() {
        let seen = Instant::now().checked_sub(Duration::from_secs(7));
        let drawn = screen(&TopFrame { seen, error: Some("no answer within 1s".to_owned()), ..content() }, 160, 24);
        assert!(drawn.contains("locks seen 7s ago: no answer within 1s"), "{drawn}");
        let drawn = screen(&TopFrame::default(), 100, 24);
        assert!(drawn.contains("asking the cluster; locks nothing seen yet"), "{drawn}");
    }
}
