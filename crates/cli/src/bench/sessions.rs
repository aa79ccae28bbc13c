//! Idle sessions: how fast they open, how long a keepalive of many sessions takes, and how much memory they use.

use super::{
    load::{seconds, up_to},
    measure::{Times, round},
    servers,
    target::Target,
    wire::{Wire, WireAnswer},
};
use crate::{
    output::write_stdout,
    remote::{
        Failure,
        format::{self, OutputFormat},
    },
};
use fairhold_types::{dto::OpenedSession, duration};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The number of connections for all sessions.
const CONNECTIONS: usize = 16;
/// The most sessions that one call renews.
const BATCH: usize = 1_000;
/// The number of keepalives per ttl.
const KEEPALIVES_A_TTL: u32 = 3;
/// The status for a session that has ended.
const NOT_FOUND: u16 = 404;
const JSON: &str = "content-type: application/json\r\n";

#[derive(Debug, clap::Args)]
pub(super) struct SessionsArgs {
    /// Open this many sessions, 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = up_to(1_000_000))]
    sessions: usize,
    /// Set their ttl; each session gets three keepalives per ttl
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration::parse)]
    ttl: Duration,
    /// Keep them open for this many seconds, up to 86400
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: Duration,
}

/// Runs the workload. Prints a line when all sessions are open, and one at the end.
pub(super) async fn run(target: &Target, args: &SessionsArgs, requested: Option<OutputFormat>) -> Result<(), Failure> {
    let is_json = matches!(OutputFormat::resolve(requested), OutputFormat::Json | OutputFormat::Ndjson);
    let before = servers::sum(target, servers::RESIDENT_BYTES).await?;
    let mut shares: Vec<SessionShare> =
        (0..CONNECTIONS).map(|index| SessionShare { wire: target.wire(index), ids: Vec::new() }).collect();
    let began = Instant::now();
    let opening = shares.iter_mut().enumerate().map(|(index, share)| share.open(count(args.sessions, index), args.ttl));
    join_all(opening).await.into_iter().collect::<Result<(), String>>().map_err(Failure::Ended)?;
    let opened = began.elapsed();
    let line = json!({"open": args.sessions, "seconds": round(opened.as_secs_f64())});
    let text = format!("open {} after {:.2} s\n", args.sessions, opened.as_secs_f64());
    write_stdout(&if is_json { format!("{line}\n") } else { text })?;

    let until = Instant::now() + args.seconds;
    let living = join_all(shares.iter_mut().map(|share| share.live(args.ttl / KEEPALIVES_A_TTL, until))).await;
    let mut keepalives = Times::new();
    for times in living {
        keepalives.add(&times.map_err(Failure::Ended)?);
    }
    let after = servers::sum(target, servers::RESIDENT_BYTES).await?;
    join_all(shares.iter_mut().map(SessionShare::close))
        .await
        .into_iter()
        .collect::<Result<(), String>>()
        .map_err(Failure::Ended)?;
    let bytes = (after - before) / args.sessions as f64;
    let figures = json!({
        "workload": "sessions", "sessions": args.sessions,
        "opened_per_second": round(args.sessions as f64 / opened.as_secs_f64()),
        "resident_bytes_before": before, "resident_bytes_after": after, "bytes_each": round(bytes),
        "keepalive_ms": keepalives.json(),
    });
    format::write(&if is_json { format!("{figures}\n") } else { words(&figures) })
}

fn words(figures: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let times = &figures["keepalive_ms"];
    format!(
        "opened {:.0} a second; a keepalive of up to {BATCH} sessions took {:.2} ms (p50), {:.2} ms (p99)\n\
         memory of the given nodes: {:.1} MiB before, {:.1} MiB after, {:.0} bytes per session\n",
        number(&figures["opened_per_second"]),
        number(&times["p50"]),
        number(&times["p99"]),
        number(&figures["resident_bytes_before"]) / 1_048_576.0,
        number(&figures["resident_bytes_after"]) / 1_048_576.0,
        number(&figures["bytes_each"]),
    )
}

/// How many of all sessions belong to one connection.
fn count(all: usize, connection: usize) -> usize {
    all / CONNECTIONS + usize::from(connection < all % CONNECTIONS)
}

/// A share of the sessions, and their connection.
struct SessionShare {
    wire: Wire,
    ids: Vec<String>,
}

impl SessionShare {
    /// Opens sessions, and meanwhile keeps the open ones alive: opening very many takes longer than a ttl.
    async fn open(&mut self, count: usize, ttl: Duration) -> Result<(), String> {
        let body = json!({"ttl": duration::format(ttl), "name": "bench"}).to_string();
        let every = ttl / KEEPALIVES_A_TTL;
        let mut next = Instant::now() + every;
        for _ in 0..count {
            if Instant::now() >= next {
                self.renew(&mut Times::new()).await?;
                next = Instant::now() + every;
            }
            let answer = self.wire.send("POST", "/v1/sessions", JSON, body.as_bytes()).await?.success()?;
            self.ids.push(read::<OpenedSession>(&answer)?.id.to_hex());
        }
        Ok(())
    }

    async fn live(&mut self, every: Duration, until: Instant) -> Result<Times, String> {
        let mut times = Times::new();
        let mut next = Instant::now();
        while next < until {
            self.renew(&mut times).await?;
            next += every;
            tokio::time::sleep_until(next.min(until).into()).await;
        }
        Ok(times)
    }

    /// Renews all of them once, in batches.
    async fn renew(&mut self, times: &mut Times) -> Result<(), String> {
        for batch in self.ids.chunks(BATCH) {
            let body = json!({"ids": batch}).to_string();
            let began = Instant::now();
            let answer = self.wire.send("POST", "/v1/sessions/keepalive", JSON, body.as_bytes()).await?.success()?;
            times.record(began.elapsed());
            let renewed = read::<Renewed>(&answer)?.renewed.len();
            if renewed != batch.len() {
                return Err(format!("only {renewed} of {} sessions are alive", batch.len()));
            }
        }
        Ok(())
    }

    /// Closes all of them. Meanwhile they get no keepalives: a session that has expired counts as closed.
    async fn close(&mut self) -> Result<(), String> {
        for id in std::mem::take(&mut self.ids) {
            let answer = self.wire.send("DELETE", &format!("/v1/sessions/{id}"), "", &[]).await?;
            if answer.status != NOT_FOUND {
                answer.success()?;
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Renewed {
    renewed: Vec<Value>,
}

fn read<T: serde::de::DeserializeOwned>(answer: &WireAnswer) -> Result<T, String> {
    serde_json::from_slice(&answer.body).map_err(|error| format!("the answer is invalid: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_belongs_to_one_connection() {
        for all in [1, 15, 16, 17, 1_000] {
            assert_eq!((0..CONNECTIONS).map(|connection| count(all, connection)).sum::<usize>(), all);
        }
    }
}
