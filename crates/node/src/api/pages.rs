//! Pages of listings.

use fairhold_state::owned::OwnedKey;
use fairhold_types::{
    Path,
    limits::{PAGE_DEFAULT, PAGE_MAX},
};

/// A request for a page of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageQuery<K> {
    /// The page begins after this entry; `None` means at the first one.
    pub after: Option<K>,
    /// The maximum number of entries, 1 to `PAGE_MAX`.
    pub limit: usize,
}

impl<K> PageQuery<K> {
    /// The first page, of the default size.
    #[must_use]
    pub fn first() -> PageQuery<K> {
        PageQuery { after: None, limit: PAGE_DEFAULT }
    }

    /// The page of these entries, and whether more entries follow.
    pub(crate) fn collect<T>(&self, entries: impl Iterator<Item = T>) -> (Vec<T>, bool) {
        let limit = self.limit.clamp(1, PAGE_MAX);
        // Reads one extra entry, to learn whether another page follows.
        let mut page: Vec<T> = entries.take(limit + 1).collect();
        let has_more = page.len() > limit;
        page.truncate(limit);
        (page, has_more)
    }
}

/// A position in what a session owns: a page shows both its grants and its nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnedAfter {
    /// The position among its grants.
    pub grant: Option<OwnedKey>,
    /// The position among its ephemeral nodes.
    pub node: Option<Path>,
}
