//! Connections before authentication. Anyone can open them, so they have their own limit: beyond it, the oldest one is
//! closed. A node authenticates at once, so no number of other connections can keep it out.

use fairhold_types::address::share_key;
use parking_lot::Mutex;
use std::{collections::VecDeque, net::IpAddr};
use tokio::sync::oneshot;

/// The maximum number of unauthenticated connections.
pub const PENDING_MAX: usize = 128;

/// The maximum number of unauthenticated connections from one address.
pub const PENDING_PER_ADDRESS_MAX: usize = 32;

/// The unauthenticated connections.
#[derive(Debug, Default)]
pub(crate) struct PendingConnections(Mutex<VecDeque<PendingConnection>>);

#[derive(Debug)]
struct PendingConnection {
    address: IpAddr,
    /// Dropping it closes the connection.
    evict: oneshot::Sender<()>,
}

/// The slot of a connection. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct PendingSlot(oneshot::Receiver<()>);

impl PendingConnections {
    /// Adds a connection, and returns whether it evicted another one.
    pub(crate) fn enter(&self, address: IpAddr) -> (PendingSlot, bool) {
        let address = share_key(address);
        let (evict, slot) = PendingSlot::new();
        let mut pending = self.0.lock();
        pending.retain(|waiting| !waiting.evict.is_closed());
        let from_here = pending.iter().filter(|waiting| waiting.address == address).count();
        let oldest = if from_here >= PENDING_PER_ADDRESS_MAX {
            pending.iter().position(|waiting| waiting.address == address)
        } else {
            (pending.len() >= PENDING_MAX).then_some(0)
        };
        let evicted = oldest.and_then(|oldest| pending.remove(oldest));
        pending.push_back(PendingConnection { address, evict });
        (slot, evicted.is_some())
    }
}

impl PendingSlot {
    /// Resolves when the other half is dropped.
    pub(crate) fn new() -> (oneshot::Sender<()>, PendingSlot) {
        let (evict, slot) = oneshot::channel();
        (evict, PendingSlot(slot))
    }

    /// Resolves when this connection is evicted.
    pub(crate) async fn ended(mut self) {
        // The sender never sends. It is only dropped.
        drop((&mut self.0).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn at_its_limit_an_address_loses_its_oldest_connection() {
        let pending = PendingConnections::default();
        let (other, _) = pending.enter(address(2));
        let mut slots: VecDeque<PendingSlot> = (0..PENDING_PER_ADDRESS_MAX).map(|_| pending.enter(address(1)).0).collect();
        let (next, evicted) = pending.enter(address(1));
        assert!(evicted);
        assert!(slots.pop_front().unwrap().ended().now_or_never().is_some(), "it is the oldest");
        for slot in slots.into_iter().chain([next, other]) {
            assert!(slot.ended().now_or_never().is_none());
        }
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let pending = PendingConnections::default();
        let from = |last: usize| format!("2001:db8::{last:x}").parse().unwrap();
        let slots: Vec<PendingSlot> = (0..PENDING_PER_ADDRESS_MAX).map(|last| pending.enter(from(last)).0).collect();
        assert!(pending.enter(from(PENDING_PER_ADDRESS_MAX)).1, "the oldest connection of the network is evicted");
        assert_eq!(slots.into_iter().filter_map(|slot| slot.ended().now_or_never()).count(), 1);
    }

    #[test]
    fn at_the_total_limit_the_oldest_connection_is_evicted() {
        let pending = PendingConnections::default();
        let mut slots: Vec<PendingSlot> =
            (0..PENDING_MAX).map(|number| pending.enter(address(u8::try_from(number).unwrap())).0).collect();
        let (_next, evicted) = pending.enter(address(200));
        assert!(evicted && slots.remove(0).ended().now_or_never().is_some());
        drop(slots);
        assert!(!pending.enter(address(201)).1, "closed connections take no slot");
    }
}
