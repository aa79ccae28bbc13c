//! The calls of the API, one method of `Node` for each.

mod abandon;
mod access;
mod acquire;
mod acts;
mod admin;
mod attempt;
pub mod backup;
pub mod elections;
pub mod events;
mod hold;
mod initial;
mod keep_alive_guard;
mod membership;
pub(crate) mod overview;
mod reads;
mod tenants;
mod timing;
mod tree;
mod upgrade;
mod waiter_rights;
mod walks;
pub mod watch;
mod write_key;
mod writes;
