//! What all other parts build on: types, errors, configuration, and the messages between nodes.

pub(crate) mod aliases;
pub(crate) mod config;
pub mod error;
pub(crate) mod log_limit;
pub(crate) mod lost_entries;
pub(crate) mod member_addresses;
pub mod peer;
pub(crate) mod raw;
pub mod types;
pub(crate) mod watched;
pub(crate) mod wire;
