//! What a watch tells.

use fairhold_types::{Revision, watch::WatchLine};

/// What a watch tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchEvent {
    /// Something happened; or, right after the beginning of a watch with [`initial`](Watch::initial), is there.
    Change(WatchLine),
    /// All up to this revision was told. The first one ends what was there at the beginning.
    Bookmark(Revision),
    /// What was told of the beginning counts no more: it is told once more from its first line, because the node that told it is
    /// gone. Only before the first bookmark.
    Restarted,
    /// **Something was not told**: no node keeps it any more. What was concluded from this watch may be wrong; read it anew. The
    /// watch goes on: with what is there, where it began so, else with the changes of this revision.
    Compacted {
        /// The first revision that is told again.
        oldest: Revision,
    },
}
