//! Read barriers: a read waits for one, and then for the state here to catch up with it.

pub(crate) mod barrier;
pub(crate) mod queue;
