//! Connections before authentication. Anyone can open them, so they have their own limit: beyond it, the oldest one is
//! closed. A node authenticates at once, so it gets in however many strangers connect.

use fairhold_types::address::share_key;
use parking_lot::Mutex;
use std::{collections::VecDeque, net::IpAddr};
use tokio::sync::oneshot;

/// Unauthenticated connections at the same time.
pub const STRANGERS_MAX: usize = 128;

/// The part of them from one address.
pub const STRANGERS_PER_ADDRESS_MAX: usize = 32;

/// The unauthenticated connections.
#[derive(Debug, Default)]
pub(crate) struct PendingConnections(Mutex<VecDeque<PendingConnection>>);

#[derive(Debug)]
struct PendingConnection {
    address: IpAddr,
    /// Dropping it closes the connection.
    place: oneshot::Sender<()>,
}

/// A slot of a connection, freed when it is dropped.
#[derive(Debug)]
pub(crate) struct PendingSlot(oneshot::Receiver<()>);

impl PendingConnections {
    /// Adds a connection, and returns whether it evicted another one.
    pub(crate) fn enter(&self, address: IpAddr) -> (PendingSlot, bool) {
        let (address, (place, visit)) = (share_key(address), PendingSlot::new());
        let mut waiting = self.0.lock();
        waiting.retain(|waiting| !waiting.place.is_closed());
        let from_here = waiting.iter().filter(|waiting| waiting.address == address).count();
        let oldest = if from_here >= STRANGERS_PER_ADDRESS_MAX {
            waiting.iter().position(|waiting| waiting.address == address)
        } else {
            (waiting.len() >= STRANGERS_MAX).then_some(0)
        };
        let gone = oldest.and_then(|oldest| waiting.remove(oldest));
        waiting.push_back(PendingConnection { address, place });
        (visit, gone.is_some())
    }
}

impl PendingSlot {
    /// Resolves when the other half is dropped.
    pub(crate) fn new() -> (oneshot::Sender<()>, PendingSlot) {
        let (place, visit) = oneshot::channel();
        (place, PendingSlot(visit))
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
    fn the_oldest_of_an_address_makes_room_for_its_next() {
        let pending = PendingConnections::default();
        let (other, _) = pending.enter(address(2));
        let mut visits: VecDeque<PendingSlot> = (0..STRANGERS_PER_ADDRESS_MAX).map(|_| pending.enter(address(1)).0).collect();
        let (next, evicted) = pending.enter(address(1));
        assert!(evicted);
        assert!(visits.pop_front().unwrap().ended().now_or_never().is_some(), "it had waited longest");
        for visit in visits.into_iter().chain([next, other]) {
            assert!(visit.ended().now_or_never().is_none());
        }
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let pending = PendingConnections::default();
        let from = |last: usize| format!("2001:db8::{last:x}").parse().unwrap();
        let visits: Vec<PendingSlot> = (0..STRANGERS_PER_ADDRESS_MAX).map(|last| pending.enter(from(last)).0).collect();
        assert!(pending.enter(from(STRANGERS_PER_ADDRESS_MAX)).1, "another one of its network had to leave");
        assert_eq!(visits.into_iter().filter_map(|visit| visit.ended().now_or_never()).count(), 1);
    }

    #[test]
    fn the_oldest_of_all_makes_room_where_all_places_are_taken() {
        let pending = PendingConnections::default();
        let mut visits: Vec<PendingSlot> =
            (0..STRANGERS_MAX).map(|number| pending.enter(address(u8::try_from(number).unwrap())).0).collect();
        let (_next, evicted) = pending.enter(address(200));
        assert!(evicted && visits.remove(0).ended().now_or_never().is_some());
        drop(visits);
        assert!(!pending.enter(address(201)).1, "who has left takes no place");
    }
}
