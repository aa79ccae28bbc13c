//! Tests of the proposal queues.

use super::*;
use fairhold_state::command::{Lifetime, Operation, Transact};
use fairhold_types::{GrantId, Path, Revision, time::WallMillis};
use futures_util::FutureExt;
use openraft::Instant as _;
use openraft_rt_tokio::{TokioInstant, TokioRuntime};

const BYTES: usize = 64 * 1024 * 1024;

fn command(number: u64) -> Command {
    Command::Forget { through: Revision(number) }
}

#[test]
fn a_full_queue_refuses_at_once() {
    let (queue, mut batcher) = new(BYTES);
    let waiting: Vec<_> = (0..QUEUE_COMMANDS_MAX).map(|_| queue.submit(command(1), false).unwrap()).collect();
    assert_eq!(queue.submit(command(2), false).err(), Some(NotProposed::Overloaded));

    let first = batcher.next(0).unwrap();
    assert_eq!(batcher.gather(first).len(), BATCH_COMMANDS_MAX);
    assert!(queue.submit(command(3), false).is_ok(), "there is room again");
    drop(waiting);
}

#[test]
fn the_queue_is_bounded_by_bytes_too() {
    let (queue, _batcher) = new(BYTES);
    queue.bytes.store(BYTES, Ordering::Relaxed);
    assert_eq!(queue.submit(command(1), false).err(), Some(NotProposed::Overloaded));
}

fn release() -> Command {
    Command::Release { grant: GrantId::from_ulid(1), session: None, at: WallMillis(0) }
}

#[test]
fn a_flood_of_writes_delays_no_release() {
    let (queue, mut batcher) = new(BYTES);
    let writes: Vec<_> = (0..QUEUE_COMMANDS_MAX).map(|_| queue.submit(command(1), false).unwrap()).collect();
    queue.bytes.store(BYTES, Ordering::Relaxed);
    assert_eq!(queue.submit(command(2), false).err(), Some(NotProposed::Overloaded));
    let _released = queue.submit(release(), false).expect("there is room for urgent commands");
    let first = batcher.next(0).unwrap();
    assert_eq!(first.command, release());
    drop(writes);
}

#[test]
fn a_flood_of_releases_starves_no_write() {
    let (queue, mut batcher) = new(BYTES);
    let releases: Vec<_> = (0..QUEUE_COMMANDS_MAX).map(|_| queue.submit(release(), false).unwrap()).collect();
    assert_eq!(queue.submit(release(), false).err(), Some(NotProposed::Overloaded));
    let _written = queue.submit(command(1), false).unwrap();
    let first = batcher.next(0).unwrap();
    let batch = batcher.gather(first);
    assert_eq!(batch.iter().filter(|proposal| proposal.command == command(1)).count(), 1);
    drop(releases);
}

#[test]
fn a_batch_is_limited_by_bytes() {
    let (queue, mut batcher) = new(BYTES);
    let (path, value) = (Path::parse("/a").unwrap(), vec![0; BATCH_BYTES_MAX / 2].into());
    let then = vec![Operation::Put { path, value, parents: false, lifetime: Lifetime::Persistent }];
    let large = Command::Transact(Transact { key: None, conditions: vec![], then, otherwise: None, at: WallMillis(0) });
    let waiting: Vec<_> = (0..6).map(|_| queue.submit(large.clone(), false).unwrap()).collect();
    let first = batcher.next(0).unwrap();
    let bytes = first.bytes;
    assert_eq!(batcher.gather(first).len(), BATCH_BYTES_MAX.div_ceil(bytes), "one command has {bytes} bytes");
    drop(waiting);
}

#[test]
fn a_withdrawn_command_is_not_proposed() {
    let (queue, mut batcher) = new(BYTES);
    let kept = queue.submit(command(1), false).unwrap();
    let withdrawn = queue.submit(command(2), false).unwrap();
    drop(withdrawn);
    let first = batcher.next(0).unwrap();
    let batch = batcher.gather(first);
    assert_eq!(batch.iter().map(|proposal| &proposal.command).collect::<Vec<_>>(), [&command(1)]);
    assert_eq!(queue.bytes.load(Ordering::Relaxed), 0, "both have left the queue");
    assert!(kept.progress.settled.load(Ordering::Acquire), "it was handed over, so its caller cannot withdraw it");
}

#[test]
fn a_flood_of_one_tenant_takes_no_place_from_another() {
    let (queue, mut batcher) = new(BYTES);
    let [red, blue] = [1, 2].map(|tenant| Lane::Own(Some(tenant)));
    let mut flood: Vec<_> = (0..QUEUE_COMMANDS_MAX).map(|_| queue.submit_in(red, command(1), false).unwrap()).collect();
    assert_eq!(queue.submit_in(red, command(1), false).err(), Some(NotProposed::Overloaded));
    let bytes = queue.bytes.load(Ordering::Relaxed);
    let _served = queue.submit_in(blue, command(2), false).expect("the flood makes room");
    assert_eq!(queue.bytes.load(Ordering::Relaxed), bytes, "one has left the queue");
    let refused = flood.pop().expect("the newest").answer.try_recv().map(|answered| answered.outcome);
    assert_eq!(refused, Ok(Err(NotProposed::Overloaded.into())));
    assert!(flood.iter_mut().all(|waiting| waiting.answer.try_recv().is_err()), "no other has lost its place");
    let first = batcher.next(0).unwrap();
    let batch = batcher.gather(first);
    assert!(batch.iter().any(|proposal| proposal.command == command(2)), "its turn comes in the first batch");
}

