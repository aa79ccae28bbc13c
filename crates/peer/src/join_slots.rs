//! The joins in progress on one server. Each one occupies the leader, and a cluster without a peer key accepts a join
//! from anyone, so there are few at a time, and no address can take all of them.

use fairhold_types::address::share_key;
use parking_lot::Mutex;
use std::net::IpAddr;

/// The maximum number of joins in progress. The server closes the connection of a further one, which then tries again.
pub const JOINS_MAX: usize = 4;

/// The maximum number of joins in progress from one address.
pub const JOINS_PER_ADDRESS_MAX: usize = 2;

/// The addresses of the joins in progress.
#[derive(Debug, Default)]
pub(crate) struct JoinSlots(Mutex<Vec<IpAddr>>);

/// The slot of a join. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct JoinSlot<'a> {
    address: IpAddr,
    slots: &'a JoinSlots,
}

impl JoinSlots {
    /// A slot for a join, unless too many are in progress.
    pub(crate) fn take(&self, address: IpAddr) -> Option<JoinSlot<'_>> {
        let address = share_key(address);
        let mut joins = self.0.lock();
        let from_here = joins.iter().filter(|other| **other == address).count();
        if joins.len() >= JOINS_MAX || from_here >= JOINS_PER_ADDRESS_MAX {
            return None;
        }
        joins.push(address);
        Some(JoinSlot { address, slots: self })
    }
}

impl Drop for JoinSlot<'_> {
    fn drop(&mut self) {
        let mut joins = self.slots.0.lock();
        if let Some(index) = joins.iter().position(|address| *address == self.address) {
            joins.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_slots_to_others() {
        let slots = JoinSlots::default();
        let take = |last: u8| slots.take(IpAddr::from([10, 0, 0, last]));
        let mut first: Vec<_> = (0..JOINS_PER_ADDRESS_MAX).map(|_| take(1).unwrap()).collect();
        assert!(take(1).is_none(), "the address has its share");
        let others: Vec<_> = (2..).map_while(take).collect();
        assert_eq!(first.len() + others.len(), JOINS_MAX);
        drop(first.pop());
        assert!(take(2).is_some(), "a freed slot is for any address");
        drop((first, others));
        assert!(slots.0.lock().is_empty());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let slots = JoinSlots::default();
        let take = |last: usize| slots.take(format!("2001:db8::{last:x}").parse().unwrap());
        let _taken: Vec<_> = (0..JOINS_PER_ADDRESS_MAX).map(|last| take(last).unwrap()).collect();
        assert!(take(JOINS_PER_ADDRESS_MAX).is_none());
    }
}
