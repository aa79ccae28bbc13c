//! The report as one HTML page with a picture of leaders, faults, grants and operations. It loads nothing from
//! elsewhere.

use super::{Report, text};
use crate::history::{Call, History, Op, Outcome};
use std::{collections::BTreeMap, fmt::Write};

/// The width of the picture without its names, in pixels.
const WIDTH: u64 = 1_160;
/// The width of the names.
const NAMES: u64 = 170;
/// The height of a row.
const ROW: u64 = 16;
/// The maximum number of rows of locks and of clients: the busiest ones are drawn.
const ROWS_MAX: usize = 40;
/// The maximum number of bars and dots, so that a browser can show them.
const MARKS_MAX: usize = 60_000;

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;margin:2em;color:#222}\
    pre{background:#f6f6f4;padding:1em;overflow:auto}\
    svg{background:#fff;border:1px solid #ddd}text{font:11px system-ui,sans-serif}.VALID{color:#176b2c}.BROKEN{color:#b3151f}\
    .INVALID{color:#8a5a00}";

/// The picture, row by row.
struct Picture {
    svg: String,
    length: u64,
    row: u64,
    marks: usize,
}

impl Picture {
    fn x(&self, time: u64) -> u64 {
        NAMES + time.min(self.length) * WIDTH / self.length.max(1)
    }

    /// The next row, with its name.
    fn row(&mut self, name: &str) {
        self.row += 1;
        let y = self.row * ROW + 12;
        self.put(&format!("<text x=\"4\" y=\"{y}\">{}</text>", escape(name)));
    }

    fn heading(&mut self, name: &str) {
        self.row += 1;
        let y = self.row * ROW + 12;
        self.put(&format!("<text x=\"4\" y=\"{y}\" font-weight=\"bold\">{}</text>", escape(name)));
    }

    fn bar(&mut self, start: u64, end: u64, colour: &str, title: &str) {
        let (x, y) = (self.x(start), self.row * ROW + 2);
        let width = self.x(end).saturating_sub(x).max(1);
        let height = ROW - 3;
        self.mark(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"><title>{}</title></rect>",
            escape(title)
        ));
    }

    fn mark(&mut self, text: &str) {
        if self.marks < MARKS_MAX {
            self.put(text);
        }
        self.marks += 1;
    }

    fn put(&mut self, text: &str) {
        self.svg.push_str(text);
        self.svg.push('\n');
    }

    fn done(mut self) -> String {
        let (width, height) = (NAMES + WIDTH + 20, (self.row + 3) * ROW);
        let seconds = self.length / 1_000_000;
        let step = (seconds / 20).max(1);
        for second in (0..=seconds).step_by(usize::try_from(step).unwrap_or(1)) {
            let x = self.x(second * 1_000_000);
            let below = height - 6;
            self.put(&format!("<line x1=\"{x}\" y1=\"0\" x2=\"{x}\" y2=\"{}\" stroke=\"#0001\"/>", height - ROW));
            self.put(&format!("<text x=\"{x}\" y=\"{below}\" fill=\"#666\">{second} s</text>"));
        }
        format!("<svg width=\"{width}\" height=\"{height}\" xmlns=\"http://www.w3.org/2000/svg\">\n{}</svg>", self.svg)
    }
}

/// The whole page.
pub(crate) fn page(report: &Report<'_>) -> String {
    let verdict = report.verdict().word();
    let picture = picture(report.history);
    let mut out = String::new();
    out.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Fairhold under faults</title>");
    out.push_str(&format!(
        "<style>{STYLE}</style></head><body>\n<h1>Fairhold under faults: <span class=\"{verdict}\">{verdict}</span></h1>"
    ));
    out.push_str(
        "<p>Hold the pointer over a bar to see what it is. Green: succeeded; grey: certainly did nothing; orange: unknown.</p>",
    );
    out.push_str(&picture);
    out.push_str(&format!("<pre>{}</pre></body></html>\n", escape(&text(report))));
    out
}

fn picture(history: &History) -> String {
    let mut picture = Picture { svg: String::new(), length: history.length, row: 0, marks: 0 };
    leaders(history, &mut picture);
    faults(history, &mut picture);
    grants(history, &mut picture);
    operations(history, &mut picture);
    picture.done()
}

fn leaders(history: &History, picture: &mut Picture) {
    picture.heading("leaders");
    let mut nodes: Vec<usize> = history.leaders.iter().map(|one| one.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for node in nodes {
        picture.row(&format!("node {node}"));
        for (index, one) in history.leaders.iter().enumerate().filter(|(_, one)| one.node == node) {
            let end = history.leaders.get(index + 1).map_or(history.length, |next| next.at);
            picture.bar(one.at, end, "#3b6ea5", &format!("node {node} leads in term {}", one.term));
        }
    }
}

fn faults(history: &History, picture: &mut Picture) {
    picture.heading("faults");
    let mut names: Vec<&str> = history.faults.iter().map(|span| span.fault).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        picture.row(name);
        for span in history.faults.iter().filter(|span| span.fault == name) {
            let (colour, seen) = match &span.effect {
                Ok(seen) => ("#c0392b", seen),
                Err(why) => ("#e8c4c0", why),
            };
            picture.bar(span.start, span.end, colour, &format!("{name}: {}: {seen}", span.detail));
        }
    }
}

/// The holders of each lock, as the watch reported them.
fn grants(history: &History, picture: &mut Picture) {
    let events = history.longest_watch();
    let mut begun: BTreeMap<(&str, u64), (u64, &str)> = BTreeMap::new();
    let mut held: BTreeMap<&str, Vec<(u64, u64, String)>> = BTreeMap::new();
    for event in events {
        let (Some(lock), Some(number)) = (event.text("lock"), event.number("number")) else { continue };
        match event.kind() {
            "granted" => drop(begun.insert((lock, number), (event.at, event.text("owner").unwrap_or_default()))),
            "ended" => {
                if let Some((start, owner)) = begun.remove(&(lock, number)) {
                    let how = event.text("reason").unwrap_or_default();
                    held.entry(lock).or_default().push((start, event.at, format!("{lock}: {owner}, number {number}, {how}")));
                }
            }
            _other => {}
        }
    }
    picture.heading("grants");
    let mut rows: Vec<_> = held.into_iter().collect();
    rows.sort_by_key(|(_, held)| std::cmp::Reverse(held.len()));
    rows.truncate(ROWS_MAX);
    rows.sort_by_key(|(_, held)| held.first().map(|(start, _, _)| *start));
    for (lock, held) in rows {
        picture.row(lock);
        for (index, (start, end, title)) in held.into_iter().enumerate() {
            let colour = if title.ends_with("expired") {
                "#d98c00"
            } else if index.is_multiple_of(2) {
                "#2e8b57"
            } else {
                "#7fc29b"
            };
            picture.bar(start, end, colour, &title);
        }
    }
}

/// One row for each node: the outcomes of each kind of operation.
fn operations(history: &History, picture: &mut Picture) {
    let mut rows: BTreeMap<(usize, Call), Vec<&Op>> = BTreeMap::new();
    for op in &history.ops {
        rows.entry((op.node, op.call)).or_default().push(op);
    }
    picture.heading("operations");
    for ((node, call), ops) in rows.into_iter().take(ROWS_MAX) {
        picture.row(&format!("node {node}: {call:?}"));
        for op in ops {
            let colour = match op.outcome {
                Outcome::Ok => "#2e8b5780",
                Outcome::Fail => "#99999980",
                Outcome::Unknown => "#e67e22",
            };
            let mut title = format!("{call:?} {} by process {}, operation {}", op.key, op.process, op.index);
            if let Some(error) = &op.error {
                write!(title, ": {error}").expect("writing to a String cannot fail");
            }
            picture.bar(op.start, op.end, colour, &title);
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, grant};
    use serde_json::json;

    #[test]
    fn the_picture_has_a_bar_for_each_grant_and_operation() {
        let granted = json!({"type": "granted", "lock": "a<b", "number": 4, "token": 5, "owner": "p"});
        let ended = json!({"type": "ended", "lock": "a<b", "number": 4, "reason": "expired"});
        let mut history = Planted::new().op(grant("a<b", 5).at(0, 500)).event(400, 5, granted).event(900, 6, ended).done();
        history.length = 1_000;
        let svg = picture(&history);
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert!(svg.contains("a&lt;b: p, number 4, expired") && !svg.contains("a<b"), "{svg}");
    }
}
