//! The behaviour of a client in a scenario.

use rand::{RngExt, rngs::SmallRng};

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trade {
    /// Takes locks alone, waits, renews, writes with the fence, pauses, gives back.
    Locker,
    /// Takes a read/write lock, mostly to read.
    Reader,
    /// Takes permits of a semaphore.
    Permits,
    /// Opens sessions, keeps them alive, owns locks and ephemeral nodes by them, and sometimes just vanishes.
    Owner,
    /// Writes and reads nodes.
    Writer,
    /// Watches, through broken connections.
    Watcher,
    /// Changes the mode and the time to live of what it holds.
    Converter,
    /// Makes many calls in one request, some of them with one id.
    Batcher,
    /// Takes several locks in one step.
    Several,
    /// Sets limits, asks for locks, breaks them, ends sessions.
    Administrator,
    /// Stands for elections, proclaims, resigns.
    Candidate,
    /// Queues without an open request, and asks how its grant stands.
    Asker,
    /// Writes in transactions under two locks.
    Chain,
    /// Makes nodes with numbers in their names, lists them, removes them.
    Gardener,
    /// Looks at locks, queues, histories, sessions and nodes.
    Visitor,
    /// Lets servers choose the ids of its grants, and hangs up before it is told one.
    Stranger,
    /// Takes very many locks and nodes with one session, and ends it.
    Hoarder,
}

/// A client: what it does, how often, by which seed.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) trade: Trade,
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
}

/// So many of them, drawn: some may be the same.
pub(crate) fn some_of<T: Copy>(chance: &mut SmallRng, all: &[T], count: usize) -> Vec<T> {
    if count == all.len() { all.to_vec() } else { (0..count).map(|_| all[chance.random_range(0..all.len())]).collect() }
}
