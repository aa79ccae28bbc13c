//! Messages to one member, whether it leads or not. Raft does not interpret them.

use crate::{
    base::wire::{PeerReply, PeerRequest},
    core::handlers::MemberHandler,
    replica::Replica,
};
use fairhold_types::NodeId;
use openraft::AsyncRuntime;
use std::sync::Arc;

impl<RT: AsyncRuntime> Replica<RT> {
    /// Handles the messages that other nodes send to this one from now on; `false` if a handler is already set.
    pub fn set_member_handler(&self, member_handler: Arc<dyn MemberHandler>) -> bool {
        self.core.member_handler.set(member_handler).is_ok()
    }

    /// Sends a message to another member, and waits for its answer. `None` if it is no member, or does not answer in time.
    /// Call this from cluster version 2 on: an older program does not know such messages, and logs a warning each time.
    pub async fn call_member(&self, member: NodeId, message: Vec<u8>, deadline: RT::Instant) -> Option<Vec<u8>> {
        let known = self.core.with_server_metrics(|metrics| metrics.membership_config.get_node(&member).cloned())?;
        let target = self.core.addresses.target(member, &known);
        match RT::timeout_at(deadline, self.core.call(&target, &PeerRequest::CallMember(message))).await {
            Ok(Ok(PeerReply::MemberReply(answer))) => Some(answer),
            Ok(Ok(_) | Err(_)) | Err(_) => None,
        }
    }
}
