//! Whether the nodes still have the same state: the leader has them compared now and then, and tells all members what was
//! found.

mod collection;

use crate::base::{answer_time::answer_timeout, marked_state::MarkedState};
use collection::{Answer, Applied, Asker, Question, states};
use fairhold_health::divergence::Divergence;
use fairhold_raft::{Leadership, Replica, ReplicaStatus};
use fairhold_types::{NodeId, Revision};
use futures_util::{FutureExt, future::join_all};
use openraft_rt::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use serde::Serialize;
use std::{collections::BTreeSet, time::Duration};

/// The version byte of a question and of its answer. It tells them from other messages between members.
pub(crate) const COMPARISON_FORMAT: u8 = 2;
/// The first comparison of a leader. After that, a large state is not read too often.
const FIRST_AFTER: Duration = Duration::from_secs(60);
const COMPARE_EVERY: Duration = Duration::from_secs(24 * 3_600);
/// The next comparison while states differ. A node that restarts does not know that its state is odd.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The next one if this one could not be completed.
const RETRY_AFTER: Duration = Duration::from_secs(600);

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

    /// Has the states compared while this node leads. It may not return when Raft has stopped.
    pub(crate) async fn run<RT: AsyncRuntime>(&self, replica: &Replica<RT>) {
        let mut leads = replica.leadership();
        let mut due = RT::Instant::now() + FIRST_AFTER;
        while !replica.has_stopped() {
            let change = replica.leadership_change(leads);
            let changed = if leads.is_some() { RT::timeout_at(due, change).await.ok() } else { Some(change.await) };
            due = RT::Instant::now()
                + match changed {
                    Some(now) => {
                        leads = now;
                        FIRST_AFTER
                    }
                    None => self.compare(replica, leads).await,
                };
        }
    }

    /// Compares the states of all members that answer, and tells them what it found. Returns when the next comparison is
    /// due.
    async fn compare<RT: AsyncRuntime>(&self, replica: &Replica<RT>, leads: Option<Leadership>) -> Duration {
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
        // A late result must not take the place of that of the next leader.
        if leads != replica.leadership() {
            return RETRY_AFTER;
        }
        let compared: BTreeSet<NodeId> = digests.keys().copied().collect();
        let states = states(digests);
        let differ = states.len() > 1;
        if !differ {
            tracing::info!(revision = revision.0, "compared the states of nodes {compared:?}: they are the same");
        }
        // A node that was odd and does not answer now may come back.
        let is_known = |found: &Divergence| found.states.iter().flatten().all(|id| compared.contains(id));
        let open = self.found().and_then(|found| found.among(&members(&raft)));
        if !differ && open.as_ref().is_some_and(|open| !is_known(open)) {
            return AGAIN_AFTER;
        }
        self.note(revision, states.clone());
        let states: Vec<Vec<NodeId>> = states.into_iter().map(Vec::from_iter).collect();
        // A member that misses this hears of the next comparison, which comes soon while states differ, and once more after
        // they agree again.
        join_all(others.iter().map(|id| ask(*id, Question::Found(revision, states.clone())))).await;
        if differ || open.is_some() { AGAIN_AFTER } else { COMPARE_EVERY }
    }
}

fn members(raft: &ReplicaStatus) -> BTreeSet<NodeId> {
    raft.members.iter().map(|member| member.id).collect()
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
