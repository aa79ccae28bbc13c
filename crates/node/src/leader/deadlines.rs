//! A set of deadlines, as a pure structure. Each one moves when its object is touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Add,
    time::Duration,
};

/// The deadlines of objects `K`, on a clock with instants `I`.
#[derive(Debug)]
pub(crate) struct Deadlines<K, I> {
    by_key: BTreeMap<K, (I, Duration)>,
    by_time: BTreeSet<(I, K)>,
}

impl<K: Clone + Ord, I: Copy + Ord + Add<Duration, Output = I>> Deadlines<K, I> {
    pub(crate) fn new() -> Self {
        Deadlines { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }

    /// Sets a deadline this long after `now`, in place of an earlier one.
    pub(crate) fn insert(&mut self, key: K, timeout: Duration, now: I) {
        self.remove(key.clone());
        self.by_key.insert(key.clone(), (now + timeout, timeout));
        self.by_time.insert((now + timeout, key));
    }

    /// Moves a known object's deadline to its full timeout from `now`. Returns the timeout.
    pub(crate) fn touch(&mut self, key: K, now: I) -> Option<Duration> {
        let (deadline, timeout) = self.by_key.get_mut(&key)?;
        self.by_time.remove(&(*deadline, key.clone()));
        *deadline = now + *timeout;
        self.by_time.insert((*deadline, key));
        Some(*timeout)
    }

    pub(crate) fn remove(&mut self, key: K) {
        if let Some((deadline, _)) = self.by_key.remove(&key) {
            self.by_time.remove(&(deadline, key));
        }
    }

    /// The objects whose deadline has passed, earliest first.
    pub(crate) fn due(&self, now: I) -> Vec<K> {
        self.by_time.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, key)| key.clone()).collect()
    }

    /// The objects whose deadline has passed, earliest first, at most this many.
    pub(crate) fn due_up_to(&self, now: I, max: usize) -> Vec<K> {
        self.by_time.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, key)| key.clone()).take(max).collect()
    }

    pub(crate) fn is_due(&self, key: K, now: I) -> bool {
        self.by_key.get(&key).is_some_and(|(deadline, _)| *deadline <= now)
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
        let deadlines = two();
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
}
