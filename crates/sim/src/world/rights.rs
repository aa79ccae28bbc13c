//! What the nodes know of the users' rights.

use super::World;
use crate::{access_user, facts::Fact};
use fairhold_types::{NodeId, Revision};

impl World {
    /// Reports what a node decides about the rights of the users.
    pub(crate) fn report_decisions(&self, id: NodeId) {
        let Some(running) = self.running(id) else { return };
        let access = running.node.access().revision();
        let decisions = access_user::decisions(|principal| running.node.rights_of(principal));
        self.oracle.observe(&Fact::Decided { node: id, access, decisions });
    }

    /// The life of a node that knows that rights are enforced, and the revision of its access data; `None` if it does not
    /// know.
    pub(crate) fn enforcing(&self, id: NodeId) -> Option<(u64, Revision)> {
        let access = self.running(id)?.node.access();
        access.is_on().then(|| (self.lives(id), access.revision()))
    }
}
