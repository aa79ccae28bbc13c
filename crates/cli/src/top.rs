//! `fairhold top`: the nodes, the locks, their queues and histories, who waits for whom, and events, live.
//!
//! One task polls the cluster, and the terminal loop draws its last result. Keys work while nodes do not answer, and
//! the screen shows how old its content is. Nothing here changes the cluster.

mod choice;
mod frame;
mod pages;
mod poller;
mod shell;
mod view;

use crate::{
    keys,
    remote::{Api, ConnectArgs, Failure},
    signals::StopSignals,
};
use choice::TopChoice;
use frame::TopFrame;
use poller::Poller;
use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::Duration,
};
use tokio::sync::watch;

/// How often the loop checks keys and signals, and draws the screen.
const KEYS_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: Up and Down choose a lock, and Enter shows it with its history. / searches, s sorts, w shows who
waits for whom, e the events, c the cluster, p pauses, ? lists all keys, and q quits.

Example:
  fairhold top -e http://n2:7171")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs until the user quits.
pub(crate) fn main(args: &TopArgs) -> ExitCode {
    if !io::stdout().is_terminal() {
        let why = "top needs a terminal; in a pipe, use `fairhold locks ls --sort longest_wait`";
        return Failure::Usage(why.to_owned()).exit(false);
    }
    match show(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(false),
    }
}

fn show(args: &TopArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let api = runtime.block_on(async { Api::new(&args.connect) })?;
    let mut signals = runtime.block_on(async { StopSignals::new() })?;
    let (publish, frames) = watch::channel(TopFrame::default());
    let mut choice = TopChoice::default();
    let queries = watch::Sender::new(choice.query(&TopFrame::default()));
    runtime.spawn(Poller::new(api, &args.connect)?.run(publish, queries.subscribe()));
    // Takes over the terminal; a panic restores it too.
    let mut terminal = ratatui::try_init()?;
    let shown = (|| {
        let mut content = TopFrame::default();
        loop {
            let is_stopped = runtime.block_on(async { tokio::time::timeout(Duration::ZERO, signals.received()).await.is_ok() });
            if is_stopped {
                return Ok(());
            }
            if !choice.is_paused {
                content = frames.borrow().clone();
                choice.follow(&content);
                let query = choice.query(&content);
                queries.send_if_modified(|known| std::mem::replace(known, query.clone()) != query);
            }
            terminal.draw(|frame| view::draw(frame, &content, &choice))?;
            let lines = pages::lines(&content, &choice.page).len();
            if choice.press(keys::read(KEYS_EVERY)?, &content, lines) {
                return Ok(());
            }
        }
    })();
    ratatui::restore();
    // A request in flight need not finish.
    runtime.shutdown_background();
    shown
}
