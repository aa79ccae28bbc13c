//! What answers the messages of other nodes that Raft does not interpret.

use fairhold_types::NodeId;
use futures_util::future::BoxFuture;

/// Handles the messages that other nodes send to the leader.
pub trait LeaderHandler: Send + Sync + 'static {
    /// Answers one message. Called on the node that leads, as far as it knows.
    fn handle(&self, request: Vec<u8>, from: NodeId) -> BoxFuture<'static, Vec<u8>>;
}

/// Handles the messages that other nodes send to this one, whether it leads or not.
pub trait MemberHandler: Send + Sync + 'static {
    /// Answers one message, from memory.
    fn handle(&self, request: &[u8], from: NodeId) -> Vec<u8>;
}
