//! The digests of the states of all members at one revision. Nodes that have applied the same log entries must have the same
//! digest.

use crate::base::marked_state::{MarkedDigest, MarkedState};
use fairhold_raft::Replica;
use fairhold_types::{NodeId, Revision};
use futures_util::future::{BoxFuture, join_all};
use openraft_rt::{AsyncRuntime, Instant};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How many revisions ahead the marked one is: further each time that a node was past it already. In a quiet cluster only
/// the first one is ever reached.
const AHEAD: [u64; 4] = [0, 64, 1_024, 16_384];
/// How long the nodes may take to reach the marked revision.
const REACHED_WITHIN: Duration = Duration::from_secs(10);
/// How long the digests of a large state may take.
const COMPUTED_WITHIN: Duration = Duration::from_secs(300);
const ASK_EVERY: Duration = Duration::from_millis(500);

/// A message of the leader to a member.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Keep the state at this revision.
    Mark(Revision),
    /// The digest of the state at this revision?
    Digest(Revision),
    /// What a comparison at this revision found: the nodes of each state.
    Found(Revision, Vec<Vec<NodeId>>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The revision is ahead of the state.
    Ahead(Applied),
    Computing,
    Digest(String),
    /// The state was past the revision already.
    Missed(Applied),
    Noted,
}

/// The last applied log entry of a node, and the revision of its state after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Applied {
    pub(super) entry: Option<u64>,
    pub(super) revision: Revision,
}

impl Applied {
    pub(super) fn of<RT: AsyncRuntime>(replica: &Replica<RT>) -> Applied {
        let (entry, revision) = replica.applied();
        Applied { entry, revision }
    }

    /// Whether this state certainly has another history than one that was at `before`, and later at `after`: it has applied
    /// the same log entries, or more, and is at a lower revision; or fewer, and is at a higher one.
    fn contradicts(self, before: Applied, after: Applied) -> bool {
        (self.entry >= before.entry && self.revision < before.revision)
            || (self.entry <= after.entry && self.revision > after.revision)
    }
}

impl Answer {
    pub(super) fn of(digest: MarkedDigest, applied: Applied) -> Answer {
        match digest {
            MarkedDigest::Ahead => Answer::Ahead(applied),
            MarkedDigest::Computing => Answer::Computing,
            MarkedDigest::Known(digest) => Answer::Digest(digest),
            MarkedDigest::Missed => Answer::Missed(applied),
        }
    }

    /// The history of the state, if it is another one than that of this node, which was at `before` when it asked, and is at
    /// `after` now. Such a state may never be at the marked revision.
    fn other_history(&self, before: Applied, after: Applied) -> Option<String> {
        match self {
            Answer::Ahead(applied) | Answer::Missed(applied) if applied.contradicts(before, after) => {
                Some(format!("revision {} after log entry {:?}", applied.revision.0, applied.entry))
            }
            Answer::Ahead(_) | Answer::Missed(_) | Answer::Computing | Answer::Digest(_) | Answer::Noted => None,
        }
    }
}

/// This node, which compares its state with those of others.
pub(super) struct Asker<'a> {
    pub(super) id: NodeId,
    pub(super) marked: &'a MarkedState,
    /// Marks the revision that is this far ahead.
    pub(super) mark: &'a (dyn Fn(u64) -> Revision + Send + Sync),
    pub(super) applied: &'a (dyn Fn() -> Applied + Send + Sync),
    pub(super) ask: &'a (dyn Fn(NodeId, Question) -> BoxFuture<'static, Option<Answer>> + Send + Sync),
}

