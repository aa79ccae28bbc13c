//! The recipes of the client: each keeps its promises with the clients of several programs at a time.

use crate::{
    basics::client_of,
    harness::{Cluster, SHORT, all, eventually, run_parallel},
};
use fairhold_client::{Client, Error, recipes::Claimed};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Clients without shared state.
fn clients(cluster: &Cluster, count: usize) -> Vec<Client> {
    (0..count).map(|_| client_of(cluster)).collect()
}

#[test]
fn clients_at_a_barrier_wait_while_it_is_up() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let barrier = client_of(&cluster).barrier("app/migration");
        barrier.wait().await.unwrap();
        assert!(barrier.raise().await.unwrap() && !barrier.raise().await.unwrap());
        let passed = Arc::new(AtomicUsize::new(0));
        let waiting = clients(&cluster, 5).into_iter().map(|client| {
            let passed = Arc::clone(&passed);
            tokio::spawn(async move {
                client.barrier("app/migration").wait().await.unwrap();
                passed.fetch_add(1, Ordering::SeqCst);
            })
        });
        let waiting: Vec<_> = waiting.collect();
        // Each of them waits at a node by now, and none has passed.
        let at_the_cluster = || async {
            let mut open = 0;
            for node in &cluster.nodes {
                let metrics = reqwest::get(format!("{}/metrics", node.url)).await.ok()?.text().await.ok()?;
                let line = metrics.lines().find(|line| line.starts_with("fairhold_watchers_open "))?.to_owned();
                open += line.rsplit(' ').next()?.parse::<usize>().ok()?;
            }
            (open >= 5).then_some(())
        };
        eventually("all wait", SHORT, at_the_cluster).await;
        assert_eq!(passed.load(Ordering::SeqCst), 0);
        assert!(barrier.lower().await.unwrap());
        all(waiting).await;
        assert_eq!((passed.load(Ordering::SeqCst), barrier.lower().await), (5, Ok(false)));
    });
}

#[test]
fn a_double_barrier_starts_and_ends_all_participants_together() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let (inside, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let parties = clients(&cluster, 4).into_iter().map(|client| {
            let (inside, left) = (Arc::clone(&inside), Arc::clone(&left));
            tokio::spawn(async move {
                inside.fetch_add(1, Ordering::SeqCst);
                let party = client.double_barrier("round-1", 4).enter().await.unwrap();
                assert_eq!(inside.load(Ordering::SeqCst), 4, "it started before all had arrived");
                left.fetch_add(1, Ordering::SeqCst);
                party.leave().await.unwrap();
                assert_eq!(left.load(Ordering::SeqCst), 4, "it ended before all had left");
                client.settled().await;
            })
        });
        all(parties.collect()).await;
    });
}

#[test]
fn a_latch_opens_when_it_reaches_zero_and_never_closes() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let latch = client_of(&cluster).latch("shards");
        assert_eq!(latch.count().await, Ok(None));
        assert!(matches!(latch.count_down().await, Err(Error::NoNode { .. })));
        let waits = latch.clone();
        let waits = tokio::spawn(async move { waits.wait().await });
        assert!(latch.set(6).await.unwrap() && !latch.set(9).await.unwrap());
        let counting = clients(&cluster, 6).into_iter();
        let counting = counting.map(|client| tokio::spawn(async move { client.latch("shards").count_down().await.unwrap() }));
        let mut left = all(counting.collect()).await;
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2, 3, 4, 5], "each counted once");
        assert_eq!((waits.await.unwrap(), latch.count_down().await, latch.count().await), (Ok(()), Ok(0), Ok(Some(0))));
    });
}

