//! Acquiring a lock: the builder, and the requests and waits behind it.

pub(crate) mod acquire_request;
pub(crate) mod acquisition;
pub(crate) mod bound;
pub(crate) mod builder;
pub(crate) mod by_session;
pub(crate) mod queue_place;
pub(crate) mod wait_until;
