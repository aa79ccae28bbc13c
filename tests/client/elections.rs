//! An election while its leaders are killed: each observer sees every leader, and all observers see the same ones.

use crate::{
    basics::client_of,
    harness::{Cluster, NODES, SHORT, eventually, report, run_exclusive, run_parallel},
    trial,
};
use fairhold_client::{Client, ElectionEvent, Error, Lost};
use std::{
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};
use tokio::process::{Child, Command};

/// What one observer has seen.
type Observed = Arc<Mutex<Vec<ElectionEvent>>>;

const ELECTION: &str = "primary";
/// The next candidate must lead within this time after a leader was killed.
const NEXT_WITHIN: Duration = Duration::from_secs(60);

/// Everything that it has seen so far.
fn list(observed: &Observed) -> MutexGuard<'_, Vec<ElectionEvent>> {
    observed.lock().expect("no observer panics")
}

fn observe(client: &Client, observed: &Observed) -> tokio::task::JoinHandle<()> {
    let (mut observer, observed) = (client.observe(ELECTION).expect("a name"), Arc::clone(observed));
    tokio::spawn(async move {
        loop {
            let next = observer.next().await.expect("it is an election");
            list(&observed).push(next);
        }
    })
}

/// The tokens and values of the leaders that were seen, in order.
fn leaders(observed: &Observed) -> Vec<(u64, String)> {
    let elected = |event: &ElectionEvent| {
        let ElectionEvent::Elected(leader) = event else { return None };
        Some((leader.token.0, leader.value.clone()))
    };
    list(observed).iter().filter_map(elected).collect()
}

/// Waits until an observer has seen this many events.
async fn seen(observed: &Observed, count: usize) {
    eventually("everything is seen", SHORT, || async { (list(observed).len() >= count).then_some(()) }).await;
}

/// Waits until all observers have seen this many leaders.
async fn led(observed: &[Observed], count: usize) {
    let all = || async { observed.iter().all(|observed| leaders(observed).len() >= count).then_some(()) };
    eventually("all see the next leader", NEXT_WITHIN, all).await;
}

/// An event as a word and a value.
fn word(event: &ElectionEvent) -> String {
    if let ElectionEvent::Elected(leader) = event {
        format!("elected {}", leader.value)
    } else if let ElectionEvent::Proclaimed(leader) = event {
        format!("proclaimed {}", leader.value)
    } else {
        format!("{event:?}")
    }
}

/// A candidate program, which leads until it is killed.
fn candidate(cluster: &Cluster, number: usize) -> Child {
    let urls: Vec<&str> = cluster.nodes.iter().map(|node| node.url.as_str()).collect();
    Command::new(env!("CARGO_BIN_EXE_fairhold"))
        .args(["elect", ELECTION, "--ttl", "5s", "--quiet", "--timeout", "60s", "--value", &format!("candidate-{number}")])
        .args(["-e", &urls.join(","), "--", "sleep", "3600"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the program starts")
}

#[test]
fn an_observer_sees_a_leader_its_values_and_its_end_once_and_in_order() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let observed = Observed::default();
        let observer = observe(&client, &observed);
        seen(&observed, 1).await;
        assert_eq!(client.leader(ELECTION).await, Ok(None));
        let first = client.elect(ELECTION, "http://a").await.unwrap();
        first.proclaim("http://a2").await.unwrap();
        assert!(matches!(client.elect(ELECTION, "http://b").try_now().await, Err(Error::LockHeld { .. })));
        let leader = client.leader(ELECTION).await.unwrap().expect("there is a leader");
        assert_eq!((leader.value.as_str(), Ok(leader.token), leader.version), ("http://a2", first.token(), 1));
        seen(&observed, 3).await;
        let locked = client.lock("no-election-either").await.unwrap();
        let listed = client.elections().list().await.unwrap();
        let [only] = &listed[..] else { panic!("not one election: {listed:?}") };
        assert_eq!((only.election.as_str(), only.value.as_deref(), only.waiting), (ELECTION, Some("http://a2"), 0));
        assert_eq!((only.token, only.leader.as_ref().map(|leader| leader.number)), (first.token().ok(), Some(leader.number)));
        assert!(client.elections().list().prefix("none/").await.unwrap().is_empty());
        drop(locked);
        let led = first.held().clone();
        first.release().await.unwrap();
        seen(&observed, 4).await;
        assert_eq!(led.proclaim("too late").await, Err(Error::Lost(Lost::Released)));
        let second = client.elect(ELECTION, "http://b").await.unwrap();
        seen(&observed, 5).await;
        let words: Vec<String> = observed.lock().unwrap().iter().map(word).collect();
        assert_eq!(words, ["Vacant", "elected http://a", "proclaimed http://a2", "Vacant", "elected http://b"]);
        observer.abort();

        // A name is an election or a lock.
        let refused = client.lock(ELECTION).try_now().await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { status: 409, .. }), "{refused:?}");
        drop(second);
        let lock = client.lock("no-election").await.unwrap();
        let refused = client.observe("no-election").unwrap().next().await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { status: 409, .. }), "{refused:?}");
        drop(lock);
        client.settled().await;
    });
}

