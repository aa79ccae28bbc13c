//! One node as a process: opens the storage, starts every part, waits for the end, and ends in good order.
//!
//! Three runtimes: Raft with the peers has a thread of its own, and so has the node's clock, so that neither a flood of requests
//! nor a look at a million sessions can hold up a heartbeat.

mod admin_token;
mod again;
mod allocator;
pub(crate) mod args;
mod error;
mod files;
mod guard;
mod host;
mod listeners;
pub(crate) mod memory;
mod parent;
mod parts;
mod peer_key;
mod process;
mod room;
mod secret_file;

pub(crate) use error::ServeError;

use crate::{config::ServeConfig, signals::StopSignals, telemetry};
use parts::Parts;
use std::{io, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// Threads of Raft and peers. A log entry passes through some twenty tasks that each wake the next: a second thread would be
/// woken for every other of them, which costs more than it does.
const RAFT_THREADS: usize = 1;
/// Threads of the node's clock.
const CLOCK_THREADS: usize = 1;
/// How long a thread for work that blocks is kept when it has none. Snapshots come every few seconds under load: a thread that
/// ended after each would leave what it had freed to nobody, and the next one would take memory of its own.
const IDLE_THREAD_KEPT: Duration = Duration::from_secs(3_600);
/// The exit code of a node that was asked twice to end.
const EXIT_AT_ONCE: i32 = 1;
/// How long work that blocks, a write to the disk, may take at the very end.
const RUNTIME_END_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the node until it is asked to end, or cannot go on.
pub(crate) fn run(mut config: ServeConfig) -> Result<(), ServeError> {
    let filter = telemetry::filter(&config.log).map_err(ServeError::Telemetry)?;
    telemetry::start(filter).map_err(|error| ServeError::Telemetry(error.to_string()))?;
    telemetry::abort_on_panic();
    let parent_gone = config.exit_with_parent.then(parent::watch).transpose().map_err(ServeError::Runtime)?;

    let raft = runtime("fairhold-raft", Some(RAFT_THREADS)).map_err(ServeError::Runtime)?;
    let clock = runtime("fairhold-clock", Some(CLOCK_THREADS)).map_err(ServeError::Runtime)?;
    let http = runtime("fairhold-http", None).map_err(ServeError::Runtime)?;
    let mut signals = {
        let _context = http.enter();
        StopSignals::new().map_err(ServeError::Runtime)?
    };
    tracing::info!(node = config.id, version = env!("CARGO_PKG_VERSION"), data = %config.data.display(), "starting");
    guard::raise(config.exit_with_parent);
    config.limits = files::fit(config.limits)?;
    if config.members.len().is_multiple_of(2) {
        tracing::warn!(
            members = config.members.len(),
            "an even number of members survives no more failures than one member fewer"
        );
    }
    let admin = admin_token::load(config.admin_token_file.as_deref(), config.exit_with_parent)?;
    let keys = peer_key::load(&config.peers)?;

    let result = http.block_on(async {
        let starting = async {
            let storage = room::open_storage(&config).await?;
            Parts::start(&config, storage, (admin, keys), raft.handle(), clock.handle()).await
        };
        let mut parts = tokio::select! {
            biased;
            reason = asked_to_end(&mut signals, parent_gone.clone()) => {
                tracing::info!("{reason} before the start was complete");
                return Ok(());
            }
            started = starting => started?,
        };
        tokio::select! {
            biased;
            reason = asked_to_end(&mut signals, parent_gone.clone()) => {
                tracing::info!("{reason}: shutting down cleanly; a second signal ends the process at once");
                tokio::select! {
                    biased;
                    again = signals.received() => end_at_once(again),
                    () = parts.stop() => Ok(()),
                }
            }
            error = parts.failed(&config) => Err(error),
        }
    });
    // Also after a failure: the log's library has threads and globals of its own, and aborts a process that exits between them.
    http.shutdown_timeout(RUNTIME_END_TIMEOUT);
    clock.shutdown_timeout(RUNTIME_END_TIMEOUT);
    raft.shutdown_timeout(RUNTIME_END_TIMEOUT);
    if result.is_ok() {
        tracing::info!("ended");
    }
    result
}

fn runtime(name: &str, threads: Option<usize>) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.thread_name(name).thread_keep_alive(IDLE_THREAD_KEPT).enable_all().build()
}

/// A second signal means that the operator does not want to wait. Like a crash, it loses nothing that was acknowledged.
fn end_at_once(signal: &str) -> ! {
    tracing::warn!("{signal} again: ending at once");
    std::process::exit(EXIT_AT_ONCE)
}

async fn asked_to_end(signals: &mut StopSignals, parent_gone: Option<parent::Gone>) -> &'static str {
    let gone = async {
        match parent_gone {
            Some(gone) => gone.wait().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        signal = signals.received() => signal,
        () = gone => "the parent process is gone",
    }
}
