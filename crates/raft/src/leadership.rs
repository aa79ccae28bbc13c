//! How a leader comes and goes: forming the cluster, elections, and handover. And how the members change.

pub(crate) mod elections;
pub(crate) mod fast_election;
pub(crate) mod finalizer;
pub(crate) mod formation;
pub(crate) mod handover;
pub(crate) mod membership_calls;
pub(crate) mod placement;
pub(crate) mod reconciler;
pub(crate) mod restored;
pub(crate) mod upgrade;
