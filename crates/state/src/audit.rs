//! The audit of administrative acts: a ring of the newest ones, chained by hashes.
//!
//! - `attributed`: a command with its origin. Only acts travel like that, so other commands have no part in this.
//! - `act`: which commands are acts, and the words for them. `note`: acts outside the state.
//! - `record`: an entry, its canonical line, and its hash. `text`: the texts in it. `ring`: the entries.
//! - `recording`: how `apply` adds an entry.
//! - `page`: the entries for a reader.
//!
//! The canonical lines and the hashes are the same on every node, forever: the words of `act`, the codes of `code`, and the
//! format of a line change only together with the cluster's version.

mod act;
mod attributed;
mod check;
mod code;
mod note;
mod page;
mod record;
mod recording;
mod ring;
pub(crate) mod saved;
mod text;

pub use attributed::{ActOrigin, Attributed};
pub use note::{NoteAct, NotedAct, NotedEnd};
pub use page::{AuditListing, AuditPage, AuditQuery};
pub use record::{ActRecord, ChainHash, GENESIS, HASH_PART_BYTES, PREVIOUS_PART_BYTES};
pub use ring::{AuditHead, AuditRing};

#[cfg(test)]
mod tests;
