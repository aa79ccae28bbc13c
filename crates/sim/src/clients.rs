//! The kinds of clients.

mod access_administrator;
mod administrator;
mod async_acquirer;
mod batcher;
mod candidate;
mod converter;
mod disconnecter;
mod held_grant;
mod hoarder;
mod inspector;
mod locker;
mod multi_lock;
mod operator;
mod owner;
mod sequencer;
mod transactor;
mod upgrader;
mod user_acts;
mod watcher;
mod writer;

use crate::{client::SimClient, client_kind::ClientKind};

/// Runs a client for its rounds.
pub(crate) async fn work(kind: ClientKind, client: SimClient, rounds: u32) {
    match kind {
        ClientKind::Locker | ClientKind::Reader | ClientKind::Permits => locker::work(kind, client, rounds).await,
        ClientKind::Owner => owner::work(client, rounds).await,
        ClientKind::Writer => writer::work(client, rounds).await,
        ClientKind::Watcher => watcher::work(client, rounds).await,
        ClientKind::Converter => converter::work(client, rounds).await,
        ClientKind::Batcher => batcher::work(client, rounds).await,
        ClientKind::MultiLock => multi_lock::work(client, rounds).await,
        ClientKind::Administrator => administrator::work(client, rounds).await,
        ClientKind::Candidate => candidate::work(client, rounds).await,
        ClientKind::AsyncAcquirer => async_acquirer::work(client, rounds).await,
        ClientKind::Transactor => transactor::work(client, rounds).await,
        ClientKind::Sequencer => sequencer::work(client, rounds).await,
        ClientKind::Inspector => inspector::work(client, rounds).await,
        ClientKind::Disconnecter => disconnecter::work(client, rounds).await,
        ClientKind::Hoarder => hoarder::work(client, rounds).await,
        ClientKind::Upgrader => upgrader::work(client).await,
        ClientKind::Operator => operator::work(client, rounds).await,
        ClientKind::AccessAdministrator => access_administrator::work(client, rounds).await,
    }
}
