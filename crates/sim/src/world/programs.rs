//! The programs of the machines: the older one, and the newer one that supports the next cluster version.

use super::World;
use crate::coverage::Probe;
use fairhold_types::{ClusterVersion, NodeId};

impl World {
    /// Restarts a machine with the other program. The older program is never installed again once a node has the next
    /// version. Returns whether the program changed.
    pub(crate) async fn change_program(&self, id: NodeId) -> bool {
        let Some(is_older) = self.locked().slots.get(&id).map(|slot| slot.is_older) else { return false };
        if !is_older && self.oracle.cluster_version() > ClusterVersion::FIRST {
            return false;
        }
        // An operator stops the node in good order, if it runs.
        self.stop(id).await;
        self.crash(id);
        self.locked().slots.entry(id).and_modify(|slot| slot.is_older = !is_older);
        true
    }

    /// Gives every machine the newer program, and restarts those that had the older one.
    pub(crate) fn upgrade_programs(&self) {
        for id in self.ids() {
            let was_older = self.locked().slots.get_mut(&id).is_some_and(|slot| std::mem::replace(&mut slot.is_older, false));
            if was_older {
                self.crash(id);
            }
        }
    }

    pub(super) fn is_older(&self, id: NodeId) -> bool {
        self.locked().slots.get(&id).is_some_and(|slot| slot.is_older)
    }

    /// The node of a machine with the older program has ended because the cluster was upgraded: its operator installs the
    /// newer one. Returns whether that was the reason.
    pub(super) fn replace_older_program(&self, id: NodeId) -> bool {
        let was_older = self.locked().slots.get_mut(&id).is_some_and(|slot| std::mem::replace(&mut slot.is_older, false));
        if was_older {
            self.coverage.probe(Probe::OlderProgramGone);
        }
        was_older
    }
}
