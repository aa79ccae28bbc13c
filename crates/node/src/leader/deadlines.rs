//! A set of deadlines, as a pure structure. Each one moves when its object is touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Add,
    time::Duration,
};

/// The deadlines of objects `K`, on a clock with instants `I`.
#[derive(Debug)]
pub(crate) struct Deadlines<K, I> {
    /// A tree. When a hash table grows, it moves all its entries at once: a million of them stopped the leader for 200 ms.
    by_key: BTreeMap<K, Deadline<I>>,
    /// Each object once, at its `place`.
    by_place: BTreeSet<(I, K)>,
}

/// Most keepalives move `at` alone, so that they cost one look-up. A keepalive moves the object's place too once that is
/// less than half a timeout away. Hence hardly any place is out of date when its time comes, even if all objects began at
/// one moment.
#[derive(Debug)]
struct Deadline<I> {
    at: I,
    timeout: Duration,
    /// Where the object is in the order: at its deadline, or at an earlier one.
    place: I,
}

impl<K: Clone + Ord, I: Copy + Ord + Add<Duration, Output = I>> Deadlines<K, I> {
    pub(crate) fn new() -> Self {
        Deadlines { by_key: BTreeMap::new(), by_place: BTreeSet::new() }
    }

    /// Sets a deadline this long after `now`, in place of an earlier one.
    pub(crate) fn insert(&mut self, key: K, timeout: Duration, now: I) {
        let at = now + timeout;
        if let Some(replaced) = self.by_key.insert(key.clone(), Deadline { at, timeout, place: at }) {
            self.by_place.remove(&(replaced.place, key.clone()));
        }
        self.by_place.insert((at, key));
    }

    /// Moves a known object's deadline to its full timeout from `now`. Returns the timeout.
    pub(crate) fn touch(&mut self, key: K, now: I) -> Option<Duration> {
        let deadline = self.by_key.get_mut(&key)?;
        let timeout = deadline.timeout;
        deadline.at = now + timeout;
        // Pauses of the process do not count, so `now` jumps back when one is detected. At a place after its deadline, the
        // object would be found too late.
        if deadline.at < deadline.place || deadline.place < now + timeout / 2 {
            self.insert(key, timeout, now);
        }
        Some(timeout)
    }

    /// The current deadline of an object, and its timeout.
    pub(crate) fn deadline(&self, key: &K) -> Option<(I, Duration)> {
        self.by_key.get(key).map(|deadline| (deadline.at, deadline.timeout))
    }

    pub(crate) fn remove(&mut self, key: K) {
        if let Some(removed) = self.by_key.remove(&key) {
            self.by_place.remove(&(removed.place, key));
        }
    }

    /// The objects whose deadline has passed, earliest first.
    pub(crate) fn due(&mut self, now: I) -> Vec<K> {
        self.due_up_to(now, usize::MAX)
    }

    /// The objects whose deadline has passed, earliest first, at most this many.
    pub(crate) fn due_up_to(&mut self, now: I, max: usize) -> Vec<K> {
        loop {
            let mut due = Vec::new();
            let mut outdated = Vec::new();
            for (place, key) in self.by_place.iter().take_while(|(place, _)| *place <= now) {
                if due.len() == max {
                    break;
                }
                match self.by_key.get(key) {
                    Some(deadline) if deadline.at == *place => due.push(key.clone()),
                    _ => outdated.push((*place, key.clone())),
                }
            }
            if outdated.is_empty() {
                return due;
            }
            for (place, key) in outdated {
                if let Some(deadline) = self.by_key.get_mut(&key) {
                    deadline.place = deadline.at;
                    self.by_place.insert((deadline.at, key.clone()));
                }
                self.by_place.remove(&(place, key));
            }
        }
    }

    pub(crate) fn is_due(&self, key: K, now: I) -> bool {
        self.by_key.get(&key).is_some_and(|deadline| deadline.at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_clock::AtOffset;

    fn two() -> Deadlines<u8, AtOffset> {
        let mut deadlines = Deadlines::new();
        deadlines.insert(1, Duration::from_secs(10), AtOffset(0));
        deadlines.insert(2, Duration::from_secs(20), AtOffset(0));
        deadlines
    }

    #[test]
    fn nothing_is_due_before_its_full_timeout() {
        let mut deadlines = two();
        assert_eq!(
            (deadlines.due(AtOffset(9)), deadlines.due(AtOffset(10)), deadlines.due(AtOffset(20))),
            (vec![], vec![1], vec![1, 2])
        );
    }

    #[test]
    fn a_touch_gives_the_full_timeout_again() {
        let mut deadlines = two();
        assert_eq!(deadlines.touch(1, AtOffset(9)), Some(Duration::from_secs(10)));
        assert_eq!((deadlines.due(AtOffset(18)), deadlines.due(AtOffset(19))), (vec![], vec![1]));
        assert_eq!(deadlines.touch(3, AtOffset(9)), None);
    }

    #[test]
    fn a_removed_object_is_never_due() {
        let mut deadlines = two();
        deadlines.remove(1);
        assert_eq!(deadlines.due(AtOffset(100)), vec![2]);
        assert!(!deadlines.is_due(1, AtOffset(100)) && deadlines.is_due(2, AtOffset(100)));
    }

    #[test]
    fn touched_objects_are_due_in_the_order_of_their_deadlines_and_each_once() {
        let mut deadlines = two();
        deadlines.touch(1, AtOffset(15));
        deadlines.insert(3, Duration::from_secs(1), AtOffset(21));
        assert_eq!(deadlines.due_up_to(AtOffset(30), 2), vec![2, 3], "the deadline of 1 has moved to 25");
        assert_eq!(deadlines.due(AtOffset(30)), vec![2, 3, 1]);
        assert_eq!(deadlines.due(AtOffset(30)), vec![2, 3, 1], "they stay due until they are removed");
    }

    #[test]
    fn a_deadline_that_moves_back_is_due_in_time() {
        let mut deadlines = two();
        deadlines.touch(1, AtOffset(50));
        assert_eq!(deadlines.due(AtOffset(30)), vec![2]);
        deadlines.touch(1, AtOffset(30));
        assert_eq!((deadlines.due(AtOffset(39)), deadlines.due(AtOffset(40))), (vec![2], vec![2, 1]));
    }

    /// A new leader gives all sessions their full timeout at one moment. If all their places had to be moved later, in one
    /// call, that call would take long.
    #[test]
    fn no_places_are_left_to_be_moved_at_once_for_objects_that_are_kept_alive() {
        let mut deadlines = Deadlines::new();
        let timeout = Duration::from_secs(30);
        (0..1_000_u16).for_each(|key| deadlines.insert(key, timeout, AtOffset(0)));
        for now in 1..200 {
            let outdated = deadlines.by_place.range(..=(AtOffset(now), u16::MAX)).count();
            assert_eq!((outdated, deadlines.due(AtOffset(now))), (0, vec![]), "at {now}");
            (0..1_000_u16).filter(|key| u64::from(*key % 10) == now % 10).for_each(|key| {
                deadlines.touch(key, AtOffset(now));
            });
        }
    }
}
