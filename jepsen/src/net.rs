//! A private network: each node has its own namespace, and the clients are in the machine's. This program is the
//! switch between them, so that it can lose, delay and reorder packets.

mod link;
mod packet;
mod switch;

pub(crate) use link::{Link, Overlay};
pub(crate) use switch::Switch;

use crate::{
    shell::{is_alive, run_line},
    sys,
};
use std::{
    fs::File,
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The place of the clients in the network. The nodes follow, by id.
pub(crate) const CLIENTS: usize = 0;
/// The last byte of the clients' address.
const CLIENTS_HOST: usize = 250;
/// The queue of a device: long enough that only faults lose packets.
const DEVICE_QUEUE: usize = 5_000;

/// How many networks this process has created. Names are never reused, because the kernel removes networks late.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// The namespaces and the switch; removed when dropped.
#[derive(Debug)]
pub(crate) struct Network {
    /// Its number in this process.
    number: usize,
    subnet: u8,
    nodes: usize,
    pub(crate) switch: Switch,
}

impl Network {
    /// Creates a namespace for each node.
    pub(crate) fn create(nodes: usize) -> Result<Network, String> {
        remove_leftovers();
        let subnet = free_subnet()?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let made =
            devices(number, subnet, nodes).and_then(|tuns| Switch::start(tuns).map_err(|error| format!("the switch: {error}")));
        match made {
            Ok(switch) => Ok(Network { number, subnet, nodes, switch }),
            Err(why) => {
                remove_namespaces(process::id());
                Err(why)
            }
        }
    }

    /// The address of a node.
    pub(crate) fn address(&self, node: usize) -> String {
        format!("10.77.{}.{node}", self.subnet)
    }

    /// The namespace of a node, as a file.
    pub(crate) fn namespace(&self, node: usize) -> String {
        format!("/run/netns/{}", namespace(self.number, node))
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The switch reads each device until the device is gone.
        if let Err(why) = run_line(&format!("ip link del {}", device(self.number, CLIENTS))) {
            crate::log_line(&format!("left behind: {why}"));
        }
        remove_namespaces(process::id());
    }
}

fn namespace(number: usize, node: usize) -> String {
    format!("fhc-{}-{number}-{node}", process::id())
}

fn device(number: usize, place: usize) -> String {
    format!("fhc{}-{}-{place}", process::id() % 1_000_000, number % 1_000)
}

fn devices(number: usize, subnet: u8, nodes: usize) -> Result<Vec<File>, String> {
    let mut tuns = Vec::with_capacity(nodes + 1);
    for place in 0..=nodes {
        let device = device(number, place);
        let tun = sys::open_tun(&device).map_err(|error| format!("cannot create a network device (/dev/net/tun): {error}"))?;
        if place == CLIENTS {
            run_line(&format!("ip addr add 10.77.{subnet}.{CLIENTS_HOST}/24 dev {device}"))?;
            run_line(&format!("ip link set {device} txqueuelen {DEVICE_QUEUE} up"))?;
        } else {
            let name = namespace(number, place);
            run_line(&format!("ip netns add {name}"))?;
            run_line(&format!("ip link set {device} netns {name}"))?;
            run_line(&format!("ip -n {name} link set lo up"))?;
            run_line(&format!("ip -n {name} addr add 10.77.{subnet}.{place}/24 dev {device}"))?;
            run_line(&format!("ip -n {name} link set {device} txqueuelen {DEVICE_QUEUE} up"))?;
        }
        tuns.push(tun);
    }
    Ok(tuns)
}

/// The place of an address.
fn place_of(last_byte: u8, nodes: usize) -> Option<usize> {
    match usize::from(last_byte) {
        CLIENTS_HOST => Some(CLIENTS),
        node if (1..=nodes).contains(&node) => Some(node),
        _ => None,
    }
}

fn free_subnet() -> Result<u8, String> {
    let taken = run_line("ip -o -4 addr")?;
    let begin = process::id() % 256;
    let candidates = (0..256).filter_map(|step| u8::try_from((begin + step) % 256).ok());
    let mut free = candidates.filter(|subnet| !taken.contains(&format!(" 10.77.{subnet}.")));
    free.next().ok_or_else(|| "every network 10.77.0.0/24 to 10.77.255.0/24 is taken".to_owned())
}

fn remove_namespaces(of: u32) {
    let names = run_line("ip netns list").unwrap_or_default();
    let begin = format!("fhc-{of}-");
    for name in names.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| name.starts_with(&begin)) {
        if let Err(why) = run_line(&format!("ip netns del {name}")) {
            crate::log_line(&format!("left behind: {why}"));
        }
    }
}

/// Removes the leftovers of killed runs.
fn remove_leftovers() {
    let names = run_line("ip netns list").unwrap_or_default();
    let pids = names.lines().filter_map(|line| line.strip_prefix("fhc-")?.split('-').next()?.parse().ok());
    for pid in pids.filter(|pid| !is_alive(*pid)) {
        remove_namespaces(pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_create_a_network_after_removing_an_earlier_one() {
        match Network::create(1) {
            Ok(network) => drop(network),
            // Without the right to create a network, no leftover can exist.
            Err(why) => {
                let without = std::env::var("FAIRHOLD_WITHOUT").unwrap_or_default();
                let excused = without.split(',').any(|name| name.trim() == "networks");
                assert!(excused || !rustix::process::geteuid().is_root(), "FAIRHOLD_WITHOUT=networks lets this pass: {why}");
                // The test harness hides normal output of passing tests.
                return crate::log_line(&format!("not covered here: a second network of one process: {why}"));
            }
        }
        drop(Network::create(1).expect("what the first one left is in the way of the second"));
    }
}
