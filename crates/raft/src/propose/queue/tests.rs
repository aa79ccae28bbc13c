//! Tests of the proposal queues.

use super::*;
use fairhold_state::command::{Lifetime, Operation, Transact};
use fairhold_types::{GrantId, Path, Revision, time::WallMillis};

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
    assert!(kept.settled.load(Ordering::Acquire), "it was handed over, so its caller cannot withdraw it");
}
