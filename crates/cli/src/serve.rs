//! One node as a process: opens the storage, starts the server, waits for a stop signal, and shuts down in order.
//!
//! There are three runtimes. Raft with its peer connections has its own thread, and so has the node's clock: neither a
//! flood of requests nor a scan of a million sessions can delay a heartbeat.

mod admin_token;
mod alarms;
mod allocator;
pub(crate) mod args;
mod audit;
mod backups;
mod certificate_alarm;
pub(crate) mod certificates;
pub(crate) mod check;
mod directory;
mod error;
mod exit_code;
mod free_space;
mod hardening;
mod host;
mod join;
pub(crate) mod join_token;
mod listeners;
pub(crate) mod memory;
mod open_files;
mod parent;
mod peer_key;
mod process;
mod reload;
mod restart;
mod restored;
mod sampler;
mod secret_file;
mod server;
mod service_manager;
mod timing_watch;
mod waiting;

use crate::{
    config::{
        LoadedConfig, ServeConfig,
        start::{MemberSource, Start, StartNote},
    },
    exit,
    signals::StopSignals,
    telemetry::{
        self, LogFilter,
        exporter::{Exporter, TraceExport},
    },
};
use args::ServeArgs;
use certificates::Certificates;
use error::ServeError;
use fairhold_http::{Audit, ConnectionLimits, SlowRequests};
use fairhold_trace::Tracer;
use reload::{LiveParts, Reload};
use server::{Prepared, Server};
use std::{
    io,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
};

/// Threads of Raft and the peer connections. A log entry passes through about twenty tasks, each of which wakes the
/// next. With a second thread, waking it would cost more than it gains.
const RAFT_THREADS: usize = 1;
/// Threads of the node's clock.
const CLOCK_THREADS: usize = 1;
/// How long an idle thread for blocking work is kept. Under load, a snapshot starts every few seconds: if its thread
/// ended each time, no thread would reuse the memory that it freed, and the next one would allocate more.
const IDLE_THREAD_KEPT: Duration = Duration::from_secs(3_600);
/// The exit code after a second stop signal.
const EXIT_AT_ONCE: i32 = 1;
/// How long blocking work, such as a write to the disk, may take at the very end.
const RUNTIME_END_TIMEOUT: Duration = Duration::from_secs(2);

/// A task that ends with its owner.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs the node until it receives a stop signal or fails.
pub(crate) fn main(args: ServeArgs) -> ExitCode {
    let loaded = match ServeConfig::load(args.clone()) {
        Ok(loaded) => loaded,
        Err(error) => return exit::with_error(error.exit_code(), &error),
    };
    match run(args, loaded) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::with_error(error.exit_code(), &error),
    }
}

fn run(args: ServeArgs, loaded: LoadedConfig) -> Result<(), ServeError> {
    let LoadedConfig { mut config, values } = loaded;
    let filter = telemetry::filter(&config.log).map_err(ServeError::Telemetry)?;
    let log = telemetry::start(filter).map_err(|error| ServeError::Telemetry(error.to_string()))?;
    telemetry::abort_on_panic();
    let parent_gone = config.exit_with_parent.then(parent::watch).transpose().map_err(ServeError::Runtime)?;

    let raft = runtime("fairhold-raft", Some(RAFT_THREADS)).map_err(ServeError::Runtime)?;
    let clock = runtime("fairhold-clock", Some(CLOCK_THREADS)).map_err(ServeError::Runtime)?;
    let http = runtime("fairhold-http", None).map_err(ServeError::Runtime)?;
    let (mut signals, hangups) = {
        let _context = http.enter();
        stop_and_reload_signals(&config).map_err(ServeError::Runtime)?
    };
    tracing::info!(node = config.start.id(), version = env!("CARGO_PKG_VERSION"), data = %config.data.display(), "starting");
    hardening::harden(config.exit_with_parent);
    config.limits = open_files::fit_connections(config.limits)?;
    log_start(&config);
    let admin = admin_token::load(config.admin_token_file.as_deref(), config.exit_with_parent)?;
    let keys = peer_key::load(&config.peers)?;
    let (audit, audit_writer) = audit::start(config.audit.as_ref())?;

    let result = http.block_on(async {
        let mut certificates = Certificates::load(&config)?;
        let connections = config.limits.of_connections();
        let (slow, traces) = observers(&config)?;
        let live = live_parts(log, (&connections, &audit, &certificates), (&slow, &traces));
        let reload = Reload::new(args, &values, live);
        let reloads = reload.counters();
        let _reloading = hangups.map(|hangups| AbortOnDrop(tokio::spawn(reload.at_each(hangups))));
        let starting = async {
            let node = join::starting_node(&mut config, &keys, &certificates).await?;
            if config.start.id().is_none() {
                // Only now is it known which node the certificate must name.
                certificates.load_for_peers(&config, Some(node.id))?;
            }
            let storage = free_space::open_storage(&config, &node, &certificates).await?;
            restored::form(&config, &node, &storage, (&keys, &certificates)).await?;
            let prepared = Prepared { admin, keys, certificates, audit, connections, reloads, slow, traces };
            Server::start(&config, &node, storage, prepared, raft.handle(), clock.handle()).await
        };
        let mut server = tokio::select! {
            biased;
            reason = stop_requested(&mut signals, parent_gone.clone()) => {
                tracing::info!("{reason} before startup was complete: exiting");
                return Ok(());
            }
            started = starting => started?,
        };
        tokio::select! {
            biased;
            reason = stop_requested(&mut signals, parent_gone.clone()) => {
                tracing::info!("{reason}: shutting down cleanly; a second signal ends the process at once");
                service_manager::tell_stopping();
                tokio::select! {
                    biased;
                    again = signals.received() => exit_at_once(again),
                    () = server.stop() => Ok(()),
                }
            }
            error = server.failed(&config) => Err(error),
        }
    });
    // Also after a failure: RocksDB has its own threads and globals, and aborts a process that exits while they are in
    // use.
    http.shutdown_timeout(RUNTIME_END_TIMEOUT);
    clock.shutdown_timeout(RUNTIME_END_TIMEOUT);
    raft.shutdown_timeout(RUNTIME_END_TIMEOUT);
    // No request runs any more.
    drop(audit_writer);
    if result.is_ok() {
        tracing::info!("stopped");
    }
    result
}

