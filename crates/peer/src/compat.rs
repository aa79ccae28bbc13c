//! Messages of older wire versions.

use fairhold_raft::peer::{Introduction, Refusal};
use fairhold_types::{ClusterId, Incarnation, NodeId, SupportedVersions};
use serde::{Deserialize, Serialize};

/// The wire version that introduced `Refusal::Removed` and `Refusal::Duplicate`.
const REMOVED_WIRE_VERSION: u16 = 4;

/// A refusal as a node of this wire version can read it.
pub(crate) fn refusal_in(version: u16, refusal: &Refusal) -> Refusal {
    if version < REMOVED_WIRE_VERSION
        && let Refusal::Removed { id, .. } | Refusal::Duplicate { id } = refusal
    {
        return Refusal::NotAMember { id: *id };
    }
    refusal.clone()
}

/// An introduction of wire version 3. It lacks the program, the cluster
/// versions that the program supports, and the number of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IntroductionV3 {
    id: NodeId,
    cluster: Option<ClusterId>,
    incarnation: Incarnation,
    empty: bool,
    members: Vec<(NodeId, Incarnation)>,
}

impl From<&Introduction> for IntroductionV3 {
    fn from(new: &Introduction) -> IntroductionV3 {
        let Introduction { id, cluster, incarnation, empty, ref members, program: _, supports: _, boot: _ } = *new;
        IntroductionV3 { id, cluster, incarnation, empty, members: members.clone() }
    }
}

impl From<IntroductionV3> for Introduction {
    fn from(old: IntroductionV3) -> Introduction {
        let IntroductionV3 { id, cluster, incarnation, empty, members } = old;
        Introduction { id, cluster, incarnation, empty, members, program: None, supports: SupportedVersions::UNTOLD, boot: 0 }
    }
}
