//! Retries: sends a request with the same key to one node after the other, until there is a definite answer or the
//! caller's time is up.

use crate::{
    error::Error,
    wire::{
        auth_token::TokenChanges,
        backoff::Backoff,
        batches::Batches,
        call::{ANSWER_GRACE, ATTEMPT_MAX, Call, CallKind},
        endpoints::{Endpoint, Endpoints, Prefer},
        http::{Attempted, Caller, Connections, Opened},
        identity::{Identity, LastRefusal},
        reply::{Reply, leader_of, members_of},
        stream_lines::StreamLines,
    },
};
use fairhold_types::dto;
use reqwest::{Method, StatusCode, header::HeaderMap};
use std::{sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};

/// How long the client tries to read the members: several nodes may not answer.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(9);

/// Sends requests; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    pub(crate) endpoints: Arc<Endpoints>,
    connections: Connections,
    batches: Batches,
    runtime: Handle,
}

/// How long a request may take, and each attempt of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryBudget {
    pub(crate) until: Instant,
    pub(crate) each: Duration,
}

impl RetryBudget {
    /// This limit in all, and the default limit for each attempt.
    pub(crate) fn within(limit: Duration) -> RetryBudget {
        RetryBudget { until: Instant::now() + limit, each: ATTEMPT_MAX }
    }
}

impl Transport {
    /// Tasks of that runtime send the batches, and read the members of the cluster.
    pub(crate) fn new(
        endpoints: Arc<Endpoints>,
        identity: &Identity,
        caller: &Caller,
        runtime: Handle,
    ) -> Result<Transport, Error> {
        let connections = Connections::new(caller, identity.clone())?;
        Ok(Transport { endpoints, batches: Batches::new(connections.clone(), runtime.clone()), connections, runtime })
    }

    /// The same with separate connections. Batches stay shared.
    pub(crate) fn with_separate_connections(&self, identity: &Identity, caller: &Caller) -> Result<Transport, Error> {
        Ok(Transport { connections: Connections::new(caller, identity.clone())?, ..self.clone() })
    }

    /// Learns of new tokens of the client.
    pub(crate) fn token_changes(&self) -> TokenChanges {
        self.connections.token_changes()
    }

