//! The queues in which requests to this node wait.

use crate::{propose::queue::ProposalQueue, read::queue::BarrierQueue};

/// Where to submit commands and to request read barriers. All clones are the same queues.
#[derive(Clone)]
pub(crate) struct Queues {
    pub(crate) proposals: ProposalQueue,
    pub(crate) barriers: BarrierQueue,
}
