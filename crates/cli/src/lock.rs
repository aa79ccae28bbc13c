//! `fairhold lock NAME… -- CMD…`: runs a command while holding a lock.
//!
//! `waiting` reports the place in the queue. `running` starts the supervisor and keeps it informed. `supervisor` is
//! that other process. With `descendants`, both find every process that the command started.

mod args;
mod channel;
mod descendants;
pub(crate) mod elect;
mod group;
mod running;
mod supervisor;
mod terminal;
mod waiting;

pub(crate) use args::{LONG_ABOUT, LockArgs, SEM_AFTER_HELP};
pub(crate) use supervisor::{ExecArgs, SupervisorArgs, exec, main as supervise};

use crate::{
    exit,
    output::note,
    remote::{self, Failure},
};
use fairhold_client::{Acquire, Client, Error, Guard};
use fairhold_types::{Code, duration};
use rustix::process::Signal;
use std::{process::ExitCode, time::Duration};
use supervisor::exit_number;
use tokio::sync::{mpsc, watch};

/// How long leaving the queue and releasing the lock may take at the end.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The signals that end the wait, and that are forwarded to the command.
const FORWARDED: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
/// The most unread places in the queue; an old place is of no use.
const PLACES_MAX: usize = 4;

/// The outcome of the wait.
enum WaitOutcome {
    Held(Guard),
    Not(u8, String),
    Signalled(Signal),
}

/// Waits for the lock and runs the command. The exit code is that of the command.
pub(crate) fn main(args: &LockArgs) -> ExitCode {
    if args.names.len() + args.and_shared.len() > 1 && (args.limit.is_some() || args.permits != 1) {
        let why = "a request for several locks takes one permit of each: leave out --limit and --permits, or name one lock";
        return exit::with_error(exit::USAGE, &Failure::Usage(why.to_owned()));
    }
    if let Err(error) = descendants::check() {
        note(&format!("cannot run a command under a lock here: {error}"));
        return ExitCode::from(exit::CANNOT_RUN);
    }
    // Lease renewals have their own thread: nothing that blocks this one may delay them.
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::with_error(exit::FAILURE, &error),
    };
    let code = runtime.block_on(async {
        match hold_and_run(args).await {
            Ok(code) => code,
            Err(failure) => {
                note(&failure.to_string());
                failure.code()
            }
        }
    });
    // Work in progress, such as a DNS lookup, must not delay the exit.
    runtime.shutdown_background();
    ExitCode::from(code)
}

async fn hold_and_run(args: &LockArgs) -> Result<u8, Failure> {
    let name = &[&args.names[..], &args.and_shared].concat().join(", ");
    let client = remote::client(&args.connect, Some(args.owner.clone().unwrap_or_else(owner)))?;
    let mut signals = group::listen(&FORWARDED)?;
    let code = match wait(args, &client, &mut signals).await {
        WaitOutcome::Held(guard) => {
            if args.connect.verbose {
                note(&format!("acquired {name}, token {}", guard.token().map_or(0, |token| token.0)));
            }
            let code = running::run(args, &client, guard.held().clone(), &mut signals).await.unwrap_or_else(|error| {
                note(&format!("cannot start the command: {error}"));
                exit::CANNOT_RUN
            });
            match tokio::time::timeout(args.connect.timeout, guard.release()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) if args.connect.quiet => {}
                Ok(Err(error)) => note(&format!("cannot release {name}: {error}")),
                Err(_) => note(&format!("cannot release {name} in time; it expires after its ttl")),
            }
            code
        }
        WaitOutcome::Not(code, why) => {
            if code != args.conflict_exit_code || !args.connect.quiet {
                note(&why);
            }
            code
        }
        WaitOutcome::Signalled(signal) => 128_u8.saturating_add(exit_number(signal.as_raw())),
    };
    // A grant that cannot be released in time expires. If the cluster has never answered, there is nothing to release.
    if client.cluster_id().is_some() {
        tokio::time::timeout(SETTLE_TIMEOUT, client.settled()).await.ok();
    }
    Ok(code)
}

