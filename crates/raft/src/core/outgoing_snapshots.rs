//! Which snapshots are on their way to other nodes: what the log holds behind them is kept until they have arrived.
//!
//! A node that is sent a snapshot goes on from the log behind it. Where that is purged meanwhile, because so much is written that
//! the next snapshot is there first, the node is sent that one, and the next, and never catches up.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts the snapshots that this node is sending. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sending(Arc<AtomicUsize>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Sent(Arc<AtomicUsize>);

impl Sending {
    /// One more, for as long as what this gives lives.
    pub(crate) fn begin(&self) -> Sent {
        self.0.fetch_add(1, Ordering::Relaxed);
        Sent(Arc::clone(&self.0))
    }

    /// Whether there is one.
    pub(crate) fn is_going_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_lasts_until_the_last_snapshot_has_ended() {
        let sending = Sending::default();
        assert!(!sending.is_going_on());
        let (first, second) = (sending.begin(), sending.clone().begin());
        drop(first);
        assert!(sending.is_going_on());
        drop(second);
        assert!(!sending.is_going_on());
    }
}