#[test]
fn all_observers_see_the_same_leaders_while_leaders_are_killed_in_turn() {
    let (kills, observers) = trial::size((3, 5), (10, 20));
    run_exclusive(trial::size(Duration::from_secs(240), Duration::from_secs(1_800)), async {
        let mut cluster = Cluster::start().await;
        let begun = Instant::now();
        let clients: Vec<Client> = (0..observers).map(|_| client_of(&cluster)).collect();
        let observed: Vec<Observed> = clients.iter().map(|_| Observed::default()).collect();
        let observing: Vec<_> = clients.iter().zip(&observed).map(|(client, observed)| observe(client, observed)).collect();
        eventually("all observe", SHORT, || async {
            observed.iter().all(|observed| !observed.lock().unwrap().is_empty()).then_some(())
        })
        .await;
        let mut candidates: Vec<Child> = (0..=kills).map(|number| candidate(&cluster, number)).collect();
        let mut known = 0;
        for kill in 0..kills {
            led(&observed, known + 1).await;
            let seen = leaders(&observed[0]);
            known = seen.len();
            let name = seen.last().map(|(_, name)| name.clone()).unwrap_or_default();
            let number: usize = name.trim_start_matches("candidate-").parse().expect("a candidate");
            candidates[number].kill().await.expect("it runs");
            // The cluster's own leader is also killed once, and its observers move to other nodes.
            if kill == kills / 2 {
                let leader = cluster.leader().await;
                cluster.nodes[leader].kill().await;
                led(&observed, known + 1).await;
                cluster.restart(leader).await;
            }
        }
        led(&observed, known + 1).await;
        observing.iter().for_each(|observing| observing.abort());

        let expected = leaders(&observed[0])[..=known].to_vec();
        for observed in &observed {
            assert_eq!(leaders(observed)[..=known], expected);
            assert!(!observed.lock().unwrap().contains(&ElectionEvent::Missed), "no observer was away for so long");
        }
        assert!(expected.windows(2).all(|pair| pair[0].0 < pair[1].0), "two leaders at one revision: {expected:?}");
        assert!(expected.len() > kills, "every killed leader was followed by another: {expected:?}");
        // The observed leaders are those in the cluster's history.
        let history = cluster.client(0).send(&crate::client::Call::get(&format!("/v1/locks/{ELECTION}/history"))).await;
        let tokens: Vec<u64> =
            history.json["items"].as_array().expect("items").iter().rev().filter_map(|item| item["token"].as_u64()).collect();
        assert_eq!(tokens[..=known], expected.iter().map(|(token, _)| *token).collect::<Vec<_>>());
        report(&format!(
            "{observers} observers saw {} leaders at {NODES} nodes, {kills} killed, in {:.1?}",
            expected.len(),
            begun.elapsed()
        ));
        for mut candidate in candidates {
            candidate.kill().await.ok();
        }
    });
}
