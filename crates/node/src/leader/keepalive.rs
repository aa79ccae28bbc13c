//! Keepalives: a node batches them, and the leader answers them only if it can prove that it still leads.
//!
//! A keepalive moves the deadline when it arrives. The leader acknowledges it after a read barrier that started after
//! its arrival, if the session still exists in the state at that barrier and no expiry of it is in flight. So a deposed
//! leader cannot make a client believe that its session lives, and no session expires early after an acknowledgement.
//! One barrier serves all keepalives that arrived before it started.

use crate::{
    api::{At, Renewal},
    base::{metrics::KeepaliveMetrics, stop::Stop},
    leader::{clock::LeaderClock, session_deadlines::Touched},
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
use futures_util::future::{BoxFuture, join_all};
use openraft_rt::{AsyncRuntime, Instant};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// The version byte of keepalives between nodes.
const KEEPALIVE_FORMAT: u8 = 1;
/// Keepalives that may wait at one node for the next message.
const QUEUE_MAX: usize = 65_536;
/// Keepalives in one message to the leader.
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
    queue: mpsc::Sender<PendingRenewal>,
    metrics: KeepaliveMetrics,
}

#[derive(Debug)]
struct PendingRenewal {
    renewal: Renewal,
    answer: oneshot::Sender<At<Renewed>>,
}

impl Keepalives {
    /// The queue, and its batcher, which must run as a task.
    pub(crate) fn new(metrics: KeepaliveMetrics) -> (Keepalives, KeepaliveBatcher) {
        let (send, receive) = mpsc::channel(QUEUE_MAX);
        (Keepalives { queue: send, metrics: metrics.clone() }, KeepaliveBatcher { queue: receive, metrics })
    }

    /// Renews until the leader confirms or denies it, or until the deadline. The result carries the leader's revision.
    /// `NotProposed` means that the keepalive did not move a deadline.
    pub(crate) async fn renew<RT: AsyncRuntime>(
        &self,
        renewal: Renewal,
        deadline: RT::Instant,
    ) -> Result<At<Renewed>, ProposeError> {
        self.metrics.requested.inc();
        // A keepalive that was sent may have moved the deadline on its arrival, whatever the next attempt returns.
        let mut is_sent = false;
        loop {
            let (answer, answered) = oneshot::channel();
            match self.queue.try_send(PendingRenewal { renewal, answer }) {
                Ok(()) => match RT::timeout_at(deadline, answered).await {
                    Ok(Ok(At { value: Renewed::Unconfirmed, .. })) => is_sent = true,
                    Ok(Ok(renewed)) => return Ok(renewed),
                    Ok(Err(_)) if is_sent => return Err(UnknownReason::ConnectionLost.into()),
                    Ok(Err(_)) => return Err(NotProposed::ShuttingDown.into()),
                    Err(_) => return Err(UnknownReason::Deadline.into()),
                },
                Err(mpsc::error::TrySendError::Full(_)) if !is_sent => return Err(NotProposed::Overloaded.into()),
                Err(mpsc::error::TrySendError::Full(_)) => {}
                Err(mpsc::error::TrySendError::Closed(_)) if is_sent => return Err(UnknownReason::ConnectionLost.into()),
                Err(mpsc::error::TrySendError::Closed(_)) => return Err(NotProposed::ShuttingDown.into()),
            }
            if RT::Instant::now() >= deadline {
                return Err(UnknownReason::Deadline.into());
            }
            RT::sleep(RETRY_PAUSE).await;
        }
    }

    /// Renews each of them as `renew` does. `NotProposed` means that none of them moved a deadline.
    pub(crate) async fn renew_all<RT: AsyncRuntime>(
        &self,
        renewals: impl Iterator<Item = Renewal>,
        deadline: RT::Instant,
    ) -> Result<Vec<At<Renewed>>, ProposeError> {
        let all = join_all(renewals.map(|renewal| self.renew::<RT>(renewal, deadline))).await;
        let none_was_sent = all.iter().all(|renewed| matches!(renewed, Err(ProposeError::NotProposed(_))));
        let may_have_moved = |error| if none_was_sent { error } else { UnknownReason::Deadline.into() };
        all.into_iter().collect::<Result<_, _>>().map_err(may_have_moved)
    }
}

