//! Recipes: barriers, latches, queues, counters, groups and `once`, built from locks and nodes.
//!
//! Each recipe keeps its state in the tree, under a name of its kind, so that people can inspect and repair it:
//! `fairhold node ls /latches`. All of them wait for events; none of them polls. A name is one segment, or several with
//! a `/` between them.

mod barrier;
mod counter;
mod fair_queue;
mod group;
mod latch;
mod once;
mod tree;

pub use barrier::{Barrier, DoubleBarrier, Inside};
pub use counter::SharedCounter;
pub use fair_queue::FairQueue;
pub use group::{Group, GroupMember, Membership};
pub use latch::Latch;
pub use once::{Claimed, Once};

use crate::client::Client;

impl Client {
    /// A barrier: tasks wait while it is up.
    #[must_use]
    pub fn barrier(&self, name: &str) -> Barrier {
        Barrier::new(self.clone(), name)
    }

    /// A double barrier: `size` parties start together and end together.
    #[must_use]
    pub fn double_barrier(&self, name: &str, size: usize) -> DoubleBarrier {
        DoubleBarrier::new(self.clone(), name, size)
    }

    /// A count-down latch: tasks wait until its count is 0.
    #[must_use]
    pub fn latch(&self, name: &str) -> Latch {
        Latch::new(self.clone(), name)
    }

    /// A queue of values: first in, first out, and the consumer that waits longest takes the next value.
    #[must_use]
    pub fn fair_queue(&self, name: &str) -> FairQueue {
        FairQueue::new(self.clone(), name)
    }

    /// A shared counter.
    #[must_use]
    pub fn counter(&self, name: &str) -> SharedCounter {
        SharedCounter::new(self.clone(), name)
    }

    /// A group of live programs, each with a value.
    #[must_use]
    pub fn group(&self, name: &str) -> Group {
        Group::new(self.clone(), name)
    }

    /// Work that exactly one of many programs does, once.
    #[must_use]
    pub fn once(&self, key: &str) -> Once {
        Once::new(self.clone(), key)
    }
}
