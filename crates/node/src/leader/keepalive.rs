//! Keepalives: gathered at the node that took them, answered by the leader, and only with proof that it still leads.
//!
//! A keepalive moves the deadline when it arrives, and is acknowledged by a read barrier that started after its arrival, with
//! the session still there in the state up to that barrier and no expiry of it on the way. So a deposed leader cannot keep a
//! client believing, and no acknowledgement is followed by an early end. One barrier serves all that arrived before it
//! started.

use crate::{
    api::{At, Renewal},
    base::{metrics::KeepaliveMetrics, stop::Stop},
    leader::{clock::LeaderClock, timers::Touched},
};
use fairhold_raft::{
    LeaderHandler, Leadership, Replica,
    error::{NotProposed, ProposeError, UnknownReason},
};
use fairhold_state::{State, read::GrantStatus};
use fairhold_types::{
    EndReason, NodeId, Revision, SessionNumber, failpoint,
    planted::{self, Bug},
};
use futures_util::future::{BoxFuture, join_all};
use openraft_rt::{AsyncRuntime, Instant};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// The version byte of keepalives between nodes.
const KEEPALIVE_FORMAT: u8 = 1;
/// Keepalives that may wait at one node to be passed on.
const WAITING_MAX: usize = 65_536;
/// Keepalives in one message to the leader.
const BATCH_MAX: usize = 8_192;
/// How long one message to the leader may take before it is sent again, to the leader at that time.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(1_000);
/// How long to wait before asking again where the leader could not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// What became of one keepalive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Renewed {
    /// It lives, and has its full timeout from the arrival of the keepalive on.
    Alive {
        /// The timeout.
        timeout_ms: u64,
    },
    /// It is over, or there never was such a one.
    Ended {
        /// How, where it was a grant that is remembered.
        reason: Option<EndReason>,
    },
    /// The grant belongs to a named session: the session must be kept alive instead.
    SessionOwned {
        /// That session.
        session: SessionNumber,
    },
    /// It could be neither proved nor denied: ask again.
    Unproved,
}

/// A leader's answer to a batch.
#[derive(Debug, Serialize, Deserialize)]
enum RenewalReply {
    /// It does not lead, or its clock has not begun.
    NotLeading,
    /// What became of them at a revision of the leader, which the node that asked may not have reached yet.
    Renewed {
        /// The leader's revision.
        revision: Revision,
        /// One for each renewal, in order.
        renewed: Vec<Renewed>,
    },
}

/// Passes keepalives on.
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
    /// The sending end, and what gathers behind it, to be run as a task.
    pub(crate) fn new(metrics: KeepaliveMetrics) -> (Keepalives, Gatherer) {
        let (send, receive) = mpsc::channel(WAITING_MAX);
        (Keepalives { queue: send, metrics: metrics.clone() }, Gatherer { queue: receive, metrics })
    }

    /// Renews, until it is proved or denied, or the deadline is past; at which revision of the leader. `NotProposed` means that
    /// it surely moved no deadline.
    pub(crate) async fn renew<RT: AsyncRuntime>(
        &self,
        renewal: Renewal,
        deadline: RT::Instant,
    ) -> Result<At<Renewed>, ProposeError> {
        self.metrics.asked.inc();
        // Once one was passed on, it may have moved the deadline on its arrival, whatever becomes of the next.
        let mut passed_on = false;
        loop {
            let (answer, answered) = oneshot::channel();
            match self.queue.try_send(PendingRenewal { renewal, answer }) {
                Ok(()) => match RT::timeout_at(deadline, answered).await {
                    Ok(Ok(At { value: Renewed::Unproved, .. })) => passed_on = true,
                    Ok(Ok(renewed)) => return Ok(renewed),
                    Ok(Err(_)) if passed_on => return Err(UnknownReason::ConnectionLost.into()),
                    Ok(Err(_)) => return Err(NotProposed::ShuttingDown.into()),
                    Err(_) => return Err(UnknownReason::Deadline.into()),
                },
                Err(mpsc::error::TrySendError::Full(_)) if !passed_on => return Err(NotProposed::Overloaded.into()),
                Err(mpsc::error::TrySendError::Full(_)) => {}
                Err(mpsc::error::TrySendError::Closed(_)) if passed_on => return Err(UnknownReason::ConnectionLost.into()),
                Err(mpsc::error::TrySendError::Closed(_)) => return Err(NotProposed::ShuttingDown.into()),
            }
            if RT::Instant::now() >= deadline {
                return Err(UnknownReason::Deadline.into());
            }
            RT::sleep(RETRY_PAUSE).await;
        }
    }

    /// Renews many, each as `renew` does. `NotProposed` means that none of them moved a deadline.
    pub(crate) async fn renew_all<RT: AsyncRuntime>(
        &self,
        renewals: impl Iterator<Item = Renewal>,
        deadline: RT::Instant,
    ) -> Result<Vec<At<Renewed>>, ProposeError> {
        let all = join_all(renewals.map(|renewal| self.renew::<RT>(renewal, deadline))).await;
        let none_passed_on = all.iter().all(|renewed| matches!(renewed, Err(ProposeError::NotProposed(_))));
        let may_have_moved = |error| if none_passed_on { error } else { UnknownReason::Deadline.into() };
        all.into_iter().collect::<Result<_, _>>().map_err(may_have_moved)
    }
}