    /// Sends a call until a node gives a definite answer. A refusal is definite.
    pub(crate) async fn send(&self, call: &Call, budget: RetryBudget) -> Result<Reply, Error> {
        self.keep_discovering();
        let mut backoff = Backoff::new();
        let mut last_error = LastError::default();
        loop {
            let mut retry_after = None;
            for endpoint in self.endpoints.order(Prefer::Leader) {
                let left = budget.until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(last_error.error(call));
                }
                match self.try_at(&endpoint, call, left.min(budget.each)).await {
                    Attempted::Answered(reply) => return Ok(Reply { may_be_done: last_error.may_arrive(), ..reply }),
                    failed @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => {
                        retry_after = last_error.note(failed).max(retry_after)
                    }
                }
            }
            let pause = backoff.next(retry_after).min(budget.until.saturating_duration_since(Instant::now()));
            sleep(pause).await;
        }
    }

    /// Sends a call to one node, once.
    pub(crate) async fn try_at(&self, endpoint: &Endpoint, call: &Call, limit: Duration) -> Attempted {
        let attempted = match call.part {
            Some(_) => self.batches.send(endpoint, call, limit).await,
            None => self.connections.send(endpoint, call, limit, limit + ANSWER_GRACE).await,
        };
        self.note(endpoint, call, attempted)
    }

    /// Sends a call that may wait to one node, once. The server's work adds to the wait.
    pub(crate) async fn wait_at(&self, endpoint: &Endpoint, call: &Call, wait: Duration, work: Duration) -> Attempted {
        // The server withdraws a request that waited before it answers, which takes further work.
        let limit = wait + 2 * work + ANSWER_GRACE;
        self.note(endpoint, call, self.connections.send(endpoint, call, work, limit).await)
    }

    /// Sends a read that may wait to one node, once. The server's work adds to the wait.
    pub(crate) async fn read_at(&self, endpoint: &Endpoint, call: &Call, wait: Duration, work: Duration) -> Attempted {
        self.note(endpoint, call, self.connections.send(endpoint, call, work, wait + work + ANSWER_GRACE).await)
    }

    /// Opens a stream at one node, once.
    pub(crate) async fn open_at(&self, endpoint: &Endpoint, call: &Call, within: Duration) -> Opened {
        match self.stream_at(endpoint, call, within, within).await {
            Ok(lines) => Opened::Stream { revision: lines.revision(), lines },
            Err(Attempted::Answered(reply)) => Opened::Refused(reply),
            Err(Attempted::Nothing { retry_after, .. }) => Opened::Failed { retry_after },
            Err(Attempted::Unknown { .. }) => Opened::Failed { retry_after: None },
        }
    }

    /// The same for a caller that needs the head. `work` bounds the server's work, `within` the time until the head has
    /// arrived.
    pub(crate) async fn stream_at(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        work: Duration,
        within: Duration,
    ) -> Result<StreamLines, Attempted> {
        match self.connections.open(endpoint, call, work, within).await {
            Ok(lines) => {
                self.note_answer(endpoint, call, &lines.headers);
                self.note_refusal(call, None);
                Ok(lines)
            }
            Err(attempted) => Err(self.note(endpoint, call, attempted)),
        }
    }

    fn note(&self, endpoint: &Endpoint, call: &Call, attempted: Attempted) -> Attempted {
        match &attempted {
            Attempted::Answered(reply) if reply.status.is_success() => self.note_refusal(call, None),
            Attempted::Answered(reply) if reply.status == StatusCode::UNAUTHORIZED => {
                self.note_refusal(call, Some(&LastRefusal::from(reply.problem())));
            }
            Attempted::Nothing { refusal: Some(refusal), .. } => self.note_refusal(call, Some(refusal)),
            Attempted::Answered(_) | Attempted::Nothing { .. } | Attempted::Unknown { .. } => {}
        }
        match &attempted {
            Attempted::Answered(reply) => self.note_answer(endpoint, call, &reply.headers),
            Attempted::Nothing { why, .. } | Attempted::Unknown { why, .. } => {
                tracing::debug!(%endpoint, why, "a node gave no definite answer");
                self.endpoints.failed(endpoint);
            }
        }
        attempted
    }

    /// Keeps who leads, and whether the members have changed.
    fn note_answer(&self, endpoint: &Endpoint, call: &Call, headers: &HeaderMap) {
        // The answer about a server may come from another cluster.
        let leader = leader_of(headers).filter(|_| call.kind != CallKind::Server);
        self.endpoints.answered(endpoint, leader);
        if let Some(members) = members_of(headers).filter(|_| call.kind != CallKind::Server) {
            self.endpoints.heard_of_members(members);
        }
    }

    /// Keeps why the cluster refuses changes, or that it made one. A read says nothing about that, and neither does a call to
    /// one server.
    fn note_refusal(&self, call: &Call, refusal: Option<&LastRefusal>) {
        if !call.method.is_safe() && call.kind != CallKind::Server {
            self.connections.identity().refused(refusal.cloned());
        }
    }

    /// Reads the members of the cluster in the background whenever it is time, from now on.
    pub(crate) fn keep_discovering(&self) {
        self.endpoints.start_reader(|| self.runtime.spawn(self.clone().read_members()).abort_handle());
    }

    /// Reads the members whenever it is time, until the client is gone. It needs no other request: meanwhile the program may
    /// do nothing but wait for one answer, and all members that it knows may be replaced.
    fn read_members(self) -> impl Future<Output = ()> + Send + 'static {
        let Transport { endpoints, connections, batches, runtime } = self;
        let hastened = endpoints.hastened();
        let endpoints = Arc::downgrade(&endpoints);
        async move {
            while let Some(endpoints) = endpoints.upgrade() {
                match endpoints.begin_discovery() {
                    Ok(()) => {
                        let (connections, batches, runtime) = (connections.clone(), batches.clone(), runtime.clone());
                        Transport { endpoints, connections, batches, runtime }.discover().await;
                    }
                    Err(due_in) => {
                        drop(endpoints);
                        // After either of them, look again.
                        drop(timeout(due_in, hastened.notified()).await);
                    }
                }
            }
        }
    }

    /// Reads the members of the cluster.
    async fn discover(&self) {
        let call = Call::new(Method::GET, "/v1/cluster".to_owned());
        let reply = self.send(&call, RetryBudget::within(DISCOVER_TIMEOUT)).await;
        let read = reply.and_then(|reply| reply.json::<dto::Cluster>());
        if may_soon_tell_more(&read) {
            self.endpoints.not_discovered();
        }
        match read {
            // A node without a leader may know old members only.
            Ok(cluster) if cluster.leader.is_none() => {}
            Ok(cluster) => self.endpoints.discovered(&cluster.members.into_iter().map(|member| member.url).collect::<Vec<_>>()),
            Err(error) => tracing::debug!(%error, "cannot read the members of the cluster"),
        }
    }
}

