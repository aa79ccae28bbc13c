//! Which other processes reach this node, and which ones it reaches.

use crate::core::Core;
use fairhold_types::NodeId;
use openraft::{AsyncRuntime, Instant};
use std::time::Duration;

impl<RT: AsyncRuntime> Core<RT> {
    /// Greets a member at its address, and remembers which process answers there: its boot number. `None` if none answers
    /// within this time, if another node does, or if its program is too old to tell.
    pub(crate) async fn learn_process(&self, id: NodeId, within: Duration) -> Option<u64> {
        let member = self.with_metrics(|metrics| metrics.membership_config.get_node(&id).cloned())?;
        let greeting = self.links.peer.greet(&self.addresses.target(id, &member));
        let introduction = RT::timeout(within, greeting).await.ok()?.ok()?;
        let is_member = introduction.id == id && introduction.incarnation == member.incarnation;
        let boot = Some(introduction.boot).filter(|boot| is_member && *boot != 0)?;
        self.processes.record(id, boot);
        Some(boot)
    }

    /// Whether another node that leads has sent this node a message within its lease.
    pub(crate) fn hears_from_leader(&self) -> bool {
        self.contact.has_live_leader(self.lease, RT::Instant::now())
    }
}
