//! The replicated machine: a pure function from state and command to outcome and events.
//!
//! Same state, same command: same answer, same events, same next state, on every node and for ever. So there is no clock, no
//! randomness, no I/O and no hash order here; times and ids come in as fields, verdicts about time come in as commands.
//!
//! # Model
//!
//! - The tree of nodes is the only truth about locks. A lock is a container node under `/locks`; a contender is an ephemeral
//!   sequential child of it, and its record (grant id, mode, attempt, `granted_at` …) belongs to that child.
//! - Being granted is stored, who is next is derived: `granted_at` is set once and ends only with the contender.
//! - A revision counts changes. A command that changes something takes the next one; a refused or repeated one takes none.
//! - A fencing token is the revision at which the grant was given.
//! - The indexes (`index`) are caches of the tree; `State::check` compares them with it.
//! - A command does a bounded number of steps. What is more is pending, in the state, and done by later commands (`pending`).
//! - The state has a budget in bytes: beyond it, commands that create something are refused (`budget`).
//!
//! # Caveats
//!
//! Below `/locks` nothing is written through the tree's operations. Access lists are kept with nodes, empty, and not enforced.

mod actor;
mod administration;
mod ageing;
mod apply;
mod browse;
pub mod budget;
mod change;
mod check;
pub mod command;
mod convert;
mod counting;
mod deadlock;
pub mod digest;
pub mod election;
mod event;
mod force_release;
mod grant;
mod granting;
mod growth;
pub mod history;
pub mod history_page;
mod holder_index;
mod holder_lookup;
mod holds;
mod index;
mod key_use;
mod keys;
mod kind;
pub mod listing;
mod lock;
mod multi_lock;
mod nodes;
mod orders;
mod outcome;
pub mod owned;
mod pending;
mod persistent;
mod pieces;
pub mod queue_view;
pub mod read;
pub mod record;
mod recording;
mod rejection;
mod request;
mod service_rank;
mod session;
mod size;
pub mod snapshot;
mod state;
pub mod statistics;
mod tombstones;
mod transact;
mod tree;
mod validate;
pub mod value;
mod visible;
mod weighed;
pub mod weight;
mod write;

pub use state::State;
