//! The workloads of the clients.

mod access_change;
mod administered;
mod batches;
mod convert;
mod locks;
mod pairs;
mod registers;
mod sessions;
mod watching;

pub(crate) use watching::follow;

use crate::{
    access::Identities,
    client::{ChaosClient, ClientShared},
};
use clap::ValueEnum;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// There is one more key for each group of this many clients.
const CLIENTS_OF_A_KEY: u64 = 3;
/// The acquires or writes of one key before the next key, so that the search-based checkers get short histories.
const USES_OF_A_KEY: u64 = 120;

/// The maximum hold time that an administrator sets.
pub(crate) const MAX_HOLD: Duration = Duration::from_millis(1_500);

/// Whether an administrator changes this lock.
pub(crate) fn is_administered(lock: &str) -> bool {
    lock.starts_with(Workload::Administer.name())
}

/// Whether an administrator sets the limit of this lock.
pub(crate) fn is_limited(lock: &str) -> bool {
    is_administered(lock) && lock.ends_with("-pool")
}

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Exclusive locks, with waiting
    Mutex,
    /// The same, with an external resource that compares tokens, a node that is written under the fence, and holders
    /// that sleep
    FencedMutex,
    /// Readers and writers
    RwLock,
    /// Semaphores with two to four permits; grants take one or two
    Semaphore,
    /// Many waiters for one lock
    FairOrder,
    /// Locks without waiting, or with a short wait
    TryLock,
    /// Candidates, a leader that proclaims values, and clients that read the leader
    Election,
    /// A lock per client: how long an acquire takes without contention
    OwnLock,
    /// Sessions that are kept alive, abandoned or closed, with a node and a lock each
    SessionExpiry,
    /// Nodes that are read, written, and written at a version
    Registers,
    /// Many writes at once, and a watch at each server that must show all of them
    Watches,
    /// Held grants that change their mode and their ttl
    Convert,
    /// Pairs of nodes, each written in one transaction under two fences
    Txn,
    /// Acquires, releases and renewals in one request, some of them with the same id
    Batch,
    /// An administrator that sets limits, breaks locks and ends sessions, next to clients that hold them
    Administer,
    /// Users whose rights and tokens an administrator takes and gives back; needs --secure
    AccessChange,
}

impl Workload {
    /// Its name on the command line, and the prefix of its keys.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Mutex => "mutex",
            Workload::FencedMutex => "fenced-mutex",
            Workload::RwLock => "rw-lock",
            Workload::Semaphore => "semaphore",
            Workload::FairOrder => "fair-order",
            Workload::TryLock => "try-lock",
            Workload::Election => "election",
            Workload::OwnLock => "own-lock",
            Workload::SessionExpiry => "session-expiry",
            Workload::Registers => "registers",
            Workload::Watches => "watches",
            Workload::Convert => "convert",
            Workload::Txn => "txn",
            Workload::Batch => "batch",
            Workload::Administer => "administer",
            Workload::AccessChange => "access-change",
        }
    }

    /// Whether it needs access rights.
    pub(crate) fn needs_rights(self) -> bool {
        self == Workload::AccessChange
    }

    /// The workload of a lock, a node or a session, by its key or its path.
    pub(crate) fn of(key: &str) -> Option<Workload> {
        let key = key.trim_start_matches('/');
        let key = key.strip_prefix("chaos/").unwrap_or(key);
        let is_of =
            |workload: &&Workload| key.strip_prefix(workload.name()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        Workload::value_variants().iter().find(is_of).copied()
    }

    /// The number of keys in use for this number of clients.
    fn keys(self, clients: u64) -> u64 {
        match self {
            Workload::FairOrder | Workload::Semaphore | Workload::Election | Workload::OwnLock => 1,
            Workload::Convert | Workload::Txn | Workload::Batch | Workload::Administer => 2,
            Workload::Mutex | Workload::FencedMutex | Workload::RwLock | Workload::TryLock => (clients / CLIENTS_OF_A_KEY).max(2),
            Workload::Registers | Workload::SessionExpiry | Workload::AccessChange => 3,
            Workload::Watches => 50,
        }
    }
}

/// Generates keys. A few are in use at a time, each for a while.
#[derive(Debug)]
pub(crate) struct Keys {
    /// The prefix of the keys.
    name: String,
    /// How many are in use at a time.
    of: u64,
    given: AtomicU64,
}

impl Keys {
    fn new(name: String, of: u64) -> Keys {
        Keys { name, of, given: AtomicU64::new(0) }
    }

    fn next(&self) -> String {
        let given = self.given.fetch_add(1, Ordering::Relaxed);
        self.at(given)
    }

    fn at(&self, given: u64) -> String {
        format!("{}-{}-{}", self.name, given % self.of, given / self.of / USES_OF_A_KEY)
    }

    /// The last key.
    fn current(&self) -> String {
        self.at(self.given.load(Ordering::Relaxed))
    }
}

/// Starts this number of clients, which run until they are stopped.
pub(crate) fn start(
    workload: Workload,
    count: u64,
    identities: &Identities,
    shared: &Arc<ClientShared>,
    seed: u64,
) -> Vec<JoinHandle<()>> {
    let keys = Arc::new(Keys::new(workload.name().to_owned(), workload.keys(count)));
    let nodes = Arc::new(access_change::node_keys(workload.keys(count)));
    let sessions = Arc::new(administered::Sessions::default());
    let clients = (0..count).map(|number| {
        let seed = seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((workload as u64) << 32);
        let is_operator = workload == Workload::Administer && administered::is_administrator(number);
        let http = if is_operator { &identities.operator } else { &identities.clients };
        let (client, keys) = (ChaosClient::new(http.clone(), Arc::clone(shared), seed), Arc::clone(&keys));
        match workload {
            Workload::Registers => tokio::spawn(registers::run(client, keys)),
            Workload::Watches => tokio::spawn(watching::write(client, keys)),
            Workload::Convert => tokio::spawn(convert::run(client, keys)),
            Workload::Administer => tokio::spawn(administered::run(client, keys, Arc::clone(&sessions), number)),
            Workload::AccessChange => {
                let (administrator, other) = (&identities.administrator, |of: u64| seed.wrapping_add(of << 48));
                let clients = access_change::UserClients {
                    administrator: ChaosClient::new(administrator.clone(), Arc::clone(shared), other(1)),
                    watches: ChaosClient::new(http.clone(), Arc::clone(shared), other(2)),
                    acts: [client, ChaosClient::new(http.clone(), Arc::clone(shared), other(3))],
                };
                tokio::spawn(access_change::run(clients, keys, Arc::clone(&nodes), number))
            }
            Workload::Batch => tokio::spawn(batches::run(client, keys, number)),
            Workload::Txn => tokio::spawn(pairs::run(client, keys, number)),
            Workload::OwnLock => {
                let own = Arc::new(Keys::new(format!("{}-{number}", workload.name()), 1));
                tokio::spawn(locks::run(client, own, workload, number))
            }
            Workload::SessionExpiry => tokio::spawn(sessions::run(client, number)),
            Workload::Mutex
            | Workload::FencedMutex
            | Workload::RwLock
            | Workload::Semaphore
            | Workload::FairOrder
            | Workload::TryLock
            | Workload::Election => tokio::spawn(locks::run(client, keys, workload, number)),
        }
    });
    clients.collect()
}