/// Gathers keepalives while a message is under way, and sends all that wait in the next.
#[derive(Debug)]
pub(crate) struct Gatherer {
    queue: mpsc::Receiver<PendingRenewal>,
    metrics: KeepaliveMetrics,
}

impl Gatherer {
    pub(crate) async fn run<RT: AsyncRuntime>(mut self, replica: Replica<RT>, stop: Stop) {
        let mut batch = Vec::new();
        loop {
            let received = tokio::select! {
                biased;
                () = stop.requested() => return,
                received = self.queue.recv_many(&mut batch, BATCH_MAX) => received,
            };
            if received == 0 {
                return;
            }
            // Callers that gave up meanwhile need no answer.
            batch.retain(|waiting| !waiting.answer.is_closed());
            let renewals: Vec<Renewal> = batch.iter().map(|waiting| waiting.renewal).collect();
            self.metrics.batches.inc();
            let renewed = ask_leader(&replica, &renewals).await;
            let unproved = renewed.is_none();
            let At { value: results, revision } =
                renewed.unwrap_or_else(|| At { value: vec![Renewed::Unproved; renewals.len()], revision: Revision::default() });
            for (waiting, value) in batch.drain(..).zip(results) {
                let _caller_may_be_gone = waiting.answer.send(At { value, revision });
            }
            if unproved {
                RT::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// One message to the leader; none where there was no proper answer.
async fn ask_leader<RT: AsyncRuntime>(replica: &Replica<RT>, renewals: &[Renewal]) -> Option<At<Vec<Renewed>>> {
    failpoint!(NodeKeepaliveSend, RT).ok()?;
    let request = match fairhold_codec::encode(KEEPALIVE_FORMAT, &renewals) {
        Ok(request) => request,
        Err(error) => {
            tracing::error!(%error, "keepalives could not be encoded");
            return None;
        }
    };
    let reply = match replica.call_leader(request, RT::Instant::now() + MESSAGE_TIMEOUT).await {
        Ok(reply) => reply,
        Err(error) => {
            tracing::debug!(%error, "the leader did not accept the keepalives");
            return None;
        }
    };
    match fairhold_codec::decode::<RenewalReply>(KEEPALIVE_FORMAT, &reply) {
        Ok(RenewalReply::Renewed { revision, renewed }) if renewed.len() == renewals.len() => {
            Some(At { value: renewed, revision })
        }
        Ok(RenewalReply::Renewed { .. } | RenewalReply::NotLeading) => None,
        Err(error) => {
            tracing::warn!(%error, "the leader's answer to keepalives cannot be read");
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
    fn attend(&self, request: Vec<u8>, from: NodeId) -> BoxFuture<'static, Vec<u8>> {
        let (replica, clock) = (self.replica.clone(), Arc::clone(&self.clock));
        // Decoding and moving the deadlines are done now, on arrival; only the proof is waited for.
        let decoded = fairhold_codec::decode::<Vec<Renewal>>(KEEPALIVE_FORMAT, &request);
        let arrived = decoded.map(|renewals| arrive(&replica, &clock, renewals));
        Box::pin(async move {
            let reply = match arrived {
                Ok(Some(arrived)) => prove(&replica, &clock, arrived).await.unwrap_or(RenewalReply::NotLeading),
                Ok(None) => RenewalReply::NotLeading,
                Err(error) => {
                    tracing::warn!(%error, from, "keepalives of a node cannot be read");
                    RenewalReply::NotLeading
                }
            };
            fairhold_codec::encode(KEEPALIVE_FORMAT, &reply).unwrap_or_else(|error| {
                tracing::error!(%error, "the answer to keepalives could not be encoded");
                Vec::new()
            })
        })
    }
}

/// Keepalives that have moved their deadlines.
struct Arrived {
    leadership: Leadership,
    renewals: Vec<(Renewal, Option<(SessionNumber, Duration)>)>,
}

fn arrive<RT: AsyncRuntime>(replica: &Replica<RT>, clock: &LeaderClock<RT>, renewals: Vec<Renewal>) -> Option<Arrived> {
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
    Some(Arrived { leadership, renewals: arrived })
}

async fn prove<RT: AsyncRuntime>(replica: &Replica<RT>, clock: &LeaderClock<RT>, arrived: Arrived) -> Option<RenewalReply> {
    failpoint!(NodeKeepaliveProve, RT).ok()?;
    if !planted::has(Bug::KeepaliveWithoutProof) {
        replica.read_barrier(RT::Instant::now() + MESSAGE_TIMEOUT).await.ok()?;
    }
    failpoint!(NodeKeepaliveAnswer, RT).ok()?;
    // The barrier may have been another leader's; the deadlines that were moved are this leadership's.
    if replica.leadership() != Some(arrived.leadership) {
        return None;
    }
    Some(replica.read(|state| {
        let verdict = |(renewal, touched)| match (session_of(state, renewal), touched) {
            (Ok(session), Some((moved, timeout))) if session == moved && !clock.is_doubtful(arrived.leadership, session) => {
                Renewed::Alive { timeout_ms: u64::try_from(Duration::as_millis(&timeout)).unwrap_or(u64::MAX) }
            }
            (Ok(_), _) => Renewed::Unproved,
            (Err(ended), _) => ended,
        };
        let renewed = arrived.renewals.iter().copied().map(verdict).collect();
        RenewalReply::Renewed { revision: state.revision(), renewed }
    }))
}

/// The session that a keepalive is for, or what to answer where there is none.
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

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;

    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    const IN_TIME: Duration = Duration::from_secs(20);

    /// Sessions that do not exist: nothing here asks a leader.
    fn renewal(number: u64) -> Renewal {
        Renewal::Number(SessionNumber(number))
    }

    /// Keepalives with room for so many.
    fn keepalives(room: usize) -> (Keepalives, mpsc::Receiver<PendingRenewal>) {
        let (send, receive) = mpsc::channel(room);
        (Keepalives { queue: send, metrics: KeepaliveMetrics::default() }, receive)
    }

    #[tokio::test]
    async fn a_keepalive_that_finds_no_room_surely_did_nothing() {
        let (keepalives, mut passed_on) = keepalives(1);
        let deadline = Moment::now() + IN_TIME;
        let (first, second) = (keepalives.clone(), keepalives.renew::<TokioRuntime>(renewal(2), deadline));
        let first = TokioRuntime::spawn(async move { first.renew::<TokioRuntime>(renewal(1), deadline).await });
        while passed_on.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(second.await, Err(NotProposed::Overloaded.into()));
        let alive = At { value: Renewed::Alive { timeout_ms: 7 }, revision: Revision(9) };
        passed_on.recv().await.unwrap().answer.send(alive.clone()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(alive));
    }

    #[tokio::test]
    async fn a_keepalive_that_was_passed_on_once_never_says_that_it_did_nothing() {
        let (keepalives, mut passed_on) = keepalives(1);
        let deadline = Moment::now() + Duration::from_millis(200);
        let crowd = keepalives.clone();
        let retried = TokioRuntime::spawn(async move { keepalives.renew::<TokioRuntime>(renewal(1), deadline).await });
        let first = passed_on.recv().await.unwrap();
        // Another one takes the only place before the first is told to ask again.
        let (answer, _answered) = oneshot::channel();
        crowd.queue.try_send(PendingRenewal { renewal: renewal(2), answer }).unwrap();
        first.answer.send(At { value: Renewed::Unproved, revision: Revision::default() }).unwrap();
        assert_eq!(retried.await.unwrap(), Err(UnknownReason::Deadline.into()));
    }

    #[tokio::test]
    async fn many_keepalives_did_nothing_only_where_none_of_them_did() {
        let (keepalives, passed_on) = keepalives(1);
        let deadline = Moment::now() + Duration::from_millis(50);
        let some = keepalives.renew_all::<TokioRuntime>([1, 2].map(renewal).into_iter(), deadline).await;
        assert_eq!(some, Err(UnknownReason::Deadline.into()));
        let none = keepalives.renew_all::<TokioRuntime>([3, 4].map(renewal).into_iter(), deadline).await;
        assert_eq!(none, Err(NotProposed::Overloaded.into()), "the only place is taken still");
        drop(passed_on);
    }
}
