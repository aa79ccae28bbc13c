//! The list of grants over all locks.

use crate::{
    client::Client,
    error::Error,
    views::read_options::{Listing, ReadOptions},
};
use fairhold_types::{SessionNumber, dto};
use futures_util::future::BoxFuture;

/// A listing of grants over all locks: `.await` it to read all that match.
#[derive(Debug, Clone)]
#[must_use = "grants are listed when this is awaited"]
pub struct Grants(Listing);

impl Grants {
    pub(super) fn new(client: &Client, options: ReadOptions) -> Grants {
        Grants(Listing::new(client, options, "/v1/grants"))
    }

    /// Only grants of this owner.
    pub fn owner(self, owner: &str) -> Grants {
        Grants(self.0.with("owner", owner))
    }

    /// Only grants of this session. A grant that is cooling no longer belongs to its session.
    pub fn session(self, number: SessionNumber) -> Grants {
        Grants(self.0.with("session", &number.to_string()))
    }

    /// Only locks whose names start with this prefix.
    pub fn prefix(self, prefix: &str) -> Grants {
        Grants(self.0.with("prefix", prefix))
    }

    /// Only grants in this state: `queued`, `held` or `cooling`.
    pub fn state(self, state: &str) -> Grants {
        Grants(self.0.with("state", state))
    }

    /// Sorts them: `since`, the grants that queued first come first, is the default; `lock` sorts by the names of their locks,
    /// those of one lock in the order of its queue.
    pub fn sort(self, order: &str) -> Grants {
        Grants(self.0.with("sort", order))
    }

    /// Reads one page of at most `limit` entries (1 to 1,000). `cursor` continues after an earlier page. A page can be short or
    /// empty without being the last.
    ///
    /// # Errors
    /// [`Error::Refused`] if a filter, the order, the limit or the cursor is not valid; [`Error::Unavailable`] if no answer came
    /// within the client's timeout.
    pub async fn page(self, limit: usize, cursor: Option<&str>) -> Result<dto::Page<dto::ListedGrant>, Error> {
        self.0.page(limit, cursor).await
    }
}

impl IntoFuture for Grants {
    type Output = Result<Vec<dto::ListedGrant>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.0.all()
    }
}