impl Asker<'_> {
    /// Marks a revision on this node and on the others, and collects the digests of their states at it. A node that does not
    /// answer in time is left out; `None` if this node itself did not get there.
    pub(super) async fn collect<RT: AsyncRuntime>(&self, others: &[NodeId]) -> Option<(Revision, BTreeMap<NodeId, String>)> {
        for ahead in AHEAD {
            let mut digests = BTreeMap::new();
            let revision = (self.mark)(ahead);
            let mut open: BTreeSet<NodeId> = others.iter().copied().collect();
            let answers = self.ask_all(&mut open, Question::Mark, revision, &mut digests).await;
            if answers.iter().any(|(_, answer)| matches!(answer, Answer::Missed(_))) {
                continue;
            }
            open = answers.into_iter().map(|(id, _)| id).chain([self.id]).collect();
            let begun = RT::Instant::now();
            while !open.is_empty() {
                let answers = self.ask_all(&mut open, Question::Digest, revision, &mut digests).await;
                let took = begun.elapsed();
                for (id, answer) in answers {
                    match answer {
                        Answer::Ahead(_) if took < REACHED_WITHIN => {}
                        Answer::Computing if took < COMPUTED_WITHIN => {}
                        Answer::Digest(digest) => {
                            digests.insert(id, digest);
                            open.remove(&id);
                        }
                        Answer::Ahead(_) | Answer::Computing | Answer::Missed(_) | Answer::Noted => drop(open.remove(&id)),
                    }
                }
                if !open.is_empty() {
                    RT::sleep(ASK_EVERY).await;
                }
            }
            return digests.contains_key(&self.id).then_some((revision, digests));
        }
        None
    }

    /// Asks nodes, and drops those that do not answer. A node whose state has another history needs no digest.
    async fn ask_all(
        &self,
        open: &mut BTreeSet<NodeId>,
        question: fn(Revision) -> Question,
        revision: Revision,
        digests: &mut BTreeMap<NodeId, String>,
    ) -> Vec<(NodeId, Answer)> {
        let before = (self.applied)();
        let asked = open.iter().copied().filter(|id| *id != self.id);
        let answers = join_all(asked.map(|id| async move { (id, (self.ask)(id, question(revision)).await) })).await;
        let after = (self.applied)();
        let mut left = Vec::new();
        if open.contains(&self.id) {
            left.push((self.id, Answer::of(self.marked.digest(revision), after)));
        }
        for (id, answer) in answers {
            let other = answer.as_ref().and_then(|answer| answer.other_history(before, after));
            match (other, answer) {
                (Some(other), _) => {
                    digests.insert(id, other);
                    open.remove(&id);
                }
                (None, Some(answer)) => left.push((id, answer)),
                (None, None) => drop(open.remove(&id)),
            }
        }
        left
    }
}

