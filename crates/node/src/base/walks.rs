//! Long walks over a copy of the state. They yield at intervals, so that other tasks on the thread get their turn. The
//! number of concurrent walks is limited: each keeps an old state alive, and the more of them run, the longer each
//! takes. No caller has more than half of them, so a caller with many requests does not keep the others from theirs.

use fairhold_access::Principal;
use fairhold_state::State;
use parking_lot::Mutex;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};
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
/// How many of them one walker may have.
const WALKS_PER_WALKER_MAX: usize = WALKS_MAX / 2;

/// The owner of walks: they count together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Walker {
    /// The node itself.
    Node,
    /// A caller with a name.
    Principal(Principal),
    /// The callers without a name in this network, by the key under which their addresses are counted.
    Network(IpAddr),
}

/// The slots of long walks: a limit in total, and a limit for each walker.
#[derive(Debug)]
pub(crate) struct WalkSlots {
    all: Arc<Semaphore>,
    /// At least of each walker with a walk that runs or waits.
    by_walker: Mutex<BTreeMap<Walker, Arc<Semaphore>>>,
}

impl WalkSlots {
    pub(crate) fn new() -> WalkSlots {
        WalkSlots { all: Arc::new(Semaphore::new(WALKS_MAX)), by_walker: Mutex::default() }
    }

    /// Waits for a slot.
    pub(crate) async fn slot(&self, walker: Walker) -> WalkSlot {
        let own = self.of_walker(walker);
        // In this order, the walks that wait for their walker hold none of the slots of all. No semaphore is ever closed.
        let own = own.acquire_owned().await.ok();
        WalkSlot { _of_all: Arc::clone(&self.all).acquire_owned().await.ok(), _of_walker: own }
    }

    /// Waits for a slot, and then copies the state.
    pub(crate) async fn begin(&self, walker: Walker, copy: impl FnOnce() -> State) -> Walk {
        let slot = self.slot(walker).await;
        Walk { state: copy(), _slot: slot }
    }

    fn of_walker(&self, walker: Walker) -> Arc<Semaphore> {
        let mut by_walker = self.by_walker.lock();
        // A walk that runs or waits has the semaphore of its walker.
        by_walker.retain(|_, own| Arc::strong_count(own) > 1);
        Arc::clone(by_walker.entry(walker).or_insert_with(|| Arc::new(Semaphore::new(WALKS_PER_WALKER_MAX))))
    }
}

/// A slot that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct WalkSlot {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_walker: Option<OwnedSemaphorePermit>,
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

    fn user(name: &str) -> Walker {
        Walker::Principal(Principal::parse(&format!("user:{name}")).unwrap())
    }

    fn network(last: u8) -> Walker {
        Walker::Network(IpAddr::from([10, 0, 0, last]))
    }

    /// A walk of this walker, if it need not wait.
    fn begin(walks: &WalkSlots, walker: Walker) -> Option<Walk> {
        walks.begin(walker, State::default).now_or_never()
    }

    #[test]
    fn a_walk_waits_for_a_slot_until_another_one_ends() {
        let walks = WalkSlots::new();
        let walkers = [user("a"), user("a"), user("b"), network(1), user("c")];
        let mut begun: Vec<_> = walkers.into_iter().map_while(|walker| begin(&walks, walker)).collect();
        assert_eq!(begun.len(), WALKS_MAX);
        let mut next = pin!(walks.begin(user("d"), State::default));
        assert!((&mut next).now_or_never().is_none());
        begun.pop();
        assert!(next.now_or_never().is_some());
    }

    #[test]
    fn a_flood_of_one_walker_leaves_half_of_the_slots_to_others() {
        for walkers in [[user("flood"), user("a"), user("b")], [network(1), network(2), Walker::Node]] {
            let walks = WalkSlots::new();
            let [flood, one, other] = walkers;
            let running: Vec<_> = (0..WALKS_MAX).map_while(|_| begin(&walks, flood.clone())).collect();
            assert_eq!(running.len(), WALKS_PER_WALKER_MAX);
            let mut waiting: Vec<_> = (0..80).map(|_| Box::pin(walks.begin(flood.clone(), State::default))).collect();
            assert!(waiting.iter_mut().all(|walk| walk.now_or_never().is_none()));
            let others: Vec<_> = [one, other].into_iter().filter_map(|walker| begin(&walks, walker)).collect();
            assert_eq!(others.len(), 2, "the others need not wait");
            drop(others);
            assert!(waiting.iter_mut().all(|walk| walk.now_or_never().is_none()), "a free slot changes nothing for the flood");
            // Each of them ends at once, and then the next one begins.
            drop(running);
            assert!(waiting.iter_mut().all(|walk| walk.now_or_never().is_some()));
        }
    }

    #[test]
    fn a_walker_without_walks_is_forgotten() {
        let walks = WalkSlots::new();
        let running: Vec<_> = (0..2).filter_map(|_| begin(&walks, user("a"))).collect();
        let mut waiting = Box::pin(walks.begin(user("a"), State::default));
        assert!((&mut waiting).now_or_never().is_none());
        drop((waiting, running));
        let last = begin(&walks, user("b"));
        assert_eq!(walks.by_walker.lock().keys().collect::<Vec<_>>(), [&user("b")]);
        drop(last);
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
