//! Three small nodes are attacked with every means that a client has, while honest clients renew, read and lock. No
//! node dies, honest clients get prompt answers, and deletes free memory and disk again.
//!
//! The long form takes ten minutes; each node has 1 GiB of memory and a disk of 1 GiB.

use crate::{
    client::{Call, Client, new_key},
    confined::{GROUP_BYTES, Group, MIB, Mount},
    harness::{Cluster, LONG, NODES, NodeProcess, all, eventually, pass_time, report, run_exclusive},
    hostile::{Trial, connect, dawdle, pester, raise_files, terms},
    procfs::Usage,
    state_full::{budget, long_texts},
    trial,
};
use serde_json::json;
use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, task::JoinHandle};

/// Ways to make a node store something.
const WAYS: usize = 6;
/// Kinds of requests that never end, or whose answers stay unread.
const SIEGES: usize = 4;
/// Grants from before the attack, which their holders renew.
const HELD: usize = 20;
/// While waiting for memory and disk, the test prints one sample in this many.
const LOOKS_SHOWN: usize = 200;
/// Concurrent deleting clients.
const CLEANERS: usize = 16;
/// The highest 99th percentile of an honest call.
const P99_MAX: Duration = Duration::from_secs(1);
/// Interval between the calls of an honest client.
const EVERY: Duration = Duration::from_millis(200);
/// How much of the budget, in percent, may stay in use after everything is deleted: an eighth is the history, and the
/// names of unused locks take up to another eighth. Remembered ids disappear after a minute.
const LEFT_MAX: (u64, u64) = (75, 30);

/// The calls that undo what the attackers did.
type Undo = Arc<Mutex<Vec<Call>>>;

/// A request that makes a node store something, and the call that removes it.
fn keep(way: usize, key: &str, value_bytes: usize) -> (Call, Option<Call>) {
    let paths = (0..500).map(|number| format!("/txn-{key}-{number}"));
    match way {
        0 => {
            let path = format!("/v1/nodes/value-{key}");
            (Call::put(&path, "v".repeat(value_bytes)), Some(Call::delete(&path)))
        }
        1 => (Call::put("/v1/nodes/overwritten", "o".repeat(value_bytes)), None),
        2 => {
            let acquire = Call::post(&format!("/v1/locks/{}{key}", "l".repeat(450))).key(key);
            (acquire.json(&long_texts()), Some(Call::delete(&format!("/v1/grants/{key}"))))
        }
        3 => {
            let body = json!({"ttl": "1h", "name": "n".repeat(250), "meta": long_texts()["meta"]});
            (Call::post("/v1/sessions").json(&body), None)
        }
        4 => {
            let puts: Vec<_> = paths.clone().map(|path| json!({"put": {"path": path}})).collect();
            let deletes: Vec<_> = paths.map(|path| json!({"delete": {"path": path}})).collect();
            let delete = Call::post("/v1/txn").json(&json!({"then": deletes}));
            (Call::post("/v1/txn").json(&json!({"then": puts})), Some(delete))
        }
        _ => (Call::post(&format!("/v1/locks/churn-{key}?ttl=1s")).key(key), Some(Call::delete(&format!("/v1/grants/{key}")))),
    }
}

/// Fills the state in one way until the trial is over.
async fn fill(client: Client, number: usize, value_bytes: usize, trial: Trial, undo: Undo) {
    let way = number % WAYS;
    while !trial.is_over() {
        let key = new_key();
        let (call, removal) = keep(way, &key, value_bytes);
        let answer = client.send_to(number % NODES, &call.within(Duration::from_secs(20))).await;
        let refused = answer.as_ref().is_ok_and(|answer| matches!(answer.status, 400..=499 | 503));
        if refused {
            pass_time(Duration::from_millis(20)).await;
            continue;
        }
        // Every request that was not refused may have taken effect.
        let session = answer.ok().filter(|_| way == 3).and_then(|answer| Some(answer.json["id"].as_str()?.to_owned()));
        let removal = removal.or_else(|| session.map(|id| Call::delete(&format!("/v1/sessions/{id}"))));
        if way == WAYS - 1 {
            // Takes and releases a lock that was never used before. If the release fails, the grant expires.
            let _released = client.send_to(number % NODES, &removal.expect("a release")).await;
        } else {
            undo.lock().expect("no attacker panicked").extend(removal);
        }
    }
}

