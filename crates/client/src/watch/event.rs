//! The events of a watch.

use fairhold_types::{Revision, watch::WatchLine};

/// An event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchEvent {
    /// Something changed; or, at the start of a watch with [`initial`](crate::Watch::initial), something exists.
    Change(WatchLine),
    /// The watch has reported everything up to this revision. The first bookmark ends the initial part.
    Bookmark(Revision),
    /// Discard everything that the initial part has reported so far: the watch starts it again, because the node is
    /// gone. This happens only before the first bookmark.
    Restarted,
    /// **The watch missed events**: no node keeps them any more. Conclusions from this watch may be wrong, so read the
    /// state again. The watch continues: with everything that exists if it started so, or else with the changes of this
    /// revision.
    Compacted {
        /// The first revision that the watch reports again.
        oldest: Revision,
    },
}
