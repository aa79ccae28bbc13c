//! Read barriers: a read waits for one, and then for the local state to catch up with it.

pub(crate) mod barrier;
pub(crate) mod queue;
