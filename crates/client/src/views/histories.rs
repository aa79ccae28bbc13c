//! The history over all locks.

use crate::{
    client::Client,
    error::Error,
    views::read_options::{Listing, ReadOptions},
};
use fairhold_types::dto;
use futures_util::future::BoxFuture;

/// A query of the histories of all locks: `.await` it to read all holds that match.
#[derive(Debug, Clone)]
#[must_use = "holds are listed when this is awaited"]
pub struct Histories(Listing);

impl Histories {
    pub(super) fn new(client: &Client, options: ReadOptions) -> Histories {
        Histories(Listing::new(client, options, "/v1/history"))
    }

    /// Only the holders at this revision or time (`2026-11-21T14:03:27Z`). You cannot combine it with `from` or `to`.
    pub fn at(self, moment: &str) -> Histories {
        Histories(self.0.with("at", moment))
    }

    /// Only holds that ended after this revision or time, or have not ended.
    pub fn from(self, moment: &str) -> Histories {
        Histories(self.0.with("from", moment))
    }

    /// Only holds that began before this revision or time.
    pub fn to(self, moment: &str) -> Histories {
        Histories(self.0.with("to", moment))
    }

    /// Only holds of this owner.
    pub fn owner(self, owner: &str) -> Histories {
        Histories(self.0.with("owner", owner))
    }

    /// Only locks whose names start with this prefix.
    pub fn prefix(self, prefix: &str) -> Histories {
        Histories(self.0.with("prefix", prefix))
    }

    /// Only holds that ended in this way: `released`, `expired`, `broken`, `withdrawn`, `upgraded` or `downgraded`.
    pub fn ended(self, how: &str) -> Histories {
        Histories(self.0.with("ended", how))
    }

    /// Reads one page of at most `limit` holds (1 to 1,000), and how far back the kept histories go. `cursor` continues after
    /// an earlier page. A page can be short or empty without being the last.
    ///
    /// # Errors
    /// [`Error::Refused`] if a moment or a filter is not valid; [`Error::Unavailable`] if no answer came within the
    /// client's timeout.
    pub async fn page(self, limit: usize, cursor: Option<&str>) -> Result<dto::LockHistories, Error> {
        self.0.page(limit, cursor).await
    }
}

impl IntoFuture for Histories {
    type Output = Result<Vec<dto::Holding>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.0.all()
    }
}
