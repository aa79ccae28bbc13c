//! A value together with the revision of the state that it shows.

use fairhold_types::Revision;

/// What was read, and when: to go on from there, and to miss nothing in between.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct At<T> {
    /// The revision of the whole state that it shows: what comes later is newer.
    pub revision: Revision,
    /// What was read.
    pub value: T,
}
