//! Slots for connections: a limit in total, a limit per address, and a reserve for addresses with few connections.
//!
//! When slots run short, the address with the most connections loses its youngest one that is idle or only reads, so that no
//! address can shut out all others by connecting first.

use fairhold_types::{address::share_key, limits::FEW_CONNECTIONS};
use parking_lot::{Mutex, MutexGuard};
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

/// All slots.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    most_per_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    all: usize,
    /// The slots of each address, youngest last.
    by_address: HashMap<IpAddr, BTreeMap<u64, Arc<Seat>>>,
}

/// The activity of a connection, which decides whether its slot may be taken.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    state: AtomicU8,
    given_up: Notify,
}

/// It is idle, or its request changes nothing.
const IDLE: u8 = 0;
/// Its request must be answered.
const WRITES: u8 = 1;
/// Another connection has its slot.
const GIVEN_UP: u8 = 2;

impl Seat {
    /// Begins a request. `false` if another connection has the slot: the request must not begin.
    pub(crate) fn begin(&self, is_read: bool) -> bool {
        let state = if is_read { IDLE } else { WRITES };
        self.state.compare_exchange(IDLE, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
            // The previous pipelined request has been answered, but the answer is not written yet.
            || self.state.load(Ordering::Acquire) == WRITES
    }

    /// The answer is written.
    pub(crate) fn end(&self) {
        // Another connection may have the slot by now.
        let _was = self.state.compare_exchange(WRITES, IDLE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Resolves when another connection gets the slot.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }

    fn give_up(&self) -> bool {
        let done = self.state.compare_exchange(IDLE, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if done {
            self.given_up.notify_one();
        }
        done
    }
}

/// A connection's slot, freed when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    places: Arc<Places>,
    address: IpAddr,
    number: u64,
    /// The activity of the connection.
    pub(crate) seat: Arc<Seat>,
}

impl Places {
    /// Slots with a limit in total and a limit per address.
    pub(crate) fn new(most: usize, most_per_address: usize) -> Arc<Places> {
        Arc::new(Places { most, most_per_address, taken: Mutex::default() })
    }

    /// Takes a slot, if one is available for that address.
    pub(crate) fn take(places: &Arc<Places>, address: IpAddr) -> Option<ConnectionPlace> {
        let address = share_key(address);
        let mut taken = places.taken();
        let here = taken.by_address.get(&address).map_or(0, BTreeMap::len);
        if here >= places.most_per_address {
            return None;
        }
        if taken.all >= places.most - places.reserved() {
            if here >= FEW_CONNECTIONS {
                return None;
            }
            taken.make_room(address);
        }
        if taken.all >= places.most {
            return None;
        }
        taken.next += 1;
        taken.all += 1;
        let (number, seat) = (taken.next, Arc::<Seat>::default());
        taken.by_address.entry(address).or_default().insert(number, Arc::clone(&seat));
        drop(taken);
        Some(ConnectionPlace { places: Arc::clone(places), address, number, seat })
    }

    /// Whether more than three quarters are taken.
    pub(crate) fn is_crowded(&self) -> bool {
        self.taken().all > self.most / 4 * 3
    }

    /// Whether only addresses with few connections still get a slot.
    pub(crate) fn is_full(&self) -> bool {
        self.taken().all >= self.most - self.reserved()
    }

    fn reserved(&self) -> usize {
        self.most / RESERVED_PART
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // The guarded value is consistent after every statement that can panic.
        self.taken.lock()
    }
}

impl Taken {
    /// Takes a slot from the address with the most connections, if it has more than a few and is another address.
    fn make_room(&mut self, address: IpAddr) {
        let most = self.by_address.iter().max_by_key(|(_, places)| places.len());
        let Some((greediest, places)) = most.filter(|(other, places)| **other != address && places.len() > FEW_CONNECTIONS)
        else {
            return;
        };
        let youngest = places.iter().rev().find(|(_, seat)| seat.give_up()).map(|(number, _)| *number);
        if let Some(number) = youngest {
            self.remove(*greediest, number);
        }
    }

    /// Frees a slot, unless it was freed before.
    fn remove(&mut self, address: IpAddr, number: u64) {
        let Some(places) = self.by_address.get_mut(&address) else { return };
        if places.remove(&number).is_some() {
            self.all -= 1;
        }
        if places.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.places.taken().remove(self.address, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn take(places: &Arc<Places>, last: u8, count: usize) -> Vec<ConnectionPlace> {
        (0..count).map_while(|_| Places::take(places, address(last))).collect()
    }

    #[test]
    fn a_connection_over_the_limit_is_refused_until_another_closes() {
        let places = Places::new(5, 3);
        let mut first = take(&places, 1, 4);
        assert_eq!(first.len(), 3, "one address has its share");
        let second = take(&places, 2, 4);
        assert_eq!(second.len(), 2, "all are taken");
        assert!(Places::take(&places, address(3)).is_none());
        first.pop();
        assert!(Places::take(&places, address(3)).is_some());
        drop((first, second));
        assert!(places.taken().by_address.is_empty());
    }

    #[test]
    fn an_address_is_the_same_in_all_of_its_forms() {
        let places = Places::new(5, 1);
        let _first = Places::take(&places, "2001:db8::1".parse().unwrap()).unwrap();
        assert!(Places::take(&places, "2001:db8::2".parse().unwrap()).is_none());
        let _second = Places::take(&places, "10.0.0.1".parse().unwrap()).unwrap();
        assert!(Places::take(&places, "::ffff:10.0.0.1".parse().unwrap()).is_none());
    }

    #[test]
    fn a_late_connection_replaces_the_newest_idle_one_of_the_address_with_most() {
        let places = Places::new(100, 60);
        let (most, other) = (take(&places, 1, 60), take(&places, 2, 60));
        assert_eq!((most.len(), other.len()), (60, 35), "a part is kept for those who have few");
        assert!(most[59].seat.begin(false) && most[58].seat.begin(true));
        let late = take(&places, 3, FEW_CONNECTIONS + 1);
        assert_eq!(late.len(), FEW_CONNECTIONS, "they are few");
        let gone: Vec<usize> = (0..60).filter(|index| most[*index].seat.given_up().now_or_never().is_some()).collect();
        assert_eq!(gone, (51..=58).collect::<Vec<_>>(), "what must be answered goes on");
        assert!(other.iter().all(|place| place.seat.given_up().now_or_never().is_none()));
        assert!(!most[58].seat.begin(false), "nothing is begun on a connection that is over");
        assert_eq!(places.taken().all, 95);
        drop(most);
        assert_eq!(places.taken().all, 43, "what was taken away is not given back again");
    }

    #[test]
    fn when_no_connection_can_be_replaced_late_addresses_have_a_reserve() {
        let places = Places::new(100, 95);
        let busy = take(&places, 1, 95);
        assert!(busy.iter().all(|place| place.seat.begin(false)));
        let late: Vec<ConnectionPlace> = (2..10).flat_map(|last| take(&places, last, 1)).collect();
        assert_eq!(late.len(), 5);
        assert!(busy.iter().all(|place| place.seat.given_up().now_or_never().is_none()));
        busy[3].seat.end();
        assert_eq!(take(&places, 10, 1).len(), 1, "one of them idles again");
    }
}
