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

mod administration;
mod advance;
mod ageing;
mod apply;
mod breaking;
mod browse;
pub mod budget;
mod check;
pub mod command;
mod convert;
mod deadlock;
pub mod digest;
pub mod election;
mod event;
mod grant;
pub mod history;
pub mod history_page;
mod holder_index;
mod holds;
mod index;
mod keys;
mod kind;
pub mod listing;
mod lock;
mod memory;
mod nodes;
mod orders;
mod outcome;
pub mod owned;
mod pending;
mod persistent;
pub mod queue_view;
pub mod read;
pub mod record;
mod rejection;
mod request;
mod session;
mod several;
mod size;
pub mod snapshot;
pub mod statistics;
mod transact;
mod tree;
mod validate;
pub mod value;
mod visible;
mod weighed;
pub mod weight;
mod write;

use fairhold_types::{ClusterId, LockName, Revision, SessionNumber, limits};
use std::sync::Arc;

/// The whole replicated state. A clone shares all its parts and costs O(1), so a snapshot is taken from a clone while apply
/// goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    revision: Revision,
    cluster: Option<ClusterId>,
    sessions: weighed::Weighed<SessionNumber, Arc<record::Session>>,
    tree: tree::Tree,
    memory: memory::Memory,
    history: history::History,
    statistics: weighed::Weighed<LockName, Arc<statistics::Statistics>>,
    totals: Arc<statistics::Statistics>,
    pending: pending::PendingWork,
    budget: budget::Budget,
    /// How many steps a command does before it leaves the rest to later ones.
    piece_steps: u64,
    index: index::Index,
}

impl Default for State {
    fn default() -> Self {
        State::new()
    }
}

impl State {
    /// The state before the first change: the nodes `/` and `/locks`, at revision 0.
    #[must_use]
    pub fn new() -> State {
        State {
            revision: Revision(0),
            cluster: None,
            sessions: weighed::Weighed::default(),
            tree: tree::Tree::new(),
            memory: memory::Memory::default(),
            history: history::History::default(),
            statistics: weighed::Weighed::default(),
            totals: Arc::default(),
            pending: pending::PendingWork::default(),
            budget: budget::Budget::default(),
            piece_steps: limits::PIECE_STEPS,
            index: index::Index::default(),
        }
    }

    /// The same with smaller pieces of work, so that tests see many of them.
    #[must_use]
    pub fn with_piece_steps(steps: u64) -> State {
        State { piece_steps: steps, ..State::new() }
    }
}
