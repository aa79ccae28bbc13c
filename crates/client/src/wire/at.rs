//! A value with its revision.

use fairhold_types::Revision;

/// A value, and the revision at which it was read. Continue from that revision to miss nothing in between.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct At<T> {
    /// The revision of the whole state that the value shows. Later changes have larger revisions.
    pub revision: Revision,
    /// The value.
    pub value: T,
}