#[test]
fn a_withdrawn_command_makes_room_without_an_answer() {
    let (queue, _batcher) = new(BYTES);
    let [red, blue] = [1, 2].map(|tenant| Lane::Own(Some(tenant)));
    let mut flood: Vec<_> = (0..QUEUE_COMMANDS_MAX).map(|_| queue.submit_in(red, command(1), false).unwrap()).collect();
    let newest = flood.last_mut().unwrap();
    newest.progress.settled.store(true, Ordering::Release);
    assert!(queue.submit_in(blue, command(2), false).is_ok());
    assert_eq!(newest.answer.try_recv().unwrap_err(), oneshot::error::TryRecvError::Closed);
}

#[test]
fn a_large_command_takes_the_room_of_small_ones_and_the_bytes_stay_bounded() {
    let write = |bytes: usize| {
        let path = Path::parse(&format!("/{}", "p".repeat(1_000))).unwrap();
        let then = vec![Operation::Check { path, version: None }; bytes / 1_000];
        Command::Transact(Transact { key: None, conditions: vec![], then, otherwise: None, at: WallMillis(0) })
    };
    let bytes_max = 10_000_000;
    let (queue, mut batcher) = new(bytes_max);
    let [red, blue] = [1, 2].map(|tenant| Lane::Own(Some(tenant)));
    let mut flood: Vec<_> = std::iter::from_fn(|| queue.submit_in(red, write(40_000), false).ok()).collect();
    let large = write(1_000_000);
    let served: Vec<_> = std::iter::from_fn(|| queue.submit_in(blue, large.clone(), false).ok()).collect();
    let half = bytes_max / 2 / large.size();
    assert!((half - 1..=half + 1).contains(&served.len()), "{} of about {half}", served.len());
    assert!(queue.bytes.load(Ordering::Relaxed) < bytes_max + large.size());
    let refused = flood.iter_mut().filter_map(|waiting| waiting.answer.try_recv().ok()).count();
    let waiting = std::iter::from_fn(|| batcher.next(0)).count();
    assert_eq!(waiting, flood.len() - refused + served.len());
}

#[test]
fn a_forwarding_node_has_a_lane_and_its_releases_go_first() {
    let (queue, mut batcher) = new(BYTES);
    let _flood: Vec<_> = (0..1_000).map(|_| queue.submit(command(1), false).unwrap()).collect();
    let _forwarded = [command(2), release()].map(|command| queue.submit_in(Lane::Of(2), command, true).unwrap());
    let taken: Vec<Command> = std::iter::from_fn(|| batcher.next(0)).take(10).map(|proposal| proposal.command).collect();
    assert_eq!(taken.first(), Some(&release()));
    assert!(taken.contains(&command(2)), "{taken:?}");
}

#[tokio::test]
async fn nobody_waits_for_a_batcher_that_is_gone() {
    let (queue, batcher) = new(BYTES);
    let waiting = [command(1), release()].map(|command| queue.submit(command, false).unwrap());
    drop(batcher);
    for mut submitted in waiting {
        assert!((&mut submitted.answer).await.is_err());
    }
    assert_eq!(queue.submit(command(2), false).err(), Some(NotProposed::ShuttingDown));
}

#[test]
fn a_closed_queue_hands_out_the_rest_and_takes_no_more() {
    let (queue, mut batcher) = new(BYTES);
    let _waiting = (queue.submit(command(1), false).unwrap(), queue.submit(release(), false).unwrap());
    batcher.close();
    for more in [command(2), release()] {
        assert_eq!(queue.submit(more, false).err(), Some(NotProposed::ShuttingDown));
    }
    let mut rest = || batcher.first().now_or_never().expect("nobody waits").map(|proposal| proposal.command);
    assert_eq!([rest(), rest(), rest()], [Some(release()), Some(command(1)), None]);
}

#[test]
fn the_batcher_wakes_for_a_command_of_either_kind() {
    let (queue, mut batcher) = new(BYTES);
    for more in [command(1), release()] {
        let mut first = std::pin::pin!(batcher.first());
        assert!(first.as_mut().now_or_never().is_none());
        let _submitted = queue.submit(more.clone(), false).unwrap();
        assert_eq!(first.now_or_never().flatten().map(|proposal| proposal.command), Some(more));
    }
    drop(queue);
    assert!(batcher.first().now_or_never().expect("nobody can submit").is_none());
}

#[tokio::test]
async fn after_a_deadline_the_time_is_where_the_command_was() {
    let (queue, mut batcher) = new(BYTES);
    let mut waiting = queue.submit(command(1), false).unwrap();
    let passed = TokioInstant::now();
    let answered = waiting.answered::<TokioRuntime>(passed).await;
    assert_eq!(answered.outcome, Err(NotProposed::NoLeader.into()));
    assert_eq!(answered.times, ProposalTimes::default(), "it was never handed over");

    for is_forwarded in [false, true] {
        let mut submitted = queue.submit(command(2), false).unwrap();
        let first = batcher.first().await.unwrap();
        let batch = batcher.gather(first);
        let handed_over = HandOver { elapsed: Arc::new(|| Duration::from_millis(3)), is_forwarded };
        let _unanswered: Vec<_> = batch.into_iter().map(|proposal| proposal.hand_over(&handed_over)).collect();
        let answered = submitted.answered::<TokioRuntime>(passed).await;
        assert_eq!(answered.outcome, Err(UnknownReason::Deadline.into()));
        let times = ProposalTimes { worked: Some(Duration::from_millis(3)), applied: Duration::ZERO, is_forwarded };
        assert_eq!(answered.times, times);
    }
}
