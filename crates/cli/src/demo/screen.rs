//! The layout of the demo's live view: never wider or higher than the terminal.

use ratatui::{Frame, style::Style, text::Line, widgets::Paragraph};

/// Draws the view. Rows of nodes that are down are reversed, as in `fairhold top`.
pub(super) fn draw(frame: &mut Frame<'_>, top: &[String], bottom: &[String]) {
    let area = frame.area();
    let rows = rows(top, bottom, area.width.into(), area.height.into());
    let styled = rows.into_iter().enumerate().map(|(index, row)| {
        let style = if index == 0 {
            Style::new().bold()
        } else if row.contains(" DOWN ") {
            Style::new().reversed()
        } else {
            Style::new()
        };
        Line::styled(row, style)
    });
    frame.render_widget(Paragraph::new(styled.collect::<Vec<_>>()), area);
}

/// The rows of the screen. Lines of `top` are cut at the right edge. Lines of `bottom` continue in the next row, so that a
/// command in them can be copied whole; those that do not fit are left out whole, from the end.
fn rows(top: &[String], bottom: &[String], columns: usize, height: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut rows: Vec<String> = top.iter().map(|line| line.chars().take(columns).collect()).collect();
    for line in bottom {
        let letters: Vec<char> = line.chars().collect();
        let parts: Vec<String> = letters.chunks(columns).map(|part| part.iter().collect()).collect();
        // Part of a command is worse than no command.
        if rows.len() + parts.len().max(1) > height {
            break;
        }
        rows.extend(if parts.is_empty() { vec![String::new()] } else { parts });
    }
    rows.truncate(height);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::{Terminal, backend::TestBackend};

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn long_lines_are_cut_at_the_top_and_wrapped_at_the_bottom() {
        let rows = rows(&lines(&["abcdef", "é"]), &lines(&["", "curl 1"]), 4, 9);
        assert_eq!(rows, ["abcd", "é", "", "curl", " 1"]);
    }

    #[test]
    fn lines_that_do_not_fit_are_left_out_whole_from_the_end() {
        let bottom = lines(&["", "curl 1", "c"]);
        assert_eq!(rows(&lines(&["a", "b"]), &bottom, 4, 4), ["a", "b", ""]);
        assert_eq!(rows(&lines(&["a", "b", "c"]), &lines(&["d"]), 4, 2), ["a", "b"]);
    }

    #[test]
    fn the_view_fits_on_every_terminal() {
        let (top, bottom) = (lines(&["title", "  1  -  DOWN  -  http://127.0.0.1:7171"]), lines(&["", "kill -9 4711"]));
        for (columns, height) in [(1, 1), (20, 5), (80, 24)] {
            let mut terminal = Terminal::new(TestBackend::new(columns, height)).unwrap();
            terminal.draw(|frame| draw(frame, &top, &bottom)).unwrap();
            assert!(columns < 80 || terminal.backend().to_string().contains("kill -9 4711"));
        }
    }
}
