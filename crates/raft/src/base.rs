//! What all other parts build on: types, errors, configuration, and the messages between nodes.

pub(crate) mod aliases;
pub(crate) mod config;
pub(crate) mod encoded_messages;
pub mod encoding;
pub mod error;
pub(crate) mod join_token;
pub(crate) mod log_limit;
pub(crate) mod lost_entries;
pub(crate) mod member_addresses;
pub(crate) mod membership;
pub mod peer;
pub(crate) mod program;
pub(crate) mod raw;
pub mod types;
pub(crate) mod upgrade_status;
pub(crate) mod wall_clock;
pub(crate) mod watched;
pub(crate) mod wire;
