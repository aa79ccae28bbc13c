//! Whether this process is short of memory. The caller measures it; the node only decides which requests it still
//! accepts.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set while the process is short of memory. Then this node refuses requests that create something, with `Overloaded`.
/// Releases, deletions and keepalives continue.
#[derive(Debug, Default)]
pub(crate) struct MemoryShortage(AtomicBool);

impl MemoryShortage {
    pub(crate) fn is_short(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, short: bool) {
        self.0.store(short, Ordering::Relaxed);
    }
}
