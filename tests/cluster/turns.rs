//! A tenant with fifty times the clients of another hardly delays it, because their commands take turns.

use crate::{
    access::{Guarded, User},
    client::Call,
    disk_double::DiskDouble,
    fairness::Dice,
    harness::{LONG, NODES, all, eventually, pass_time, report, run_exclusive},
    tenants::{authorized, two_tenants},
    trial,
};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// Clients of the small tenant.
const FEW: u64 = 4;
/// Clients of the large tenant.
const MANY: u64 = 50 * FEW;
const VALUE_BYTES: usize = 64 * 1024;
/// With slow disks, the commands wait in the queues, and neither for a processor nor for the network.
const SYNC: Duration = Duration::from_millis(100);
/// How long the flood may take to fill the queues.
const BUSY_WITHIN: Duration = Duration::from_secs(60);

/// How long each measurement takes.
fn lasts() -> Duration {
    Duration::from_secs(trial::size(5, 30))
}

/// The times below which this many percent of the writes are, and how much longer these times may be next to the flood. In the
/// short form, a stall of a busy machine is more than one percent.
fn bound() -> (usize, u32) {
    trial::size((90, 4), (99, 3))
}

/// The clients of a tenant.
#[derive(Debug, Clone, Default)]
struct Clients {
    over: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    /// How long a client pauses at most before each of its writes: clients without pauses would soon write together.
    pause_ms: u64,
}

impl Clients {
    /// Writes in sequence, until it is over. Returns how long each write took.
    async fn write(self, user: User, name: &'static str, number: u64) -> Vec<Duration> {
        let path = format!("/v1/nodes/{name}/{number}?parents");
        let call = authorized(&user, Call::put(&path, vec![b'x'; VALUE_BYTES]));
        let mut took = Vec::new();
        let mut dice = Dice::new(number);
        while !self.over.load(SeqCst) {
            pass_time(Duration::from_millis(dice.below(self.pause_ms + 1))).await;
            let begun = Instant::now();
            let answer = user.client.once(&call).await;
            took.push(begun.elapsed());
            assert!([200, 201].contains(&answer.status), "{answer:?}");
            self.written.fetch_add(1, SeqCst);
        }
        took
    }

    /// Starts this many clients of a tenant.
    fn start(&self, count: u64, name: &'static str, user: &User) -> Vec<JoinHandle<Vec<Duration>>> {
        (0..count).map(|number| tokio::spawn(self.clone().write(user.clone(), name, number))).collect()
    }
}

/// The times of the small tenant's writes, sorted.
async fn measure(blue: &User) -> Vec<Duration> {
    let clients = Clients { pause_ms: 200, ..Clients::default() };
    let tasks = clients.start(FEW, "blue", blue);
    pass_time(lasts()).await;
    clients.over.store(true, SeqCst);
    sorted(all(tasks).await)
}

fn sorted(times: Vec<Vec<Duration>>) -> Vec<Duration> {
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    times.sort();
    times
}

/// The time below which this many percent of the times are.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent).div_ceil(100).saturating_sub(1)]
}

#[test]
fn a_tenant_with_fifty_times_the_clients_hardly_delays_another() {
    run_exclusive(LONG, async {
        let mut disks = Vec::new();
        let guarded = Guarded::start_with(|cluster| disks.extend(cluster.nodes.iter_mut().map(DiskDouble::under))).await;
        let (_, red, blue) = two_tenants(&guarded, json!({})).await;
        disks.iter().for_each(|disk| disk.slow_syncs(SYNC, ".log"));
        let leader = guarded.cluster.leader().await;
        let (percent, times) = bound();
        for (node, place) in [(leader, "the leader"), ((leader + 1) % NODES, "another node")] {
            let (red, blue) = (red.at(node), blue.at(node));
            let alone = percentile(&measure(&blue).await, percent);
            let flood = Clients::default();
            let tasks = flood.start(MANY, "red", &red);
            eventually("the flood is high", BUSY_WITHIN, || async { (flood.written.load(SeqCst) >= MANY).then_some(()) }).await;
            let next_to_flood = percentile(&measure(&blue).await, percent);
            flood.over.store(true, SeqCst);
            let in_flood = percentile(&sorted(all(tasks).await), 50);
            report(&format!(
                "at {place}, {percent} % of the writes take {alone:.0?} at most, next to the flood {next_to_flood:.0?}; half of \
                 the flood takes {in_flood:.0?}"
            ));
            assert!(in_flood > alone * times, "the flood is too small to delay anything");
            assert!(next_to_flood <= alone * times, "next to the flood, writes take more than {times} times as long");
        }
    });
}
