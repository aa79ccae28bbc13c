//! Many watchers and one writer: how long it takes from sending a write until each watcher receives its event.

use super::{
    load::LoadArgs,
    measure::{Times, round},
    servers,
    target::Target,
    wire::{Wire, WireAnswer},
};
use crate::remote::{
    self, Failure,
    format::{self, OutputFormat},
    request::node_path,
};
use fairhold_client::{WatchEvent, Watching};
use fairhold_types::watch::What;
use parking_lot::Mutex;
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// The default rate, in writes a second.
const RATE: f64 = 100.0;
/// How long the last event may take.
const TAIL_MAX: Duration = Duration::from_secs(10);
/// The value of each write.
const VALUE: [u8; 100] = [b'v'; 100];

/// The scheduled time of each write.
type Sent = Arc<Mutex<Vec<Instant>>>;

/// Runs the workload, and removes its nodes afterwards.
pub(super) async fn run(target: &Target, load: &LoadArgs, requested: Option<OutputFormat>) -> Result<(), Failure> {
    let plan = load.plan()?;
    let rate = plan.rate.unwrap_or(RATE);
    let root = format!("/{}", target.name);
    let nodes = target.rust()?.nodes();
    nodes.put(&root, Vec::new()).parents().await.map_err(|error| Failure::from_client(&error))?;
    let watches = watches(target, load.clients, &root).await?;
    // Starts the time only now: opening many watches takes a while.
    let sent = Sent::default();
    let begin = Instant::now() + plan.warmup;
    let watchers = watches.into_iter().map(|watching| watcher(watching, format!("{root}/"), Arc::clone(&sent), begin));
    let watchers: Vec<_> = watchers.map(tokio::spawn).collect();
    let every = Duration::from_secs_f64(1.0 / rate);
    let mut writer = Writer { wire: target.wire(0), root: &root, sent, every, next: Instant::now() };
    writer.until(begin).await?;
    let before = servers::sum(target, servers::CPU_SECONDS).await?;
    let counted = writer.until(begin + plan.time).await?;
    // The event of this uncounted node marks the end.
    nodes.put(&format!("{root}/last"), Vec::new()).await.map_err(|error| Failure::from_client(&error))?;
    let latency = collect(watchers).await?;
    let servers_cpu = servers::sum(target, servers::CPU_SECONDS).await? - before;
    nodes.delete(&root).recursive().await.map_err(|error| Failure::from_client(&error))?;
    let received = latency.count();
    let expected = counted * load.clients as u64;
    let micros_each = servers_cpu * 1e6 / received.max(1) as f64;
    let figures = json!({
        "workload": "watch", "watchers": load.clients, "writes": counted, "events": received,
        "missed": expected - received.min(expected),
        "events_per_second": round(received as f64 / plan.time.as_secs_f64()), "latency_ms": latency.json(),
        "servers_cpu_seconds": round(servers_cpu), "servers_cpu_micros_each": round(micros_each),
    });
    let text = format!(
        "{counted} writes at {rate} a second, {} watchers: {received} events ({} missed), \
         received after {:.2} ms (p50), {:.2} ms (p99)\nthe given nodes used {servers_cpu:.2} s of processor time, \
         {micros_each:.1} µs per event, including the writes\n",
        load.clients,
        figures["missed"],
        latency.percentile(50.0),
        latency.percentile(99.0),
    );
    let is_json = matches!(OutputFormat::resolve(requested), OutputFormat::Json | OutputFormat::Ndjson);
    format::write(&if is_json { format!("{figures}\n") } else { text })
}

/// Opens all watches, each with its own client. They are spread over the nodes in turn.
async fn watches(target: &Target, count: usize, root: &str) -> Result<Vec<Watching>, Failure> {
    let mut watches = Vec::new();
    for index in 0..count {
        let mut connect = target.connect.clone();
        let first = index % connect.endpoint.len();
        connect.endpoint.rotate_left(first);
        let watching = remote::client(&connect, None)?.watch().tree(root).await;
        watches.push(watching.map_err(|error| Failure::from_client(&error))?);
    }
    Ok(watches)
}

/// Creates nodes one after the other, named by their numbers.
struct Writer<'a> {
    wire: Wire,
    root: &'a str,
    sent: Sent,
    every: Duration,
    next: Instant,
}

impl Writer<'_> {
    /// Sends all writes that are scheduled before this moment, and returns their number.
    async fn until(&mut self, end: Instant) -> Result<u64, Failure> {
        let mut count = 0;
        while self.next < end {
            tokio::time::sleep_until(self.next.into()).await;
            let number = {
                let mut sent = self.sent.lock();
                // The scheduled time: a delayed writer must not hide latency.
                sent.push(self.next);
                sent.len() - 1
            };
            let url_path = node_path(&format!("{}/{number}", self.root));
            self.wire.send("PUT", &url_path, "", &VALUE).await.and_then(WireAnswer::success).map_err(Failure::Unavailable)?;
            count += 1;
            self.next += self.every;
        }
        Ok(count)
    }
}

/// The times of all watchers. A watcher that does not see the last write in time counts the rest as missed.
async fn collect(watchers: Vec<JoinHandle<Result<Times, String>>>) -> Result<Times, Failure> {
    let mut latency = Times::new();
    let patience = Instant::now() + TAIL_MAX;
    for watcher in watchers {
        let abort = watcher.abort_handle();
        match tokio::time::timeout_at(patience.into(), watcher).await {
            Ok(Ok(Ok(times))) => latency.add(&times),
            Ok(Ok(Err(why))) => return Err(Failure::Ended(why)),
            Ok(Err(error)) => return Err(Failure::Ended(error.to_string())),
            Err(_) => abort.abort(),
        }
    }
    Ok(latency)
}

async fn watcher(mut watching: Watching, below: String, sent: Sent, begin: Instant) -> Result<Times, String> {
    let mut times = Times::new();
    while let Some(event) = watching.next().await {
        let now = Instant::now();
        let WatchEvent::Change(line) = event.map_err(|error| error.to_string())? else { continue };
        let What::NodeCreated { path } = line.what else { continue };
        let Some(name) = path.as_str().strip_prefix(&below) else { continue };
        if name == "last" {
            return Ok(times);
        }
        let number: usize = name.parse().map_err(|_| format!("an event for {path}, which nobody wrote"))?;
        let at = sent.lock().get(number).copied();
        let at = at.ok_or_else(|| format!("an event for {path} before it was written"))?;
        if at >= begin {
            times.record(now.saturating_duration_since(at));
        }
    }
    Err("the watch has ended".to_owned())
}
