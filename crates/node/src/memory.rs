//! Whether this process is short of memory. The caller measures it; here it decides which requests the node still accepts.

use crate::node::Node;
use openraft_rt::AsyncRuntime;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set while the process is short of memory. Then this node begins nothing that creates something, and says `Overloaded`: what
/// frees, and what keeps something alive, goes on.
#[derive(Debug, Default)]
pub(crate) struct MemoryShortage(AtomicBool);

impl MemoryShortage {
    pub(crate) fn is_short(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Says whether this process is short of memory.
    pub fn set_memory_short(&self, short: bool) {
        self.0.memory.0.store(short, Ordering::Relaxed);
    }
}
