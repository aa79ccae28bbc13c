//! The place of a waiting grant in its queue.

use fairhold_types::{
    dto::{Contender, Grant},
    duration,
};
use std::time::Duration;

/// A place in a lock's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePlace {
    /// The number of grants ahead, including holders, plus 1.
    pub position: u64,
    /// The grant that this one waits for: when it leaves, this one is granted.
    pub waits_for: Option<Contender>,
    /// The first grants ahead, in order, holders first.
    pub ahead: Vec<Contender>,
    /// The server's estimate of the remaining wait, from how long others held the lock recently. `None` if nobody has
    /// held it before, or if the holder exceeds its usual time.
    pub estimate: Option<Duration>,
}

impl QueuePlace {
    /// The place of a waiting grant.
    pub(crate) fn of(grant: Grant) -> Option<QueuePlace> {
        let estimate = grant.estimate.and_then(|text| duration::parse(&text).ok());
        grant.position.map(|position| QueuePlace { position, waits_for: grant.waits_for, ahead: grant.ahead, estimate })
    }
}

/// Called with each new place in the queue.
pub(super) type OnQueue = Box<dyn FnMut(&QueuePlace) + Send>;
