//! A point in the history of a lock.

use fairhold_types::{Revision, time::WallMillis};
use serde::{Deserialize, Serialize};

/// A point in the history. The revision decides; the time is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The revision.
    pub revision: Revision,
    /// The time in the command, by the clock of the node that made it.
    pub at: WallMillis,
}
