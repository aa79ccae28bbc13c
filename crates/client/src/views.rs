//! What the cluster shows: locks, members, sessions and elections.

pub(crate) mod backup;
pub(crate) mod cluster;
pub(crate) mod election;
pub(crate) mod grants;
pub(crate) mod histories;
pub(crate) mod locks;
pub(crate) mod long_poll;
mod membership;
pub(crate) mod read_options;
