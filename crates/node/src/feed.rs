//! The feed of events for watches: the newest changes, and which watchers they concern.

pub mod change;
pub(crate) mod dispatcher;
pub(crate) mod ring;
pub mod watch_filter;
