//! Where a waiting grant stands.

use fairhold_types::{
    dto::{Contender, Grant},
    duration,
};
use std::time::Duration;

/// A place in a lock's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePlace {
    /// Its position: the number of grants ahead, including holders, plus 1.
    pub position: u64,
    /// The one that it waits for: whose leaving makes it the holder.
    pub waits_for: Option<Contender>,
    /// The first of those ahead, in order, holders first.
    pub ahead: Vec<Contender>,
    /// How long it may wait yet, as the server guesses by how long others held of late; none where nobody held it before.
    pub estimate: Option<Duration>,
}

impl QueuePlace {
    /// The place of a grant that waits.
    pub(crate) fn of(grant: Grant) -> Option<QueuePlace> {
        let estimate = grant.estimate.and_then(|text| duration::parse(&text).ok());
        grant.position.map(|position| QueuePlace { position, waits_for: grant.waits_for, ahead: grant.ahead, estimate })
    }
}

/// Called with each new place in the queue.
pub(crate) type OnQueue = Box<dyn FnMut(&QueuePlace) + Send>;
