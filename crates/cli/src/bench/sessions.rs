//! Sessions that do nothing but live: how fast they open, how long a keepalive of many takes, and what they cost in memory.

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
        form::{self, OutputFormat},
    },
};
use fairhold_types::{dto::OpenedSession, duration};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Connections over which all sessions are opened, renewed and closed.
const CONNECTIONS: usize = 16;
/// Sessions that one call renews.
const BATCH: usize = 1_000;
/// Keepalives in the time that a session lives without one.
const KEEPALIVES_A_TTL: u32 = 3;
/// What is said of a session that has ended.
const NOT_FOUND: u16 = 404;
const JSON: &str = "content-type: application/json\r\n";

/// What `bench sessions` was told.
#[derive(Debug, clap::Args)]
pub(super) struct SessionsArgs {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = up_to(1_000_000))]
    sessions: usize,
    /// How long they live without a keepalive; each gets three in that time
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration::parse)]
    ttl: Duration,
    /// How long to keep them
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: Duration,
}

/// Runs it: a line when all are open, and one when they have lived.
pub(super) async fn run(ground: &Target, args: &SessionsArgs, asked: Option<OutputFormat>) -> Result<(), Failure> {
    let is_json = matches!(OutputFormat::of(asked), OutputFormat::Json | OutputFormat::Ndjson);
    let before = servers::sum(ground, servers::RESIDENT_BYTES).await?;
    let mut shares: Vec<SessionShare> =
        (0..CONNECTIONS).map(|index| SessionShare { wire: ground.wire(index), ids: Vec::new() }).collect();
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
    let after = servers::sum(ground, servers::RESIDENT_BYTES).await?;
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
    form::write(&if is_json { format!("{figures}\n") } else { words(&figures) })
}

fn words(figures: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let times = &figures["keepalive_ms"];
    format!(
        "opened {:.0} a second; a keepalive of up to {BATCH} took {:.2} ms (p50), {:.2} ms (p99)\n\
         memory of the nodes that were asked: {:.1} MiB before, {:.1} MiB after, {:.0} bytes a session\n",
        number(&figures["opened_per_second"]),
        number(&times["p50"]),
        number(&times["p99"]),
        number(&figures["resident_bytes_before"]) / 1_048_576.0,
        number(&figures["resident_bytes_after"]) / 1_048_576.0,
        number(&figures["bytes_each"]),
    )
}

/// How many of so many fall to one connection.
fn count(all: usize, connection: usize) -> usize {
    all / CONNECTIONS + usize::from(connection < all % CONNECTIONS)
}

/// Some of the sessions, and the connection that cares for them.
struct SessionShare {
    wire: Wire,
    ids: Vec<String>,
}

impl SessionShare {
    /// Opens so many, and keeps those alive that are open already: to open very many takes longer than one lives.
    async fn open(&mut self, count: usize, ttl: Duration) -> Result<(), String> {
        let body = json!({"ttl": duration::format(ttl), "name": "bench"}).to_string();
        let every = ttl / KEEPALIVES_A_TTL;
        let mut next = Instant::now() + every;
        for _ in 0..count {
            if Instant::now() >= next {
                self.renew(&mut Times::new()).await?;
                next = Instant::now() + every;
            }
            let answer = self.wire.send("POST", "/v1/sessions", JSON, body.as_bytes()).await?.well()?;
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

    /// Renews all of them once, some at a time.
    async fn renew(&mut self, times: &mut Times) -> Result<(), String> {
        for batch in self.ids.chunks(BATCH) {
            let body = json!({"ids": batch}).to_string();
            let began = Instant::now();
            let answer = self.wire.send("POST", "/v1/sessions/keepalive", JSON, body.as_bytes()).await?.well()?;
            times.record(began.elapsed());
            let renewed = read::<Renewed>(&answer)?.renewed.len();
            if renewed != batch.len() {
                return Err(format!("of {} sessions only {renewed} were alive", batch.len()));
            }
        }
        Ok(())
    }

    /// Closes all of them. Nobody keeps them alive meanwhile, so one that has ended by itself is closed too.
    async fn close(&mut self) -> Result<(), String> {
        for id in std::mem::take(&mut self.ids) {
            let answer = self.wire.send("DELETE", &format!("/v1/sessions/{id}"), "", &[]).await?;
            if answer.status != NOT_FOUND {
                answer.well()?;
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
    serde_json::from_slice(&answer.body).map_err(|error| format!("the answer is not understood: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_falls_to_one_connection() {
        for all in [1, 15, 16, 17, 1_000] {
            assert_eq!((0..CONNECTIONS).map(|connection| count(all, connection)).sum::<usize>(), all);
        }
    }
}
