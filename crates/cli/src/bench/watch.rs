//! Many watch while one writes: how long it takes from the sending of a write until each of them is told.

use super::{Ground, LoadArgs, measure::Times, wire::Answer};
use crate::remote::{
    self, Failure,
    api::node_path,
    form::{self, Form},
};
use fairhold_client::{Tidings, Watching};
use fairhold_types::watch::What;
use serde_json::json;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Writes a second where nothing else is asked for.
const RATE: f64 = 100.0;
/// How long the last event may take.
const TAIL_MAX: Duration = Duration::from_secs(10);
/// Each write's value.
const VALUE: [u8; 100] = [b'v'; 100];

/// When each write was sent.
type Sent = Arc<Mutex<Vec<Instant>>>;

/// Runs it; the nodes are gone afterwards.
pub(super) async fn run(ground: &Ground, load: &LoadArgs, asked: Option<Form>) -> Result<(), Failure> {
    let plan = load.plan()?;
    let rate = plan.rate.unwrap_or(RATE);
    let every = Duration::from_secs_f64(1.0 / rate);
    let root = format!("/{}", ground.name);
    let nodes = ground.rust()?.nodes();
    nodes.put(&root, Vec::new()).parents().await.map_err(|error| Failure::from_client(&error))?;
    let (sent, begin) = (Sent::default(), Instant::now() + plan.warmup);
    let end = begin + plan.time;
    let mut watchers = Vec::new();
    for index in 0..load.clients {
        let mut connect = ground.connect.clone();
        let first = index % connect.endpoint.len();
        connect.endpoint.rotate_left(first);
        let watching = remote::client(&connect, None)?.watch().tree(&root).await;
        let watching = watching.map_err(|error| Failure::from_client(&error))?;
        watchers.push(tokio::spawn(watcher(watching, format!("{root}/"), Arc::clone(&sent), begin)));
    }
    let mut wire = ground.wire(0);
    let (mut counted, mut next) = (0_u64, Instant::now());
    while next < end {
        tokio::time::sleep_until(next.into()).await;
        let number = {
            let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            // From when it should have been sent, so that a writer that is held up hides nothing.
            sent.push(next);
            sent.len() - 1
        };
        counted += u64::from(next >= begin);
        let target = node_path(&format!("{root}/{number}"));
        wire.send("PUT", &target, "", &VALUE).await.and_then(Answer::well).map_err(Failure::Unavailable)?;
        next += every;
    }
    let mut latency = Times::new();
    let mut told = 0;
    let patience = Instant::now() + TAIL_MAX;
    // A node that nobody counts says that all is told.
    nodes.put(&format!("{root}/last"), Vec::new()).await.map_err(|error| Failure::from_client(&error))?;
    for watcher in watchers {
        let abort = watcher.abort_handle();
        match tokio::time::timeout_at(patience.into(), watcher).await {
            Ok(Ok(Ok(times))) => {
                told += times.count();
                latency.add(&times);
            }
            Ok(Ok(Err(why))) => return Err(Failure::Ended(why)),
            Ok(Err(error)) => return Err(Failure::Ended(error.to_string())),
            Err(_) => abort.abort(),
        }
    }
    nodes.delete(&root).recursive().await.map_err(|error| Failure::from_client(&error))?;
    let expected = counted * load.clients as u64;
    let figures = json!({
        "workload": "watch", "watchers": load.clients, "writes": counted, "events": told, "missed": expected - told.min(expected),
        "events_per_second": told as f64 / plan.time.as_secs_f64(), "latency_ms": latency.json(),
    });
    let text = format!(
        "{counted} writes at {rate} a second, {} watchers: {told} events ({} missed), \
         told after {:.2} ms (p50), {:.2} ms (p99)\n",
        load.clients,
        figures["missed"],
        latency.percentile(50.0),
        latency.percentile(99.0),
    );
    let is_json = matches!(Form::of(asked), Form::Json | Form::Ndjson);
    form::write(&if is_json { format!("{figures}\n") } else { text })
}

async fn watcher(mut watching: Watching, below: String, sent: Sent, begin: Instant) -> Result<Times, String> {
    let mut times = Times::new();
    while let Some(told) = watching.next().await {
        let now = Instant::now();
        let Tidings::Happened(line) = told.map_err(|error| error.to_string())? else { continue };
        let What::NodeCreated { path } = line.what else { continue };
        let Some(name) = path.as_str().strip_prefix(&below) else { continue };
        if name == "last" {
            return Ok(times);
        }
        let number: usize = name.parse().map_err(|_| format!("an event of {path}, which nobody wrote"))?;
        let at = sent.lock().unwrap_or_else(PoisonError::into_inner).get(number).copied();
        let at = at.ok_or_else(|| format!("an event of {path} before it was written"))?;
        if at >= begin {
            times.record(now.saturating_duration_since(at));
        }
    }
    Err("the watch has ended".to_owned())
}
