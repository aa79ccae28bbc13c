//! The history over all locks.

use crate::{
    client::Client,
    error::Error,
    views::read_options::ReadOptions,
    wire::{
        call::Call,
        url::{encode, page, with_query},
    },
};
use fairhold_types::dto;
use futures_util::future::BoxFuture;
use reqwest::Method;

/// A query of the histories of all locks: `.await` it to read all holds that match.
#[derive(Debug, Clone)]
#[must_use = "holds are listed when this is awaited"]
pub struct Histories {
    client: Client,
    options: ReadOptions,
    query: Vec<String>,
}

impl Histories {
    pub(super) fn new(client: Client, options: ReadOptions) -> Histories {
        Histories { client, options, query: Vec::new() }
    }

    fn with(mut self, name: &str, value: &str) -> Histories {
        self.query.push(format!("{name}={}", encode(value)));
        self
    }

    fn path(&self) -> String {
        self.query.iter().fold("/v1/history".to_owned(), |path, pair| with_query(&path, pair))
    }

    /// Only the holders at this revision or time (`2026-11-21T14:03:27Z`). You cannot combine it with `from` or `to`.
    pub fn at(self, moment: &str) -> Histories {
        self.with("at", moment)
    }

    /// Only holds that ended after this revision or time, or have not ended.
    pub fn from(self, moment: &str) -> Histories {
        self.with("from", moment)
    }

    /// Only holds that began before this revision or time.
    pub fn to(self, moment: &str) -> Histories {
        self.with("to", moment)
    }

    /// Only holds of this owner.
    pub fn owner(self, owner: &str) -> Histories {
        self.with("owner", owner)
    }

    /// Only locks whose names start with this prefix.
    pub fn prefix(self, prefix: &str) -> Histories {
        self.with("prefix", prefix)
    }

    /// Only holds that ended in this way: `released`, `expired`, `broken`, `withdrawn`, `upgraded` or `downgraded`.
    pub fn ended(self, how: &str) -> Histories {
        self.with("ended", how)
    }

    /// Reads one page of at most `limit` holds (1 to 1,000), and how far back the kept histories go. `cursor` continues after
    /// an earlier page. A page can be short or empty without being the last.
    ///
    /// # Errors
    /// [`Error::Refused`] if a moment or a filter is not valid; [`Error::Unavailable`] if no answer came within the
    /// client's timeout.
    pub async fn page(self, limit: usize, cursor: Option<&str>) -> Result<dto::LockHistories, Error> {
        let call = Call::new(Method::GET, page(&self.path(), limit, cursor));
        self.client.send(&self.options.apply(call)).await?.json()
    }
}

impl IntoFuture for Histories {
    type Output = Result<Vec<dto::Holding>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.pages(&self.path(), self.options).await })
    }
}
