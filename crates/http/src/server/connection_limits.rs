//! The limits on connections of clients, which an operator can change while the server runs.

use parking_lot::Mutex;
use std::sync::Arc;

/// How many connections there may be, in total and from one address. Clones share them.
#[derive(Debug, Clone)]
pub struct ConnectionLimits(Arc<Mutex<(usize, usize)>>);

impl ConnectionLimits {
    /// Limits in total and for one address.
    #[must_use]
    pub fn new(connections: usize, per_address: usize) -> ConnectionLimits {
        ConnectionLimits(Arc::new(Mutex::new((connections, per_address))))
    }

    /// Changes both. They apply to new connections, and no open one ends.
    pub fn set(&self, connections: usize, per_address: usize) {
        *self.0.lock() = (connections, per_address);
    }

    /// Both limits of this moment.
    pub(crate) fn now(&self) -> (usize, usize) {
        *self.0.lock()
    }
}
