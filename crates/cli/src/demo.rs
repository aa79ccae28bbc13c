//! `dev --demo`: a few clients that queue for locks for ever, and a live view of who holds, who waits and who leads.
//!
//! The view is what the nodes answer; only the times of the grants are the clients' own.

mod board;
mod client;
pub(crate) mod look;
mod names;
mod screen;
mod view;

use self::look::Pids;
use self::names::{CLIENTS, LOCKS};
use crate::{local_http::http_client, output::write_stdout};
use board::Board;
use fairhold_types::NodeId;
use look::DemoFrame;
use screen::ScreenSize;
use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

/// How often the view is drawn anew on a terminal.
const REDRAW_EVERY: Duration = Duration::from_millis(200);
/// How often the view is written elsewhere.
const WRITE_EVERY: Duration = Duration::from_secs(2);
/// How long a node may take to say how it is. Longer than that counts as down.
const LOOK_TIMEOUT: Duration = Duration::from_millis(500);

/// What the demo has to know of the cluster.
#[derive(Debug)]
pub(crate) struct Demo {
    urls: Vec<(NodeId, String)>,
    pids: watch::Receiver<Pids>,
    data: PathBuf,
    restarts: bool,
}

impl Demo {
    /// Of these nodes.
    pub(crate) fn new(urls: Vec<(NodeId, String)>, pids: watch::Receiver<Pids>, data: &Path, restarts: bool) -> Demo {
        Demo { urls, pids, data: data.to_owned(), restarts }
    }

    /// Runs until `stop`, or until stdout is closed.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) -> io::Result<()> {
        let board = Arc::new(Board::new(&LOCKS));
        let urls: Arc<[String]> = self.urls.iter().map(|(_, url)| url.clone()).collect();
        let mut clients = JoinSet::new();
        for name in CLIENTS {
            clients.spawn(client::queue_for_ever(name, urls.clone(), board.clone()));
        }
        let terminal = io::stdout().is_terminal();
        let result = tokio::select! {
            biased;
            // An error means that the sender of the stop signal is gone, which means the same.
            _ = stop.wait_for(|stop| *stop) => Ok(()),
            result = self.show(&board, terminal) => result,
        };
        clients.shutdown().await;
        if terminal {
            write_stdout(screen::LEAVE)?;
        }
        result
    }

    async fn show(&self, board: &Board, terminal: bool) -> io::Result<()> {
        let client = http_client(LOOK_TIMEOUT);
        let started = Instant::now();
        if terminal {
            write_stdout(screen::CLEAR)?;
        } else {
            let look = DemoFrame::take(&client, &self.urls, &LOCKS).await;
            write_stdout(&lines(&view::advice(&look, &self.pids.borrow().clone(), self.restarts)))?;
        }
        loop {
            let look = DemoFrame::take(&client, &self.urls, &LOCKS).await;
            board.compare(&look);
            let pids = self.pids.borrow().clone();
            if terminal {
                let mut top = vec![view::title(started.elapsed(), board)];
                top.extend(view::nodes(&look, &pids));
                top.extend(view::locks(&look, board));
                let mut bottom = view::advice(&look, &pids, self.restarts);
                bottom.push(format!("  the nodes' logs: {}/node-N.log", self.data.display()));
                write_stdout(&screen::picture(&top, &bottom, ScreenSize::now()))?;
                sleep(REDRAW_EVERY).await;
            } else {
                let mut text = view::brief_nodes(&look, &pids);
                text.extend(view::brief_locks(&look, board));
                write_stdout(&lines(&text))?;
                sleep(WRITE_EVERY).await;
            }
        }
    }
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}
