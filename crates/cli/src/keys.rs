//! The keys of live views on a terminal in raw mode.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::{io, time::Duration};

/// How often `quit` checks the keyboard.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// What a key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// q, Esc or Ctrl-C.
    Quit,
    /// Up or k.
    Up,
    /// Down or j.
    Down,
    /// Any other key, or none.
    None,
}

/// Waits for at most this long for a key.
pub(crate) fn read(within: Duration) -> io::Result<Key> {
    if !event::poll(within)? {
        return Ok(Key::None);
    }
    let Event::Key(key) = event::read()? else { return Ok(Key::None) };
    if key.kind == KeyEventKind::Release {
        return Ok(Key::None);
    }
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return Ok(Key::Quit);
    }
    Ok(if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
        Key::Quit
    } else if matches!(key.code, KeyCode::Up | KeyCode::Char('k')) {
        Key::Up
    } else if matches!(key.code, KeyCode::Down | KeyCode::Char('j')) {
        Key::Down
    } else {
        Key::None
    })
}

/// Waits until the user quits. Never returns if the keyboard cannot be read.
pub(crate) async fn quit() {
    loop {
        match read(Duration::ZERO) {
            Ok(Key::Quit) => return,
            Ok(Key::Up | Key::Down | Key::None) => tokio::time::sleep(CHECK_EVERY).await,
            Err(_) => return std::future::pending().await,
        }
    }
}
