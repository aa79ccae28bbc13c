//! The quota of a resource that all connections share: memory for bodies, or for answers. No address can take all of it.

use fairhold_types::address::share_key;
use parking_lot::Mutex;
use std::{collections::HashMap, net::IpAddr, sync::Arc};

/// The quota of a resource, in units.
#[derive(Debug)]
pub(crate) struct Quota {
    max: usize,
    max_per_address: usize,
    /// Consistent after every statement that can panic.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The share of one connection. Dropping it returns the units.
#[derive(Debug)]
pub(crate) struct Share {
    quota: Arc<Quota>,
    address: IpAddr,
    amount: usize,
}

impl Quota {
    /// A quota of this many units in total, and at most this many for one address.
    pub(crate) fn new(max: usize, max_per_address: usize) -> Arc<Quota> {
        Arc::new(Quota { max, max_per_address, taken: Mutex::default() })
    }

    /// Takes an amount, if it is available.
    pub(crate) fn take(quota: &Arc<Quota>, address: IpAddr, amount: usize) -> Option<Share> {
        let mut share = Share { quota: Arc::clone(quota), address: share_key(address), amount: 0 };
        share.grow_to(amount).then_some(share)
    }

    /// Whether that amount is available for an address.
    pub(crate) fn fits(&self, address: IpAddr, amount: usize) -> bool {
        let taken = self.taken.lock();
        let of_address = taken.by_address.get(&share_key(address)).copied().unwrap_or(0);
        self.fit(&taken, of_address, amount)
    }

    fn fit(&self, taken: &Taken, of_address: usize, more: usize) -> bool {
        taken.total.saturating_add(more) <= self.max && of_address.saturating_add(more) <= self.max_per_address
    }

    /// Whether nothing is available.
    #[cfg(test)]
    pub(crate) fn is_full(&self) -> bool {
        self.taken.lock().total >= self.max
    }
}

impl Share {
    /// Grows the share to at least this size, if that is available. Otherwise the share does not change.
    pub(crate) fn grow_to(&mut self, amount: usize) -> bool {
        let more = amount.saturating_sub(self.amount);
        let mut taken = self.quota.taken.lock();
        let of_address = taken.by_address.get(&self.address).copied().unwrap_or(0);
        let fits = self.quota.fit(&taken, of_address, more);
        if fits && more > 0 {
            taken.total += more;
            taken.by_address.insert(self.address, of_address + more);
            self.amount += more;
        }
        fits
    }

    /// Shrinks the share to this size.
    pub(crate) fn shrink_to(&mut self, amount: usize) {
        let less = self.amount.saturating_sub(amount);
        if less == 0 {
            return;
        }
        self.amount -= less;
        let mut taken = self.quota.taken.lock();
        taken.total -= less;
        if let Some(of_address) = taken.by_address.get_mut(&self.address) {
            *of_address -= less;
            if *of_address == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_share_over_the_limit_is_refused_until_another_is_dropped() {
        let quota = Quota::new(5, 3);
        let take = |last: u8, count: usize| -> Vec<Share> {
            (0..count).map(|_| Quota::take(&quota, address(last), 1).unwrap()).collect()
        };
        let mut first = take(1, 3);
        assert!(Quota::take(&quota, address(1), 1).is_none(), "one address has used its share");
        let second = take(2, 2);
        assert!(Quota::take(&quota, address(3), 1).is_none(), "the quota is used up");
        first.pop();
        assert!(Quota::take(&quota, address(1), 1).is_some());
        drop((first, second));
        assert!(quota.taken.lock().by_address.is_empty());
    }

    #[test]
    fn all_forms_of_an_address_count_together() {
        let quota = Quota::new(5, 1);
        let _network = Quota::take(&quota, "2001:db8::1".parse().unwrap(), 1).unwrap();
        assert!(Quota::take(&quota, "2001:db8::2".parse().unwrap(), 1).is_none());
        let _first = Quota::take(&quota, "10.0.0.1".parse().unwrap(), 1).unwrap();
        assert!(Quota::take(&quota, "::ffff:10.0.0.1".parse().unwrap(), 1).is_none());
    }

    #[test]
    fn a_share_grows_within_the_quota_only() {
        let quota = Quota::new(100, 60);
        let mut first = Quota::take(&quota, address(1), 0).unwrap();
        assert!(first.grow_to(60) && first.grow_to(10), "it never shrinks");
        assert!(!first.grow_to(61));
        let mut second = Quota::take(&quota, address(2), 0).unwrap();
        assert!(!second.grow_to(41));
        assert!(!quota.is_full() && second.grow_to(40) && quota.is_full());
        drop(first);
        assert!(second.grow_to(60));
        drop(second);
        assert_eq!(quota.taken.lock().total, 0);
    }
}
