//! The records of many locks, in the order of their names.

use crate::lock_table::{LockRecord, LockTable};
use fairhold_types::LockName;
use imbl::{ordmap::RangedIter, shared_ptr::DefaultSharedPtr};
use std::{ops::Bound, sync::Arc};

/// How many records it passes before it looks up the next one. A look-up compares about as many names.
const PASSED_MAX: usize = 16;

/// Finds the records of locks that are asked for in the order of their names. If most locks are asked for, the next
/// record is near, and the step to it costs a fraction of a look-up.
pub(crate) struct LockWalk<'a> {
    table: &'a LockTable,
    /// The records after the last one that was found.
    left: RangedIter<'a, LockName, Arc<LockRecord>, DefaultSharedPtr>,
}

impl<'a> LockWalk<'a> {
    pub(crate) fn new(table: &'a LockTable) -> LockWalk<'a> {
        LockWalk { table, left: records_from(table, "") }
    }

    /// The record of a lock. Its name comes after those of all earlier calls.
    pub(crate) fn get(&mut self, lock: &LockName) -> Option<&'a LockRecord> {
        if let Some(record) = self.near(lock) {
            return Some(record);
        }
        self.left = records_from(self.table, lock.as_str());
        self.near(lock)
    }

    /// The record of a lock, if it is one of the next.
    fn near(&mut self, lock: &LockName) -> Option<&'a LockRecord> {
        let (found, record) = self.left.by_ref().take(PASSED_MAX).find(|(name, _)| *name >= lock)?;
        (found == lock).then_some(&**record)
    }
}

/// The records from a name on, in the order of their names.
pub(crate) fn records_from<'a>(table: &'a LockTable, begin: &str) -> RangedIter<'a, LockName, Arc<LockRecord>, DefaultSharedPtr> {
    table.records.range::<_, str>((Bound::Included(begin), Bound::Unbounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> LockName {
        LockName::parse(&format!("lock-{number:04}")).unwrap()
    }

    /// Locks with even numbers.
    fn table() -> LockTable {
        let mut table = LockTable::default();
        for number in 0..1_000 {
            table.record_mut(name(2 * number));
        }
        table
    }

    fn is_record_of(table: &LockTable, lock: &LockName, found: Option<&LockRecord>) -> bool {
        found.zip(table.get(lock.as_str())).is_some_and(|(found, record)| std::ptr::eq(found, record))
    }

    #[test]
    fn locks_that_follow_each_other_cost_no_look_up() {
        let table = table();
        for step in [1, 2, PASSED_MAX] {
            let mut walk = LockWalk::new(&table);
            for number in (0..1_000).step_by(step) {
                let lock = name(2 * number);
                assert!(is_record_of(&table, &lock, walk.near(&lock)), "{lock:?} with a step of {step}");
            }
        }
    }

    #[test]
    fn a_lock_is_found_wherever_the_last_one_was() {
        let table = table();
        for step in [1, 3, PASSED_MAX - 1, PASSED_MAX, PASSED_MAX + 1, 5 * PASSED_MAX] {
            let mut walk = LockWalk::new(&table);
            for number in (0..2_000).step_by(step) {
                let lock = name(number);
                let found = walk.get(&lock);
                if number % 2 == 0 {
                    assert!(is_record_of(&table, &lock, found), "{lock:?} with a step of {step}");
                } else {
                    assert_eq!(found, None, "there is no {lock:?}");
                }
            }
        }
        assert_eq!(LockWalk::new(&table).get(&name(2_000)), None);
        assert_eq!(LockWalk::new(&LockTable::default()).get(&name(0)), None);
    }
}
