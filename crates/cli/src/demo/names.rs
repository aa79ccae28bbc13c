//! The locks and the clients of the demo.

/// The locks of the clients. The locks in the README stay free for readers who try it.
pub(super) const LOCKS: [&str; 2] = ["report", "printer"];
/// The clients.
pub(super) const CLIENTS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
