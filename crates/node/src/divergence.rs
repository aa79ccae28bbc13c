//! Whether the nodes still have the same state: the leader has them compared now and then.
//!
//! It marks a revision on each member and asks for the digests of their states at it. Nodes that have applied the same log
//! entries must have the same digest. Then it tells all members what it found.

use crate::base::{
    answer_time::answer_timeout,
    marked_state::{MarkedDigest, MarkedState},
};
use fairhold_health::divergence::Divergence;
use fairhold_raft::{Replica, ReplicaStatus};
use fairhold_types::{NodeId, Revision};
use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use openraft_rt::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The version byte of a question and of its answer. It tells them from other messages between members.
pub(crate) const COMPARISON_FORMAT: u8 = 2;
/// How often a node checks whether it leads, and a comparison is due.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// The first comparison of a leader. After that, a large state is not read too often.
const FIRST_AFTER: Duration = Duration::from_secs(60);
const COMPARE_EVERY: Duration = Duration::from_secs(24 * 3_600);
/// The next comparison while states differ. A node that restarts does not know that its state is odd.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The next one if this one could not be completed.
const RETRY_AFTER: Duration = Duration::from_secs(600);
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
enum Question {
    /// Keep the state at this revision.
    Mark(Revision),
    /// The digest of the state at this revision?
    Digest(Revision),
    /// What a comparison at this revision found: the nodes of each state.
    Found(Revision, Vec<Vec<NodeId>>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Answer {
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
struct Applied {
    entry: Option<u64>,
    revision: Revision,
}

impl Applied {
    fn of<RT: AsyncRuntime>(replica: &Replica<RT>) -> Applied {
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
    fn of(digest: MarkedDigest, applied: Applied) -> Answer {
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
struct Asker<'a> {
    id: NodeId,
    marked: &'a MarkedState,
    /// Marks the revision that is this far ahead.
    mark: &'a (dyn Fn(u64) -> Revision + Send + Sync),
    applied: &'a (dyn Fn() -> Applied + Send + Sync),
    ask: &'a (dyn Fn(NodeId, Question) -> BoxFuture<'static, Option<Answer>> + Send + Sync),
}

/// The marked state of a node, and what the last comparison found.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) marked: MarkedState,
    found: Mutex<Option<Divergence>>,
}

impl Comparison {
    /// What the last comparison found, if states differ.
    pub(crate) fn found(&self) -> Option<Divergence> {
        self.found.lock().clone()
    }

    /// Whether the state of this node is not that of a majority.
    pub(crate) fn is_odd(&self, raft: &ReplicaStatus) -> bool {
        let found = self.found.lock();
        let Some(found) = &*found else { return false };
        let voters = raft.members.iter().filter(|member| member.voter).map(|member| member.id).collect();
        found.among(&members(raft)).and_then(|found| found.odd(&voters)).is_some_and(|odd| odd.contains(&raft.id))
    }

    fn note(&self, revision: Revision, states: Vec<BTreeSet<NodeId>>) {
        *self.found.lock() = (states.len() > 1).then_some(Divergence { revision, states });
    }

    /// Answers a message of another member.
    pub(crate) fn handle<RT: AsyncRuntime>(&self, request: &[u8], from: NodeId, replica: &Replica<RT>) -> Vec<u8> {
        let question = match fairhold_codec::decode(COMPARISON_FORMAT, request) {
            Ok(question) => question,
            Err(error) => {
                tracing::warn!(%error, from, "cannot decode what node {from} asks about this node's state");
                return Vec::new();
            }
        };
        let answer = match question {
            Question::Mark(revision) => {
                let digest = replica.read(|state| self.marked.set(revision, state));
                Answer::of(digest, Applied::of(replica))
            }
            Question::Digest(revision) => Answer::of(self.marked.digest(revision), Applied::of(replica)),
            Question::Found(revision, states) => {
                self.note(revision, states.into_iter().map(BTreeSet::from_iter).collect());
                Answer::Noted
            }
        };
        encode(&answer).unwrap_or_default()
    }

    /// Has the states compared while this node leads, until Raft has stopped.
    pub(crate) async fn run<RT: AsyncRuntime>(&self, replica: &Replica<RT>) {
        let mut leads = None;
        let mut due = RT::Instant::now();
        while !replica.has_stopped() {
            RT::sleep(CHECK_EVERY).await;
            let now = RT::Instant::now();
            let before = std::mem::replace(&mut leads, replica.leadership());
            if leads != before {
                due = now + FIRST_AFTER;
            }
            if leads.is_some() && now >= due {
                due = now + self.compare(replica).await;
            }
        }
    }

    /// Compares the states of all members that answer, and tells them what it found. Returns when the next comparison is
    /// due.
    async fn compare<RT: AsyncRuntime>(&self, replica: &Replica<RT>) -> Duration {
        let raft = replica.status();
        let others: Vec<NodeId> = members(&raft).into_iter().filter(|id| *id != raft.id).collect();
        let ask = |node: NodeId, question: Question| {
            let replica = replica.clone();
            async move { ask(&replica, node, &question).await }.boxed()
        };
        let mark = |ahead: u64| {
            replica.read(|state| {
                let revision = Revision(state.revision().0 + ahead);
                self.marked.set(revision, state);
                revision
            })
        };
        let applied = || Applied::of(replica);
        let asker = Asker { id: raft.id, marked: &self.marked, mark: &mark, applied: &applied, ask: &ask };
        let Some((revision, digests)) = asker.collect::<RT>(&others).await else {
            tracing::debug!("could not compare the states of the nodes");
            return RETRY_AFTER;
        };
        let compared: BTreeSet<NodeId> = digests.keys().copied().collect();
        let states = states(digests);
        let differ = states.len() > 1;
        if !differ {
            tracing::info!(revision = revision.0, "compared the states of nodes {compared:?}: they are the same");
        }
        // A node that was odd and does not answer now may come back.
        let is_known = |found: &Divergence| found.states.iter().flatten().all(|id| compared.contains(id));
        let open = self.found().and_then(|found| found.among(&members(&raft)));
        if !differ && open.is_some_and(|open| !is_known(&open)) {
            return AGAIN_AFTER;
        }
        self.note(revision, states.clone());
        let states: Vec<Vec<NodeId>> = states.into_iter().map(Vec::from_iter).collect();
        // A member that misses this hears of the next comparison while states differ.
        join_all(others.iter().map(|id| ask(*id, Question::Found(revision, states.clone())))).await;
        if differ { AGAIN_AFTER } else { COMPARE_EVERY }
    }
}

fn members(raft: &ReplicaStatus) -> BTreeSet<NodeId> {
    raft.members.iter().map(|member| member.id).collect()
}

impl Asker<'_> {
    /// Marks a revision on this node and on the others, and collects the digests of their states at it. A node that does not
    /// answer in time is left out; `None` if this node itself did not get there.
    async fn collect<RT: AsyncRuntime>(&self, others: &[NodeId]) -> Option<(Revision, BTreeMap<NodeId, String>)> {
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
fn states(digests: BTreeMap<NodeId, String>) -> Vec<BTreeSet<NodeId>> {
    let mut states: BTreeMap<String, BTreeSet<NodeId>> = BTreeMap::new();
    for (id, digest) in digests {
        states.entry(digest).or_default().insert(id);
    }
    states.into_values().collect()
}

/// The answer of a member; `None` without one in time. An older program has none.
async fn ask<RT: AsyncRuntime>(replica: &Replica<RT>, member: NodeId, question: &Question) -> Option<Answer> {
    let deadline = RT::Instant::now() + answer_timeout(replica.timing());
    let answer = replica.call_member(member, encode(question)?, deadline).await?;
    fairhold_codec::decode(COMPARISON_FORMAT, &answer).ok()
}

fn encode(message: &impl Serialize) -> Option<Vec<u8>> {
    let encoded = fairhold_codec::encode(COMPARISON_FORMAT, message);
    encoded.inspect_err(|error| tracing::error!(%error, "cannot encode a message about the states of the nodes")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_state::{
        State,
        command::{Command, Meta, OpenSession},
    };
    use fairhold_types::{SessionId, time::WallMillis};
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

    /// These bytes are sent between programs of different versions: other ones need another `COMPARISON_FORMAT`.
    #[test]
    fn the_messages_have_stable_bytes() {
        let bytes = |message: &Question| encode(message).unwrap().split_last_chunk::<4>().unwrap().0.to_vec();
        assert_eq!(bytes(&Question::Mark(Revision(7))), [COMPARISON_FORMAT, 0, 7]);
        assert_eq!(bytes(&Question::Digest(Revision(7))), [COMPARISON_FORMAT, 1, 7]);
        assert_eq!(bytes(&Question::Found(Revision(7), vec![vec![1, 2], vec![3]])), [COMPARISON_FORMAT, 2, 7, 2, 2, 1, 2, 1, 3]);
        let applied = Applied { entry: Some(9), revision: Revision(7) };
        let digest = Answer::Digest("ab".to_owned());
        let answers = [Answer::Ahead(applied), Answer::Computing, digest, Answer::Missed(applied), Answer::Noted];
        let bytes = answers.map(|answer| encode(&answer).unwrap().split_last_chunk::<4>().unwrap().0[1..].to_vec());
        assert_eq!(bytes.concat(), [0, 1, 9, 7, 1, 2, 2, b'a', b'b', 3, 1, 9, 7, 4]);
    }
}
