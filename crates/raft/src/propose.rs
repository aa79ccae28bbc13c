//! Commands on their way into the log: queued, gathered into batches, and handed to the leader.

pub(crate) mod batcher;
pub(crate) mod lanes;
pub(crate) mod linger;
pub(crate) mod priority;
pub(crate) mod queue;
pub(crate) mod times;
