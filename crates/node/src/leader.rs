//! What only the leader does: it keeps the deadlines, answers keepalives, and ends what has passed its deadline.

mod bounded_holds;
pub(crate) mod clock;
mod deadlines;
pub(crate) mod heard;
mod idle_locks;
pub(crate) mod keepalive;
mod revision_clock;
mod scheduled;
mod session_deadlines;
mod sweeps;
mod timers;
