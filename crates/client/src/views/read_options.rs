//! Read options, and listings that come in pages.

use crate::{
    client::Client,
    error::Error,
    wire::{
        call::Call,
        url::{PAGE, encode, page, with_query},
    },
};
use fairhold_types::{Revision, dto};
use futures_util::future::BoxFuture;
use reqwest::Method;
use serde::de::DeserializeOwned;

/// How fresh an answer must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadOptions {
    /// The node may answer without the leader.
    pub(crate) local: bool,
    /// The answer must show at least this revision.
    pub(crate) min_revision: Option<Revision>,
}

impl ReadOptions {
    /// Adds the options to a call.
    pub(crate) fn apply(self, mut call: Call) -> Call {
        if self.local {
            call.path = with_query(&call.path, "consistency=local");
        }
        match self.min_revision {
            Some(Revision(revision)) => call.header("fairhold-min-revision", revision.to_string()),
            None => call,
        }
    }
}

/// Methods that set the read options of a handle with a field `options`.
macro_rules! freshness {
    ($handle:ident) => {
        impl $handle {
            /// Reads the node's own state without the leader: faster, but it may be slightly out of date.
            #[must_use]
            pub fn local(mut self) -> $handle {
                self.options.local = true;
                self
            }

            /// Waits until the node has this revision before it reads: read your own writes, from any node.
            #[must_use]
            pub fn at_least(mut self, revision: fairhold_types::Revision) -> $handle {
                self.options.min_revision = Some(revision);
                self
            }
        }
    };
}
pub(crate) use freshness;

/// A listing that comes in pages, with its filters.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    client: Client,
    options: ReadOptions,
    path: String,
}

impl Listing {
    /// The whole listing at this path.
    pub(crate) fn new(client: &Client, options: ReadOptions, path: &str) -> Listing {
        Listing { client: client.clone(), options, path: path.to_owned() }
    }

    /// Adds a filter.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Listing {
        self.path = with_query(&self.path, &format!("{name}={}", encode(value)));
        self
    }

    /// Reads one page of at most `limit` entries, from a cursor on.
    pub(crate) async fn page<T: DeserializeOwned>(self, limit: usize, cursor: Option<&str>) -> Result<T, Error> {
        let call = Call::new(Method::GET, page(&self.path, limit, cursor));
        self.client.send(&self.options.apply(call)).await?.json()
    }

    /// Reads all pages.
    pub(crate) fn all<T: DeserializeOwned + Send + 'static>(self) -> BoxFuture<'static, Result<Vec<T>, Error>> {
        Box::pin(async move { self.client.pages(&self.path, self.options).await })
    }
}

impl Client {
    /// Reads a whole listing, page by page.
    pub(crate) async fn pages<T: DeserializeOwned>(&self, path: &str, options: ReadOptions) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        let take = |page: dto::Page<T>| {
            all.extend(page.items);
            page.next_cursor
        };
        self.follow(path, options, None, take).await?;
        Ok(all)
    }

    /// Reads an answer page by page, from a cursor on. `take` takes each page and returns the cursor of the next one.
    pub(crate) async fn follow<T: DeserializeOwned>(
        &self,
        path: &str,
        options: ReadOptions,
        cursor: Option<String>,
        mut take: impl FnMut(T) -> Option<String>,
    ) -> Result<(), Error> {
        let mut next = page(path, PAGE, cursor.as_deref());
        loop {
            let read: T = self.send(&options.apply(Call::new(Method::GET, next))).await?.json()?;
            match take(read) {
                Some(cursor) => next = page(path, PAGE, Some(&cursor)),
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::Method;
    use std::borrow::Cow;

    #[test]
    fn read_options_become_a_query_and_a_header() {
        let of =
            |path: &str, local, min_revision| ReadOptions { local, min_revision }.apply(Call::new(Method::GET, path.to_owned()));
        assert_eq!(of("/v1/locks", false, None).path, "/v1/locks");
        assert_eq!(of("/v1/locks", true, None).path, "/v1/locks?consistency=local");
        let call = of("/v1/locks?limit=2", true, Some(Revision(42)));
        assert_eq!(call.path, "/v1/locks?limit=2&consistency=local");
        assert_eq!(call.headers, [(Cow::Borrowed("fairhold-min-revision"), "42".to_owned())]);
    }
}
