//! The kinds of clients.

mod locker;
mod owner;
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
}

/// Works until its rounds are done.
pub(crate) async fn work(trade: Trade, client: Client, rounds: u32) {
    match trade {
        Trade::Locker | Trade::Reader | Trade::Permits => locker::work(trade, client, rounds).await,
        Trade::Owner => owner::work(client, rounds).await,
        Trade::Writer => writer::work(client, rounds).await,
        Trade::Watcher => watcher::work(client, rounds).await,
    }
}
