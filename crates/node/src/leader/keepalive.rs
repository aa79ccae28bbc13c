//! Keepalives: a node batches them, and the leader answers them only if it can prove that it still leads.
//!
//! A keepalive moves the deadline when it arrives. The leader acknowledges it after a read barrier that started after
//! its arrival, if the session still exists in the state at that barrier and no expiry of it is in flight. So a deposed
//! leader cannot make a client believe that its session lives, and no session expires early after an acknowledgement.
//! One barrier serves all keepalives that arrived before it started.

use crate::{
    api::{At, Renewal},
    base::{metrics::KeepaliveMetrics, stop::Stop},
    leader::{clock::LeaderClock, heard, session_deadlines::Touched},
};
use fairhold_raft::{
    LeaderHandler, Leadership, Replica,
    error::{NotProposed, ProposeError, UnknownReason},
};
use fairhold_state::{State, read::GrantStatus};
use fairhold_types::{
    EndReason, NodeId, Revision, SessionNumber, duration, failpoint,
    planted::{self, Bug},
};
use futures_util::future::BoxFuture;
use openraft_rt::{AsyncRuntime, Instant};
use serde::{Deserialize, Serialize};
use std::{future::ready, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// The version byte of keepalives between nodes.
const KEEPALIVE_FORMAT: u8 = 1;
/// Keepalives that may wait at one node, for the next message or for the answer to one.
const QUEUE_MAX: usize = 65_536;
/// A message to the leader with this many keepalives takes no further call. Its last call may exceed the number.
const BATCH_MAX: usize = 8_192;
/// How long one message to the leader may take. After that the keepalives go to the leader of that time.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(1_000);
/// The pause before a retry if the leader could not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The result of one keepalive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Renewed {
    /// The session lives, and has its full timeout from the arrival of the keepalive.
    Alive {
        /// The timeout.
        timeout_ms: u64,
    },
    /// The session or grant has ended, or never existed.
    Ended {
        /// How the grant ended, if the state remembers it.
        reason: Option<EndReason>,
    },
    /// The grant belongs to a named session: keep the session alive instead.
    SessionOwned {
        /// That session.
        session: SessionNumber,
    },
    /// The leader could neither confirm nor deny it: retry.
    Unconfirmed,
}

/// The leader's answer to a batch.
#[derive(Debug, Serialize, Deserialize)]
enum RenewalReply {
    /// This node does not lead, or its clock does not run yet.
    NotLeading,
    /// The results at a revision of the leader. The node that sent the batch may not have reached that revision yet.
    Renewed {
        /// The leader's revision.
        revision: Revision,
        /// One for each renewal, in the same order.
        renewed: Vec<Renewed>,
    },
}

/// The queue of keepalives for the leader.
#[derive(Debug, Clone)]
pub(crate) struct Keepalives {
    queue: mpsc::UnboundedSender<PendingRenewals>,
    /// One permit for each keepalive that waits, until it is answered.
    room: Arc<Semaphore>,
    metrics: KeepaliveMetrics,
}

/// The keepalives of one call.
#[derive(Debug)]
struct PendingRenewals {
    renewals: Vec<Renewal>,
    answer: oneshot::Sender<At<Vec<Renewed>>>,
    _room: OwnedSemaphorePermit,
}

