//! What programs build of locks and nodes again and again, built once: barriers, latches, queues, counters, groups, and `once`.
//!
//! Each lives in the tree under a name of its kind, so that people can look at it and put it right: `fairhold node ls /latches`.
//! All of them wait for events, and none of them polls. A name is one level, or several with a `/` in between.

mod barrier;
mod counter;
mod fair_queue;
mod group;
mod latch;
mod once;
mod tree;

pub use barrier::{Barrier, DoubleBarrier, Inside};
pub use counter::Counter;
pub use fair_queue::FairQueue;
pub use group::{Group, GroupMember, Membership};
pub use latch::Latch;
pub use once::{Claimed, Once};

use crate::client::Client;

impl Client {
    /// A barrier: tasks that arrive wait while it is up.
    #[must_use]
    pub fn barrier(&self, name: &str) -> Barrier {
        Barrier::new(self.clone(), name)
    }

    /// A double barrier: so many begin together, and end together.
    #[must_use]
    pub fn double_barrier(&self, name: &str, size: usize) -> DoubleBarrier {
        DoubleBarrier::new(self.clone(), name, size)
    }

    /// A count-down latch: tasks wait until it is counted down to 0.
    #[must_use]
    pub fn latch(&self, name: &str) -> Latch {
        Latch::new(self.clone(), name)
    }

    /// A queue of values: first in, first out, and the consumer that waits longest takes the next value.
    #[must_use]
    pub fn fair_queue(&self, name: &str) -> FairQueue {
        FairQueue::new(self.clone(), name)
    }

    /// A number that many add to.
    #[must_use]
    pub fn counter(&self, name: &str) -> Counter {
        Counter::new(self.clone(), name)
    }

    /// A group of programs that are alive, each with a value.
    #[must_use]
    pub fn group(&self, name: &str) -> Group {
        Group::new(self.clone(), name)
    }

    /// Something that is to be done once, by exactly one of all who try.
    #[must_use]
    pub fn once(&self, key: &str) -> Once {
        Once::new(self.clone(), key)
    }
}
