//! One picture on a terminal, drawn over the one before: never wider and never higher than the terminal is.

use std::io;

/// The cursor goes home and is hidden.
const BEGIN: &str = "\x1b[?25l\x1b[H";
/// What is left of an older line goes.
const LINE_END: &str = "\x1b[K\r\n";
/// What is left below goes.
const END: &str = "\x1b[K\x1b[J";
/// Empties the terminal.
pub(super) const CLEAR: &str = "\x1b[2J";
/// Shows the cursor again, at the start of a line.
pub(super) const LEAVE: &str = "\r\n\x1b[?25h";
/// What a terminal is taken for that does not say.
const SIZE_DEFAULT: ScreenSize = ScreenSize { columns: 80, rows: 24 };

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScreenSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl ScreenSize {
    /// Of the terminal at standard output, as it is now.
    pub(super) fn now() -> ScreenSize {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let size = size.map(|size| ScreenSize { columns: size.ws_col.into(), rows: size.ws_row.into() });
        size.filter(|size| size.columns > 0 && size.rows > 0).unwrap_or(SIZE_DEFAULT)
    }
}

/// The picture: `top` is cut at the right edge, `bottom` goes on in the next row, so that a command in it can be copied
/// whole. What does not fit below is left out from the end.
pub(super) fn picture(top: &[String], bottom: &[String], size: ScreenSize) -> String {
    let cut = top.iter().map(|line| line.chars().take(size.columns).collect::<String>());
    let mut rows: Vec<String> = cut.collect();
    for line in bottom {
        let letters: Vec<char> = line.chars().collect();
        let parts: Vec<String> = letters.chunks(size.columns).map(|part| part.iter().collect()).collect();
        // A command that is shown in part is worse than none.
        if rows.len() + parts.len().max(1) > size.rows {
            break;
        }
        rows.extend(if parts.is_empty() { vec![String::new()] } else { parts });
    }
    rows.truncate(size.rows);
    let mut text = BEGIN.to_owned();
    for (index, row) in rows.iter().enumerate() {
        text.push_str(row);
        let is_full = row.chars().count() == size.columns;
        let is_last = index + 1 == rows.len();
        match (is_last, is_full) {
            (false, false) => text.push_str(LINE_END),
            // Nothing older is left on it, and erasing would take its last letter.
            (false, true) => text.push_str("\r\n"),
            (true, false) => text.push_str(END),
            (true, true) => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn rows(top: &[&str], bottom: &[&str], columns: usize, rows: usize) -> Vec<String> {
        let picture = picture(&lines(top), &lines(bottom), ScreenSize { columns, rows });
        let plain = ["\x1b[?25l", "\x1b[H", "\x1b[K", "\x1b[J"].iter().fold(picture, |text, code| text.replace(code, ""));
        plain.split("\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn what_is_too_wide_is_cut_above_and_goes_on_below() {
        assert_eq!(rows(&["abcdef", "é"], &["", "curl 1"], 4, 9), ["abcd", "é", "", "curl", " 1"]);
    }

    #[test]
    fn what_is_too_high_is_left_out_whole_from_the_end() {
        assert_eq!(rows(&["a", "b"], &["", "curl 1", "c"], 4, 4), ["a", "b", ""]);
        assert_eq!(rows(&["a", "b", "c"], &["d"], 4, 2), ["a", "b"]);
    }
}
