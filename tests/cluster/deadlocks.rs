//! Philosophers at a round table: those who take both forks in one step never wait for ever, and those who take one after
//! the other
//! are told when they would.

use crate::{
    client::{Call, Client, Grant, Session},
    fairness::Dice,
    harness::{Cluster, LONG, SHORT, all, alone, pass, report, together},
    trial,
};
use serde_json::json;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const SEATS: usize = 5;
const SEED: u64 = 0x0f0_2c5;

/// Which fork is held by whom, looked at from outside.
#[derive(Debug, Clone, Default)]
struct Table(Arc<Mutex<[Option<usize>; SEATS]>>);

impl Table {
    #[track_caller]
    fn take(&self, fork: usize, seat: usize) {
        let before = self.0.lock().expect("nobody panicked with it")[fork].replace(seat);
        assert_eq!(before, None, "fork {fork} was given to {seat} while {before:?} held it");
    }

    #[track_caller]
    fn lay_down(&self, fork: usize, seat: usize) {
        let before = self.0.lock().expect("nobody panicked with it")[fork].take();
        assert_eq!(before, Some(seat), "fork {fork} was not held by {seat}");
    }
}

fn forks(seat: usize) -> [usize; 2] {
    [seat, (seat + 1) % SEATS]
}

fn dining_time() -> Duration {
    trial::size(Duration::from_secs(3), Duration::from_secs(60))
}

#[test]
fn philosophers_who_take_both_forks_at_once_all_eat() {
    alone(LONG, async {
        let cluster = Cluster::start().await;
        let (table, until) = (Table::default(), Instant::now() + dining_time());
        let dine = |seat: usize| {
            let (client, table) = (cluster.client(seat % 3), table.clone());
            tokio::spawn(async move {
                let mut meals = 0;
                while Instant::now() < until {
                    let locks = forks(seat).map(|fork| json!({ "name": format!("fork-{fork}") }));
                    let both = Call::post("/v1/locks").json(&json!({ "locks": locks, "wait": "5m", "ttl": "60s" }));
                    let grant = Grant::from_answer(&client.send(&both).await.expect_status(200));
                    forks(seat).iter().for_each(|fork| table.take(*fork, seat));
                    meals += 1;
                    forks(seat).iter().for_each(|fork| table.lay_down(*fork, seat));
                    client.release(&grant.id).await;
                }
                meals
            })
        };
        let meals = all((0..SEATS).map(dine).collect()).await;
        report(&format!("philosophers: {meals:?} meals with both forks at once"));
        assert!(meals.iter().all(|meals| *meals > 0), "somebody starved: {meals:?}");
        let (least, most) = (meals.iter().min().expect("five"), meals.iter().max().expect("five"));
        assert!(most - least <= most / 2 + 2, "in one order everywhere, all get their turn: {meals:?}");
    });
}

/// One fork after the other; gives up the first where waiting for the second would never end.
async fn eat_one_by_one(client: &Client, session: &Session, seat: usize, table: &Table) -> bool {
    let owner = format!("philosopher-{seat}");
    let take = |fork: usize| {
        let parameters = format!("session={}&owner={owner}&wait=5m", session.id);
        Call::post(&format!("/v1/locks/fork-{fork}?{parameters}"))
    };
    let [left, right] = forks(seat);
    let first = Grant::from_answer(&client.send(&take(left)).await.expect_status(200));
    table.take(left, seat);
    let second = client.send(&take(right)).await;
    let eaten = if second.status == 200 {
        table.take(right, seat);
        table.lay_down(right, seat);
        client.release(&Grant::from_answer(&second).id).await;
        true
    } else {
        let refused = second.expect_problem(409, "would_deadlock");
        let cycle = refused.json["cycle"].as_array().expect("a circle");
        let seats: Vec<usize> = cycle
            .iter()
            .map(|one| {
                let owner = one["owner"].as_str().expect("an owner");
                owner.trim_start_matches("philosopher-").parse().expect("its seat")
            })
            .collect();
        assert_eq!(seats[0], seat, "who asks comes first: {}", refused.text);
        assert_eq!(cycle.len(), SEATS, "only all together make a circle at a round table: {}", refused.text);
        for (place, one) in cycle.iter().enumerate() {
            let (waits, next) = (seats[place], seats[(place + 1) % seats.len()]);
            assert_eq!(one["lock"], format!("fork-{}", forks(waits)[1]), "{waits} waits for its right fork: {}", refused.text);
            assert_eq!(next, (waits + 1) % SEATS, "which its right neighbour has: {}", refused.text);
        }
        false
    };
    table.lay_down(left, seat);
    client.release(&first.id).await;
    eaten
}

#[test]
fn philosophers_who_take_one_fork_after_the_other_are_told_before_they_wait_for_ever() {
    alone(LONG, async {
        let cluster = Cluster::start().await;
        let (table, until) = (Table::default(), Instant::now() + dining_time());
        let refusals = Arc::new(AtomicUsize::new(0));
        let dine = |seat: usize| {
            let (client, table, refusals) = (cluster.client(seat % 3), table.clone(), Arc::clone(&refusals));
            tokio::spawn(async move {
                let session = client.open_session("5m", &format!("seat-{seat}")).await;
                let mut dice = Dice::new(SEED + seat as u64);
                let mut meals = 0;
                while Instant::now() < until {
                    if eat_one_by_one(&client, &session, seat, &table).await {
                        meals += 1;
                    } else {
                        refusals.fetch_add(1, Ordering::SeqCst);
                        pass(Duration::from_millis(dice.below(20))).await;
                    }
                }
                meals
            })
        };
        let meals = all((0..SEATS).map(dine).collect()).await;
        let refusals = refusals.load(Ordering::SeqCst);
        report(&format!("philosophers: {meals:?} meals one fork after the other, {refusals} circles refused"));
        assert!(meals.iter().all(|meals: &usize| *meals > 0), "somebody starved: {meals:?}");
    });
}

#[test]
fn a_circle_is_refused_before_it_is_closed_and_the_others_go_on() {
    together(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let [alice, bob] = [client.open_session("60s", "alice").await, client.open_session("60s", "bob").await];
        let take = |lock: &str, session: &Session, owner: &str, wait: &str| {
            Call::post(&format!("/v1/locks/{lock}?session={}&owner={owner}&wait={wait}", session.id))
        };
        client.send(&take("left", &alice, "alice", "0s")).await.expect_status(200);
        let right = Grant::from_answer(&client.send(&take("right", &bob, "bob", "0s")).await.expect_status(200));
        let waits = {
            let (client, call) = (cluster.client(1), take("right", &alice, "alice", "60s"));
            tokio::spawn(async move { client.send(&call).await })
        };
        crate::queue::standing(&client, "right", 2).await;
        let refused = cluster.client(2).send(&take("left", &bob, "bob", "60s")).await.expect_problem(409, "would_deadlock");
        let cycle = json!([
            { "session": bob.number, "owner": "bob", "lock": "left" },
            { "session": alice.number, "owner": "alice", "lock": "right" },
        ]);
        assert_eq!(refused.json["cycle"], cycle, "{}", refused.text);
        client.send(&take("left", &bob, "bob", "0s")).await.expect_problem(409, "lock_held");
        client.send(&take("left", &bob, "another", "100ms")).await.expect_problem(409, "wait_timeout");
        client.release(&right.id).await;
        waits.await.expect("its task").expect_status(200);
    });
}
