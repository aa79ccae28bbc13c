//! The whole replicated state, as a value.

use crate::{
    access::AccessData, audit::AuditRing, budget::Budget, index::Index, membership::Membership, pending::PendingWork,
    record::SessionRecord, statistics::Statistics, tombstones::Tombstones, tree::Tree, weighed::Weighed,
};
use fairhold_types::{ClusterId, ClusterVersion, Revision, SessionNumber, limits};
use std::sync::Arc;

/// The whole replicated state. A clone shares all its parts and costs O(1), so a snapshot is taken from a clone while
/// commands are applied.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub(crate) revision: Revision,
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) version: ClusterVersion,
    pub(crate) sessions: Weighed<SessionNumber, Arc<SessionRecord>>,
    pub(crate) tree: Tree,
    pub(crate) tombstones: Tombstones,
    pub(crate) totals: Arc<Statistics>,
    pub(crate) pending: PendingWork,
    pub(crate) budget: Budget,
    pub(crate) membership: Arc<Membership>,
    pub(crate) access: Arc<AccessData>,
    pub(crate) audit: Arc<AuditRing>,
    /// The maximum number of steps of one command. Later commands do the rest.
    pub(crate) piece_steps: u64,
    pub(crate) index: Index,
}

impl Default for State {
    fn default() -> Self {
        State::new()
    }
}

impl State {
    /// The state before the first change: the nodes `/` and `/locks`, at revision 0.
    #[must_use]
    pub fn new() -> State {
        State {
            revision: Revision(0),
            cluster: None,
            version: ClusterVersion::FIRST,
            sessions: Weighed::default(),
            tree: Tree::new(),
            tombstones: Tombstones::default(),
            totals: Arc::default(),
            pending: PendingWork::default(),
            budget: Budget::default(),
            membership: Arc::default(),
            access: Arc::default(),
            audit: Arc::default(),
            piece_steps: limits::COMMAND_STEPS_MAX,
            index: Index::default(),
        }
    }

    /// A new state with another bound on steps, so that tests see many pieces.
    #[must_use]
    pub fn with_piece_steps(steps: u64) -> State {
        State { piece_steps: steps, ..State::new() }
    }
}
