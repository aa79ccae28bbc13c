//! Watchers of one node of the tree, for benchmarks: the cost of waking them. No server uses this.

use crate::feed::{
    change::{Change, Changes},
    dispatcher::{Watcher, Watchers},
    watch_filter::WatchFilter,
};
use fairhold_types::{Path, Revision, limits::EVENT_RING_BYTES};
use futures_util::FutureExt;
use std::sync::Arc;

/// Watchers of one node, who have seen all there was.
pub struct WatchBench {
    watchers: Arc<Watchers>,
    crowd: Vec<Watcher>,
    path: Path,
    revision: Revision,
}

impl WatchBench {
    /// So many watchers; `None` where a server would not take as many.
    #[must_use]
    pub fn new(path: Path, watchers: usize) -> Option<WatchBench> {
        let all = Arc::new(Watchers::new(EVENT_RING_BYTES));
        let crowd: Option<Vec<Watcher>> = (0..watchers).map(|_| all.enter(vec![WatchFilter::Node(path.clone())])).collect();
        let mut square = WatchBench { watchers: all, crowd: crowd?, path, revision: Revision(0) };
        square.crowd.iter_mut().for_each(|watcher| watcher.start_after(Revision(0)));
        Some(square)
    }

    /// Writes the node, and says how many were woken: what apply and the crier do.
    pub fn change(&mut self) -> usize {
        self.revision = self.revision.next();
        let change = Change::NodeChanged { path: self.path.clone(), version: 1 };
        self.watchers.push(Changes { revision: self.revision, list: [change].into() });
        self.watchers.cry_at_once()
    }

    /// Has each that was woken look, and says how many changes they saw together: what their tasks do.
    pub fn look(&mut self) -> usize {
        let mut seen = 0;
        for watcher in &mut self.crowd {
            if watcher.woken().now_or_never().is_none() {
                continue;
            }
            while let Ok(Some(told)) = watcher.look() {
                seen += told.len();
            }
        }
        seen
    }
}

impl std::fmt::Debug for WatchBench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} who watch {:?}", self.crowd.len(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_them_is_woken_and_sees_the_change_once() {
        let mut square = WatchBench::new(Path::parse("/a").unwrap(), 3).unwrap();
        for _ in 0..2 {
            assert_eq!((square.change(), square.look(), square.look()), (3, 3, 0));
        }
    }
}
