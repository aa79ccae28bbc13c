//! Watchers of one node of the tree, for benchmarks of their wake-up. No server uses this.

use crate::feed::{
    change::{Change, Changes},
    dispatcher::{WatchDispatcher, Watcher},
    watch_filter::WatchFilter,
};
use fairhold_types::{Path, Revision, limits::EVENT_RING_BYTES};
use futures_util::FutureExt;
use std::sync::Arc;

/// Watchers of one node of the tree that have seen all its changes.
pub struct WatchBench {
    dispatcher: Arc<WatchDispatcher>,
    watchers: Vec<Watcher>,
    path: Path,
    revision: Revision,
}

impl WatchBench {
    /// Registers this many watchers; `None` if a server would not accept as many.
    #[must_use]
    pub fn new(path: Path, watchers: usize) -> Option<WatchBench> {
        let dispatcher = Arc::new(WatchDispatcher::new(EVENT_RING_BYTES));
        let register = |_| dispatcher.register(vec![WatchFilter::Node(path.clone())]);
        let mut watchers: Vec<Watcher> = (0..watchers).map(register).collect::<Option<_>>()?;
        watchers.iter_mut().for_each(|watcher| watcher.start_after(Revision(0)));
        Some(WatchBench { dispatcher, watchers, path, revision: Revision(0) })
    }

    /// Writes the node, and returns how many watchers were woken: the work of apply and of the dispatcher.
    pub fn change(&mut self) -> usize {
        self.revision = self.revision.next();
        let change = Change::NodeChanged { path: self.path.clone(), version: 1 };
        self.dispatcher.push(Changes { revision: self.revision, list: [change].into() });
        self.dispatcher.dispatch_now()
    }

    /// Lets every woken watcher read, and returns how many changes they saw in all: the work of their tasks.
    pub fn read(&mut self) -> usize {
        let mut seen = 0;
        for watcher in &mut self.watchers {
            if watcher.woken().now_or_never().is_none() {
                continue;
            }
            while let Ok(Some(changes)) = watcher.next_changes() {
                seen += changes.len();
            }
        }
        seen
    }
}

impl std::fmt::Debug for WatchBench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} watchers of {:?}", self.watchers.len(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_watcher_wakes_and_sees_the_change_once() {
        let mut bench = WatchBench::new(Path::parse("/a").unwrap(), 3).unwrap();
        for _ in 0..2 {
            assert_eq!((bench.change(), bench.read(), bench.read()), (3, 3, 0));
        }
    }
}
