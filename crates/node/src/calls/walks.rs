//! Long walks of calls: each waits for one of the node's slots, of which its caller may have half.

use crate::{
    api::{CallError, ReadOptions},
    base::walks::{Walk, WalkSlot, Walker},
    node::Node,
};
use fairhold_raft::error::NotProposed;
use openraft_rt::{AsyncRuntime, Instant};

impl<RT: AsyncRuntime> Node<RT> {
    /// A copy of the state, as fresh as required, for a walk over all of it. Waits for a free slot.
    pub(crate) async fn walk(&self, read: ReadOptions) -> Result<Walk, CallError> {
        let deadline = RT::Instant::now() + read.timeout;
        self.freshen_by(read.freshness, deadline).await?;
        let walk = RT::timeout_at(deadline, self.0.walks.begin(self.walker(), || self.0.replica.state())).await;
        walk.map_err(|_| CallError::Read(NotProposed::Overloaded.into()))
    }

    /// A slot for work that costs as much as a walk, but reads no copy of the state.
    pub(crate) async fn walk_slot(&self, deadline: RT::Instant) -> Result<WalkSlot, CallError> {
        let slot = RT::timeout_at(deadline, self.0.walks.slot(self.walker())).await;
        slot.map_err(|_| CallError::Read(NotProposed::Overloaded.into()))
    }

    /// The walker as which the caller's walks count. A caller without a credential counts by its address, because all such
    /// callers have the same principal.
    fn walker(&self) -> Walker {
        let Some(caller) = self.caller() else { return Walker::Node };
        match caller.network().filter(|_| caller.principal().is_anonymous()) {
            Some(network) => Walker::Network(network),
            None => Walker::Principal(caller.principal().clone()),
        }
    }
}
