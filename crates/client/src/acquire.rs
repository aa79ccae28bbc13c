//! Acquiring a lock: the builder, and the requests and waits behind it.

mod acquire_request;
mod acquisition;
mod bound;
pub(crate) mod builder;
mod by_request;
mod by_session;
pub(crate) mod queue_place;
mod wait_until;
