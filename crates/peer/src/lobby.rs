//! Connections that have not proved themselves yet. Anybody can open them, so they have a limit of their own: beyond it, the one
//! that has waited longest is closed. A node proves itself at once, so it gets in through any crowd of strangers.

use fairhold_types::address::share_key;
use parking_lot::Mutex;
use std::{collections::VecDeque, net::IpAddr};
use tokio::sync::oneshot;

/// Connections at a time that have not proved themselves.
pub const STRANGERS_MAX: usize = 128;

/// Of those, from one address.
pub const STRANGERS_PER_ADDRESS_MAX: usize = 32;

/// The waiting connections.
#[derive(Debug, Default)]
pub(crate) struct Lobby(Mutex<VecDeque<PendingConnection>>);

#[derive(Debug)]
struct PendingConnection {
    address: IpAddr,
    /// Dropped to close the connection.
    place: oneshot::Sender<()>,
}

/// A place, in the lobby or among the admitted; left when it is dropped.
#[derive(Debug)]
pub(crate) struct Visit(oneshot::Receiver<()>);

impl Lobby {
    /// Takes one in, and says whether another one had to leave for it.
    pub(crate) fn enter(&self, address: IpAddr) -> (Visit, bool) {
        let (address, (place, visit)) = (share_key(address), Visit::new());
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

impl Visit {
    /// It ends when the other half is dropped.
    pub(crate) fn new() -> (oneshot::Sender<()>, Visit) {
        let (place, visit) = oneshot::channel();
        (place, Visit(visit))
    }

    /// Resolves when this one has to leave.
    pub(crate) async fn ended(mut self) {
        // Nothing is ever sent: the sender is dropped.
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
        let lobby = Lobby::default();
        let (other, _) = lobby.enter(address(2));
        let mut visits: VecDeque<Visit> = (0..STRANGERS_PER_ADDRESS_MAX).map(|_| lobby.enter(address(1)).0).collect();
        let (next, another_left) = lobby.enter(address(1));
        assert!(another_left);
        assert!(visits.pop_front().unwrap().ended().now_or_never().is_some(), "it had waited longest");
        for visit in visits.into_iter().chain([next, other]) {
            assert!(visit.ended().now_or_never().is_none());
        }
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let lobby = Lobby::default();
        let from = |last: usize| format!("2001:db8::{last:x}").parse().unwrap();
        let visits: Vec<Visit> = (0..STRANGERS_PER_ADDRESS_MAX).map(|last| lobby.enter(from(last)).0).collect();
        assert!(lobby.enter(from(STRANGERS_PER_ADDRESS_MAX)).1, "another one of its network had to leave");
        assert_eq!(visits.into_iter().filter_map(|visit| visit.ended().now_or_never()).count(), 1);
    }

    #[test]
    fn the_oldest_of_all_makes_room_where_all_places_are_taken() {
        let lobby = Lobby::default();
        let mut visits: Vec<Visit> =
            (0..STRANGERS_MAX).map(|number| lobby.enter(address(u8::try_from(number).unwrap())).0).collect();
        let (_next, another_left) = lobby.enter(address(200));
        assert!(another_left && visits.remove(0).ended().now_or_never().is_some());
        drop(visits);
        assert!(!lobby.enter(address(201)).1, "who has left takes no place");
    }
}
