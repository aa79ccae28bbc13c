//! Where a waiting grant stands.

use fairhold_types::dto::{Contender, Grant};

/// A place in a lock's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePlace {
    /// Those ahead, holders counted, and 1.
    pub position: u64,
    /// The one that it waits for: whose leaving makes it the holder.
    pub waits_for: Option<Contender>,
}

impl QueuePlace {
    /// The place of a grant that waits.
    pub(crate) fn of(grant: Grant) -> Option<QueuePlace> {
        grant.position.map(|position| QueuePlace { position, waits_for: grant.waits_for })
    }
}
