//! An ordered set that is usually small: a few items are kept in place, and only more of them in a persistent set.
//!
//! Most locks have one holder and no waiter, and most sessions have one grant. A persistent set allocates a node for the
//! first item.

use imbl::{OrdSet, ordset};
use std::{
    fmt,
    ops::{Bound, RangeBounds},
    slice,
};

/// The set. Two sets with the same items are equal, in whatever form they are kept.
#[derive(Clone)]
pub(crate) struct SmallSet<T: Ord, const FEW: usize>(Form<T, FEW>);

#[derive(Clone)]
enum Form<T: Ord, const FEW: usize> {
    /// The number of items, and the items in order. The rest of the array has no meaning.
    Few(usize, [T; FEW]),
    /// More items. It stays in this form until it is empty, so that a set whose size is near the bound does not change
    /// forms again and again.
    Many(OrdSet<T>),
}

/// Items of a set, in order.
pub(crate) enum Items<'a, T> {
    Few(slice::Iter<'a, T>),
    Many(ordset::RangedIter<'a, T, imbl::shared_ptr::DefaultSharedPtr>),
}

impl<T: Ord + Copy + Default, const FEW: usize> SmallSet<T, FEW> {
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Form::Few(len, _) => *len,
            Form::Many(many) => many.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn contains(&self, item: &T) -> bool {
        match &self.0 {
            Form::Few(len, few) => few[..*len].contains(item),
            Form::Many(many) => many.contains(item),
        }
    }

    pub(crate) fn get_min(&self) -> Option<&T> {
        match &self.0 {
            Form::Few(len, few) => few[..*len].first(),
            Form::Many(many) => many.get_min(),
        }
    }

    pub(crate) fn get_max(&self) -> Option<&T> {
        match &self.0 {
            Form::Few(len, few) => few[..*len].last(),
            Form::Many(many) => many.get_max(),
        }
    }

    pub(crate) fn iter(&self) -> Items<'_, T> {
        self.range(..)
    }

    /// The items in a range, which may be empty.
    pub(crate) fn range(&self, range: impl RangeBounds<T>) -> Items<'_, T> {
        match &self.0 {
            Form::Few(len, few) => {
                let few = &few[..*len];
                let begin = match range.start_bound() {
                    Bound::Included(first) => few.partition_point(|item| item < first),
                    Bound::Excluded(before) => few.partition_point(|item| item <= before),
                    Bound::Unbounded => 0,
                };
                let end = match range.end_bound() {
                    Bound::Included(last) => few.partition_point(|item| item <= last),
                    Bound::Excluded(after) => few.partition_point(|item| item < after),
                    Bound::Unbounded => few.len(),
                };
                Items::Few(few[begin.min(end)..end].iter())
            }
            Form::Many(many) => Items::Many(many.range(range)),
        }
    }

    pub(crate) fn insert(&mut self, item: T) {
        match &mut self.0 {
            Form::Few(len, few) => {
                let at = few[..*len].partition_point(|known| *known < item);
                if at < *len && few[at] == item {
                    return;
                }
                if *len < FEW {
                    few.copy_within(at..*len, at + 1);
                    few[at] = item;
                    *len += 1;
                } else {
                    self.0 = Form::Many(few.iter().copied().chain([item]).collect());
                }
            }
            Form::Many(many) => drop(many.insert(item)),
        }
    }

    /// Returns whether the set had the item.
    pub(crate) fn remove(&mut self, item: &T) -> bool {
        match &mut self.0 {
            Form::Few(len, few) => {
                let Some(at) = few[..*len].iter().position(|known| known == item) else { return false };
                few.copy_within(at + 1..*len, at);
                *len -= 1;
                true
            }
            Form::Many(many) => {
                let removed = many.remove(item).is_some();
                if many.is_empty() {
                    *self = SmallSet::default();
                }
                removed
            }
        }
    }
}

impl<T: Ord + Copy + Default, const FEW: usize> Default for SmallSet<T, FEW> {
    fn default() -> Self {
        SmallSet(Form::Few(0, [T::default(); FEW]))
    }
}

impl<T: Ord + Copy + Default, const FEW: usize> PartialEq for SmallSet<T, FEW> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Ord + Copy + Default + fmt::Debug, const FEW: usize> fmt::Debug for SmallSet<T, FEW> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

impl<'a, T: Ord + Copy + Default, const FEW: usize> IntoIterator for &'a SmallSet<T, FEW> {
    type Item = &'a T;
    type IntoIter = Items<'a, T>;

    fn into_iter(self) -> Items<'a, T> {
        self.iter()
    }
}

impl<'a, T: Ord> Iterator for Items<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        match self {
            Items::Few(few) => few.next(),
            Items::Many(many) => many.next(),
        }
    }
}

impl<T: Ord> DoubleEndedIterator for Items<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Items::Few(few) => few.next_back(),
            Items::Many(many) => many.next_back(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Compares the set with a standard one through its growth beyond the bound and back.
    #[test]
    fn it_equals_a_standard_set_in_both_forms() {
        let mut set = SmallSet::<u64, 3>::default();
        let mut expected = BTreeSet::new();
        let mut number = 1;
        for turn in 0..2_000_u64 {
            number = number * 37 % 101;
            let item = number % 8;
            // It grows and shrinks in turns.
            if (turn / 16) % 2 == 0 {
                set.insert(item);
                expected.insert(item);
            } else {
                assert_eq!(set.remove(&item), expected.remove(&item));
            }
            assert!(set.iter().eq(&expected) && set.iter().rev().eq(expected.iter().rev()));
            assert_eq!((set.len(), set.is_empty()), (expected.len(), expected.is_empty()));
            assert_eq!((set.get_min(), set.get_max()), (expected.first(), expected.last()));
            assert_eq!(set.contains(&item), expected.contains(&item));
            let mut rebuilt = SmallSet::default();
            expected.iter().for_each(|item| rebuilt.insert(*item));
            assert_eq!(set, rebuilt);
            for first in 0..8 {
                assert!(set.range(first..).eq(expected.range(first..)) && set.range(..first).eq(expected.range(..first)));
                assert!(set.range(first..=6).eq(expected.iter().filter(|item| (first..=6).contains(*item))));
                let after = (Bound::Excluded(first), Bound::Unbounded);
                assert!(set.range(after).eq(expected.range(after)));
            }
        }
    }
}
