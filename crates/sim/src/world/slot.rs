//! One machine of the world: its disk, its program, and the node that runs on it.

use crate::{
    disk::Disk,
    host::{Host, HostRuntime},
};
use fairhold_http::ApiService;
use fairhold_node::Node;
use fairhold_raft::{Joined, Replica};
use std::{sync::Arc, time::Duration};

/// The peer port of every node before its address changes.
const PORT: u16 = 7271;

/// The address for clients of a machine.
pub(super) fn url_of(name: &str) -> String {
    format!("http://{name}:7171")
}

/// The address for peers of a machine, after this many changes of all addresses.
pub(super) fn address_of(name: &str, changes: u16) -> String {
    format!("{name}:{}", PORT + changes)
}

/// A running node.
#[derive(Clone)]
pub(crate) struct RunningNode {
    pub(crate) replica: Replica<HostRuntime>,
    pub(crate) node: Node<HostRuntime>,
    pub(crate) api: ApiService,
}

/// A machine whose node has an id.
pub(super) struct Slot {
    /// The host name in its addresses. A machine keeps it when it joins again with a new id.
    pub(super) name: String,
    pub(super) disk: Disk,
    /// The machine's own disk, while another one replaces it.
    pub(super) own: Option<Disk>,
    /// Whether the replacement is a backup of the machine's own disk.
    pub(super) is_backup: bool,
    /// Whether the machine runs the older program.
    pub(super) is_older: bool,
    /// How it joined; `None` if it is one of the first members.
    pub(super) joined: Option<Joined>,
    pub(super) rate: u64,
    pub(super) lives: u64,
    pub(super) host: Option<Arc<Host>>,
    pub(super) running: Option<RunningNode>,
    /// Since when the machine is off; `None` while it is on.
    pub(super) off_since: Option<Duration>,
    /// Whether it never runs again as this node, because the node was removed or its disk is destroyed.
    pub(super) is_retired: bool,
}

impl Slot {
    /// A machine that is off.
    pub(super) fn new(name: String, disk: Disk, rate: u64) -> Slot {
        Slot {
            name,
            disk,
            own: None,
            is_backup: false,
            is_older: false,
            joined: None,
            rate,
            lives: 0,
            host: None,
            running: None,
            off_since: Some(Duration::ZERO),
            is_retired: false,
        }
    }

    /// The address at which it listens for peers, after this many changes of all addresses. Only the first members follow
    /// them.
    pub(super) fn address(&self, changes: u16) -> String {
        address_of(&self.name, if self.joined.is_some() { 0 } else { changes })
    }

    /// Whether the disk has the node's own data, newer or older.
    pub(super) fn has_own_disk(&self) -> bool {
        self.own.is_none() || self.is_backup
    }
}
