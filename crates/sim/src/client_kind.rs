//! The behaviour of a client in a scenario.

use rand::{RngExt, rngs::SmallRng};

/// The kind of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// Acquires exclusive locks, waits, renews, writes with the fence, pauses, releases.
    Locker,
    /// Acquires a shared lock, mostly to read.
    Reader,
    /// Acquires permits of a semaphore.
    Permits,
    /// Opens sessions, keeps them alive, owns locks and ephemeral nodes with them, and sometimes vanishes.
    Owner,
    /// Writes and reads nodes.
    Writer,
    /// Watches, and resumes after broken connections.
    Watcher,
    /// Changes the mode and the ttl of its grant.
    Converter,
    /// Sends many calls in one request, some of them with the same id.
    Batcher,
    /// Acquires several locks in one step.
    MultiLock,
    /// Sets limits, revokes and breaks locks, ends sessions.
    Administrator,
    /// Runs in elections, proclaims, resigns.
    Candidate,
    /// Queues without an open request, and polls its grant.
    AsyncAcquirer,
    /// Writes in transactions under two locks.
    Transactor,
    /// Creates sequential nodes, lists them, deletes them.
    Sequencer,
    /// Reads locks, queues, histories, sessions and nodes.
    Inspector,
    /// Lets servers choose the ids of its grants, and disconnects before it learns them.
    Disconnecter,
    /// Takes very many locks and nodes with one session, and ends the session.
    Hoarder,
    /// Finalizes the upgrade of the cluster as soon as that is possible.
    Upgrader,
    /// Lets machines join, replaces nodes and removes them.
    Operator,
    /// Changes the rights, tokens and tenants of two users while they work.
    AccessAdministrator,
}

/// A client: its kind, its rounds and its seed.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) kind: ClientKind,
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
}

/// Draws `count` items, possibly with repetitions; all items once if `count` is their number.
pub(crate) fn some_of<T: Copy>(rng: &mut SmallRng, all: &[T], count: usize) -> Vec<T> {
    if count == all.len() { all.to_vec() } else { (0..count).map(|_| all[rng.random_range(0..all.len())]).collect() }
}
