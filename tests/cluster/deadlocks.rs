//! Dining philosophers: philosophers that take both forks in one step never wait forever. Philosophers that take one
//! after the other are refused before they would.

use crate::{
    client::{Answer, Call, Client, Grant, Session},
    fairness::Dice,
    harness::{Cluster, LONG, SHORT, all, pass_time, report, run_exclusive, run_parallel},
    trial,
};
use serde_json::json;
use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Barrier;

const SEATS: usize = 7;
const SEED: u64 = 0x0f0_2c5;

/// A longer wait is a deadlock that was not detected.
const FOR_EVER: &str = "30s";

/// The longest that a philosopher thinks with a fork in hand, in milliseconds: longer than all the others take to eat.
/// Otherwise they synchronize, and no cycle ever closes.
const THINKS: u64 = 300;

/// The holder of each fork, as seen from outside.
#[derive(Debug, Clone, Default)]
struct Table(Arc<Mutex<[Option<usize>; SEATS]>>);

impl Table {
    #[track_caller]
    fn take(&self, fork: usize, seat: usize) {
        let before = self.0.lock().expect("the mutex is not poisoned")[fork].replace(seat);
        assert_eq!(before, None, "fork {fork} was given to {seat} while {before:?} held it");
    }

    #[track_caller]
    fn lay_down(&self, fork: usize, seat: usize) {
        let before = self.0.lock().expect("the mutex is not poisoned")[fork].take();
        assert_eq!(before, Some(seat), "fork {fork} was not held by {seat}");
    }

    fn forks(&self) -> [Option<usize>; SEATS] {
        *self.0.lock().expect("the mutex is not poisoned")
    }
}

fn forks(seat: usize) -> [usize; 2] {
    [seat, (seat + 1) % SEATS]
}

/// How long a dinner of each kind lasts.
fn dining_time() -> Duration {
    trial::size(Duration::from_secs(3), Duration::from_secs(60))
}

/// The largest allowed difference between the most and the fewest meals, as a fraction (1/n) of the most.
fn unfairness() -> usize {
    trial::size(5, 20)
}

#[test]
fn philosophers_that_take_both_forks_at_once_all_eat() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let (table, until) = (Table::default(), Instant::now() + dining_time());
        let dine = |seat: usize| {
            let (client, table) = (cluster.client(seat % 3), table.clone());
            tokio::spawn(async move {
                let mut meals = 0;
                while Instant::now() < until {
                    let locks = forks(seat).map(|fork| json!({ "name": format!("fork-{fork}") }));
                    let both = Call::post("/v1/locks").json(&json!({ "locks": locks, "wait": FOR_EVER, "ttl": "60s" }));
                    // At changing nodes: no philosopher always sends straight to the leader.
                    let client = client.beginning_with(seat + meals);
                    let grant = Grant::from_answer(&client.send(&both).await.expect_status(200));
                    forks(seat).iter().for_each(|fork| table.take(*fork, seat));
                    meals += 1;
                    forks(seat).iter().for_each(|fork| table.lay_down(*fork, seat));
                    client.release(&grant.id).await;
                }
                meals
            })
        };
        let meals: Vec<usize> = all((0..SEATS).map(dine).collect()).await;
        let (least, most) = (meals.iter().min().expect("seven"), meals.iter().max().expect("seven"));
        let apart = (most - least) as f64 * 100.0 / *most as f64;
        report(&format!("philosophers: {meals:?} meals with both forks at once in {:?}, {apart:.1} % apart", dining_time()));
        assert!(*least > 0, "a philosopher starved: {meals:?}");
        assert!(most - least <= most / unfairness(), "with one order everywhere, everyone gets a turn: {meals:?}");
    });
}

/// What an observer sees of a dinner at which philosophers take one fork after the other.
#[derive(Debug, Default)]
struct Dinner {
    table: Table,
    /// The public number of each philosopher's session.
    sessions: Mutex<[u64; SEATS]>,
    /// The philosophers that requested the second fork and have no answer yet.
    asks: [AtomicBool; SEATS],
    refused: AtomicUsize,
    longest_wait: Mutex<Duration>,
}

