//! `fairhold top`: the nodes, the locks with the longest waits and one queue, live.
//!
//! One task polls the cluster, and the terminal loop draws its last result. Keys work while nodes do not answer, and
//! the screen shows how old its content is.

mod poller;
mod view;

use crate::{
    keys::{self, Key},
    remote::{Api, ConnectArgs, Failure},
    signals::StopSignals,
};
use poller::{Poller, TopFrame};
use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::Duration,
};
use tokio::sync::watch;

/// How often the loop checks keys and signals, and draws the screen.
const KEYS_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: Up and Down select the lock whose queue is shown; q quits.

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
    let selection = watch::Sender::new(None);
    runtime.spawn(Poller::new(api, &args.connect)?.run(publish, selection.subscribe()));
    // Takes over the terminal; a panic restores it too.
    let mut terminal = ratatui::try_init()?;
    let shown = (|| {
        let mut selected = 0_usize;
        loop {
            let is_stopped = runtime.block_on(async { tokio::time::timeout(Duration::ZERO, signals.received()).await.is_ok() });
            if is_stopped {
                return Ok(());
            }
            let content = frames.borrow().clone();
            selected = selected.min(content.locks.len().saturating_sub(1));
            let name = content.locks.get(selected).and_then(|lock| lock["lock"].as_str()).map(str::to_owned);
            selection.send_if_modified(|known| std::mem::replace(known, name.clone()) != name);
            terminal.draw(|frame| view::draw(frame, &content, selected))?;
            match keys::read(KEYS_EVERY)? {
                Key::Quit => return Ok(()),
                Key::Up => selected = selected.saturating_sub(1),
                Key::Down => selected += 1,
                Key::None => {}
            }
        }
    })();
    ratatui::restore();
    // A request in flight need not finish.
    runtime.shutdown_background();
    shown
}
