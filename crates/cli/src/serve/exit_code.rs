//! Which exit code `serve` ends with, by the reason.

use crate::exit::{CANNOT_TAKE_PART, FAILURE, USAGE};
use fairhold_raft::{
    FatalReason, FormationError, StartError,
    peer::{JoinRefusal, Refusal},
};
use fairhold_storage::{StorageError, data_dir::DataDirError};
use fairhold_types::NodeId;

pub(super) fn of_storage(error: &StorageError) -> u8 {
    match error {
        StorageError::DataDir(error) => of_data_dir(error),
        StorageError::Log(_) | StorageError::Snapshots(_) | StorageError::SnapshotLost { .. } => FAILURE,
    }
}

pub(super) fn of_data_dir(error: &DataDirError) -> u8 {
    match error {
        // It stays as it is until somebody restores it, or replaces the node.
        DataDirError::Removed { .. }
        | DataDirError::LostEntries { .. }
        | DataDirError::OtherCluster { .. }
        | DataDirError::NoIdentity { .. }
        | DataDirError::Damaged { .. } => CANNOT_TAKE_PART,
        DataDirError::OtherNode { .. } | DataDirError::NotJoined { .. } | DataDirError::NoCluster { .. } => USAGE,
        DataDirError::InUse { .. } | DataDirError::NotEmpty { .. } | DataDirError::NoNode { .. } | DataDirError::Io(_) => FAILURE,
    }
}

pub(super) fn of_start(error: &StartError) -> u8 {
    match error {
        StartError::Unsupported(_) => CANNOT_TAKE_PART,
        StartError::Formation(error) => of_formation(error),
        StartError::Snapshot(_)
        | StartError::Defects(_)
        | StartError::Config(_)
        | StartError::Log(_)
        | StartError::Inconsistent(_) => FAILURE,
    }
}

pub(super) fn of_stop(reason: &FatalReason) -> u8 {
    match reason {
        FatalReason::LostEntries(_)
        | FatalReason::Unsupported(_)
        | FatalReason::Removed { .. }
        | FatalReason::Duplicate { .. } => CANNOT_TAKE_PART,
        FatalReason::Formation(error) => of_formation(error),
        FatalReason::Stopped | FatalReason::Inconsistent(_) | FatalReason::Failed(_) => FAILURE,
    }
}

pub(super) fn of_join(refusal: &JoinRefusal) -> u8 {
    match refusal {
        JoinRefusal::OtherCluster { .. } | JoinRefusal::Unsupported(_) => CANNOT_TAKE_PART,
        JoinRefusal::Token(_) | JoinRefusal::AddressInUse { .. } | JoinRefusal::BadRequest(_) => USAGE,
        JoinRefusal::NeedsUpgrade { .. }
        | JoinRefusal::TooManyMembers { .. }
        | JoinRefusal::Unreplaceable { .. }
        | JoinRefusal::TooManyJoins { .. }
        | JoinRefusal::NoLeader => FAILURE,
    }
}

fn of_formation(error: &FormationError) -> u8 {
    match error {
        // No later start changes any of these: ids are never given again.
        FormationError::Wiped { .. } | FormationError::OtherCluster { .. } | FormationError::NotAMember { .. } => {
            CANNOT_TAKE_PART
        }
        FormationError::Refused { id, refusal, .. } => of_refusal(*id, refusal),
        FormationError::Impossible(_) => FAILURE,
    }
}

/// A refusal can also concern the other node: then this one can still take part.
fn of_refusal(own: NodeId, refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::Cluster { .. } => CANNOT_TAKE_PART,
        Refusal::Incarnation { id, .. } | Refusal::Removed { id, .. } | Refusal::Duplicate { id } if *id == own => {
            CANNOT_TAKE_PART
        }
        Refusal::Incarnation { .. }
        | Refusal::Removed { .. }
        | Refusal::Duplicate { .. }
        | Refusal::Version { .. }
        | Refusal::Identity { .. }
        | Refusal::Starting
        | Refusal::NotAMember { .. }
        | Refusal::LostEntries(_)
        | Refusal::Key(_) => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{ClusterId, Incarnation, Revision};

    #[test]
    fn a_directory_that_cannot_take_part_any_more_has_a_code_of_its_own() {
        let (path, why) = (std::path::PathBuf::from("/data"), "it was removed".to_owned());
        assert_eq!(of_storage(&DataDirError::Removed { path: path.clone(), why: why.clone() }.into()), CANNOT_TAKE_PART);
        assert_eq!(of_data_dir(&DataDirError::LostEntries { path: path.clone(), why }), CANNOT_TAKE_PART);
        assert_eq!(of_data_dir(&DataDirError::InUse { path: path.clone(), pid: None }), FAILURE);
        assert_eq!(of_data_dir(&DataDirError::NotJoined { path: path.clone() }), USAGE);
        assert_eq!(of_data_dir(&DataDirError::NoCluster { path: path.clone(), node: 2 }), USAGE);
        assert_eq!(of_data_dir(&DataDirError::NoIdentity { path, found: "log".to_owned() }), CANNOT_TAKE_PART);
        assert_eq!(of_stop(&FormationError::NotAMember { id: 2, by: 1 }.into()), CANNOT_TAKE_PART, "ids are given once");
        let wiped = || FormationError::Wiped { id: 1, expected: Incarnation(1), found: Incarnation(2) };
        assert_eq!((of_stop(&wiped().into()), of_start(&wiped().into())), (CANNOT_TAKE_PART, CANNOT_TAKE_PART));
        let foreign = FormationError::OtherCluster { id: 1, by: 2, ours: ClusterId(1), theirs: ClusterId(2) };
        assert_eq!(of_stop(&foreign.into()), CANNOT_TAKE_PART);
        let refused = |refusal| of_stop(&FormationError::Refused { id: 1, by: 2, refusal }.into());
        assert_eq!(refused(Refusal::Cluster { theirs: ClusterId(1), ours: ClusterId(2) }), CANNOT_TAKE_PART);
        assert_eq!(refused(Refusal::Version { theirs: 3, ours: 5 }), FAILURE);
        let removed = |id| Refusal::Removed { id, revision: Revision(9) };
        assert_eq!((refused(removed(1)), refused(removed(2))), (CANNOT_TAKE_PART, FAILURE), "the other node was removed");
        assert_eq!(of_stop(&FatalReason::Removed { id: 2, revision: Revision(9), by: 1 }), CANNOT_TAKE_PART);
        assert_eq!(of_stop(&FatalReason::Duplicate { id: 2, by: 1 }), CANNOT_TAKE_PART);
        assert_eq!(of_stop(&FatalReason::Failed("the disk".to_owned())), FAILURE);
    }

    #[test]
    fn a_join_that_a_repetition_cannot_mend_is_not_repeated_by_a_supervisor() {
        assert_eq!(of_join(&JoinRefusal::BadRequest("no".to_owned())), USAGE);
        assert_eq!(of_join(&JoinRefusal::OtherCluster { theirs: ClusterId(1), ours: ClusterId(2) }), CANNOT_TAKE_PART);
        assert_eq!(of_join(&JoinRefusal::TooManyMembers { max: 7 }), FAILURE);
    }
}
