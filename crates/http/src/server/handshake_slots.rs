//! Slots for TLS handshakes: a limit in total, and a limit for each address. A handshake beyond them waits.
//!
//! A handshake costs a millisecond of a processor, and a client can start one without any credential.

use fairhold_types::address::share_key;
use parking_lot::Mutex;
use std::{collections::HashMap, net::IpAddr, pin::pin, sync::Arc};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The slots of all handshakes.
#[derive(Debug)]
pub(crate) struct HandshakeSlots {
    all: Arc<Semaphore>,
    per_address: usize,
    /// Only of addresses with a handshake that runs or waits.
    by_address: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
    stopped: Notify,
}

/// A slot, freed when it is dropped. Its fields are dropped in their order, the permits before the entry.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    _of_all: OwnedSemaphorePermit,
    _of_address: OwnedSemaphorePermit,
    _entry: AddressEntry,
}

/// The slots of one address. The last user removes them.
#[derive(Debug)]
struct AddressEntry {
    slots: Arc<HandshakeSlots>,
    address: IpAddr,
    of_address: Arc<Semaphore>,
}

impl HandshakeSlots {
    /// Slots with a limit in total. One address may have half of them.
    pub(crate) fn new(max: usize) -> Arc<HandshakeSlots> {
        let per_address = max.div_ceil(2);
        let all = Arc::new(Semaphore::new(max));
        Arc::new(HandshakeSlots { all, per_address, by_address: Mutex::default(), stopped: Notify::new() })
    }

    /// Takes a slot, and waits until one is free. `None` once the server stops.
    pub(crate) async fn take(slots: &Arc<HandshakeSlots>, address: IpAddr) -> Option<HandshakeSlot> {
        let address = share_key(address);
        let of_address = {
            let mut by_address = slots.by_address.lock();
            Arc::clone(by_address.entry(address).or_insert_with(|| Arc::new(Semaphore::new(slots.per_address))))
        };
        let entry = AddressEntry { slots: Arc::clone(slots), address, of_address };
        // In this order, the handshakes that wait for their address hold none of the slots of all.
        let of_address = Arc::clone(&entry.of_address).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&slots.all).acquire_owned().await.ok()?;
        Some(HandshakeSlot { _of_all: of_all, _of_address: of_address, _entry: entry })
    }

    /// Ends the handshakes that run or wait.
    pub(crate) fn stop(&self) {
        self.all.close();
        self.stopped.notify_waiters();
    }

    /// Resolves when the server stops.
    pub(crate) async fn stopped(&self) {
        let mut stopped = pin!(self.stopped.notified());
        // From here on it notices a stop, also one before the first poll.
        stopped.as_mut().enable();
        if !self.all.is_closed() {
            stopped.await;
        }
    }
}

impl Drop for AddressEntry {
    fn drop(&mut self) {
        let mut by_address = self.slots.by_address.lock();
        // One of the table, and this one.
        if Arc::strong_count(&self.of_address) <= 2 {
            by_address.remove(&self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn take(slots: &Arc<HandshakeSlots>, last: u8) -> Option<HandshakeSlot> {
        HandshakeSlots::take(slots, address(last)).now_or_never().flatten()
    }

    #[test]
    fn one_address_gets_half_of_the_slots_and_the_rest_waits() {
        let slots = HandshakeSlots::new(4);
        let first: Vec<_> = (0..3).map_while(|_| take(&slots, 1)).collect();
        assert_eq!(first.len(), 2);
        let second: Vec<_> = (0..3).map_while(|_| take(&slots, 2)).collect();
        assert_eq!(second.len(), 2);
        assert!(take(&slots, 3).is_none(), "all are taken");
        drop(first);
        assert!(take(&slots, 3).is_some());
        drop(second);
        assert!(slots.by_address.lock().is_empty(), "an address without handshakes is forgotten");
    }

    #[test]
    fn a_handshake_that_waits_for_its_address_takes_no_slot_of_others() {
        let slots = HandshakeSlots::new(4);
        let held: Vec<_> = (0..2).filter_map(|_| take(&slots, 1)).collect();
        let mut waiting: Vec<_> = (0..10).map(|_| Box::pin(HandshakeSlots::take(&slots, address(1)))).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        assert!(take(&slots, 2).is_some());
        drop((waiting, held));
        assert!(slots.by_address.lock().is_empty());
    }

    #[test]
    fn a_stop_ends_handshakes_that_run_and_that_wait() {
        let slots = HandshakeSlots::new(1);
        let _held = take(&slots, 1);
        let mut waits = Box::pin(HandshakeSlots::take(&slots, address(2)));
        let mut runs = Box::pin(slots.stopped());
        assert!((&mut waits).now_or_never().is_none() && (&mut runs).now_or_never().is_none());
        slots.stop();
        assert!(waits.now_or_never().is_some_and(|slot| slot.is_none()) && runs.now_or_never().is_some());
        assert!(slots.stopped().now_or_never().is_some(), "a stop is also noticed afterwards");
    }
}
