//! The sweep deadlines of containers and TTL nodes without children and changes, as a pure structure.
//!
//! The state has an index of the nodes that may be swept; the leader's clock adds the deadlines. A new leader gives
//! each node its full time again, so a sweep may be late, never early.

use crate::leader::deadlines::Deadlines;
use fairhold_state::{
    State,
    command::{Event, Sweepable},
};
use fairhold_types::{Path, Revision, limits};
use std::{collections::BTreeMap, ops::Add, time::Duration};

/// The nodes that may be swept, each with its deadline.
#[derive(Debug)]
pub(crate) struct Sweeps<I> {
    deadlines: Deadlines<Path, I>,
    /// The revision since which each node may be swept.
    since: BTreeMap<Path, Revision>,
}

impl<I: Copy + Ord + Add<Duration, Output = I>> Sweeps<I> {
    /// Starts with all nodes that may be swept now.
    pub(crate) fn load(state: &State, now: I) -> Self {
        let mut sweeps = Sweeps { deadlines: Deadlines::new(), since: BTreeMap::new() };
        for node in state.sweepable() {
            sweeps.update(state, &node.path, now);
        }
        sweeps
    }

    /// Updates the deadlines after an event. `state` is the state after it.
    pub(crate) fn observe(&mut self, state: &State, event: &Event, now: I) {
        if let Event::NodeCreated { path }
        | Event::NodeChanged { path, .. }
        | Event::NodeDeleted { path, .. }
        | Event::ChildrenChanged { path, .. } = event
        {
            self.update(state, path, now);
        }
    }

    /// The nodes that are due, at most as many as one command may cover.
    pub(crate) fn due(&mut self, now: I) -> Vec<Sweepable> {
        let due = self.deadlines.due_up_to(now, limits::NODES_SWEPT_MAX).into_iter();
        due.filter_map(|path| Some(Sweepable { since: *self.since.get(&path)?, path })).collect()
    }

    fn update(&mut self, state: &State, path: &Path, now: I) {
        match state.sweepable_at(path) {
            Some(since) if self.since.get(path) == Some(&since) => {}
            Some(since) => {
                let keep_for = state.ttl_ms(path).map_or(limits::CONTAINER_EMPTY_MAX, Duration::from_millis);
                self.since.insert(path.clone(), since);
                self.deadlines.insert(path.clone(), keep_for, now);
            }
            None => {
                if self.since.remove(path).is_some() {
                    self.deadlines.remove(path.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_clock::AtOffset;
    use fairhold_state::command::{Command, Lifetime, Operation, Transact};
    use fairhold_types::time::WallMillis;

    struct Tree {
        state: State,
        sweeps: Sweeps<AtOffset>,
    }

    impl Tree {
        fn new() -> Tree {
            let state = State::new();
            Tree { sweeps: Sweeps::load(&state, AtOffset(0)), state }
        }

        fn apply(&mut self, command: Command, now: u64) {
            let applied = self.state.apply(&command);
            assert!(applied.answer.result.is_ok(), "{applied:?}");
            self.state.check().unwrap();
            applied.events.iter().for_each(|event| self.sweeps.observe(&self.state, event, AtOffset(now)));
        }

        fn write(&mut self, operation: Operation, now: u64) {
            let at = WallMillis(0);
            let transact = Transact { key: None, conditions: Vec::new(), then: vec![operation], otherwise: None, at };
            self.apply(Command::Transact(transact), now);
        }

        fn put(&mut self, at: &str, lifetime: Lifetime, now: u64) {
            self.write(Operation::Put { path: path(at), value: b"x"[..].into(), parents: false, lifetime }, now);
        }

        fn delete(&mut self, at: &str, now: u64) {
            self.write(Operation::Delete { path: path(at), version: None, recursive: false }, now);
        }

        fn due(&mut self, now: u64) -> Vec<String> {
            self.sweeps.due(AtOffset(now)).iter().map(|node| node.path.to_string()).collect()
        }

        /// Sweeps the due nodes, and returns how many nodes are left.
        fn sweep(&mut self, now: u64) -> usize {
            let nodes = self.sweeps.due(AtOffset(now));
            self.apply(Command::Sweep { nodes, at: WallMillis(0) }, now);
            assert!(self.due(now).is_empty(), "swept nodes are no longer due");
            self.state.node_count()
        }
    }

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    const TTL: Lifetime = Lifetime::Ttl { ttl_ms: 10_000 };

    #[test]
    fn a_container_is_swept_a_minute_after_its_last_child_and_never_before_its_first() {
        let mut tree = Tree::new();
        tree.put("/c", Lifetime::Container, 0);
        assert!(tree.due(1_000).is_empty(), "it has had no child yet");
        tree.put("/c/child", Lifetime::Persistent, 1_000);
        assert!(tree.due(2_000).is_empty(), "it has a child");
        tree.delete("/c/child", 2_000);
        assert_eq!((tree.due(2_059), tree.due(2_060)), (vec![], vec!["/c".to_owned()]));
        tree.put("/c/again", Lifetime::Persistent, 2_030);
        assert!(tree.due(3_000).is_empty());
        tree.delete("/c/again", 3_000);
        assert_eq!((tree.due(3_059), tree.sweep(3_060)), (vec![], 2));
    }

    #[test]
    fn a_ttl_node_is_swept_after_its_ttl_without_a_change_and_without_children() {
        let mut tree = Tree::new();
        tree.put("/t", TTL, 0);
        tree.put("/t", Lifetime::Persistent, 9);
        assert_eq!((tree.due(18), tree.due(19)), (vec![], vec!["/t".to_owned()]));
        tree.put("/t/child", TTL, 15);
        assert_eq!((tree.due(24), tree.due(25)), (vec![], vec!["/t/child".to_owned()]));
        assert_eq!(tree.sweep(25), 3);
        assert_eq!((tree.due(34), tree.due(35)), (vec![], vec!["/t".to_owned()]));
        assert_eq!(tree.sweep(35), 2);
    }

    #[test]
    fn a_stale_command_removes_nothing() {
        let mut tree = Tree::new();
        tree.put("/t", TTL, 0);
        let late = Command::Sweep { nodes: tree.sweeps.due(AtOffset(10)), at: WallMillis(0) };
        tree.put("/t", Lifetime::Persistent, 10);
        tree.apply(late, 11);
        assert!(tree.state.node(&path("/t")).is_some());
    }

    #[test]
    fn a_new_leader_gives_each_node_its_full_time_again() {
        let mut tree = Tree::new();
        tree.put("/t", TTL, 0);
        tree.sweeps = Sweeps::load(&tree.state, AtOffset(5));
        assert_eq!((tree.due(14), tree.due(15)), (vec![], vec!["/t".to_owned()]));
    }

    #[test]
    fn one_command_covers_a_limited_number_of_nodes() {
        let mut tree = Tree::new();
        for number in 0..=limits::NODES_SWEPT_MAX {
            tree.sweeps.deadlines.insert(path(&format!("/{number}")), Duration::ZERO, AtOffset(0));
            tree.sweeps.since.insert(path(&format!("/{number}")), Revision(1));
        }
        assert_eq!(tree.due(0).len(), limits::NODES_SWEPT_MAX);
    }
}
