//! A request at the cluster: repeated with the same key, at one node after the other, until there is a definite answer or the
//! caller's time is up.

use crate::{
    error::Error,
    wire::{
        backoff::Backoff,
        batches::Batches,
        call::{ANSWER_GRACE, Call, TRY_MAX},
        endpoints::{Endpoint, Endpoints, Prefer},
        http::{Attempted, Caller, Connections, Opened, StreamLines},
        identity::Identity,
        reply::{Reply, leader_of},
    },
};
use fairhold_types::dto;
use reqwest::Method;
use std::{sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

/// Sends requests; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    pub(crate) endpoints: Arc<Endpoints>,
    connections: Connections,
    batches: Batches,
}

/// How long a request may be tried, and each try of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryBudget {
    pub(crate) until: Instant,
    pub(crate) each: Duration,
}

impl RetryBudget {
    /// So long in all, and as usual for each try.
    pub(crate) fn within(limit: Duration) -> RetryBudget {
        RetryBudget { until: Instant::now() + limit, each: TRY_MAX }
    }
}

impl Transport {
    /// Batches are sent by tasks of that runtime.
    pub(crate) fn new(
        endpoints: Arc<Endpoints>,
        identity: &Identity,
        caller: &Caller,
        runtime: Handle,
    ) -> Result<Transport, Error> {
        let connections = Connections::new(caller, identity.clone())?;
        Ok(Transport { endpoints, batches: Batches::new(connections.clone(), runtime), connections })
    }

    /// The same over connections of its own, but for what is sent in batches.
    pub(crate) fn on_connections_of_its_own(&self, identity: &Identity, caller: &Caller) -> Result<Transport, Error> {
        Ok(Transport { connections: Connections::new(caller, identity.clone())?, ..self.clone() })
    }

    /// Sends a call until a node gives a definite answer; a refusal is one.
    pub(crate) async fn send(&self, call: &Call, patience: RetryBudget) -> Result<Reply, Error> {
        let mut backoff = Backoff::new();
        let mut trouble = LastError::default();
        loop {
            let mut asked = None;
            for endpoint in self.endpoints.order(Prefer::Leader) {
                let left = patience.until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(trouble.error(call));
                }
                match self.try_at(&endpoint, call, left.min(patience.each)).await {
                    Attempted::Answered(reply) => return Ok(Reply { may_be_done: trouble.may_arrive(), ..reply }),
                    tried @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => asked = trouble.note(tried).max(asked),
                }
            }
            let pause = backoff.next(asked).min(patience.until.saturating_duration_since(Instant::now()));
            sleep(pause).await;
        }
    }

    /// Sends a call to one node, once.
    pub(crate) async fn try_at(&self, endpoint: &Endpoint, call: &Call, limit: Duration) -> Attempted {
        let tried = match call.part {
            Some(_) => self.batches.send(endpoint, call, limit).await,
            None => self.connections.send(endpoint, call, limit, limit + ANSWER_GRACE).await,
        };
        self.noted(endpoint, tried)
    }

    /// Sends a call that may wait so long to one node, once; the server's work comes on top.
    pub(crate) async fn wait_at(&self, endpoint: &Endpoint, call: &Call, wait: Duration, work: Duration) -> Attempted {
        // A request that waited is withdrawn before it is answered, which is work of its own.
        let limit = wait + 2 * work + ANSWER_GRACE;
        self.noted(endpoint, self.connections.send(endpoint, call, work, limit).await)
    }

    /// Sends a read that may wait so long to one node, once; the server's work comes on top.
    pub(crate) async fn read_at(&self, endpoint: &Endpoint, call: &Call, wait: Duration, work: Duration) -> Attempted {
        self.noted(endpoint, self.connections.send(endpoint, call, work, wait + work + ANSWER_GRACE).await)
    }

    /// Opens an answer that goes on, at one node, once.
    pub(crate) async fn open_at(&self, endpoint: &Endpoint, call: &Call, within: Duration) -> Opened {
        match self.stream_at(endpoint, call, within, within).await {
            Ok(lines) => Opened::Stream { revision: lines.revision(), lines },
            Err(Attempted::Answered(reply)) => Opened::Refused(reply),
            Err(Attempted::Nothing { retry_after, .. }) => Opened::Not { retry_after },
            Err(Attempted::Unknown { .. }) => Opened::Not { retry_after: None },
        }
    }

    /// The same with its head. `work` bounds the server's work, `within` the time until the head is there.
    pub(crate) async fn stream_at(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        work: Duration,
        within: Duration,
    ) -> Result<StreamLines, Attempted> {
        match self.connections.open(endpoint, call, work, within).await {
            Ok(lines) => {
                self.endpoints.answered(endpoint, None);
                Ok(lines)
            }
            Err(tried) => Err(self.noted(endpoint, tried)),
        }
    }

    fn noted(&self, endpoint: &Endpoint, tried: Attempted) -> Attempted {
        match &tried {
            Attempted::Answered(reply) => self.endpoints.answered(endpoint, leader_of(reply)),
            Attempted::Nothing { why, .. } | Attempted::Unknown { why, .. } => {
                tracing::debug!(%endpoint, why, "no definite answer");
                self.endpoints.failed(endpoint);
            }
        }
        tried
    }

    /// Asks the cluster for its members.
    pub(crate) async fn learn(&self) {
        let call = Call::new(Method::GET, "/v1/cluster".to_owned());
        let reply = self.send(&call, RetryBudget::within(TRY_MAX)).await;
        match reply.and_then(|reply| reply.json::<dto::Cluster>()) {
            Ok(cluster) => self.endpoints.learned(&cluster.members.into_iter().map(|member| member.url).collect::<Vec<_>>()),
            Err(error) => tracing::debug!(%error, "the members of the cluster could not be read"),
        }
    }
}

/// What the tries of one request met so far.
#[derive(Debug, Default)]
pub(crate) struct LastError {
    may_have_happened: bool,
    busy: Option<Option<Duration>>,
    last: String,
}

impl LastError {
    /// Notes a try without a definite answer; says how long the server wants us to wait.
    pub(crate) fn note(&mut self, tried: Attempted) -> Option<Duration> {
        match tried {
            Attempted::Answered(_) => None,
            Attempted::Nothing { why, retry_after, busy } => {
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

    /// What to say at the end of the caller's time.
    pub(crate) fn error(self, call: &Call) -> Error {
        match (self.may_have_happened && call.method != Method::GET, self.busy) {
            (true, _) => Error::OutcomeUnknown { key: call.key, last: self.last },
            (false, Some(retry_after)) => Error::Busy { detail: self.last, retry_after },
            (false, None) => Error::Unavailable { last: self.last },
        }
    }

    /// Whether a try may still arrive somewhere, or has.
    pub(crate) fn may_arrive(&self) -> bool {
        self.may_have_happened
    }

    /// Whether no try failed so far.
    pub(crate) fn is_none(&self) -> bool {
        self.last.is_empty()
    }

    /// The same for what is taken back in any case.
    pub(crate) fn error_of_nothing(self) -> Error {
        match self.busy {
            Some(retry_after) => Error::Busy { detail: self.last, retry_after },
            None if self.is_none() => Error::Unavailable { last: "the first request is not answered".to_owned() },
            None => Error::Unavailable { last: self.last },
        }
    }
}
