//! The options for the amount of load and the kind of client.

use super::measure::LoadPlan;
use crate::remote::Failure;
use clap::builder::RangedU64ValueParser;
use std::time::Duration;

/// The longest run, in seconds.
const SECONDS_MAX: f64 = 86_400.0;
/// The most clients of one run.
const CLIENTS_MAX: u64 = 100_000;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct LoadArgs {
    /// Run this many concurrent clients, 1 to 100000, each with its own connection
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = up_to(CLIENTS_MAX))]
    pub(super) clients: usize,
    /// Measure for this many seconds, up to 86400
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(super) seconds: Duration,
    /// Run for this many seconds before measuring
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(super) warmup: Duration,
    /// Start this many operations a second, 0.01 to 10000000 [default: no fixed rate]
    ///
    /// They start whether or not earlier ones are done, and latency counts from each scheduled start. Without a fixed
    /// rate, each client starts the next operation when the previous one is done.
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Run the load generator on this many threads, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to(64))]
    pub(super) threads: usize,
    /// Measure this kind of client
    #[arg(long, value_enum, default_value_t = ClientKind::Http)]
    pub(super) client: ClientKind,
}

impl LoadArgs {
    pub(super) fn plan(&self) -> Result<LoadPlan, Failure> {
        if self.seconds.is_zero() {
            return Err(Failure::Usage("--seconds must be greater than 0".to_owned()));
        }
        Ok(LoadPlan { clients: self.clients, warmup: self.warmup, time: self.seconds, rate: self.rate })
    }
}

/// A kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ClientKind {
    /// Plain HTTP/1.1 with JSON, one connection per client, with minimal overhead
    Http,
    /// The Rust client in one process with one session; its tasks are the clients
    Rust,
}

impl ClientKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            ClientKind::Http => "http",
            ClientKind::Rust => "rust",
        }
    }
}

/// A number from 1 to `most`.
pub(super) fn up_to(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

pub(super) fn number(text: &str, unit: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("expected a number of {unit}, such as 5 or 0.5"))
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let text = text.strip_suffix('s').unwrap_or(text);
    match number(text, "seconds")? {
        seconds if seconds <= SECONDS_MAX => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("at most {SECONDS_MAX}")),
    }
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    match number(text, "operations a second")? {
        rate if (0.01..=1e7).contains(&rate) => Ok(rate),
        _ => Err("expected 0.01 to 10000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_numbers_within_their_ranges() {
        assert_eq!(seconds("5").unwrap(), seconds("5s").unwrap());
        assert_eq!((seconds("0.25").unwrap(), rate("100").unwrap()), (Duration::from_millis(250), 100.0));
        for text in ["", "-1", "inf", "NaN", "five", "1e9"] {
            assert!(seconds(text).is_err() && rate(text).is_err(), "{text}");
        }
        assert!(rate("0").is_err());
    }
}
