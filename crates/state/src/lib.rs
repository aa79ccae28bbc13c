//! The replicated state machine: a pure function from state and command to outcome and events.
//!
//! The same state and the same command always give the same answer, the same events and the same next state, on every
//! node. The crate therefore has no clock, no randomness, no I/O and no hash order. Times and ids are fields of
//! commands. Verdicts about time are commands.
//!
//! # Model
//!
//! - The tree of nodes is the only truth about locks. A lock is a container node under `/locks`. A contender is an
//!   ephemeral sequential child of it and carries the grant's record (grant id, mode, attempt, `granted_at` …).
//! - That a grant is held is stored; which grant is next is derived. `granted_at` is set once and stays until the
//!   contender is removed.
//! - A revision counts changes. A command that changes something takes the next revision; a refused or repeated command
//!   takes none.
//! - A fencing token is the revision at which the grant was given.
//! - The indexes (`index`) are caches of the tree. `State::check` compares them with it.
//! - A command does a bounded number of steps. The rest becomes pending work in the state, which later commands do
//!   (`pending`).
//! - Raft's membership is the only list of members. The state has what was requested and given out (`membership`).
//! - The state has the access data, but evaluates no rights: it compares revisions (`access`).
//! - Administrative acts are recorded in a ring, chained by hashes. A refused act takes a revision for its entry (`audit`).
//! - Tenants have quotas. What they use is counted with the nodes of the tree (`tenant_uses`).
//! - The state has a budget in bytes. Beyond it, commands that create something are refused (`budget`).
//!
//! # Caveats
//!
//! Tree operations cannot write below `/locks`. Nodes have access lists, which are empty and not enforced.

pub mod access;
mod acl;
mod actor;
mod admin_request;
mod administration;
mod ageing;
mod apply;
pub mod audit;
mod browse;
pub mod budget;
pub mod busy;
mod change;
mod check;
pub mod command;
mod compatibility;
mod contender;
mod convert;
mod counting;
mod deadlock;
pub mod digest;
pub mod election;
mod event;
pub mod expiries;
mod force_release;
mod grant;
pub mod grant_list;
mod granting;
mod growth;
pub mod histories;
pub mod history;
pub mod history_page;
mod holder_index;
mod holds;
mod ids;
mod index;
mod key_use;
mod keys;
mod kind;
pub mod listing;
mod lock;
mod lock_history;
mod lock_table;
mod lock_walk;
pub mod membership;
mod moment;
mod multi_lock;
mod nesting;
mod nodes;
mod outcome;
pub mod owned;
mod pending;
mod pieces;
mod queue;
pub mod queue_view;
pub mod read;
pub mod record;
mod recording;
mod rejection;
mod request;
#[cfg(test)]
mod request_for_tests;
pub mod restored;
mod revocation;
mod service_rank;
mod session;
mod size;
mod small_set;
pub mod snapshot;
mod sparse;
mod state;
pub mod statistics;
mod tenant_counts;
pub mod tenant_uses;
mod tombstones;
mod transact;
mod tree;
mod validate;
pub mod value;
mod visible;
pub mod waits;
mod weighed;
pub mod weight;
mod write;

pub use state::State;
