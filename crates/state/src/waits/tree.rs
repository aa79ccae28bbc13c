//! The tree of what a walk has collected.

use super::{AwaitedBy, AwaitedLock, WaitActor, WaitRow, WaitTree, WaitWalk, WaitsQuery};
use crate::actor::Actor;
use fairhold_types::limits::WAIT_HOLDS_MAX;
use std::collections::BTreeSet;

/// A queue, and the index of a waiter in it.
type Place = (usize, usize);

impl WaitWalk<'_> {
    /// The tree of what was visited.
    #[must_use]
    pub fn finish(mut self, query: &WaitsQuery) -> WaitTree {
        self.find_roots();
        self.count();
        let shown = self.relevant(query);
        let mut roots: Vec<usize> = (0..self.actors.len()).filter(|id| self.actors[*id].root == *id).collect();
        roots.sort_by_key(|id| (usize::MAX - self.actors[*id].blocks, self.actors[*id].contender.number));
        let mut tree = WaitTree { complete: self.complete, ..WaitTree::default() };
        let mut seen = BTreeSet::new();
        for root in roots.into_iter().filter(|root| !self.actors[*root].queues.is_empty()) {
            self.write(root, query.limit, shown.as_ref(), &mut seen, &mut tree);
        }
        tree
    }

    /// Sets the root of each actor: the last one on its way up. In a circle, it is the one that is reached first.
    fn find_roots(&mut self) {
        let mut known = vec![false; self.actors.len()];
        for start in 0..self.actors.len() {
            let mut way = Vec::new();
            let mut on_way = BTreeSet::new();
            let mut at = start;
            let root = loop {
                if known[at] {
                    break self.actors[at].root;
                }
                if !on_way.insert(at) {
                    break at;
                }
                way.push(at);
                match self.actors[at].parent {
                    Some(parent) => at = parent,
                    None => break at,
                }
            };
            for id in way {
                known[id] = true;
                self.actors[id].root = root;
            }
        }
    }

    /// Counts each wait at the root above it.
    fn count(&mut self) {
        for queue in &self.queues {
            let Some(first) = self.ids.get(&Actor::of(queue.first)) else { continue };
            let root = self.actors[*first].root;
            let root = &mut self.actors[root];
            for (_, waiter, _) in &queue.waiters {
                root.blocks += 1;
                root.blocks_since = Some(root.blocks_since.map_or(waiter.queued_at, |since| since.min(waiter.queued_at)));
            }
        }
    }

    /// The actors that the query asks for, with all above and below them; `None`: all.
    fn relevant(&self, query: &WaitsQuery) -> Option<BTreeSet<usize>> {
        if query.owner.is_none() && query.lock.is_none() && query.session.is_none() {
            return None;
        }
        let named = |id: &usize| {
            let contender = self.actors[*id].contender;
            let of_session = |session| !contender.anonymous && contender.session == session;
            query.owner.as_ref().is_none_or(|owner| contender.owner.text == *owner) && query.session.is_none_or(of_session)
        };
        let matches: Vec<usize> = match &query.lock {
            Some(lock) => {
                let queue = self.queues.iter().find(|queue| queue.lock == lock);
                let first = queue.and_then(|queue| self.ids.get(&Actor::of(queue.first))).copied();
                let waiters = queue.into_iter().flat_map(|queue| queue.waiters.iter().map(|(actor, _, _)| *actor));
                first.into_iter().chain(waiters).filter(named).collect()
            }
            None => (0..self.actors.len()).filter(named).collect(),
        };
        let mut relevant: BTreeSet<usize> = BTreeSet::new();
        let mut below = matches.clone();
        while let Some(id) = below.pop() {
            if relevant.insert(id) {
                let queues = self.actors[id].queues.iter().map(|queue| &self.queues[*queue]);
                below.extend(queues.flat_map(|queue| queue.waiters.iter().map(|(actor, _, _)| *actor)));
            }
        }
        let mut above = BTreeSet::new();
        for id in matches {
            let mut at = Some(id);
            while let Some(id) = at.filter(|id| above.insert(*id)) {
                at = self.actors[id].parent;
            }
        }
        relevant.append(&mut above);
        Some(relevant)
    }

    /// Writes a root and everything below it. What stands in two queues is written below both, and what is below it once.
    fn write(&self, root: usize, limit: usize, shown: Option<&BTreeSet<usize>>, seen: &mut BTreeSet<usize>, tree: &mut WaitTree) {
        let mut next: Vec<(usize, usize, Option<Place>)> = vec![(root, 0, None)];
        while let Some((id, depth, place)) = next.pop() {
            if shown.is_some_and(|shown| !shown.contains(&id)) {
                continue;
            }
            let actor = &self.actors[id];
            let is_new = seen.insert(id);
            if tree.rows.len() < limit {
                tree.rows.push(self.row(actor, depth, place, !is_new && !actor.queues.is_empty()));
            } else {
                tree.left_out += 1;
            }
            if !is_new {
                continue;
            }
            let from = next.len();
            for queue in &actor.queues {
                let waiters = self.queues[*queue].waiters.iter().enumerate();
                let others = waiters.filter(|(_, (waiter, _, _))| *waiter != id);
                next.extend(others.map(|(place, (waiter, _, _))| (*waiter, depth + 1, Some((*queue, place)))));
            }
            next[from..].reverse();
        }
    }

    fn row(&self, actor: &WaitActor<'_>, depth: usize, place: Option<Place>, repeated: bool) -> WaitRow {
        let waits = place.map(|(queue, place)| {
            let queue = &self.queues[queue];
            let (_, waiter, position) = queue.waiters[place];
            AwaitedBy { lock: queue.lock.clone(), number: waiter.number, position, since: waiter.queued_at }
        });
        let listed = actor.queues.iter().take(WAIT_HOLDS_MAX).map(|queue| &self.queues[*queue]);
        let holds = listed.map(|queue| AwaitedLock {
            lock: queue.lock.clone(),
            number: queue.first.number,
            token: self.state.token_of(queue.first),
            since: queue.first.held_since.unwrap_or(queue.first.queued_at),
            holders: queue.holders,
            waiting: queue.waiters.len(),
        });
        let contender = actor.contender;
        let is_root = depth == 0;
        WaitRow {
            depth,
            owner: contender.owner.text.clone(),
            session: (!contender.anonymous).then_some(contender.session),
            waits,
            holds: holds.collect(),
            holds_left_out: actor.queues.len().saturating_sub(WAIT_HOLDS_MAX),
            blocks: if is_root { actor.blocks } else { 0 },
            blocks_since: actor.blocks_since.filter(|_| is_root),
            repeated,
        }
    }
}
