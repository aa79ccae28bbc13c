//! Slots for connections: a limit in total, a limit per address, and a reserve for addresses with few connections.
//!
//! When slots run short, the address with the most connections loses its youngest one that is idle or only reads, so that no
//! address can shut out all others by connecting first.

use crate::server::connection_limits::ConnectionLimits;
use fairhold_types::{address::share_key, limits::FEW_CONNECTIONS};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};
use tokio::sync::Notify;

/// The fraction (1/N) of all slots that is reserved for addresses with few connections.
const RESERVED_PART: usize = 20;

/// The slots of all connections.
#[derive(Debug)]
pub(crate) struct ClientSlots {
    limits: ConnectionLimits,
    /// Consistent after every statement that can panic.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    total: usize,
    /// The slots of each address, youngest last.
    by_address: HashMap<IpAddr, BTreeMap<u64, Arc<SlotState>>>,
}

/// The activity of a connection, which decides whether its slot may be taken.
#[derive(Debug, Default)]
pub(crate) struct SlotState {
    state: AtomicU8,
    given_up: Notify,
}

/// It is idle, or its request only reads: another connection may get its slot.
const REPLACEABLE: u8 = 0;
/// Its request must be answered.
const WRITES: u8 = 1;
/// Another connection has its slot.
const GIVEN_UP: u8 = 2;

