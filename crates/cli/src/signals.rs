//! The signals that stop a process.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives the stop signals, which no longer terminate the process by themselves.
#[derive(Debug)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// None if SIGHUP means something else.
    hangup: Option<Signal>,
}

impl StopSignals {
    /// Installs the handlers. Needs a runtime.
    pub(crate) fn new() -> io::Result<StopSignals> {
        Ok(StopSignals { hangup: Some(signal(SignalKind::hangup())?), ..StopSignals::without_hangup()? })
    }

    /// The same, if SIGHUP is no stop signal. Needs a runtime.
    pub(crate) fn without_hangup() -> io::Result<StopSignals> {
        Ok(StopSignals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())?, hangup: None })
    }

    /// Waits for a signal, and returns its name.
    pub(crate) async fn received(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hangup => "SIGHUP",
        }
    }
}