#[test]
fn a_queue_delivers_each_item_once_and_in_order() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let queue = client_of(&cluster).fair_queue("mails");
        assert!(queue.is_empty().await.unwrap());
        for number in 0..20 {
            queue.push(number.to_string()).await.unwrap();
        }
        let alone: Vec<Vec<u8>> = vec![queue.pop().await.unwrap(), queue.pop().await.unwrap()];
        assert_eq!(alone, [b"0", b"1"]);
        let takers = clients(&cluster, 3).into_iter().map(|client| {
            tokio::spawn(async move {
                let (queue, mut taken) = (client.fair_queue("mails"), Vec::new());
                for _ in 0..6 {
                    taken.push(String::from_utf8(queue.pop().await.unwrap()).unwrap().parse::<usize>().unwrap());
                }
                taken
            })
        });
        let taken = all(takers.collect()).await;
        assert!(taken.iter().all(|taken| taken.is_sorted()), "{taken:?}");
        let mut together: Vec<usize> = taken.concat();
        together.sort_unstable();
        assert_eq!(together, (2..20).collect::<Vec<_>>(), "each was taken once");

        // A value wakes a waiting consumer; a consumer that gave up blocks no other.
        let gave_up = tokio::time::timeout(Duration::from_millis(300), queue.pop()).await;
        assert!(gave_up.is_err(), "{gave_up:?}");
        let waits = queue.clone();
        let waits = tokio::spawn(async move { waits.pop().await });
        queue.push("late").await.unwrap();
        assert_eq!(waits.await.unwrap(), Ok(b"late".to_vec()));
    });
}

#[test]
fn a_counter_counts_every_addition_once() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let counter = client_of(&cluster).counter("invoices");
        assert_eq!(counter.get().await, Ok(0));
        let adding = clients(&cluster, 5).into_iter().map(|client| {
            tokio::spawn(async move {
                let mut seen = Vec::new();
                for _ in 0..10 {
                    seen.push(client.counter("invoices").add(1).await.unwrap());
                }
                seen
            })
        });
        let mut seen = all(adding.collect()).await.concat();
        seen.sort_unstable();
        assert_eq!(seen, (1..=50).collect::<Vec<_>>(), "no two got the same number");
        assert_eq!((counter.add(-50).await, counter.get().await), (Ok(0), Ok(0)));
        assert!(matches!(counter.add(i64::MIN).await, Ok(i64::MIN)));
        assert!(matches!(counter.add(-1).await, Err(Error::Invalid(_))), "it would not fit");
    });
}

#[test]
fn a_group_lists_its_live_members_with_their_newest_values() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let watcher = client_of(&cluster).group("workers");
        assert_eq!(watcher.members().await, Ok(Vec::new()));
        let sees = watcher.clone();
        let sees = tokio::spawn(async move { sees.until(|members| members.len() == 3).await });
        let mut joined = Vec::new();
        for (number, client) in clients(&cluster, 3).into_iter().enumerate() {
            joined.push(client.group("workers").join(format!("http://worker-{number}")).await.unwrap());
        }
        let members = sees.await.unwrap().unwrap();
        let values: Vec<String> = members.iter().map(|member| String::from_utf8_lossy(&member.value).into_owned()).collect();
        assert_eq!(values, ["http://worker-0", "http://worker-1", "http://worker-2"]);
        assert_eq!(members[1].name, joined[1].name());
        joined[1].set("http://elsewhere").await.unwrap();
        assert_eq!(watcher.members().await.unwrap()[1].value, b"http://elsewhere");
        joined.remove(0).leave().await.unwrap();
        drop(joined.remove(0));
        let left = watcher.until(|members| members.len() == 1).await.unwrap();
        assert_eq!(left[0].value, b"http://worker-2");
        // With its own session; the membership ends with it.
        let client = client_of(&cluster);
        let session = client.session().await.unwrap();
        let guest = watcher.join_by(session.clone(), "guest").await.unwrap();
        session.close().await.unwrap();
        watcher.until(|members| members.len() == 1).await.unwrap();
        assert!(matches!(guest.set("too late").await, Err(Error::Lost(_))));
    });
}

#[test]
fn once_has_exactly_one_winner_for_each_key() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        for key in ["mail/ann", "mail/bob"] {
            let trying = clients(&cluster, 6).into_iter().enumerate().map(|(number, client)| {
                tokio::spawn(async move { (number, client.once(key).claim(number.to_string()).await.unwrap()) })
            });
            let tried = all(trying.collect()).await;
            let winners: Vec<usize> =
                tried.iter().filter(|(_, claimed)| *claimed == Claimed::Won).map(|(number, _)| *number).collect();
            assert_eq!(winners.len(), 1, "{tried:?}");
            let won = winners[0].to_string().into_bytes();
            assert!(
                tried.iter().all(|(number, claimed)| *number == winners[0] || *claimed == Claimed::By(won.clone())),
                "{tried:?}"
            );
            assert_eq!(client_of(&cluster).once(key).winner().await, Ok(Some(won)));
        }
    });
}
