//! The locks and the clients of the demo.

/// The locks that the clients want. Those of the README stay free for whoever tries it.
pub(super) const LOCKS: [&str; 2] = ["report", "printer"];
/// The clients.
pub(super) const CLIENTS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
