//! The screen of `fairhold top`. On top, on every page: the cluster, the age of the figures, and the problems. Below:
//! the nodes, the locks and the queue of the chosen lock, or another page.

use super::{
    choice::TopChoice,
    frame::{TopFrame, TopPage},
    pages,
};
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
/// The most problems on top of each page.
const PROBLEMS_MAX: usize = 3;
/// From this age on, the content is marked as old.
const OLD: Duration = Duration::from_millis(2_000);

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, content: &TopFrame, choice: &TopChoice) {
    let age = content.seen.map(|seen| seen.elapsed());
    let mut head = vec![heading(content, age), Line::from(status(content, choice, age))];
    head.extend(
        content.problems().iter().take(PROBLEMS_MAX).map(|problem| Line::from(format!(" {}", pages::problem_line(problem)))),
    );
    let [top, body] = Layout::vertical([Constraint::Length(rows_for(head.len())), Constraint::Fill(1)]).areas(frame.area());
    frame.render_widget(Paragraph::new(head), top);
    // Old content must not look current.
    let style = if age.is_some_and(|age| age >= OLD) { Style::new().dim() } else { Style::new() };
    match &choice.page {
        TopPage::Locks => draw_list(frame, body, content, choice, style),
        TopPage::Cluster => {
            let parts = [Constraint::Length(rows_for(content.nodes.len()) + 2), Constraint::Fill(1)];
            let [nodes, rest] = Layout::vertical(parts).areas(body);
            draw_nodes(frame, nodes, &content.nodes);
            draw_lines(frame, rest, content, choice, style);
        }
        TopPage::Lock(_) | TopPage::Waits | TopPage::Events | TopPage::Help => draw_lines(frame, body, content, choice, style),
    }
}

fn rows_for(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// The state of the cluster, and the age of the rest of the screen if it is old.
fn heading(content: &TopFrame, age: Option<Duration>) -> Line<'static> {
    let summary = if content.summary.is_empty() { "asking the cluster" } else { &content.summary };
    match (&content.error, age) {
        (None, Some(age)) if age < OLD => {
            Line::from(format!(" fairhold top: {}; ? lists the keys, q quits", terminal_safe(summary)))
        }
        (error, age) => {
            let seen =
                age.map_or_else(|| "no figures yet".to_owned(), |age| format!("figures seen {} ago", duration::rounded(age)));
            let why = error.as_ref().map_or_else(String::new, |why| format!(": {}", terminal_safe(why)));
            Line::from(format!(" fairhold top: {}; {seen}{why}", terminal_safe(summary))).reversed()
        }
    }
}

/// The search while it is typed; otherwise where the figures come from, the totals, and what the list shows.
fn status(content: &TopFrame, choice: &TopChoice, age: Option<Duration>) -> String {
    if let Some(typed) = &choice.typed {
        return format!(" search: {}_", terminal_safe(typed));
    }
    let overview = &content.overview;
    let mut parts = Vec::new();
    if choice.is_paused {
        parts.push("PAUSED, p continues".to_owned());
    }
    if overview.is_object() {
        let total = |name| cell(&overview["totals"], name);
        // In whole seconds, so that the line does not flicker.
        let age = age.map_or(0, |age| age.as_secs());
        let node = cell(overview, "id");
        parts.push(format!("revision {} at node {node}, seen {age}s ago", cell(overview, "revision")));
        parts.push(format!("{} held, {} queued, {} sessions", total("held"), total("queued"), total("sessions")));
    }
    if content.problems().len() > PROBLEMS_MAX {
        parts.push(format!("c lists all {} problems", content.problems().len()));
    }
    if choice.page == TopPage::Locks {
        parts.push(format!("sorted by {}", choice.sort()));
        if !choice.search.is_empty() {
            parts.push(format!("search {}", choice.search));
        }
    }
    terminal_safe(&format!(" {}", parts.join("; ")))
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, content: &TopFrame, choice: &TopChoice, style: Style) {
    let shown = &content.nodes[..content.nodes.len().min(NODES_MAX)];
    let parts = [Constraint::Length(rows_for(shown.len()) + 2), Constraint::Fill(3), Constraint::Fill(2)];
    let [nodes, locks, queue] = Layout::vertical(parts).areas(area);
    draw_nodes(frame, nodes, shown);
    draw_locks(frame, locks, content, choice.row, style);
    draw_queue(frame, queue, content, style);
}

fn draw_lines(frame: &mut Frame<'_>, area: Rect, content: &TopFrame, choice: &TopChoice, style: Style) {
    let lines = pages::lines(content, &choice.page);
    // The page may have become shorter.
    let above = choice.scroll.min(lines.len().saturating_sub(1));
    let shown = lines.iter().skip(above).take(usize::from(area.height));
    let lines: Vec<Line<'_>> = shown.map(|line| Line::from(format!(" {line}"))).collect();
    let title = match &choice.page {
        TopPage::Lock(name) => format!(" {} ", terminal_safe(name)),
        TopPage::Waits => " who waits for whom ".to_owned(),
        TopPage::Events => " the newest events ".to_owned(),
        TopPage::Cluster => " problems ".to_owned(),
        TopPage::Help => " keys ".to_owned(),
        TopPage::Locks => String::new(),
    };
    frame.render_widget(Paragraph::new(lines).style(style).block(Block::new().borders(Borders::TOP).title(title)), area);
}

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, nodes: &[ProbedMember]) {
    let dash = || "-".to_owned();
    let row = |node: &ProbedMember| {
        let (role, is_silent) = match &node.role {
            Ok(role) => (terminal_safe(role), false),
            Err(why) => (format!("NO ANSWER: {}", terminal_safe(why)), true),
        };
        let lag = node.lag.map_or_else(dash, |lag| lag.to_string());
        let silent = node.silent_for.as_deref().map_or_else(dash, |silent| terminal_safe(&rounded(silent)));
        let row = Row::new([node.id.to_string(), role, terminal_safe(&node.url), lag, silent]);
        if is_silent { row.reversed() } else { row }
    };
    let widths = [Constraint::Length(4), Constraint::Fill(1), Constraint::Fill(1), Constraint::Length(8), Constraint::Length(8)];
    let titles = Row::new(["ID", "ROLE", "URL", "BEHIND", "SILENT"]).bold();
    let table = Table::new(nodes.iter().map(row).collect::<Vec<_>>(), widths).header(titles);
    frame.render_widget(table.block(Block::new().borders(Borders::BOTTOM)), area);
}

fn draw_locks(frame: &mut Frame<'_>, area: Rect, content: &TopFrame, selected: usize, style: Style) {
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Fill(2),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(20),
    ];
    let titles = Row::new(["LOCK", "STATE", "HELD BY", "HELD FOR", "USUAL", "WAITING", "WAITED FOR SINCE"]).bold();
    let row = |lock: &Value| {
        let usual = content.usual_hold(lock).map_or_else(|| "-".to_owned(), |usual| terminal_safe(&rounded(usual)));
        let [name, state, owner, held_for, waiting, since] =
            ["lock", "state", "owner", "held_for", "queue_length", "waiting_since"].map(|field| text(lock, field));
        Row::new([name, state, owner, held_for, usual, waiting, since])
    };
    let table = Table::new(content.locks.iter().map(row).collect::<Vec<_>>(), widths).header(titles).style(style);
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
#[path = "view_tests.rs"]
mod tests;
