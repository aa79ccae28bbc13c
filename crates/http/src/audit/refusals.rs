//! How many refusals get an entry each. A client that sends many thousand requests a second that are all refused would
//! otherwise fill the disk, and its entries would push older ones out of the log.

use fairhold_types::{
    limits::{AUDIT_CALLERS_MAX, AUDIT_REFUSALS_MAX, AUDIT_REFUSALS_PER_CALLER_MAX},
    time::WallMillis,
};
use std::collections::BTreeMap;

/// Counts refusals, by second and by caller.
#[derive(Debug, Default)]
pub(super) struct RefusalLimiter {
    second: u64,
    /// Entries of all callers in this second.
    admitted: u32,
    callers: BTreeMap<RefusedCaller, CallerRefusals>,
    /// Refusals of callers beyond those that are counted one by one.
    others: Counted,
}

/// An address, and the principal of its requests. Both may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RefusedCaller {
    pub(super) address: String,
    pub(super) principal: String,
}

#[derive(Debug, Default)]
struct CallerRefusals {
    second: u64,
    admitted: u32,
    counted: Counted,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    count: u64,
    since: WallMillis,
}

/// Refusals that have no entries of their own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CountedRefusals {
    /// The caller; `None` for many callers.
    pub(super) caller: Option<RefusedCaller>,
    pub(super) count: u64,
    /// When the first one was counted.
    pub(super) since: WallMillis,
}

impl RefusalLimiter {
    /// Whether a refusal gets an entry of its own. Otherwise it is counted.
    pub(super) fn admit(&mut self, now: WallMillis, address: &str, principal: &str) -> bool {
        let second = now.0 / 1_000;
        if self.second != second {
            (self.second, self.admitted) = (second, 0);
        }
        let caller = RefusedCaller { address: address.to_owned(), principal: principal.to_owned() };
        if self.callers.len() >= AUDIT_CALLERS_MAX && !self.callers.contains_key(&caller) {
            self.others.add(now);
            return false;
        }
        let of_caller = self.callers.entry(caller).or_default();
        if of_caller.second != second {
            (of_caller.second, of_caller.admitted) = (second, 0);
        }
        if of_caller.admitted >= AUDIT_REFUSALS_PER_CALLER_MAX || self.admitted >= AUDIT_REFUSALS_MAX {
            of_caller.counted.add(now);
            return false;
        }
        of_caller.admitted += 1;
        self.admitted += 1;
        true
    }

    /// What was counted since the last call. Forgets callers of earlier seconds.
    pub(super) fn take_counted(&mut self, now: WallMillis) -> Vec<CountedRefusals> {
        let mut all: Vec<CountedRefusals> = Vec::new();
        for (caller, of_caller) in &mut self.callers {
            all.extend(of_caller.counted.take(Some(caller)));
        }
        all.extend(self.others.take(None));
        let second = now.0 / 1_000;
        self.callers.retain(|_, of_caller| of_caller.second >= second);
        all
    }
}

impl Counted {
    fn add(&mut self, now: WallMillis) {
        if self.count == 0 {
            self.since = now;
        }
        self.count += 1;
    }

    fn take(&mut self, caller: Option<&RefusedCaller>) -> Option<CountedRefusals> {
        let Counted { count, since } = std::mem::take(self);
        (count > 0).then(|| CountedRefusals { caller: caller.cloned(), count, since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMillis = WallMillis(7_000);

    fn admitted(limiter: &mut RefusalLimiter, now: WallMillis, address: &str, principal: &str, requests: u32) -> u32 {
        (0..requests).map(|_| u32::from(limiter.admit(now, address, principal))).sum()
    }

    #[test]
    fn a_flood_of_one_caller_is_counted_and_does_not_hide_another_one_behind_the_same_proxy() {
        let mut limiter = RefusalLimiter::default();
        assert_eq!(admitted(&mut limiter, NOW, "10.0.0.1", "user:ci", 100_000), AUDIT_REFUSALS_PER_CALLER_MAX);
        assert_eq!(admitted(&mut limiter, NOW, "10.0.0.1", "user:cd", 3), 3);
        let caller = RefusedCaller { address: "10.0.0.1".to_owned(), principal: "user:ci".to_owned() };
        let count = 100_000 - u64::from(AUDIT_REFUSALS_PER_CALLER_MAX);
        let later = WallMillis(NOW.0 + 1_000);
        assert_eq!(limiter.take_counted(later), [CountedRefusals { caller: Some(caller), count, since: NOW }]);
        assert_eq!(limiter.take_counted(later), []);
        assert_eq!(admitted(&mut limiter, later, "10.0.0.1", "user:ci", 1), 1, "it is another second");
    }

    #[test]
    fn a_flood_from_many_addresses_is_bounded_too() {
        let mut limiter = RefusalLimiter::default();
        let all: u32 = (0..5_000).map(|number| admitted(&mut limiter, NOW, &format!("10.0.{number}"), "", 3)).sum();
        assert_eq!(all, AUDIT_REFUSALS_MAX);
        assert_eq!(limiter.callers.len(), AUDIT_CALLERS_MAX);
        let counted = limiter.take_counted(WallMillis(NOW.0 + 1_000));
        assert_eq!(counted.iter().map(|counted| counted.count).sum::<u64>(), 15_000 - u64::from(AUDIT_REFUSALS_MAX));
        assert!(counted.len() <= AUDIT_CALLERS_MAX + 1, "{}", counted.len());
        assert!(limiter.callers.is_empty(), "it forgets callers of earlier seconds");
    }

    #[test]
    fn a_count_is_kept_until_it_is_taken() {
        let mut limiter = RefusalLimiter::default();
        admitted(&mut limiter, NOW, "a", "", AUDIT_REFUSALS_PER_CALLER_MAX + 2);
        let next = WallMillis(NOW.0 + 1_000);
        admitted(&mut limiter, next, "a", "", AUDIT_REFUSALS_PER_CALLER_MAX + 3);
        let counted = limiter.take_counted(next);
        assert_eq!(counted.iter().map(|counted| (counted.count, counted.since)).collect::<Vec<_>>(), [(5, NOW)]);
        assert_eq!(admitted(&mut limiter, next, "a", "", 1), 0, "the second is not over");
    }
}
