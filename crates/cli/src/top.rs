//! `fairhold top`: the locks for which is waited longest, who holds them, who waits, and the nodes, live.

mod view;

use crate::{
    remote::{Api, ConnectArgs, Failure, Request, api::encode},
    signals::StopSignals,
};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::Value;
use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// How often the cluster is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often keys and signals are looked for.
const KEYS_EVERY: Duration = Duration::from_millis(100);
/// How many locks are looked at.
const LOCKS_MAX: usize = 50;
/// How many of the chosen lock's queue are.
const QUEUE_MAX: usize = 100;

/// What `top` was told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: up and down select the lock whose queue is shown; q quits.

Example:
  fairhold top -e http://n2:7171")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What was seen last.
#[derive(Debug, Default)]
struct Look {
    cluster: Value,
    locks: Vec<Value>,
    /// Of the chosen lock, holders first.
    queue: Vec<Value>,
    /// Why nothing newer is there.
    trouble: Option<String>,
}

/// Shows it until it is stopped.
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
    let api = Api::new(&args.connect)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { StopSignals::new() })?;
    // From here on the terminal is ours; it is restored on a panic too.
    let mut terminal = ratatui::try_init()?;
    let shown = (|| {
        let (mut look, mut chosen) = (Look::default(), 0_usize);
        loop {
            let is_stopped = runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = signals.received() => true,
                    newer = look_at(&api, &look, chosen) => {
                        look = newer;
                        false
                    }
                }
            });
            if is_stopped {
                return Ok(());
            }
            let next = Instant::now() + LOOK_EVERY;
            while Instant::now() < next {
                chosen = chosen.min(look.locks.len().saturating_sub(1));
                terminal.draw(|frame| view::draw(frame, &look, chosen))?;
                match key()? {
                    Key::Quit => return Ok(()),
                    Key::Up => chosen = chosen.saturating_sub(1),
                    Key::Down => chosen += 1,
                    Key::None => continue,
                }
                break;
            }
        }
    })();
    ratatui::restore();
    shown
}

enum Key {
    Quit,
    Up,
    Down,
    None,
}

fn key() -> io::Result<Key> {
    if !event::poll(KEYS_EVERY)? {
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

/// What there is now; where nobody answers, what was there before, with the reason.
async fn look_at(api: &Api, before: &Look, chosen: usize) -> Look {
    match timeout(api.timeout(), ask(api, chosen)).await {
        Ok(Ok(look)) => look,
        Ok(Err(failure)) => before.with_trouble(failure.to_string()),
        Err(_) => before.with_trouble("no answer in time".to_owned()),
    }
}

async fn ask(api: &Api, chosen: usize) -> Result<Look, Failure> {
    let cluster = api.call(&Request::get("/v1/cluster")).await?.read()?;
    let request = Request::get(format!("/v1/locks?sort=longest_wait&consistency=local&limit={LOCKS_MAX}"));
    let listed: Value = api.call(&request).await?.read()?;
    let locks = listed["items"].as_array().cloned().unwrap_or_default();
    let name = locks.get(chosen.min(locks.len().saturating_sub(1))).and_then(|lock| lock["lock"].as_str());
    let queue: Value = match name {
        Some(name) => {
            let path = format!("/v1/locks/{}/queue?consistency=local&limit={QUEUE_MAX}", encode(name));
            api.call(&Request::get(path)).await?.read()?
        }
        None => Value::Null,
    };
    let queue = queue["items"].as_array().cloned().unwrap_or_default();
    Ok(Look { cluster, locks, queue, trouble: None })
}

impl Look {
    fn with_trouble(&self, trouble: String) -> Look {
        let (cluster, locks, queue) = (self.cluster.clone(), self.locks.clone(), self.queue.clone());
        Look { cluster, locks, queue, trouble: Some(trouble) }
    }
}