impl Keepalives {
    /// The queue, and its batcher, which must run as a task.
    pub(crate) fn new(metrics: KeepaliveMetrics) -> (Keepalives, KeepaliveBatcher) {
        let (send, receive) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(QUEUE_MAX));
        (Keepalives { queue: send, room, metrics: metrics.clone() }, KeepaliveBatcher { queue: receive, metrics })
    }

    /// Renews until the leader confirms or denies it, or until the deadline. The result carries the leader's revision.
    /// `NotProposed` means that the keepalive did not move a deadline.
    pub(crate) async fn renew<RT: AsyncRuntime>(
        &self,
        renewal: Renewal,
        deadline: RT::Instant,
    ) -> Result<At<Renewed>, ProposeError> {
        let At { mut value, revision } = self.renew_all::<RT>(vec![renewal], deadline).await?;
        Ok(At { value: value.pop().unwrap_or(Renewed::Unconfirmed), revision })
    }

    /// Renews all of them as `renew` does. `NotProposed` means that none of them moved a deadline.
    pub(crate) async fn renew_all<RT: AsyncRuntime>(
        &self,
        renewals: Vec<Renewal>,
        deadline: RT::Instant,
    ) -> Result<At<Vec<Renewed>>, ProposeError> {
        self.metrics.requested.inc_by(renewals.len() as u64);
        let mut all = At { value: vec![Renewed::Unconfirmed; renewals.len()], revision: Revision::default() };
        // A keepalive that was sent may have moved the deadline on its arrival, whatever the next attempt returns.
        let mut is_sent = false;
        let mut open: Vec<usize> = (0..renewals.len()).collect();
        if open.is_empty() {
            return Ok(all);
        }
        loop {
            match self.enqueue(open.iter().map(|place| renewals[*place]).collect()) {
                Ok(answered) => match RT::timeout_at(deadline, answered).await {
                    Ok(Ok(At { value, revision })) => {
                        is_sent = true;
                        all.revision = all.revision.max(revision);
                        open.iter().zip(value).for_each(|(place, renewed)| all.value[*place] = renewed);
                        open.retain(|place| all.value[*place] == Renewed::Unconfirmed);
                        if open.is_empty() {
                            return Ok(all);
                        }
                    }
                    Ok(Err(_)) if is_sent => return Err(UnknownReason::ConnectionLost.into()),
                    Ok(Err(_)) => return Err(NotProposed::ShuttingDown.into()),
                    Err(_) => return Err(UnknownReason::Deadline.into()),
                },
                Err(refused) if !is_sent => return Err(refused.into()),
                Err(NotProposed::ShuttingDown) => return Err(UnknownReason::ConnectionLost.into()),
                Err(_) => {}
            }
            if RT::Instant::now() >= deadline {
                return Err(UnknownReason::Deadline.into());
            }
            RT::sleep(RETRY_PAUSE).await;
        }
    }

    /// Queues keepalives for the next message: all of them, or none.
    fn enqueue(&self, renewals: Vec<Renewal>) -> Result<oneshot::Receiver<At<Vec<Renewed>>>, NotProposed> {
        let count = u32::try_from(renewals.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(count).map_err(|_| NotProposed::Overloaded)?;
        let (answer, answered) = oneshot::channel();
        let pending = PendingRenewals { renewals, answer, _room: room };
        self.queue.send(pending).map_err(|_| NotProposed::ShuttingDown)?;
        Ok(answered)
    }
}

/// Collects keepalives while a message is in flight, and sends them together in the next one.
#[derive(Debug)]
pub(crate) struct KeepaliveBatcher {
    queue: mpsc::UnboundedReceiver<PendingRenewals>,
    metrics: KeepaliveMetrics,
}

