//! How a leader comes and goes: forming the cluster, elections, and handover.

pub(crate) mod elections;
pub(crate) mod fast_election;
pub(crate) mod formation;
pub(crate) mod handover;