/// Collects keepalives while a message is in flight, and sends them together in the next one.
#[derive(Debug)]
pub(crate) struct KeepaliveBatcher {
    queue: mpsc::Receiver<PendingRenewal>,
    metrics: KeepaliveMetrics,
}

impl KeepaliveBatcher {
    pub(crate) async fn run<RT: AsyncRuntime>(mut self, replica: Replica<RT>, stop: Stop) {
        let mut batch = Vec::new();
        loop {
            let count = tokio::select! {
                biased;
                () = stop.requested() => return,
                count = self.queue.recv_many(&mut batch, BATCH_MAX) => count,
            };
            if count == 0 {
                return;
            }
            // Callers that gave up need no answer.
            batch.retain(|pending| !pending.answer.is_closed());
            let renewals: Vec<Renewal> = batch.iter().map(|pending| pending.renewal).collect();
            self.metrics.batches.inc();
            let renewed = send_batch(&replica, &renewals).await;
            let is_unconfirmed = renewed.is_none();
            let At { value: results, revision } = renewed
                .unwrap_or_else(|| At { value: vec![Renewed::Unconfirmed; renewals.len()], revision: Revision::default() });
            for (pending, value) in batch.drain(..).zip(results) {
                let _caller_may_be_gone = pending.answer.send(At { value, revision });
            }
            if is_unconfirmed {
                RT::sleep(RETRY_PAUSE).await;
            }
        }
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
        Renewal::Session(id) => state.session_by_id(&id).map(|session| session.number).ok_or(ended),
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

    /// These sessions do not exist: the tests need no leader.
    fn renewal(number: u64) -> Renewal {
        Renewal::Number(SessionNumber(number))
    }

    /// Keepalives with a queue of this size.
    fn keepalives(room: usize) -> (Keepalives, mpsc::Receiver<PendingRenewal>) {
        let (send, receive) = mpsc::channel(room);
        (Keepalives { queue: send, metrics: KeepaliveMetrics::default() }, receive)
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
        let alive = At { value: Renewed::Alive { timeout_ms: 7 }, revision: Revision(9) };
        queue.recv().await.unwrap().answer.send(alive.clone()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(alive));
    }

    #[tokio::test]
    async fn a_keepalive_that_was_sent_never_reports_that_it_did_nothing() {
        let (keepalives, mut queue) = keepalives(1);
        let deadline = Moment::now() + Duration::from_millis(200);
        let others = keepalives.clone();
        let retried = TokioRuntime::spawn(async move { keepalives.renew::<TokioRuntime>(renewal(1), deadline).await });
        let first = queue.recv().await.unwrap();
        // Another keepalive takes the only slot before the first one must retry.
        let (answer, _answered) = oneshot::channel();
        others.queue.try_send(PendingRenewal { renewal: renewal(2), answer }).unwrap();
        first.answer.send(At { value: Renewed::Unconfirmed, revision: Revision::default() }).unwrap();
        assert_eq!(retried.await.unwrap(), Err(UnknownReason::Deadline.into()));
    }

    #[tokio::test]
    async fn several_keepalives_did_nothing_only_if_none_was_sent() {
        let (keepalives, queue) = keepalives(1);
        let deadline = Moment::now() + Duration::from_millis(50);
        let some = keepalives.renew_all::<TokioRuntime>([1, 2].map(renewal).into_iter(), deadline).await;
        assert_eq!(some, Err(UnknownReason::Deadline.into()));
        let none = keepalives.renew_all::<TokioRuntime>([3, 4].map(renewal).into_iter(), deadline).await;
        assert_eq!(none, Err(NotProposed::Overloaded.into()), "the only slot is still in use");
        drop(queue);
    }
}