/// The user, host and pid of this process, for people.
fn owner() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let user = user.unwrap_or_else(|_| format!("uid-{}", rustix::process::getuid().as_raw()));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{user}@{host}:{}", std::process::id())
}

fn request(args: &LockArgs, client: &Client) -> Acquire {
    let name = &args.names[0];
    let mut request = match &args.value {
        Some(value) => client.elect(name, value),
        None if args.shared => client.read_lock(name),
        None => client.lock(name),
    };
    request = args.names[1..].iter().fold(request, |request, name| request.and(name));
    request = args.and_shared.iter().fold(request, |request, name| request.and_shared(name));
    request = args.meta.iter().fold(request, |request, (key, value)| request.meta(key, value));
    if let Some(max_hold) = args.max_hold {
        request = request.max_hold(max_hold);
    }
    request = request.ttl(args.ttl).permits(args.permits).priority(args.priority).lock_delay(args.lock_delay);
    if let Some(limit) = args.limit {
        request = request.limit(limit);
    }
    if let Some(wait) = args.wait {
        request = request.wait(wait);
    }
    request
}

async fn wait(args: &LockArgs, client: &Client, signals: &mut mpsc::Receiver<Signal>) -> WaitOutcome {
    let (sender, places) = mpsc::channel(PLACES_MAX);
    let (is_queued, queued) = watch::channel(false);
    let request = request(args, client).on_queue(move |place| {
        is_queued.send_replace(true);
        drop(sender.try_send(place.clone()));
    });
    let acquiring = async {
        let acquired = if args.nonblock { request.try_now().await } else { request.await };
        match acquired {
            Ok(guard) => WaitOutcome::Held(guard),
            Err(error) if *queued.borrow() => not_acquired(args, &error),
            // Here and not after the select, which hears the signals.
            Err(error) => match waiting::never_queued(client, &args.names[0], &error).await {
                Some(why) => WaitOutcome::Not(exit::UNAVAILABLE, why),
                None => not_acquired(args, &error),
            },
        }
    };
    let reporting = async {
        if args.connect.quiet {
            std::future::pending().await
        } else {
            tokio::join!(
                waiting::report_place(client, &args.names[0], places, args.connect.verbose),
                waiting::report_silence(client, args.connect.timeout),
                waiting::report_no_service(client, &args.names[0], queued.clone()),
                waiting::report_refusals(client, &args.names[0])
            );
        }
    };
    tokio::select! {
        biased;
        outcome = acquiring => outcome,
        Some(signal) = signals.recv() => WaitOutcome::Signalled(signal),
        why = waiting::no_answer(client, args.connect.timeout) => {
            let within = duration::rounded(args.connect.timeout);
            let endpoints = client.endpoints().join(", ");
            WaitOutcome::Not(exit::UNAVAILABLE, format!("no endpoint answered within {within}: {endpoints}{why}"))
        }
        () = reporting => WaitOutcome::Not(exit::UNAVAILABLE, "the progress messages have ended".to_owned()),
    }
}

fn not_acquired(args: &LockArgs, error: &Error) -> WaitOutcome {
    let code = match error {
        Error::Unavailable { .. }
        | Error::OutcomeUnknown { .. }
        | Error::StateFull { .. }
        | Error::Refused { code: Some(Code::QuotaExceeded), .. } => exit::UNAVAILABLE,
        Error::Refused { status: 401 | 403, .. } => exit::DENIED,
        Error::Invalid(_) | Error::Refused { status: 400 | 409 | 422, .. } => exit::USAGE,
        // Another client holds it, the queue is full, or the place in the queue is lost.
        Error::LockHeld { .. } | Error::WaitTimeout { .. } | Error::Busy { .. } | Error::Lost(_) => args.conflict_exit_code,
        // No acquire returns these errors, nor future ones.
        Error::Refused { .. }
        | Error::StaleToken { .. }
        | Error::VersionMismatch { .. }
        | Error::NoNode { .. }
        | Error::NodeExists { .. }
        | Error::NotEmpty { .. }
        | Error::NotUnderstood { .. }
        | _ => exit::FAILURE,
    };
    WaitOutcome::Not(code, error.to_string())
}