impl Dinner {
    /// Asserts that a request was refused because of the only possible cycle, and that it would have closed that
    /// cycle.
    #[track_caller]
    fn judge_refusal(&self, refused: &Answer, seat: usize) {
        let cycle = refused.json["cycle"].as_array().expect("a cycle");
        assert_eq!(cycle.len(), SEATS, "a cycle at a round table needs all philosophers: {}", refused.text);
        let sessions = *self.sessions.lock().expect("the mutex is not poisoned");
        for (place, one) in cycle.iter().enumerate() {
            let waits = (seat + place) % SEATS;
            let expected = json!({
                "session": sessions[waits],
                "owner": format!("philosopher-{waits}"),
                "lock": format!("fork-{}", forks(waits)[1]),
            });
            assert_eq!(*one, expected, "the requester comes first, and each waits for its right neighbour: {}", refused.text);
        }
        // The cycle cannot have changed: all the others wait for a fork that this philosopher still holds.
        let left_only = std::array::from_fn(Some);
        assert_eq!(self.table.forks(), left_only, "{seat} was refused, although not everyone holds the left fork");
        let idle: Vec<usize> = (0..SEATS).filter(|other| !self.asks[*other].load(Ordering::SeqCst)).collect();
        assert!(idle.is_empty(), "{seat} was refused while {idle:?} did not wait");
        self.refused.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one fork, does `between`, and takes the other fork; gives the first back if waiting for the second would
    /// deadlock.
    async fn eat(&self, client: &Client, session: &Session, seat: usize, between: impl Future<Output = ()>) -> bool {
        let take = |fork: usize| {
            let parameters = format!("session={}&owner=philosopher-{seat}&wait={FOR_EVER}", session.id);
            Call::post(&format!("/v1/locks/fork-{fork}?{parameters}"))
        };
        let [left, right] = forks(seat);
        let first = Grant::from_answer(&client.send(&take(left)).await.expect_status(200));
        self.table.take(left, seat);
        between.await;
        let asked = Instant::now();
        self.asks[seat].store(true, Ordering::SeqCst);
        let second = client.send(&take(right)).await;
        let waited = asked.elapsed();
        let eaten = second.status == 200;
        if eaten {
            self.asks[seat].store(false, Ordering::SeqCst);
            self.table.take(right, seat);
            self.table.lay_down(right, seat);
            client.release(&Grant::from_answer(&second).id).await;
        } else {
            self.judge_refusal(&second.expect_problem(409, "would_deadlock"), seat);
            self.asks[seat].store(false, Ordering::SeqCst);
        }
        {
            let mut longest = self.longest_wait.lock().expect("the mutex is not poisoned");
            *longest = waited.max(*longest);
        }
        self.table.lay_down(left, seat);
        client.release(&first.id).await;
        eaten
    }

    async fn sit_down(&self, client: &Client, seat: usize) -> Session {
        let session = client.open_session("5m", &format!("seat-{seat}")).await;
        self.sessions.lock().expect("the mutex is not poisoned")[seat] = session.number;
        session
    }

    /// Reports and returns how many of the tries were refused.
    fn report(&self, how: &str, meals: &[usize]) -> usize {
        let refused = self.refused.load(Ordering::SeqCst);
        let longest = *self.longest_wait.lock().expect("the mutex is not poisoned");
        report(&format!(
            "philosophers, one fork after the other, {how}, {:?}: {meals:?} meals, {refused} cycles, all refused; \
             the longest wait with a fork in hand {longest:.0?}",
            dining_time()
        ));
        refused
    }
}

#[test]
fn only_the_last_request_is_refused_in_each_round_in_which_all_hold_one_fork() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let (dinner, until) = (Arc::new(Dinner::default()), Instant::now() + dining_time());
        let (all_sit, goes_on) = (Arc::new(Barrier::new(SEATS)), Arc::new(AtomicBool::new(true)));
        let dine = |seat: usize| {
            let (client, dinner) = (cluster.client(seat % 3), Arc::clone(&dinner));
            let (all_sit, goes_on) = (Arc::clone(&all_sit), Arc::clone(&goes_on));
            tokio::spawn(async move {
                let session = dinner.sit_down(&client, seat).await;
                let (mut meals, mut rounds) = (0, 0);
                while goes_on.load(Ordering::SeqCst) {
                    let all_have_one = async {
                        all_sit.wait().await;
                    };
                    meals += usize::from(dinner.eat(&client, &session, seat, all_have_one).await);
                    rounds += 1;
                    // The next round starts when this one is over for all, and all know whether there is another.
                    if all_sit.wait().await.is_leader() {
                        goes_on.store(Instant::now() < until, Ordering::SeqCst);
                    }
                    all_sit.wait().await;
                }
                (meals, rounds)
            })
        };
        let dined: Vec<(usize, usize)> = all((0..SEATS).map(dine).collect()).await;
        let (meals, rounds): (Vec<usize>, Vec<usize>) = dined.into_iter().unzip();
        let refused = dinner.report(&format!("{} rounds", rounds[0]), &meals);
        assert!(refused > 0, "no cycle was ever closed");
        assert_eq!(refused, rounds[0], "one in each round: {meals:?}");
        assert_eq!(meals.iter().sum::<usize>(), (SEATS - 1) * rounds[0], "all the others eat: {meals:?}");
    });
}

#[test]
fn philosophers_that_take_one_fork_at_a_time_are_refused_before_they_deadlock() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let (dinner, until) = (Arc::new(Dinner::default()), Instant::now() + dining_time());
        let all_sit = Arc::new(Barrier::new(SEATS));
        let dine = |seat: usize| {
            let (client, dinner, all_sit) = (cluster.client(seat % 3), Arc::clone(&dinner), Arc::clone(&all_sit));
            tokio::spawn(async move {
                let session = dinner.sit_down(&client, seat).await;
                let mut dice = Dice::new(SEED + seat as u64);
                let (mut meals, mut is_first) = (0, true);
                while Instant::now() < until || is_first {
                    let thinks_for = Duration::from_millis(dice.below(THINKS));
                    let begins = std::mem::take(&mut is_first);
                    let all_sit = &all_sit;
                    // They start together, so that one cycle is certain.
                    let thinks = async move {
                        if begins {
                            all_sit.wait().await;
                        }
                        pass_time(thinks_for).await;
                    };
                    if dinner.eat(&client, &session, seat, thinks).await {
                        meals += 1;
                    } else {
                        pass_time(Duration::from_millis(dice.below(THINKS))).await;
                    }
                }
                meals
            })
        };
        let meals: Vec<usize> = all((0..SEATS).map(dine).collect()).await;
        let refused = dinner.report("each at its own pace", &meals);
        assert!(refused > 0, "no cycle was ever closed");
        assert!(meals.iter().all(|meals| *meals > 0), "a philosopher starved: {meals:?}");
    });
}

#[test]
fn a_request_that_would_close_a_cycle_is_refused_and_the_others_continue() {
    run_parallel(SHORT, async {
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
        crate::queue::wait_for_contenders(&client, "right", 2).await;
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
