//! Machines that run with another disk than their own.

use super::World;
use crate::{conditions::Flushes, disk::Disk};
use fairhold_types::{Incarnation, NodeId};
use rand::RngExt;
use std::time::Duration;

/// The flush times of an empty disk.
const EMPTY_DISK_FLUSHES: Flushes = Flushes { at_least: Duration::ZERO, micros: 1_500 };

impl World {
    /// Restarts a machine with an empty disk, as if it had lost a volume. Its node must be refused. Returns whether it
    /// had its own disk before.
    pub(crate) fn replace_disk_with_empty(&self, id: NodeId) -> bool {
        self.crash(id);
        let mut inner = self.locked();
        let seed = inner.rng.random();
        let Some(slot) = inner.slots.get_mut(&id).filter(|slot| slot.own.is_none()) else { return false };
        let incarnation = Incarnation(slot.disk.incarnation.0 + 1);
        let empty = Disk::new(incarnation, EMPTY_DISK_FLUSHES, seed, self.coverage.clone());
        slot.own = Some(std::mem::replace(&mut slot.disk, empty));
        drop(inner);
        self.start(id);
        true
    }

    /// Restarts a machine with a backup of its disk, as if an operator restored an old copy of the data directory.
    pub(crate) fn replace_disk_with_backup(&self, id: NodeId, backup: Disk) {
        self.crash(id);
        let mut inner = self.locked();
        if let Some(slot) = inner.slots.get_mut(&id).filter(|slot| slot.own.is_none()) {
            slot.own = Some(std::mem::replace(&mut slot.disk, backup));
            slot.is_backup = true;
        }
        drop(inner);
        self.start(id);
    }

    /// A machine that runs with a backup of its disk keeps it: this is its own disk from now on.
    pub(crate) fn keep_backup(&self, id: NodeId) {
        if let Some(slot) = self.locked().slots.get_mut(&id).filter(|slot| slot.is_backup) {
            slot.own = None;
            slot.is_backup = false;
        }
    }

    /// Restarts a machine with its own disk, if another one replaces it.
    pub(crate) fn restore_disk(&self, id: NodeId) {
        if self.locked().slots.get(&id).is_none_or(|slot| slot.own.is_none()) {
            return;
        }
        self.crash(id);
        let mut inner = self.locked();
        if let Some(slot) = inner.slots.get_mut(&id)
            && let Some(own) = slot.own.take()
        {
            slot.disk = own;
            slot.is_backup = false;
        }
        drop(inner);
        self.start(id);
    }

    /// The disk of a machine.
    pub(crate) fn disk(&self, id: NodeId) -> Option<Disk> {
        self.locked().slots.get(&id).map(|slot| slot.disk.clone())
    }

    pub(super) fn has_own_disk(&self, id: NodeId) -> bool {
        self.locked().slots.get(&id).is_some_and(super::slot::Slot::has_own_disk)
    }

    pub(super) fn has_backup(&self, id: NodeId) -> bool {
        self.locked().slots.get(&id).is_some_and(|slot| slot.is_backup)
    }
}