/// What a reload can change.
fn live_parts(
    log: LogFilter,
    (connections, audit, certificates): (&ConnectionLimits, &Audit, &Certificates),
    (slow, traces): (&SlowRequests, &TraceExport),
) -> LiveParts {
    LiveParts {
        log,
        connections: connections.clone(),
        audit: audit.clone(),
        followed: certificates.followed().clone(),
        slow: slow.clone(),
        traces: traces.clone(),
    }
}

/// What observes requests: the log of slow ones, and the traces.
fn observers(config: &ServeConfig) -> Result<(SlowRequests, TraceExport), ServeError> {
    let slow = SlowRequests::default();
    slow.set_limit(config.slow_request);
    let exporter = config.trace.as_ref().map(Exporter::new).transpose().map_err(ServeError::Telemetry)?;
    let unix_nanos = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    };
    Ok((slow, TraceExport::new(Tracer::new(rand::random(), unix_nanos), exporter)))
}

/// The signals that stop the node, and those at which it reads its configuration again, if it has files to read.
/// Without any, SIGHUP stops it, as the end of its terminal should.
fn stop_and_reload_signals(config: &ServeConfig) -> io::Result<(StopSignals, Option<Signal>)> {
    if config.reloads_at_hangup() {
        Ok((StopSignals::without_hangup()?, Some(signal(SignalKind::hangup())?)))
    } else {
        Ok((StopSignals::new()?, None))
    }
}

/// Logs what is remarkable about the configuration.
fn log_start(config: &ServeConfig) {
    config.notes.iter().for_each(StartNote::log);
    if !config.exposures.is_empty() {
        let dangers: Vec<&str> = config.exposures.iter().map(|exposure| exposure.danger()).collect();
        tracing::warn!(
            "--insecure: {}. Let a firewall admit only those whom you trust, or better, use certificates (`fairhold cert`)",
            dangers.join("; ")
        );
    }
    if config.client_tls.is_some() && config.own.url.starts_with("http://") {
        tracing::warn!(
            url = %config.own.url,
            "this node has a certificate, and tells clients an http:// URL, which works only at --listen-plain: give it an \
             https:// URL"
        );
    }
    if let Start::Known(node) = &config.start
        && node.source == MemberSource::List
        && node.members.len().is_multiple_of(2)
    {
        tracing::warn!(
            members = node.members.len(),
            "an even number of members tolerates no more failures than one member fewer: use an odd number"
        );
    }
}

fn runtime(name: &str, threads: Option<usize>) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.thread_name(name).thread_keep_alive(IDLE_THREAD_KEPT).enable_all().build()
}

/// A second signal means that the operator does not want to wait. Like a crash, this loses nothing that was
/// acknowledged.
fn exit_at_once(signal: &str) -> ! {
    tracing::warn!("{signal} again: ending at once");
    std::process::exit(EXIT_AT_ONCE)
}

async fn stop_requested(signals: &mut StopSignals, parent_gone: Option<parent::ParentGone>) -> &'static str {
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