/// A request, whole or cut off half-way, whose answer stays unread.
fn unread(kind: usize) -> Vec<u8> {
    let request = |line: &str, length: usize, body: &str| {
        format!("{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let text = match kind % SIEGES {
        0 => {
            let refused = json!({"acquire": {"lock": "held-0", "queue": false}});
            let body = json!({"calls": vec![refused; 256]}).to_string();
            request("POST /v1/batch", body.len(), &body).repeat(4)
        }
        1 => request("GET /v1/watch?path=/&recursive&initial", 0, ""),
        2 => {
            let body = format!("{{\"ttl\":\"30s\"{}}}", " ".repeat(60_000));
            request("POST /v1/locks/held-0?wait=10m", body.len(), &body)
        }
        _ => request("PUT /v1/nodes/half", 1_000_000, &"h".repeat(500_000)),
    };
    text.into_bytes()
}

/// Sends such a request, keeps the connection open for half a minute, and starts over.
async fn besiege(address: SocketAddr, number: usize, trial: Trial) {
    let request = unread(number);
    while !trial.is_over() {
        if let Ok(mut stream) = connect(address, number).await {
            // The node may stop reading or close the connection.
            let _sent = tokio::time::timeout(Duration::from_secs(5), stream.write_all(&request)).await;
            for _ in 0..60 {
                if trial.is_over() {
                    break;
                }
                pass_time(Duration::from_millis(500)).await;
            }
        }
        pass_time(Duration::from_millis(100)).await;
    }
}

/// The calls of an honest client: how long each took, and how many were refused because the state was full.
#[derive(Debug, Default)]
struct Seen {
    took: Vec<Duration>,
    full: usize,
}

impl Seen {
    fn of_all(seen: Vec<Seen>) -> Seen {
        let mut sum = Seen::default();
        for mut one in seen {
            sum.took.append(&mut one.took);
            sum.full += one.full;
        }
        sum.took.sort();
        sum
    }

    fn p99(&self) -> Duration {
        self.took.get(self.took.len() * 99 / 100).copied().unwrap_or_default()
    }

    fn show(&self, what: &str) {
        let (count, full, max) = (self.took.len(), self.full, self.took.last().copied().unwrap_or_default());
        report(&format!("honest {what}: {count} done, {full} refused by a full state; p99 {:.0?}, max {max:.0?}", self.p99()));
    }
}

/// Renews a grant from before the attack: this is never refused.
async fn renew(client: Client, id: String, trial: Trial) -> Seen {
    let mut seen = Seen::default();
    while !trial.is_over() {
        let begun = Instant::now();
        client.send(&Call::post(&format!("/v1/grants/{id}/renew")).without("idempotency-key")).await.expect_status(200);
        seen.took.push(begun.elapsed());
        pass_time(EVERY.saturating_sub(begun.elapsed())).await;
    }
    seen
}

async fn read(client: Client, trial: Trial) -> Seen {
    let mut seen = Seen::default();
    while !trial.is_over() {
        let begun = Instant::now();
        assert_eq!(client.value("kept").await, "a value");
        seen.took.push(begun.elapsed());
        pass_time(EVERY.saturating_sub(begun.elapsed())).await;
    }
    seen
}

async fn lock(client: Client, number: usize, trial: Trial) -> Seen {
    let mut seen = Seen::default();
    while !trial.is_over() {
        let begun = Instant::now();
        let answer = client.send(&Call::post(&format!("/v1/locks/honest-{number}?wait=30s"))).await;
        match (answer.status, answer.code()) {
            (200, _) => drop(client.release(answer.string("id")).await),
            (429, "state_full") => seen.full += 1,
            _ => panic!("{answer:?}"),
        }
        seen.took.push(begun.elapsed());
        pass_time(EVERY.saturating_sub(begun.elapsed())).await;
    }
    seen
}

/// The results of each kind of honest client during the attack: renewals, reads, locks.
async fn next_to_honest_clients(cluster: &Cluster, held: Vec<String>, trial: &Trial, lasts: Duration) -> [Seen; 3] {
    let renewals =
        held.into_iter().enumerate().map(|(number, id)| tokio::spawn(renew(cluster.client(number), id, trial.clone())));
    let reads = (0..4).map(|number| tokio::spawn(read(cluster.client(number), trial.clone())));
    let locks = (0..4).map(|number| tokio::spawn(lock(cluster.client(number), number, trial.clone())));
    let (renewals, reads, locks): (Vec<_>, Vec<_>, Vec<_>) = (renewals.collect(), reads.collect(), locks.collect());
    pass_time(lasts).await;
    trial.over.store(true, SeqCst);
    [Seen::of_all(all(renewals).await), Seen::of_all(all(reads).await), Seen::of_all(all(locks).await)]
}

/// All attackers, from addresses that honest clients do not use.
fn attack(cluster: &Cluster, value_bytes: usize, trial: &Trial, undo: &Undo) -> Vec<JoinHandle<()>> {
    let (fillers, sieges, dawdlers, pesterers) = trial::size((WAYS, SIEGES * 2, 50, 20), (WAYS * 9, SIEGES * 18, 1_800, 30));
    let addresses: Vec<SocketAddr> =
        cluster.nodes.iter().map(|node| node.url.trim_start_matches("http://").parse().expect("an address")).collect();
    let peers: Vec<SocketAddr> = cluster.nodes.iter().map(|node| node.peer_address.parse().expect("an address")).collect();
    let mut attackers = Vec::new();
    for number in 0..fillers {
        let from: IpAddr = format!("127.0.1.{}", 1 + number / WAYS).parse().expect("an address");
        let client = cluster.client(number).bound_to(from);
        attackers.push(tokio::spawn(fill(client, number, value_bytes, trial.clone(), undo.clone())));
    }
    // Spread over the nodes: the number that selects the kind must not select the node as well.
    let node = |number: usize, kinds: usize| (number / kinds) % NODES;
    attackers.extend((0..sieges).map(|number| tokio::spawn(besiege(addresses[node(number, SIEGES)], number, trial.clone()))));
    attackers.extend((0..dawdlers).map(|number| tokio::spawn(dawdle(addresses[node(number, 5)], number, trial.clone()))));
    attackers.extend((0..pesterers).map(|number| tokio::spawn(pester(peers[node(number, 6)], number, trial.clone()))));
    attackers
}

/// Removes everything that the attackers made, and returns how much that was.
async fn undo_all(cluster: &Cluster, undo: Undo) -> usize {
    let mut calls = std::mem::take(&mut *undo.lock().expect("no attacker panicked"));
    calls.push(Call::delete("/v1/nodes/overwritten"));
    let count = calls.len();
    let share = count.div_ceil(CLEANERS);
    let clean = |(number, calls): (usize, &[Call])| {
        let (client, calls) = (cluster.client(number), calls.to_vec());
        tokio::spawn(async move {
            for call in calls {
                // The item may never have existed.
                let answer = client.send(&call).await;
                assert!(matches!(answer.status, 200 | 204 | 404 | 410), "{answer:?}");
            }
        })
    };
    all(calls.chunks(share).enumerate().map(clean).collect()).await;
    count
}

fn show(what: &str, nodes: &[NodeProcess]) {
    let usage = Usage::of_all(nodes);
    let resident: Vec<f64> = usage.iter().map(|usage| usage.resident.round()).collect();
    let disk: Vec<f64> = usage.iter().map(|usage| usage.disk.round()).collect();
    report(&format!("{what}: {resident:?} MiB in memory, {disk:?} MiB on disk"));
}

/// Waits until every node uses only as much memory and disk as a small state needs.
async fn wait_until_recovered(cluster: &Cluster) {
    let (memory_max, disk_max) = trial::size((1_024.0, 256.0), (320.0, 256.0));
    let left_max = trial::size(LEFT_MAX.0, LEFT_MAX.1);
    let looks = AtomicUsize::new(0);
    eventually("memory and disk come back", Duration::from_secs(120), || async {
        let usage = Usage::of_all(&cluster.nodes);
        let (used, max) = budget(&cluster.client(0)).await;
        if looks.fetch_add(1, SeqCst).is_multiple_of(LOOKS_SHOWN) {
            show(&format!("{used} of {max} bytes in the state"), &cluster.nodes);
        }
        let back = usage.iter().all(|usage| usage.resident < memory_max && usage.disk < disk_max);
        (back && used < max * left_max / 100).then_some(())
    })
    .await;
}

#[test]
fn three_small_nodes_survive_an_attack_by_every_means_and_honest_clients_continue() {
    raise_files();
    let lasts = Duration::from_secs(trial::size(5, 600));
    run_exclusive(LONG + lasts, async {
        let mut cluster = Cluster::plan();
        let confined = trial::size(false, true);
        let groups = if confined { Group::of_each(&mut cluster.nodes) } else { Vec::new() };
        let mut mounts = Vec::new();
        for node in &mut cluster.nodes {
            if confined {
                let folder = node.data.with_extension("mount");
                mounts
                    .push(Mount::file_at(&folder, GROUP_BYTES / MIB).expect("the long form mounts small disks: run it as root"));
                node.move_to(&folder.join("data"));
            } else {
                node.flags = vec!["--state-bytes-max".to_owned(), (8 * MIB).to_string()];
            }
            node.start();
        }
        cluster.ready().await;
        let before = terms(&cluster).await;
        cluster.client(0).write(&Call::put("/v1/nodes/kept", "a value")).await;
        let mut held = Vec::new();
        for number in 0..HELD {
            held.push(cluster.client(number).acquire(&format!("held-{number}"), "ttl=30s").await.id);
        }
        let (trial, undo) = (Trial::default(), Undo::default());
        let attackers = attack(&cluster, trial::size(50_000, 1 << 20), &trial, &undo);
        let [renewals, reads, locks] = next_to_honest_clients(&cluster, held, &trial, lasts).await;
        for node in &mut cluster.nodes {
            assert!(!node.has_exited(), "node {} died", node.id);
        }
        let after = terms(&cluster).await;
        renewals.show("renewals");
        reads.show("reads");
        locks.show("locks");
        report(&format!("terms {before:?} then {after:?}; {} slow connections were made", trial.connected.load(SeqCst)));
        show("after the attack", &cluster.nodes);
        let peaks: Vec<_> = groups.iter().filter_map(Group::peak).collect();
        let free: Vec<_> = mounts.iter().map(|mount| mount.free() / MIB).collect();
        report(&format!(
            "{:?}; groups had {peaks:?} MiB at most; disks have {free:?} MiB free",
            budget(&cluster.client(0)).await
        ));
        all(attackers).await;
        let begun = Instant::now();
        let undone = undo_all(&cluster, undo).await;
        wait_until_recovered(&cluster).await;
        show(&format!("{undone} things removed after {:.1?}", begun.elapsed()), &cluster.nodes);
        let client = cluster.client(0);
        client.write(&Call::put("/v1/nodes/after", "there is room")).await;
        let grant = client.acquire("after", "").await;
        client.release(&grant.id).await;
        for (what, seen) in [("renewals", renewals), ("reads", reads), ("locks", locks)] {
            assert!(seen.took.len() > HELD, "too few {what}: {}", seen.took.len());
            if confined {
                assert!(seen.p99() < P99_MAX, "p99 of {what}: {:?}", seen.p99());
            }
        }
        for node in &mut cluster.nodes {
            node.kill().await;
        }
        drop((mounts, groups));
    });
}
