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

use crate::{client::SimClient, trade::Trade};

/// Works until its rounds are done.
pub(crate) async fn work(trade: Trade, client: SimClient, rounds: u32) {
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