impl KeepaliveBatcher {
    pub(crate) async fn run<RT: AsyncRuntime>(mut self, replica: Replica<RT>, stop: Stop) {
        loop {
            let first = tokio::select! {
                biased;
                () = stop.requested() => return,
                first = self.queue.recv() => first,
            };
            let Some(first) = first else { return };
            let (batch, renewals) = self.collect(first);
            self.metrics.batches.inc();
            let renewed = send_batch(&replica, &renewals).await;
            let is_unconfirmed = renewed.is_none();
            let At { value, revision } = renewed
                .unwrap_or_else(|| At { value: vec![Renewed::Unconfirmed; renewals.len()], revision: Revision::default() });
            let mut results = value.into_iter();
            for pending in batch {
                let value = results.by_ref().take(pending.renewals.len()).collect();
                let _caller_may_be_gone = pending.answer.send(At { value, revision });
            }
            if is_unconfirmed {
                RT::sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// The calls whose keepalives go into the next message, and these keepalives.
    fn collect(&mut self, first: PendingRenewals) -> (Vec<PendingRenewals>, Vec<Renewal>) {
        let mut batch = Vec::new();
        let mut renewals = Vec::new();
        let mut next = Some(first);
        while let Some(pending) = next {
            // Callers that gave up need no answer.
            if !pending.answer.is_closed() {
                renewals.extend_from_slice(&pending.renewals);
                batch.push(pending);
            }
            next = if renewals.len() < BATCH_MAX { self.queue.try_recv().ok() } else { None };
        }
        (batch, renewals)
    }
}

/// Sends one message to the leader; `None` without a usable answer.
async fn send_batch<RT: AsyncRuntime>(replica: &Replica<RT>, renewals: &[Renewal]) -> Option<At<Vec<Renewed>>> {
    failpoint!(NodeKeepaliveSend, RT).ok()?;
    let request = match fairhold_codec::encode(KEEPALIVE_FORMAT, &renewals) {
        Ok(request) => request,
        Err(error) => {
            tracing::error!(%error, "cannot encode keepalives");
            return None;
        }
    };
    let reply = match replica.call_leader(request, RT::Instant::now() + MESSAGE_TIMEOUT).await {
        Ok(reply) => reply,
        Err(error) => {
            tracing::debug!(%error, "the leader did not answer the keepalives");
            return None;
        }
    };
    match fairhold_codec::decode::<RenewalReply>(KEEPALIVE_FORMAT, &reply) {
        Ok(RenewalReply::Renewed { revision, renewed }) if renewed.len() == renewals.len() => {
            Some(At { value: renewed, revision })
        }
        Ok(RenewalReply::Renewed { .. } | RenewalReply::NotLeading) => None,
        Err(error) => {
            tracing::warn!(%error, "cannot decode the leader's answer to keepalives");
            None
        }
    }
}

/// The leader's side.
pub(crate) struct KeepaliveService<RT: AsyncRuntime> {
    pub(crate) replica: Replica<RT>,
    pub(crate) clock: Arc<LeaderClock<RT>>,
}

impl<RT: AsyncRuntime> LeaderHandler for KeepaliveService<RT> {
    fn handle(&self, request: Vec<u8>, from: NodeId) -> BoxFuture<'static, Vec<u8>> {
        if heard::is_question(&request) {
            return Box::pin(ready(heard::answer(&self.clock, &request)));
        }
        let replica = self.replica.clone();
        let clock = Arc::clone(&self.clock);
        // The deadlines move now, on arrival; only the confirmation takes time.
        let decoded = fairhold_codec::decode::<Vec<Renewal>>(KEEPALIVE_FORMAT, &request);
        let arrived = decoded.map(|renewals| move_deadlines(&replica, &clock, renewals));
        Box::pin(async move {
            let reply = match arrived {
                Ok(Some(arrived)) => confirm(&replica, &clock, arrived).await.unwrap_or(RenewalReply::NotLeading),
                Ok(None) => RenewalReply::NotLeading,
                Err(error) => {
                    tracing::warn!(%error, from, "cannot decode the keepalives of another node");
                    RenewalReply::NotLeading
                }
            };
            fairhold_codec::encode(KEEPALIVE_FORMAT, &reply).unwrap_or_else(|error| {
                tracing::error!(%error, "cannot encode the answer to keepalives");
                Vec::new()
            })
        })
    }
}

/// Keepalives whose deadlines have moved.
struct ArrivedRenewals {
    leadership: Leadership,
    renewals: Vec<(Renewal, Option<(SessionNumber, Duration)>)>,
}

fn move_deadlines<RT: AsyncRuntime>(
    replica: &Replica<RT>,
    clock: &LeaderClock<RT>,
    renewals: Vec<Renewal>,
) -> Option<ArrivedRenewals> {
    let leadership = replica.leadership()?;
    let sessions: Vec<_> = replica.read(|state| renewals.iter().map(|renewal| session_of(state, *renewal).ok()).collect());
    let mut arrived = Vec::with_capacity(renewals.len());
    for (renewal, session) in renewals.into_iter().zip(sessions) {
        let touched = match session {
            Some(session) => match clock.touch(leadership, session)? {
                Touched::Moved(timeout) => Some((session, timeout)),
                Touched::Expiring | Touched::Unknown => None,
            },
            None => None,
        };
        arrived.push((renewal, touched));
    }
    Some(ArrivedRenewals { leadership, renewals: arrived })
}

async fn confirm<RT: AsyncRuntime>(
    replica: &Replica<RT>,
    clock: &LeaderClock<RT>,
    arrived: ArrivedRenewals,
) -> Option<RenewalReply> {
    failpoint!(NodeKeepaliveProve, RT).ok()?;
    confirm_leadership(replica).await?;
    failpoint!(NodeKeepaliveAnswer, RT).ok()?;
    // The barrier may have been another leader's, but the deadlines that moved belong to this leadership.
    if replica.leadership() != Some(arrived.leadership) {
        return None;
    }
    Some(replica.read(|state| {
        let result = |(renewal, touched)| match (session_of(state, renewal), touched) {
            (Ok(session), Some((moved, timeout))) if session == moved && !clock.cannot_confirm(arrived.leadership, session) => {
                Renewed::Alive { timeout_ms: duration::millis(timeout) }
            }
            (Ok(_), _) => Renewed::Unconfirmed,
            (Err(ended), _) => ended,
        };
        let renewed = arrived.renewals.iter().copied().map(result).collect();
        RenewalReply::Renewed { revision: state.revision(), renewed }
    }))
}

/// The session that a keepalive renews, or the answer if it does not exist.
fn session_of(state: &State, renewal: Renewal) -> Result<SessionNumber, Renewed> {
    let ended = Renewed::Ended { reason: None };
    match renewal {
        Renewal::Session(id) => state.session_number(&id).ok_or(ended),
        Renewal::Number(number) => state.session(number).map(|session| session.number).ok_or(ended),
        Renewal::Grant(grant) => match state.grant(&grant) {
            GrantStatus::Live(contender) if contender.anonymous => Ok(contender.session),
            GrantStatus::Live(contender) => Err(Renewed::SessionOwned { session: contender.session }),
            GrantStatus::Ended(reason) => Err(Renewed::Ended { reason: Some(reason) }),
            GrantStatus::Unknown => Err(ended),
        },
    }
}

/// Proves that this cluster had a leader after the keepalives arrived; the caller checks that it was this node.
async fn confirm_leadership<RT: AsyncRuntime>(replica: &Replica<RT>) -> Option<()> {
    if planted::has(Bug::KeepaliveWithoutProof) {
        return Some(());
    }
    replica.read_barrier(RT::Instant::now() + MESSAGE_TIMEOUT).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;

    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);
    const ALIVE: Renewed = Renewed::Alive { timeout_ms: 7 };

    /// These sessions do not exist: the tests need no leader.
    fn renewal(number: u64) -> Renewal {
        Renewal::Number(SessionNumber(number))
    }

    /// Keepalives with a queue of this size.
    fn keepalives(room: usize) -> (Keepalives, mpsc::UnboundedReceiver<PendingRenewals>) {
        let (send, receive) = mpsc::unbounded_channel();
        (Keepalives { queue: send, room: Arc::new(Semaphore::new(room)), metrics: KeepaliveMetrics::default() }, receive)
    }

    fn answer(pending: PendingRenewals, value: Vec<Renewed>) {
        pending.answer.send(At { value, revision: Revision(9) }).unwrap();
    }

    #[tokio::test]
    async fn a_keepalive_that_finds_the_queue_full_did_nothing() {
        let (keepalives, mut queue) = keepalives(1);
        let deadline = Moment::now() + TEST_TIMEOUT;
        let first = keepalives.clone();
        let second = keepalives.renew::<TokioRuntime>(renewal(2), deadline);
        let first = TokioRuntime::spawn(async move { first.renew::<TokioRuntime>(renewal(1), deadline).await });
        while queue.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(second.await, Err(NotProposed::Overloaded.into()));
        answer(queue.recv().await.unwrap(), vec![ALIVE]);
        assert_eq!(first.await.unwrap(), Ok(At { value: ALIVE, revision: Revision(9) }));
    }

    #[tokio::test]
    async fn a_keepalive_that_was_sent_never_reports_that_it_did_nothing() {
        let (keepalives, mut queue) = keepalives(1);
        let deadline = Moment::now() + Duration::from_millis(200);
        let others = keepalives.clone();
        let retried = TokioRuntime::spawn(async move { keepalives.renew::<TokioRuntime>(renewal(1), deadline).await });
        answer(queue.recv().await.unwrap(), vec![Renewed::Unconfirmed]);
        // Another keepalive takes the only place before the first one must retry.
        let _answered = others.enqueue(vec![renewal(2)]).unwrap();
        assert_eq!(retried.await.unwrap(), Err(UnknownReason::Deadline.into()));
    }

    #[tokio::test]
    async fn the_keepalives_of_a_call_are_queued_together_or_not_at_all() {
        let (keepalives, mut queue) = keepalives(2);
        let deadline = Moment::now() + TEST_TIMEOUT;
        let three = keepalives.renew_all::<TokioRuntime>([1, 2, 3].map(renewal).to_vec(), deadline).await;
        assert_eq!(three, Err(NotProposed::Overloaded.into()));
        assert!(queue.try_recv().is_err());
    }

    #[tokio::test]
    async fn only_the_unconfirmed_keepalives_of_a_call_are_sent_again() {
        let (keepalives, mut queue) = keepalives(3);
        let deadline = Moment::now() + TEST_TIMEOUT;
        let call = [1, 2, 3].map(renewal).to_vec();
        let all = TokioRuntime::spawn(async move { keepalives.renew_all::<TokioRuntime>(call, deadline).await });
        let ended = Renewed::Ended { reason: None };
        let first = queue.recv().await.unwrap();
        assert_eq!(first.renewals, [1, 2, 3].map(renewal));
        answer(first, vec![ALIVE, Renewed::Unconfirmed, ended.clone()]);
        let second = queue.recv().await.unwrap();
        assert_eq!(second.renewals, [renewal(2)]);
        answer(second, vec![ALIVE]);
        assert_eq!(all.await.unwrap(), Ok(At { value: vec![ALIVE, ALIVE, ended], revision: Revision(9) }));
    }

    #[tokio::test]
    async fn a_call_without_keepalives_needs_no_leader() {
        let (keepalives, mut queue) = keepalives(1);
        let none = keepalives.renew_all::<TokioRuntime>(Vec::new(), Moment::now() + TEST_TIMEOUT).await;
        assert_eq!(none, Ok(At { value: Vec::new(), revision: Revision::default() }));
        assert!(queue.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_message_leaves_out_callers_that_gave_up_and_exceeds_its_size_by_one_call_at_most() {
        let (keepalives, queue) = keepalives(3 * BATCH_MAX);
        let mut batcher = KeepaliveBatcher { queue, metrics: KeepaliveMetrics::default() };
        let call = |count: u64| keepalives.enqueue((0..count).map(renewal).collect()).unwrap();
        let given_up = call(7);
        let _small = call(1);
        let _large = call(BATCH_MAX as u64);
        let _next = call(2);
        drop(given_up);
        let first = batcher.queue.recv().await.unwrap();
        let (batch, renewals) = batcher.collect(first);
        assert_eq!((batch.len(), renewals.len()), (2, 1 + BATCH_MAX));
        assert_eq!(batcher.queue.recv().await.unwrap().renewals.len(), 2, "the rest waits for the next message");
    }
}