impl SlotState {
    /// Begins a request. `false` if another connection has the slot: the request must not begin.
    pub(crate) fn begin(&self, is_read: bool) -> bool {
        let state = if is_read { REPLACEABLE } else { WRITES };
        self.state.compare_exchange(REPLACEABLE, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
            // The previous pipelined request has been answered, but the answer is not written yet.
            || self.state.load(Ordering::Acquire) == WRITES
    }

    /// The answer is written.
    pub(crate) fn end(&self) {
        // Another connection may have the slot by now.
        let _was = self.state.compare_exchange(WRITES, REPLACEABLE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Resolves when another connection gets the slot.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }

    fn give_up(&self) -> bool {
        let done = self.state.compare_exchange(REPLACEABLE, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if done {
            self.given_up.notify_one();
        }
        done
    }
}

/// A connection's slot, freed when it is dropped.
#[derive(Debug)]
pub(crate) struct ClientSlot {
    slots: Arc<ClientSlots>,
    address: IpAddr,
    number: u64,
    /// The activity of the connection.
    pub(crate) slot_state: Arc<SlotState>,
}

impl ClientSlots {
    /// Slots with these limits, which may change at any time. A lower limit ends no connection.
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<ClientSlots> {
        Arc::new(ClientSlots { limits, taken: Mutex::default() })
    }

    /// Takes a slot, if one is available for that address.
    pub(crate) fn take(slots: &Arc<ClientSlots>, address: IpAddr) -> Option<ClientSlot> {
        let address = share_key(address);
        let mut taken = slots.taken.lock();
        let of_address = taken.by_address.get(&address).map_or(0, BTreeMap::len);
        let (max, max_per_address) = slots.limits.now();
        if of_address >= max_per_address {
            return None;
        }
        if taken.total >= max - reserved(max) {
            if of_address >= FEW_CONNECTIONS {
                return None;
            }
            taken.make_room(address);
        }
        if taken.total >= max {
            return None;
        }
        taken.next += 1;
        taken.total += 1;
        let (number, slot_state) = (taken.next, Arc::<SlotState>::default());
        taken.by_address.entry(address).or_default().insert(number, Arc::clone(&slot_state));
        drop(taken);
        Some(ClientSlot { slots: Arc::clone(slots), address, number, slot_state })
    }

    /// Whether more than three quarters are taken.
    pub(crate) fn is_crowded(&self) -> bool {
        self.taken.lock().total > self.limits.now().0 / 4 * 3
    }

    /// Whether only addresses with few connections still get a slot.
    pub(crate) fn is_full(&self) -> bool {
        let (max, _) = self.limits.now();
        self.taken.lock().total >= max - reserved(max)
    }
}

/// How many of all slots are reserved.
fn reserved(max: usize) -> usize {
    max / RESERVED_PART
}

impl Taken {
    /// Takes a slot from the address with the most connections, if it has more than a few and is another address.
    fn make_room(&mut self, address: IpAddr) {
        let crowded = self.by_address.iter().max_by_key(|(_, slots)| slots.len());
        let Some((largest, slots)) = crowded.filter(|(other, slots)| **other != address && slots.len() > FEW_CONNECTIONS) else {
            return;
        };
        let youngest = slots.iter().rev().find(|(_, slot_state)| slot_state.give_up()).map(|(number, _)| *number);
        if let Some(number) = youngest {
            self.remove(*largest, number);
        }
    }

    /// Frees a slot, unless it was freed before.
    fn remove(&mut self, address: IpAddr, number: u64) {
        let Some(slots) = self.by_address.get_mut(&address) else { return };
        if slots.remove(&number).is_some() {
            self.total -= 1;
        }
        if slots.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.slots.taken.lock().remove(self.address, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn slots_of(max: usize, max_per_address: usize) -> Arc<ClientSlots> {
        ClientSlots::new(ConnectionLimits::new(max, max_per_address))
    }

    fn take(slots: &Arc<ClientSlots>, last: u8, count: usize) -> Vec<ClientSlot> {
        (0..count).map_while(|_| ClientSlots::take(slots, address(last))).collect()
    }

    #[test]
    fn a_connection_over_the_limit_is_refused_until_another_closes() {
        let slots = slots_of(5, 3);
        let mut first = take(&slots, 1, 4);
        assert_eq!(first.len(), 3, "one address has used its share");
        let second = take(&slots, 2, 4);
        assert_eq!(second.len(), 2, "all slots are taken");
        assert!(ClientSlots::take(&slots, address(3)).is_none());
        first.pop();
        assert!(ClientSlots::take(&slots, address(3)).is_some());
        drop((first, second));
        assert!(slots.taken.lock().by_address.is_empty());
    }

    #[test]
    fn all_forms_of_an_address_count_together() {
        let slots = slots_of(5, 1);
        let _first = ClientSlots::take(&slots, "2001:db8::1".parse().unwrap()).unwrap();
        assert!(ClientSlots::take(&slots, "2001:db8::2".parse().unwrap()).is_none());
        let _second = ClientSlots::take(&slots, "10.0.0.1".parse().unwrap()).unwrap();
        assert!(ClientSlots::take(&slots, "::ffff:10.0.0.1".parse().unwrap()).is_none());
    }

    #[test]
    fn a_late_connection_replaces_the_newest_idle_one_of_the_address_with_the_most() {
        let slots = slots_of(100, 60);
        let (largest, other) = (take(&slots, 1, 60), take(&slots, 2, 60));
        assert_eq!((largest.len(), other.len()), (60, 35), "a part is reserved for addresses with few");
        assert!(largest[59].slot_state.begin(false) && largest[58].slot_state.begin(true));
        let late = take(&slots, 3, FEW_CONNECTIONS + 1);
        assert_eq!(late.len(), FEW_CONNECTIONS, "the limit of the reserve");
        let gone: Vec<usize> = (0..60).filter(|index| largest[*index].slot_state.given_up().now_or_never().is_some()).collect();
        assert_eq!(gone, (51..=58).collect::<Vec<_>>(), "a request that must be answered continues");
        assert!(other.iter().all(|slot| slot.slot_state.given_up().now_or_never().is_none()));
        assert!(!largest[58].slot_state.begin(false), "no request starts on a connection without a slot");
        assert_eq!(slots.taken.lock().total, 95);
        drop(largest);
        assert_eq!(slots.taken.lock().total, 43, "a slot that was taken away is not freed twice");
    }

    #[test]
    fn when_no_connection_can_be_replaced_late_addresses_have_a_reserve() {
        let slots = slots_of(100, 95);
        let busy = take(&slots, 1, 95);
        assert!(busy.iter().all(|slot| slot.slot_state.begin(false)));
        let late: Vec<ClientSlot> = (2..10).flat_map(|last| take(&slots, last, 1)).collect();
        assert_eq!(late.len(), 5);
        assert!(busy.iter().all(|slot| slot.slot_state.given_up().now_or_never().is_none()));
        busy[3].slot_state.end();
        assert_eq!(take(&slots, 10, 1).len(), 1, "one of them is idle again");
    }

    #[test]
    fn limits_that_change_apply_to_new_connections_and_end_none() {
        let limits = ConnectionLimits::new(3, 3);
        let slots = ClientSlots::new(limits.clone());
        let mut first = take(&slots, 1, 3);
        assert_eq!(first.len(), 3);
        limits.set(5, 2);
        assert!(ClientSlots::take(&slots, address(1)).is_none(), "it has more than its new limit");
        assert_eq!(take(&slots, 2, 3).len(), 2);
        limits.set(2, 1);
        assert!(slots.is_full() && ClientSlots::take(&slots, address(3)).is_none());
        assert!(first.iter().all(|slot| slot.slot_state.given_up().now_or_never().is_none()));
        first.truncate(1);
        assert!(ClientSlots::take(&slots, address(3)).is_some());
    }
}
