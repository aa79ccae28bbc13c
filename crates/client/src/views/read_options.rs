//! Reads: how fresh they have to be and were, and listings that come in pages.

use crate::{
    client::Client,
    error::Error,
    wire::{
        call::Call,
        url::{PAGE, page, with_query},
    },
};
use fairhold_types::{Revision, dto};
use reqwest::Method;
use serde::de::DeserializeOwned;

/// How fresh the answers of a handle are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadOptions {
    /// Without asking the leader.
    pub(crate) local: bool,
    /// With this revision at least.
    pub(crate) least: Option<Revision>,
}

impl ReadOptions {
    /// Adds it to a read.
    pub(crate) fn of(self, mut call: Call) -> Call {
        if self.local {
            call.path = with_query(&call.path, "consistency=local");
        }
        match self.least {
            Some(Revision(revision)) => call.header("fairhold-min-revision", revision.to_string()),
            None => call,
        }
    }
}

/// How fresh the reads of a handle are to be, which has a field `reading`.
macro_rules! freshness {
    ($handle:ident) => {
        impl $handle {
            /// Takes what a node has, without asking the leader: faster, and it may be a little old.
            #[must_use]
            pub fn local(mut self) -> $handle {
                self.reading.local = true;
                self
            }

            /// Reads once the node that answers has this revision: read your own writes, from any node.
            #[must_use]
            pub fn at_least(mut self, revision: fairhold_types::Revision) -> $handle {
                self.reading.least = Some(revision);
                self
            }
        }
    };
}
pub(crate) use freshness;

impl Client {
    /// All of a listing, page after page.
    pub(crate) async fn pages<T: DeserializeOwned>(&self, path: &str, reading: ReadOptions) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        let take = |page: dto::Page<T>| {
            all.extend(page.items);
            page.next_cursor
        };
        self.follow(path, reading, None, take).await?;
        Ok(all)
    }

    /// Page after page of an answer that comes in pages, from a cursor on. `take` has each, and says where the next one begins.
    pub(crate) async fn follow<T: DeserializeOwned>(
        &self,
        path: &str,
        reading: ReadOptions,
        cursor: Option<String>,
        mut take: impl FnMut(T) -> Option<String>,
    ) -> Result<(), Error> {
        let mut next = page(path, PAGE, cursor.as_deref());
        loop {
            let read: T = self.send(&reading.of(Call::new(Method::GET, next))).await?.json()?;
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
    fn what_is_asked_of_a_read_stands_in_its_query_and_a_header() {
        let of = |path: &str, local, least| ReadOptions { local, least }.of(Call::new(Method::GET, path.to_owned()));
        assert_eq!(of("/v1/locks", false, None).path, "/v1/locks");
        assert_eq!(of("/v1/locks", true, None).path, "/v1/locks?consistency=local");
        let call = of("/v1/locks?limit=2", true, Some(Revision(42)));
        assert_eq!(call.path, "/v1/locks?limit=2&consistency=local");
        assert_eq!(call.headers, [(Cow::Borrowed("fairhold-min-revision"), "42".to_owned())]);
    }
}
