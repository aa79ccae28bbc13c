//! Whether Raft still works on messages, and how far it is: each without the whole status, which copies much.

use crate::replica::Replica;
use fairhold_types::{NodeId, Revision};
use openraft::AsyncRuntime;

impl<RT: AsyncRuntime> Replica<RT> {
    /// The number of this node.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.core.id
    }

    /// Waits until the task of Raft has handled a message of this call; `false` if Raft has stopped. It needs neither a
    /// leader nor a quorum. It does not return while the task, or its thread, is stuck.
    pub async fn handles_messages(&self) -> bool {
        self.core.raft.with_raft_state(|_| ()).await.is_ok()
    }

    /// The last applied log entry, and the revision of the state after it.
    #[must_use]
    pub fn applied(&self) -> (Option<u64>, Revision) {
        let progress = self.core.shared.progress.get();
        (progress.applied, progress.revision)
    }
}
