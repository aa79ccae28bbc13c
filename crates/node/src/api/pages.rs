//! Which part of a listing is asked for.

use fairhold_state::owned::OwnedKey;
use fairhold_types::{
    Path,
    limits::{PAGE_DEFAULT, PAGE_MAX},
};

/// A page of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageQuery<K> {
    /// It begins behind this place; at the beginning where there is none.
    pub after: Option<K>,
    /// How many entries it has at most: 1 to `PAGE_MAX`.
    pub limit: usize,
}

impl<K> PageQuery<K> {
    /// As much of it as a caller is shown who names no page.
    #[must_use]
    pub fn first() -> PageQuery<K> {
        PageQuery { after: None, limit: PAGE_DEFAULT }
    }

    /// The page of what follows its place, and whether more does.
    pub(crate) fn cut<T>(&self, entries: impl Iterator<Item = T>) -> (Vec<T>, bool) {
        let limit = self.limit.clamp(1, PAGE_MAX);
        // One more than the page has tells whether there is a next one.
        let mut page: Vec<T> = entries.take(limit + 1).collect();
        let has_more = page.len() > limit;
        page.truncate(limit);
        (page, has_more)
    }
}

/// A place among what a session owns: one page shows its grants and its nodes beside each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnedAfter {
    /// Among its grants.
    pub grant: Option<OwnedKey>,
    /// Among its ephemeral nodes.
    pub node: Option<Path>,
}
