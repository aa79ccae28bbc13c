//! Whether this process is short of memory. The caller measures it; here it decides which requests the node still accepts.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set while the process is short of memory. Then this node begins nothing that creates something, and says `Overloaded`: what
/// frees, and what keeps something alive, goes on.
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
