//! Long walks over a copy of the state, in turns: between two of them, others on this thread get theirs. Only so many are under
//! way at a time: each keeps an old state alive, and the more walk, the longer each takes.

use fairhold_state::State;
use std::sync::Arc;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::yield_now,
};

/// Entries that are looked at in one turn, each of which costs a look-up or a few: some hundred microseconds together, as a
/// request passes through some ten turns until it is answered.
const LOOKED_AT_A_TURN: usize = 64;
/// Entries that are counted in one turn, each of which costs a step.
const COUNTED_A_TURN: usize = 8_192;

/// Walks that take as long as the state is large and are under way at a time. One more waits for a place, without a
/// copy.
const WALKS_MAX: usize = 4;

/// The places of long walks.
#[derive(Debug)]
pub(crate) struct Walks(Arc<Semaphore>);

impl Walks {
    pub(crate) fn new() -> Walks {
        Walks(Arc::new(Semaphore::new(WALKS_MAX)))
    }

    /// A copy of the state as it is once there is a place for the walk.
    pub(crate) async fn begin(&self, copy: impl FnOnce() -> State) -> Walked {
        // It is never closed.
        let place = Arc::clone(&self.0).acquire_owned().await.ok();
        Walked { state: copy(), _place: place }
    }
}

/// A copy of the state for a long walk, and its place.
pub(crate) struct Walked {
    pub(crate) state: State,
    _place: Option<OwnedSemaphorePermit>,
}

/// Has `look` look at so many entries at a time until it says that it is done.
pub(crate) async fn look_in_turns(mut look: impl FnMut(usize) -> bool) {
    while !look(LOOKED_AT_A_TURN) {
        yield_now().await;
    }
}

/// The first that fits.
pub(crate) async fn find_in_turns<T>(mut entries: impl Iterator<Item = T>, fits: impl Fn(&T) -> bool) -> Option<T> {
    loop {
        for _ in 0..LOOKED_AT_A_TURN {
            match entries.next() {
                Some(entry) if !fits(&entry) => {}
                found => return found,
            }
        }
        yield_now().await;
    }
}

/// How many there are.
pub(crate) async fn count_in_turns(mut entries: impl Iterator) -> u64 {
    let mut counted = 0;
    loop {
        let turn = entries.by_ref().take(COUNTED_A_TURN).count();
        counted += turn as u64;
        if turn < COUNTED_A_TURN {
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

    /// How often others get their turn until it is done.
    async fn pauses<T>(work: impl Future<Output = T>) -> (usize, T) {
        let (mut work, mut pauses) = (pin!(work), 0);
        loop {
            if let std::task::Poll::Ready(done) = poll!(&mut work) {
                return (pauses, done);
            }
            pauses += 1;
        }
    }

    #[test]
    fn one_walk_too_many_waits_until_another_is_over() {
        let walks = Walks::new();
        let mut places: Vec<_> = (0..WALKS_MAX).map(|_| walks.begin(State::default).now_or_never().unwrap()).collect();
        let mut next = pin!(walks.begin(State::default));
        assert!((&mut next).now_or_never().is_none());
        places.pop();
        assert!(next.now_or_never().is_some());
    }

    #[test]
    fn a_long_walk_lets_others_run_and_a_short_one_does_not() {
        let test = async {
            assert_eq!(pauses(count_in_turns(0..10)).await, (0, 10));
            assert_eq!(pauses(count_in_turns(0..3 * COUNTED_A_TURN + 1)).await, (3, 3 * COUNTED_A_TURN as u64 + 1));
            assert_eq!(pauses(find_in_turns(0..10, |number| *number == 7)).await, (0, Some(7)));
            let all = 0..4 * LOOKED_AT_A_TURN;
            assert_eq!(
                pauses(find_in_turns(all.clone(), |number| *number == LOOKED_AT_A_TURN)).await,
                (1, Some(LOOKED_AT_A_TURN))
            );
            assert_eq!(pauses(find_in_turns(all, |_| false)).await, (4, None));
        };
        test.now_or_never().unwrap();
    }
}
