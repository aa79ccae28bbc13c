//! Locks and sessions that this program holds: guards, leases, and the watch that reports their end.

pub(crate) mod guard;
pub(crate) mod hold_state;
pub(crate) mod lease;
pub(crate) mod session;
pub(crate) mod session_watch;
pub(crate) mod upgrade;
