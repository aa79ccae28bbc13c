//! Long walks over a copy of the state. They yield at intervals, so that other tasks on the thread get their turn. The
//! number of concurrent walks is limited: each keeps an old state alive, and the more of them run, the longer each
//! takes.

use fairhold_state::State;
use std::sync::Arc;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::yield_now,
};

/// Entries of one turn if each costs a few look-ups: a few hundred microseconds in total. A request passes through
/// about ten turns before its answer.
const ENTRIES_PER_TURN: usize = 64;
/// Entries of one turn if each is only counted.
const COUNTED_PER_TURN: usize = 8_192;

/// Concurrent walks over the whole state. Another one waits for a slot, without a copy.
const WALKS_MAX: usize = 4;

/// The slots of long walks.
#[derive(Debug)]
pub(crate) struct WalkSlots(Arc<Semaphore>);

impl WalkSlots {
    pub(crate) fn new() -> WalkSlots {
        WalkSlots(Arc::new(Semaphore::new(WALKS_MAX)))
    }

    /// Waits for a slot.
    pub(crate) async fn slot(&self) -> WalkSlot {
        // The semaphore is never closed.
        WalkSlot { _permit: Arc::clone(&self.0).acquire_owned().await.ok() }
    }

    /// Waits for a slot, and then copies the state.
    pub(crate) async fn begin(&self, copy: impl FnOnce() -> State) -> Walk {
        let slot = self.slot().await;
        Walk { state: copy(), _slot: slot }
    }
}

/// A slot that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct WalkSlot {
    _permit: Option<OwnedSemaphorePermit>,
}

/// A copy of the state for a long walk, and its slot.
pub(crate) struct Walk {
    pub(crate) state: State,
    _slot: WalkSlot,
}

/// Calls `step` with a number of entries until it returns `true`, and yields in between.
pub(crate) async fn walk_in_turns(mut step: impl FnMut(usize) -> bool) {
    while !step(ENTRIES_PER_TURN) {
        yield_now().await;
    }
}

/// The first entry that fits.
pub(crate) async fn find_in_turns<T>(mut entries: impl Iterator<Item = T>, fits: impl Fn(&T) -> bool) -> Option<T> {
    loop {
        for _ in 0..ENTRIES_PER_TURN {
            match entries.next() {
                Some(entry) if !fits(&entry) => {}
                found => return found,
            }
        }
        yield_now().await;
    }
}

/// The number of entries.
pub(crate) async fn count_in_turns(mut entries: impl Iterator) -> u64 {
    let mut counted = 0;
    loop {
        let turn = entries.by_ref().take(COUNTED_PER_TURN).count();
        counted += turn as u64;
        if turn < COUNTED_PER_TURN {
            return counted;
        }
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, poll};
    use std::pin::pin;

    /// How many times the work yields until it is done, and its result.
    async fn yields<T>(work: impl Future<Output = T>) -> (usize, T) {
        let mut work = pin!(work);
        let mut yields = 0;
        loop {
            if let std::task::Poll::Ready(done) = poll!(&mut work) {
                return (yields, done);
            }
            yields += 1;
        }
    }

    #[test]
    fn a_walk_waits_for_a_slot_until_another_one_ends() {
        let walks = WalkSlots::new();
        let mut slots: Vec<_> = (0..WALKS_MAX).map(|_| walks.begin(State::default).now_or_never().unwrap()).collect();
        let mut next = pin!(walks.begin(State::default));
        assert!((&mut next).now_or_never().is_none());
        slots.pop();
        assert!(next.now_or_never().is_some());
    }

    #[test]
    fn only_a_long_walk_yields() {
        let test = async {
            assert_eq!(yields(count_in_turns(0..10)).await, (0, 10));
            assert_eq!(yields(count_in_turns(0..3 * COUNTED_PER_TURN + 1)).await, (3, 3 * COUNTED_PER_TURN as u64 + 1));
            assert_eq!(yields(find_in_turns(0..10, |number| *number == 7)).await, (0, Some(7)));
            let all = 0..4 * ENTRIES_PER_TURN;
            assert_eq!(
                yields(find_in_turns(all.clone(), |number| *number == ENTRIES_PER_TURN)).await,
                (1, Some(ENTRIES_PER_TURN))
            );
            assert_eq!(yields(find_in_turns(all, |_| false)).await, (4, None));
        };
        test.now_or_never().unwrap();
    }
}
