//! The kinds of clients.

mod administrator;
mod asker;
mod batcher;
mod candidate;
mod chain;
mod converter;
mod gardener;
mod grip;
mod hoarder;
mod locker;
mod owner;
mod several;
mod stranger;
mod visitor;
mod watcher;
mod writer;

use crate::client::Client;

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

/// Works until its rounds are done.
pub(crate) async fn work(trade: Trade, client: Client, rounds: u32) {
    match trade {
        Trade::Locker | Trade::Reader | Trade::Permits => locker::work(trade, client, rounds).await,
        Trade::Owner => owner::work(client, rounds).await,
        Trade::Writer => writer::work(client, rounds).await,
        Trade::Watcher => watcher::work(client, rounds).await,
        Trade::Converter => converter::work(client, rounds).await,
        Trade::Batcher => batcher::work(client, rounds).await,
        Trade::Several => several::work(client, rounds).await,
        Trade::Administrator => administrator::work(client, rounds).await,
        Trade::Candidate => candidate::work(client, rounds).await,
        Trade::Asker => asker::work(client, rounds).await,
        Trade::Chain => chain::work(client, rounds).await,
        Trade::Gardener => gardener::work(client, rounds).await,
        Trade::Visitor => visitor::work(client, rounds).await,
        Trade::Stranger => stranger::work(client, rounds).await,
        Trade::Hoarder => hoarder::work(client, rounds).await,
    }
}