/// The nodes of each state.
pub(super) fn states(digests: BTreeMap<NodeId, String>) -> Vec<BTreeSet<NodeId>> {
    let mut states: BTreeMap<String, BTreeSet<NodeId>> = BTreeMap::new();
    for (id, digest) in digests {
        states.entry(digest).or_default().insert(id);
    }
    states.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_state::{
        State,
        command::{Command, Meta, OpenSession},
    };
    use fairhold_types::{SessionId, time::WallMillis};
    use futures_util::FutureExt as _;
    use openraft_rt_sim::SimRuntime;
    use std::sync::Arc;

    /// A state after as many changes; those of another node may be other ones.
    fn state(changes: u64, from: u128) -> State {
        let mut state = State::new();
        for id in 0..u128::from(changes) {
            change(&mut state, from + id);
        }
        state
    }

    fn change(state: &mut State, id: u128) {
        let open = OpenSession {
            key: None,
            id: SessionId(id),
            timeout_ms: 10_000,
            name: String::new(),
            meta: Meta::new(),
            at: WallMillis(1),
        };
        state.apply(&Command::OpenSession(open)).answer.result.unwrap();
    }

    /// The last log entry that node 1 has applied.
    const ENTRY: u64 = 100;

    /// Compares the state of node 1 with those of nodes 2, 3, …, each with the last log entry that it has applied. Node 9 does
    /// not answer.
    fn compare(leader: &State, others: Vec<(u64, State)>) -> Option<(Revision, BTreeMap<NodeId, String>)> {
        SimRuntime::new(1).block_on(compare_all(leader, others))
    }

    async fn compare_all(leader: &State, others: Vec<(u64, State)>) -> Option<(Revision, BTreeMap<NodeId, String>)> {
        let all = (1..).zip([(ENTRY, leader.clone())].into_iter().chain(others));
        let (mut nodes, mut entries) = (BTreeMap::new(), BTreeMap::new());
        for (id, (entry, state)) in all {
            nodes.insert(id, (Arc::<MarkedState>::default(), state));
            entries.insert(id, entry);
        }
        for (marked, _) in nodes.values() {
            let marked = Arc::clone(marked);
            drop(SimRuntime::spawn(async move { marked.compute().await }));
        }
        let (own, leader) = nodes[&1].clone();
        let mark = |ahead| {
            let revision = Revision(leader.revision().0 + ahead);
            own.set(revision, &leader);
            revision
        };
        let known = nodes.clone();
        let applied = |entry: u64, state: &State| Applied { entry: Some(entry), revision: state.revision() };
        let ask = move |id: NodeId, question: Question| {
            let answer = known.get(&id).map(|(marked, state)| match question {
                Question::Mark(revision) => Answer::of(marked.set(revision, state), applied(entries[&id], state)),
                Question::Digest(revision) => Answer::of(marked.digest(revision), applied(entries[&id], state)),
                Question::Found(..) => Answer::Noted,
            });
            async move { answer }.boxed()
        };
        let others: Vec<NodeId> = nodes.keys().copied().filter(|id| *id != 1).chain([9]).collect();
        let asker = Asker { id: 1, marked: &own, mark: &mark, applied: &|| applied(ENTRY, &leader), ask: &ask };
        asker.collect::<SimRuntime>(&others).await
    }

    fn listed(digests: BTreeMap<NodeId, String>) -> Vec<Vec<NodeId>> {
        let mut listed: Vec<Vec<NodeId>> = states(digests).into_iter().map(Vec::from_iter).collect();
        listed.sort();
        listed
    }

    #[test]
    fn nodes_at_one_revision_are_compared_and_one_that_does_not_answer_is_left_out() {
        let others = vec![(ENTRY, state(5, 0)), (ENTRY, state(5, 40))];
        let (revision, digests) = compare(&state(5, 0), others).unwrap();
        assert_eq!((revision, listed(digests)), (state(5, 0).revision(), vec![vec![1, 2], vec![3]]));
        let (_, same) = compare(&state(5, 0), vec![(ENTRY, state(5, 0)), (ENTRY, state(5, 0))]).unwrap();
        assert_eq!(listed(same), [[1, 2, 3]]);
    }

    #[test]
    fn a_node_that_stays_behind_is_left_out() {
        let (_, digests) = compare(&state(5, 0), vec![(ENTRY, state(5, 0)), (ENTRY - 1, state(4, 0))]).unwrap();
        assert_eq!(listed(digests), [[1, 2]]);
    }

    /// It may never be at the marked revision.
    #[test]
    fn a_node_that_counts_other_revisions_has_another_state() {
        let (_, digests) = compare(&state(5, 0), vec![(ENTRY, state(5, 0)), (ENTRY, state(4, 0))]).unwrap();
        assert_eq!(listed(digests), [vec![1, 2], vec![3]], "node 3 has lost an entry");
        let (_, digests) = compare(&state(5, 0), vec![(ENTRY, state(5, 0)), (ENTRY, state(6, 0))]).unwrap();
        assert_eq!(listed(digests), [vec![1, 2], vec![3]], "node 3 has applied one twice");
    }

    #[test]
    fn a_cluster_that_moves_on_is_compared_further_ahead_or_later() {
        assert_eq!(compare(&state(5, 0), vec![(ENTRY + 1, state(6, 0))]), None, "nobody reaches the later revision");
    }

    #[test]
    fn the_state_is_kept_at_exactly_the_marked_revision() {
        let marked = MarkedState::default();
        let mut state = state(3, 0);
        let at = state.revision();
        assert_eq!(marked.set(at, &state), MarkedDigest::Computing);
        let next = Revision(at.0 + 1);
        assert_eq!(marked.set(next, &state), MarkedDigest::Ahead);
        assert_eq!(marked.digest(at), MarkedDigest::Missed, "there is another mark by now");
        change(&mut state, 90);
        marked.observe(&state);
        assert_eq!((state.revision(), marked.digest(next)), (next, MarkedDigest::Computing));
        assert_eq!(marked.set(at, &state), MarkedDigest::Missed);
        assert_eq!(marked.set(Revision(next.0 + 1), &state), MarkedDigest::Ahead);
        change(&mut state, 91);
        change(&mut state, 92);
        marked.observe(&state);
        assert_eq!(marked.digest(Revision(next.0 + 1)), MarkedDigest::Missed, "a snapshot skipped it");
    }
}
