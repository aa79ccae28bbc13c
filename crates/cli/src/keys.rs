//! The keys of live views on a terminal in raw mode.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, IsTerminal as _},
    os::fd::{AsFd as _, OwnedFd},
    sync::LazyLock,
    time::Duration,
};

/// How often `quit` checks the keyboard.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// The terminal that crossterm reads: stdin, or the controlling terminal if stdin is redirected. It is chosen once, because
/// stdin no longer looks like a terminal when its terminal is gone.
static KEYBOARD: LazyLock<io::Result<OwnedFd>> = LazyLock::new(|| {
    let stdin = io::stdin();
    if stdin.is_terminal() { stdin.as_fd().try_clone_to_owned() } else { File::open("/dev/tty").map(OwnedFd::from) }
});

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// Ctrl-C; or the terminal is gone.
    Stop,
    Escape,
    Enter,
    Backspace,
    Up,
    Down,
    /// A key that types this.
    Character(char),
    /// Any other key, or none.
    None,
}

impl Key {
    /// Whether it ends a view without other keys.
    fn quits(self) -> bool {
        matches!(self, Key::Stop | Key::Escape | Key::Character('q'))
    }
}

/// Waits for at most this long for a key.
pub(crate) fn read(within: Duration) -> io::Result<Key> {
    let keyboard = match &*KEYBOARD {
        Ok(keyboard) => keyboard,
        Err(error) => return Err(io::Error::new(error.kind(), format!("the keyboard cannot be read: {error}"))),
    };
    // What was read together with an earlier key comes first.
    for within in [Duration::ZERO, within] {
        // crossterm reads a terminal that is gone again and again, and never returns.
        if is_gone(keyboard, within)? {
            return Ok(Key::Stop);
        }
        if event::poll(Duration::ZERO)? {
            return key();
        }
    }
    Ok(Key::None)
}

fn key() -> io::Result<Key> {
    let Event::Key(key) = event::read()? else { return Ok(Key::None) };
    if key.kind == KeyEventKind::Release {
        return Ok(Key::None);
    }
    if let KeyCode::Char(character) = key.code {
        let is_typed = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        return Ok(if is_typed {
            Key::Character(character)
        } else if character == 'c' && key.modifiers.contains(KeyModifiers::CONTROL) {
            Key::Stop
        } else {
            Key::None
        });
    }
    let known = [
        (KeyCode::Esc, Key::Escape),
        (KeyCode::Enter, Key::Enter),
        (KeyCode::Backspace, Key::Backspace),
        (KeyCode::Up, Key::Up),
        (KeyCode::Down, Key::Down),
    ];
    Ok(known.into_iter().find(|(code, _)| *code == key.code).map_or(Key::None, |(_, key)| key))
}

/// Waits for at most this long for input, and returns whether its terminal is gone, for example with its window.
fn is_gone(keyboard: &OwnedFd, within: Duration) -> io::Result<bool> {
    let mut input = [PollFd::new(keyboard, PollFlags::IN)];
    let timeout = Timespec::try_from(within).map_err(io::Error::other)?;
    match poll(&mut input, Some(&timeout)) {
        Ok(_) => Ok(input[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)),
        // A signal, for example of another size of the window: the caller asks again.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the user quits. Never returns if the keyboard cannot be read.
pub(crate) async fn quit() {
    loop {
        match read(Duration::ZERO) {
            Ok(key) if key.quits() => return,
            Ok(_) => tokio::time::sleep(CHECK_EVERY).await,
            Err(_) => return std::future::pending().await,
        }
    }
}
