//! `dev --demo`: a few clients that queue for locks forever, and a live view of holders, waiters and nodes.
//!
//! The view shows the nodes' own answers; only the times of the grants come from the clients.

mod board;
mod client;
pub(crate) mod frame;
mod names;
mod screen;
mod view;

use self::{
    board::Board,
    frame::{DemoFrame, Pids},
    names::{CLIENTS, LOCKS},
};
use crate::{keys, output::write_stdout, remote::TlsArgs};
use fairhold_client::{Client, Error};
use fairhold_types::NodeId;
use ratatui::{DefaultTerminal, backend::Backend as _};
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

/// How often the view is redrawn on a terminal.
const REDRAW_EVERY: Duration = Duration::from_millis(200);
/// How often the state is printed if stdout is not a terminal.
const PRINT_EVERY: Duration = Duration::from_secs(2);
/// How long a node may take to report its status. A slower node counts as down.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);

/// What the demo knows about the cluster.
#[derive(Debug)]
pub(crate) struct Demo {
    urls: Vec<(NodeId, String)>,
    pids: watch::Receiver<Pids>,
    data: PathBuf,
    restarts: bool,
    tls: TlsArgs,
    token: Option<String>,
}

impl Demo {
    /// A demo with these nodes.
    pub(crate) fn new(urls: Vec<(NodeId, String)>, pids: watch::Receiver<Pids>, data: &Path, restarts: bool) -> Demo {
        Demo { urls, pids, data: data.to_owned(), restarts, tls: TlsArgs::default(), token: None }
    }

    /// The same with these certificates, for nodes with TLS, and with the token of a user.
    pub(crate) fn secured(self, tls: TlsArgs, token: String) -> Demo {
        Demo { tls, token: Some(token), ..self }
    }

    /// Runs until `stop`, until the user quits, or until stdout is closed.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) -> io::Result<()> {
        let board = Arc::new(Board::new(&LOCKS));
        let mut clients = JoinSet::new();
        for name in CLIENTS {
            clients.spawn(client::queue_forever(name, self.client(client::TIMEOUT)?, board.clone()));
        }
        let observer = self.client(STATUS_TIMEOUT)?;
        // Without a usable terminal, for example without its keyboard, the demo prints lines.
        let mut terminal = if io::stdout().is_terminal() { ratatui::try_init().ok() } else { None };
        let is_live = terminal.is_some();
        let result = tokio::select! {
            biased;
            // If the sender is gone, that is a stop too.
            _ = stop.wait_for(|stop| *stop) => Ok(false),
            () = keys::quit(), if is_live => Ok(true),
            result = self.show(&observer, &board, terminal.as_mut()) => result.map(|()| false),
        };
        if is_live {
            ratatui::restore();
        }
        if matches!(result, Ok(true)) {
            eprintln!("dev: stopping all nodes");
        }
        clients.shutdown().await;
        result.map(drop)
    }

    /// A client that may use every node.
    fn client(&self, timeout: Duration) -> io::Result<Client> {
        let builder = self.urls.iter().fold(Client::builder(), |builder, (_, url)| builder.endpoint(url));
        let builder = self.tls.cacert.iter().fold(builder, |builder, ca| builder.ca_certificate(ca));
        let builder = self.token.iter().fold(builder, |builder, token| builder.auth_token(token.clone()));
        builder.timeout(timeout).build().map_err(|error: Error| io::Error::other(error))
    }

    async fn show(&self, observer: &Client, board: &Board, terminal: Option<&mut DefaultTerminal>) -> io::Result<()> {
        match terminal {
            Some(terminal) => self.draw(observer, board, terminal).await,
            None => self.print(observer, board).await,
        }
    }

    async fn draw(&self, observer: &Client, board: &Board, terminal: &mut DefaultTerminal) -> io::Result<()> {
        let started = Instant::now();
        // A terminal without an alternate screen still shows older lines.
        terminal.backend_mut().clear()?;
        loop {
            let frame = self.frame(observer, board).await;
            let pids = self.pids.borrow().clone();
            let mut top = vec![view::title(started.elapsed(), board)];
            top.extend(view::nodes(&frame, &pids));
            top.extend(view::locks(&frame, board));
            let mut bottom = view::advice(&frame, &pids, self.restarts);
            bottom.push(format!("  Logs of the nodes: {}/node-N.log", self.data.display()));
            terminal.draw(|screen| screen::draw(screen, &top, &bottom))?;
            sleep(REDRAW_EVERY).await;
        }
    }

    async fn print(&self, observer: &Client, board: &Board) -> io::Result<()> {
        let first = self.frame(observer, board).await;
        write_stdout(&lines(&[view::dashboard(&first)]))?;
        write_stdout(&lines(&view::advice(&first, &self.pids.borrow().clone(), self.restarts)))?;
        loop {
            let frame = self.frame(observer, board).await;
            let mut text = view::brief_nodes(&frame, &self.pids.borrow().clone());
            text.extend(view::brief_locks(&frame, board));
            write_stdout(&lines(&text))?;
            sleep(PRINT_EVERY).await;
        }
    }

    async fn frame(&self, observer: &Client, board: &Board) -> DemoFrame {
        let frame = DemoFrame::take(observer, &self.urls, &LOCKS).await;
        board.compare(&frame);
        frame
    }
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}