/// Whether another read of the members may soon tell more. A caller that may not see the members is refused each time.
fn may_soon_tell_more(read: &Result<dto::Cluster, Error>) -> bool {
    match read {
        Ok(cluster) => cluster.leader.is_none(),
        Err(error) => error.is_retryable(),
    }
}

/// The failures of the attempts of one request so far.
#[derive(Debug, Default)]
pub(crate) struct LastError {
    may_have_happened: bool,
    busy: Option<Option<Duration>>,
    last: String,
}

impl LastError {
    /// Notes an attempt without a definite answer. Returns how long the server wants the client to wait.
    pub(crate) fn note(&mut self, attempted: Attempted) -> Option<Duration> {
        match attempted {
            Attempted::Answered(_) => None,
            Attempted::Nothing { why, retry_after, busy, .. } => {
                self.last = why;
                self.busy = busy.then_some(retry_after);
                retry_after
            }
            Attempted::Unknown { why, .. } => {
                self.may_have_happened = true;
                self.last = why;
                None
            }
        }
    }

    /// The error at the end of the caller's time.
    pub(crate) fn error(self, call: &Call) -> Error {
        match (self.may_have_happened && call.method != Method::GET, self.busy) {
            (true, _) => Error::OutcomeUnknown { key: call.key, last: self.last },
            (false, Some(retry_after)) => Error::Busy { detail: self.last, retry_after },
            (false, None) => Error::Unavailable { last: self.last },
        }
    }

    /// Whether an attempt may have been carried out, or may still be.
    pub(crate) fn may_arrive(&self) -> bool {
        self.may_have_happened
    }

    /// Whether no attempt has failed so far.
    pub(crate) fn is_none(&self) -> bool {
        self.last.is_empty()
    }

    /// The same for a request that the client withdraws in any case.
    pub(crate) fn error_if_withdrawn(self) -> Error {
        match self.busy {
            Some(retry_after) => Error::Busy { detail: self.last, retry_after },
            None if self.is_none() => Error::Unavailable { last: "the first request got no answer".to_owned() },
            None => Error::Unavailable { last: self.last },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::Code;
    use serde_json::json;

    #[test]
    fn a_refused_read_of_the_members_is_not_repeated_sooner() {
        let read = |leader: Option<u64>| {
            let cluster = json!({"id": 1, "role": "follower", "term": 7, "leader": leader, "version": "0.2.0", "revision": 9,
                "grants": 0, "wakeups": 0, "members": []});
            Ok(serde_json::from_value::<dto::Cluster>(cluster).unwrap())
        };
        assert!(may_soon_tell_more(&read(None)) && !may_soon_tell_more(&read(Some(4))));
        assert!(may_soon_tell_more(&Err(Error::Unavailable { last: "no answer in time".to_owned() })));
        let denied = Error::Refused { code: Some(Code::Denied), status: 403, detail: "denied".to_owned() };
        assert!(!may_soon_tell_more(&Err(denied)), "each client would read six times as often, for ever");
    }
}
