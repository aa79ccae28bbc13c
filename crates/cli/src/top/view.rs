//! The screen of `fairhold top`: nodes above, locks in the middle, the chosen lock's queue below.

use super::Look;
use crate::remote::form::{cell, harmless};
use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    style::{Style, Stylize as _},
    text::Line,
    widgets::{Block, Borders, Paragraph, Row, Table, TableState},
};
use serde_json::Value;

/// Rows for nodes at most, so that locks stay in sight.
const NODES_MAX: usize = 7;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, look: &Look, chosen: usize) {
    let members = look.cluster["members"].as_array().cloned().unwrap_or_default();
    let members = &members[..members.len().min(NODES_MAX)];
    let nodes_rows = u16::try_from(members.len()).unwrap_or(0) + 2;
    let parts = [Constraint::Length(1), Constraint::Length(nodes_rows), Constraint::Fill(3), Constraint::Fill(2)];
    let [head, nodes, locks, queue] = Layout::vertical(parts).areas(frame.area());
    let of = |field| cell(&look.cluster, field);
    let head_line = match &look.trouble {
        Some(trouble) => Line::from(format!(" fairhold top: {}", harmless(trouble))).reversed(),
        None => Line::from(format!(
            " fairhold top: leader {}, term {}, revision {}; q quits",
            of("leader"),
            of("term"),
            of("revision")
        )),
    };
    frame.render_widget(Paragraph::new(head_line), head);

    let rows = rows(members, &["id", "role", "url", "lag", "silent_for"]);
    let widths =
        [Constraint::Length(4), Constraint::Length(8), Constraint::Fill(1), Constraint::Length(8), Constraint::Length(10)];
    let titles = Row::new(["ID", "ROLE", "URL", "BEHIND", "SILENT"]).bold();
    frame.render_widget(Table::new(rows, widths).header(titles).block(Block::new().borders(Borders::BOTTOM)), nodes);

    let rows = self::rows(&look.locks, &["lock", "state", "holders", "queue_length", "held_for", "waiting_since"]);
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(20),
    ];
    let titles = Row::new(["LOCK", "STATE", "HOLDERS", "WAITING", "HELD FOR", "WAITED FOR SINCE"]).bold();
    let table = Table::new(rows, widths).header(titles).row_highlight_style(Style::new().reversed());
    let mut state = TableState::new().with_selected(Some(chosen));
    frame.render_stateful_widget(table, locks, &mut state);

    let name = look.locks.get(chosen).map_or_else(|| "no lock".to_owned(), |lock| harmless(&cell(lock, "lock")));
    let rows = self::rows(&look.queue, &["position", "state", "number", "mode", "owner", "since"]);
    let widths = [
        Constraint::Length(6),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Fill(1),
        Constraint::Length(20),
    ];
    let titles = Row::new(["PLACE", "STATE", "GRANT", "MODE", "OWNER", "SINCE"]).bold();
    let block = Block::new().borders(Borders::TOP).title(format!(" {name} "));
    frame.render_widget(Table::new(rows, widths).header(titles).block(block), queue);
}

fn rows(items: &[Value], fields: &[&str]) -> Vec<Row<'static>> {
    items.iter().map(|item| Row::new(fields.iter().map(|field| harmless(&cell(item, field))).collect::<Vec<_>>())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::json;

    fn screen(look: &Look, columns: u16, rows: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, look, 0)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn nodes_locks_and_the_queue_have_room_on_80_by_24() {
        let node = |id: u64| json!({"id": id, "role": "voter", "url": format!("http://10.0.0.{id}:7171"), "lag": 0});
        let lock = json!({"lock": "deploy", "state": "held", "holders": 1, "queue_length": 2, "held_for": "12s"});
        let waiter =
            |place: u64| json!({"position": place, "state": "queued", "number": 40 + place, "owner": format!("ci-{place}")});
        let mut look = Look {
            cluster: json!({"leader": 2, "term": 3, "revision": 99, "members": [node(1), node(2), node(3)]}),
            locks: vec![lock; 40],
            queue: (1..40).map(waiter).collect(),
            trouble: None,
        };
        let drawn = screen(&look, 80, 24);
        for text in ["leader 2", "http://10.0.0.3:7171", "deploy", "12s", "ci-1", "WAITING"] {
            assert!(drawn.contains(text), "{text} is not on\n{drawn}");
        }
        look.trouble = Some("no answer".to_owned());
        assert!(screen(&look, 80, 24).contains("no answer"));
        for (columns, rows) in [(1, 1), (20, 5), (300, 100)] {
            screen(&look, columns, rows);
        }
    }
}
