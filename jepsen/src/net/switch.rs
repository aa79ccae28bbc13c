//! The switch: it takes packets from each place and delivers them to their destination, unless a fault prevents it.

use super::{Link, Overlay, packet, place_of};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Larger than any packet of our devices.
const PACKET_BYTES_MAX: usize = 65_536;
/// The maximum number of packets in flight. Further packets are dropped, as by a switch with full buffers.
const IN_FLIGHT_MAX: usize = 20_000;

/// A running switch; it stops when dropped.
#[derive(Debug)]
pub(crate) struct Switch {
    remote: Remote,
}

/// The control of the switch.
#[derive(Debug, Clone)]
pub(crate) struct Remote(Arc<SwitchShared>);

#[derive(Debug)]
struct SwitchShared {
    places: usize,
    faults: Mutex<Faults>,
    /// The number of packets affected by faults.
    touched: AtomicU64,
    way: Mutex<Way>,
    /// A packet has arrived since the delivery thread began to wait.
    news: Condvar,
    over: AtomicBool,
}

/// Delayed packets, by due time.
#[derive(Debug, Default)]
struct Way {
    packets: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    next: u64,
}

#[derive(Debug)]
struct Faults {
    overlays: BTreeMap<u64, Overlay>,
    next: u64,
    links: Vec<Link>,
}

impl SwitchShared {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        // The guarded data is consistent after every statement that can panic.
        self.faults.lock()
    }
}

impl SwitchShared {
    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock()
    }

    fn later(&self, due: Instant, to: usize, packet: &[u8]) {
        let mut way = self.way();
        if way.packets.len() < IN_FLIGHT_MAX {
            let number = way.next;
            way.next += 1;
            way.packets.insert((due, number), (to, packet.to_vec()));
            self.news.notify_one();
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.remote.0.over.store(true, Ordering::Relaxed);
        self.remote.0.news.notify_all();
    }
}

impl Switch {
    /// Forwards packets between the devices, in its own threads.
    pub(super) fn start(tuns: Vec<File>) -> io::Result<Switch> {
        let places = tuns.len();
        let faults = Faults { overlays: BTreeMap::new(), next: 0, links: vec![Link::default(); places * places] };
        let shared = Arc::new(SwitchShared {
            places,
            faults: Mutex::new(faults),
            touched: AtomicU64::new(0),
            way: Mutex::new(Way::default()),
            news: Condvar::new(),
            over: AtomicBool::new(false),
        });
        let tuns = Arc::new(tuns);
        for place in 0..places {
            let (tuns, shared) = (Arc::clone(&tuns), Arc::clone(&shared));
            thread::Builder::new().name(format!("switch-{place}")).spawn(move || carry(place, &tuns, &shared))?;
        }
        let for_bringer = Arc::clone(&shared);
        thread::Builder::new().name("switch-delay".to_owned()).spawn(move || bring(&tuns, &for_bringer))?;
        Ok(Switch { remote: Remote(shared) })
    }

    /// A handle to control it.
    pub(crate) fn remote(&self) -> Remote {
        self.remote.clone()
    }
}

impl Deref for Switch {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.remote
    }
}

impl Remote {
    /// Applies a fault until it is lifted.
    pub(crate) fn lay(&self, overlay: Overlay) -> u64 {
        let mut faults = self.0.faults();
        let id = faults.next;
        faults.next += 1;
        faults.overlays.insert(id, overlay);
        faults.join(self.0.places);
        id
    }

    /// Ends a fault.
    pub(crate) fn lift(&self, id: u64) {
        let mut faults = self.0.faults();
        faults.overlays.remove(&id);
        faults.join(self.0.places);
    }

    /// How many packets faults have lost, delayed or duplicated so far.
    pub(crate) fn touched(&self) -> u64 {
        self.0.touched.load(Ordering::Relaxed)
    }
}

impl Faults {
    fn join(&mut self, places: usize) {
        self.links.fill(Link::default());
        for (from, to, link) in self.overlays.values().flat_map(|Overlay(links)| links) {
            let of_pair = &mut self.links[from * places + to];
            *of_pair = of_pair.and(*link);
        }
    }
}

/// The packets that come from one place.
struct Outgoing {
    place: usize,
    random: SmallRng,
    /// When the last packet to each place is due.
    last_due: Vec<Instant>,
}

impl Outgoing {
    /// When a packet that leaves now arrives.
    fn due(&mut self, now: Instant, to: usize, link: Link) -> Instant {
        let jitter = if link.jitter_us > 0 { self.random.random_range(0..link.jitter_us) } else { 0 };
        let due = now + Duration::from_micros(link.delay_us + jitter);
        let last = &mut self.last_due[to];
        *last = if link.in_order { due.max(*last) } else { due };
        *last
    }
}

/// Reads one device until the kernel removes it with its namespace.
fn carry(place: usize, tuns: &[File], shared: &SwitchShared) {
    let random = SmallRng::seed_from_u64(place as u64);
    let mut outgoing = Outgoing { place, random, last_due: vec![Instant::now(); shared.places] };
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let mut device = &tuns[place];
    loop {
        match device.read(&mut buffer) {
            Ok(length) => forward(&buffer[..length], &mut outgoing, tuns, shared),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn forward(packet: &[u8], outgoing: &mut Outgoing, tuns: &[File], shared: &SwitchShared) {
    let Some(to) = packet::route(packet).and_then(|(_, to)| place_of(to, shared.places - 1)) else { return };
    let link = shared.faults().links[outgoing.place * shared.places + to];
    let random = &mut outgoing.random;
    if link == Link::default() {
        return deliver(&tuns[to], packet);
    }
    let lost = link.cut
        || (link.data_lost && packet::has_data(packet))
        || (link.loss_permille > 0 && random.random_range(0..1_000) < link.loss_permille);
    if lost {
        shared.touched.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let copies = 1 + u32::from(link.twice_permille > 0 && random.random_range(0..1_000) < link.twice_permille);
    for _ in 0..copies {
        let now = Instant::now();
        let due = outgoing.due(now, to, link);
        if copies > 1 || due > now {
            shared.touched.fetch_add(1, Ordering::Relaxed);
        }
        if due > now {
            shared.later(due, to, packet);
        } else {
            deliver(&tuns[to], packet);
        }
    }
}

/// Delivers delayed packets when they are due.
fn bring(tuns: &[File], shared: &SwitchShared) {
    let mut way = shared.way();
    while !shared.over.load(Ordering::Relaxed) {
        let now = Instant::now();
        let Some(((due, _), _)) = way.packets.first_key_value() else {
            shared.news.wait(&mut way);
            continue;
        };
        if *due > now {
            let wait = *due - now;
            shared.news.wait_for(&mut way, wait);
        } else if let Some((_, (to, packet))) = way.packets.pop_first() {
            drop(way);
            deliver(&tuns[to], &packet);
            way = shared.way();
        }
    }
}

fn deliver(mut device: &File, packet: &[u8]) {
    // A device that is full or going away loses packets, as a network does.
    drop(device.write(packet));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_link_that_keeps_their_order_never_overtake_each_other() {
        let (now, random) = (Instant::now(), SmallRng::seed_from_u64(7));
        let mut outgoing = Outgoing { place: 0, random, last_due: vec![now; 2] };
        let jitter = Link { delay_us: 100, jitter_us: 50, ..Link::default() };
        let mut is_sorted = |link| (0..100).map(|_| outgoing.due(now, 1, link)).collect::<Vec<_>>().is_sorted();
        assert!(!is_sorted(jitter));
        assert!(is_sorted(Link { in_order: true, ..jitter }));
    }
}
