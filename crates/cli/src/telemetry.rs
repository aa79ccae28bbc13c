//! The log of a node: lines on standard error. Panics are logged too, and abort the process.

pub(crate) mod exporter;
mod otlp;

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, IsTerminal},
    panic, process,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{EnvFilter, util::TryInitError};

/// Parses a filter, such as `info,fairhold_raft=debug`. A single word must be a level: as a target, it would turn off
/// all other logs.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, String> {
    let is_word = |part: &str| !part.is_empty() && !part.contains(['=', '[']);
    let wrong = text.split(',').map(str::trim).find(|part| is_word(part) && part.parse::<LevelFilter>().is_err());
    match wrong {
        Some(word) => Err(format!("`{word}` is not a level")),
        None => EnvFilter::builder().parse(text).map_err(|error| error.to_string()),
    }
}

/// The filter of the log, which can be replaced while the process runs.
pub(crate) struct LogFilter(Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>);

impl LogFilter {
    /// Uses another filter from now on.
    pub(crate) fn replace(&self, with: EnvFilter) -> Result<(), String> {
        (self.0)(with)
    }
}

/// Starts logging.
pub(crate) fn start(filter: EnvFilter) -> Result<LogFilter, TryInitError> {
    use tracing_subscriber::util::SubscriberInitExt;

    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colour);
    // A line that cannot be written, for example to a full disk, is lost. An error message in the same place would
    // panic.
    let lines = lines.log_internal_errors(false).with_filter_reloading();
    let handle = lines.reload_handle();
    lines.finish().try_init()?;
    Ok(LogFilter(Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))))
}

/// Makes a panic in any thread abort the process: a node that has lost a thread must not continue to vote and
/// acknowledge. Only a panic in a replicated command is caught, and it is logged first.
pub(crate) fn abort_on_panic() {
    panic::set_hook(Box::new(|panic| {
        if fairhold_raft::defect::is_caught_here() {
            tracing::error!("a defect in fairhold: a command panicked: {panic}");
            return;
        }
        tracing::error!("a defect in fairhold: this process aborts: {panic}");
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            eprintln!("{backtrace}");
        }
        process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_not_a_level_is_refused_instead_of_silencing_the_log() {
        for good in ["info", "WARN", "off", "info,openraft=error", "info,fairhold_raft=debug", "fairhold=trace", ""] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["loud", "info,verbose", "fairhold_raft"] {
            assert!(filter(bad).unwrap_err().contains("is not a level"), "{bad}");
        }
        assert!(filter("fairhold=loud").is_err());
    }
}
