//! A terminal without a screen: the input, the output, and what a person sees.

use crate::harness::eventually;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::process::{Child, Command};

const COLUMNS: u16 = 160;
const ROWS: u16 = 30;
/// How long the effect of an input may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A program that was started in its own terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    keyboard: File,
    output: Arc<Mutex<Vec<u8>>>,
    pub(crate) child: Child,
}

impl Terminal {
    /// Starts a program in its own session, with the terminal as its controlling terminal.
    pub(crate) fn start(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).expect("it may be used");
        unlockpt(&master).expect("it may be opened");
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("it has a size");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("a name of text");
        let end = || File::options().read(true).write(true).open(&name).expect("its other end");
        // Signals end it even if the test runner ignores them.
        let mut command = Command::new("env");
        command
            .args(["--default-signal=INT,QUIT,HUP", "setsid", "--ctty", "--wait", program])
            .args(arguments)
            .env("TERM", "xterm")
            .envs(environment.iter().copied());
        command.stdin(Stdio::from(end())).stdout(Stdio::from(end())).stderr(Stdio::from(end()));
        let child = command.kill_on_drop(true).spawn().expect("setsid starts it");
        drop(command);
        let (mut screen, output) = (File::from(master), Arc::new(Mutex::new(Vec::new())));
        let keyboard = screen.try_clone().expect("a second handle");
        let heard = Arc::clone(&output);
        // Ends when no process has the terminal open any more.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut bytes) {
                heard.lock().expect("the mutex is not poisoned").extend_from_slice(&bytes[..length]);
            }
        });
        Terminal { keyboard, output, child }
    }

    /// Types these keys.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("it can be typed");
    }

    /// All output so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().expect("the mutex is not poisoned")).into_owned()
    }

    /// Waits until the output contains a text this many times.
    pub(crate) async fn shows(&self, text: &str, times: usize) {
        let shown = || async { (self.text().matches(text).count() >= times).then_some(()) };
        let what = format!("{text:?} is printed {times} times");
        let waited = tokio::time::timeout(SOON, eventually(&what, SOON * 2, shown)).await;
        assert!(waited.is_ok(), "not within {SOON:?}: {what}, but\n{}", self.text());
    }

    /// The screen as a person sees it, once all these texts are on it.
    pub(crate) async fn screen_with(&self, texts: &[&str]) -> String {
        let seen = || async {
            let screen = screen(&self.text());
            texts.iter().all(|text| screen.contains(text)).then_some(screen)
        };
        let waited = tokio::time::timeout(SOON, eventually("it is on the screen", SOON * 2, seen)).await;
        waited.unwrap_or_else(|_| panic!("{texts:?} are not all on\n{}", screen(&self.text())))
    }
}

/// Interprets the output: texts, and the escape sequences that place and clear. Skips colours and all others.
pub(crate) fn screen(output: &str) -> String {
    let (rows, columns) = (usize::from(ROWS), usize::from(COLUMNS));
    let mut cells = vec![vec![' '; columns]; rows];
    let (mut row, mut column) = (0, 0);
    let mut rest = output.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' if rest.next_if_eq(&'[').is_some() => {
                let mut numbers = String::new();
                while let Some(c) = rest.next_if(|c| !('@'..='~').contains(c)) {
                    numbers.push(c);
                }
                let number = |index: usize| numbers.split(';').nth(index).and_then(|text| text.parse().ok()).unwrap_or(0_usize);
                match rest.next() {
                    Some('H') => (row, column) = (number(0).max(1) - 1, number(1).max(1) - 1),
                    Some('J') => cells = vec![vec![' '; columns]; rows],
                    Some('K') => cells[row.min(rows - 1)][column.min(columns)..].fill(' '),
                    _ => {}
                }
            }
            '\x1b' => drop(rest.next()),
            '\r' => column = 0,
            '\n' => row += 1,
            _ => {
                if let Some(cell) = cells.get_mut(row).and_then(|line| line.get_mut(column)) {
                    *cell = c;
                }
                column += 1;
            }
        }
    }
    cells.into_iter().map(|line| format!("{}\n", line.into_iter().collect::<String>().trim_end())).collect()
}

#[test]
fn the_screen_shows_text_where_it_was_placed_until_it_is_cleared() {
    let seen = screen("old\x1b[2J\x1b[2;3Hab\x1b[1mc\x1b[0m\x1b[1;1Hx\x1b[?25l\x1b[2;4H\x1b[K");
    assert!(seen.starts_with("x\n  a\n\n"), "{seen:?}");
}
