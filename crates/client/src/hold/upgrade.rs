//! Changing the mode of a held lock: shared to exclusive, with a new token, and back.

use crate::{
    error::{Error, Lost},
    hold::{
        guard::{Guard, Held},
        hold_state::PendingUpgrade,
    },
    wire::{backoff::Backoff, call::Call, endpoints::Prefer, http::Attempted, reply::Reply, retry::LastError},
};
use fairhold_types::{Code, FencingToken, GrantId, dto, duration, limits::WAIT_MAX};
use futures_util::future::BoxFuture;
use reqwest::Method;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

impl Guard {
    /// Makes a shared lock exclusive once no other client holds it: `guard.upgrade().wait(minute).await?`. The result is a
    /// new token, which [`token`](Held::token) returns from then on.
    pub fn upgrade(&self) -> Upgrade {
        Upgrade::new(self.held().clone())
    }

    /// Makes an exclusive lock shared and keeps its token. Readers join at once. A lock that is shared already stays
    /// shared.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Refused`] for an election, a semaphore, or several locks at once;
    /// [`Error::OutcomeUnknown`] if no answer came within the client's timeout: then the lock may be shared.
    pub async fn downgrade(&self) -> Result<(), Error> {
        downgrade(self.held()).await
    }
}

/// An upgrade to make: `.await` it for the new token. While it waits, the caller still holds the lock shared, queues
/// before all other waiters, and no reader joins. If it is dropped, the lock stays shared.
///
/// # Errors
/// After these errors the lock is still shared, with its old token:
/// - [`Error::WaitTimeout`] if others held it for longer than the caller waits, and [`Error::LockHeld`] if the caller
///   does not wait;
/// - [`Error::Refused`] with [`Code::WouldDeadlock`] if another reader also waits for an upgrade: each would wait for
///   the other, so release the lock and acquire it again;
/// - [`Error::Unavailable`] and [`Error::Busy`] if the cluster cannot do it now.
///
/// [`Error::Lost`]: the lock was lost or released during the wait.
///
/// [`Error::OutcomeUnknown`]: no answer came in time, and the lock may be exclusive. Until you know, a fence may refuse
/// the token although the lock is not lost. You can safely upgrade again to find out.
#[derive(Debug)]
#[must_use = "an upgrade is sent when this is awaited"]
pub struct Upgrade {
    held: Held,
    wait: Option<Duration>,
}

impl Upgrade {
    pub(crate) fn new(held: Held) -> Upgrade {
        Upgrade { held, wait: None }
    }

    /// How long to wait until no other client holds the lock; without this, as long as it takes. With zero, the upgrade
    /// succeeds only if no other client holds it now.
    pub fn wait(self, wait: Duration) -> Upgrade {
        Upgrade { wait: Some(wait), ..self }
    }

    async fn send(self) -> Result<FencingToken, Error> {
        self.held.token()?;
        tokio::select! {
            biased;
            lost = self.held.lost() => Err(Error::Lost(lost)),
            upgraded = self.request() => upgraded,
        }
    }

    /// Sends the upgrade to one node after the other, always with the same key, until there is a definite answer or the
    /// caller's time is up.
    async fn request(&self) -> Result<FencingToken, Error> {
        let inner = self.held.client().inner();
        let started_at = Instant::now();
        let key = inner.ids.make();
        let pending = self.held.state().start_upgrade();
        let until = self.wait.and_then(|wait| started_at.checked_add(wait));
        let mut backoff = Backoff::new();
        let mut last_error = LastError::default();
        loop {
            let mut retry_after = None;
            for endpoint in inner.calls.endpoints.order(Prefer::Leader) {
                let now = Instant::now();
                let wait = until.map_or(WAIT_MAX, |until| until.saturating_duration_since(now).min(WAIT_MAX));
                let call = self.call(key, wait);
                let late = until.map_or(Duration::ZERO, |until| now.saturating_duration_since(until));
                let work = inner.timeout.saturating_sub(late);
                if work.is_zero() {
                    return Err(self.given_up(last_error, &call));
                }
                match inner.calls.wait_at(&endpoint, &call, wait, work).await {
                    Attempted::Answered(reply) => {
                        match self.answered(&reply, pending, started_at, last_error.may_arrive()) {
                            // The server's longest wait is over, and the caller's is not.
                            Err(Error::WaitTimeout { .. }) if until.is_none_or(|until| Instant::now() < until) => break,
                            answer => return answer,
                        }
                    }
                    failed @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => {
                        retry_after = last_error.note(failed).max(retry_after);
                    }
                }
            }
            sleep(backoff.next(retry_after)).await;
        }
    }

    fn call(&self, key: GrantId, wait: Duration) -> Call {
        let path = format!("/v1/grants/{}/upgrade", self.held.id());
        Call::new(Method::POST, path).key(key).json(&json!({ "wait": duration::format(wait) }))
    }

    fn given_up(&self, last_error: LastError, call: &Call) -> Error {
        if !last_error.may_arrive() {
            self.held.state().upgrade_refused();
        }
        last_error.error(call)
    }

    /// Judges a definite answer. `may_arrive` says whether an earlier attempt may still take effect.
    fn answered(
        &self,
        reply: &Reply,
        pending: PendingUpgrade,
        started_at: Instant,
        may_arrive: bool,
    ) -> Result<FencingToken, Error> {
        if reply.status.is_success() {
            let grant: dto::Grant = reply.json()?;
            let token = grant.token.ok_or_else(|| Error::NotUnderstood { why: "it has no token".to_owned() })?;
            self.held.state().upgraded(pending, token);
            tracing::debug!(lock = %self.held.lock(), grant = %self.held.number(), %token, "upgraded a lock");
            return Ok(token);
        }
        if !may_arrive {
            self.held.state().upgrade_refused();
        }
        let problem = reply.problem();
        let lock = self.held.lock().clone();
        let holder = problem.holder.clone().map(Box::new);
        match problem.code {
            Some(Code::LockHeld | Code::WaitTimeout) if self.wait == Some(Duration::ZERO) => {
                Err(Error::LockHeld { lock, holder })
            }
            Some(Code::LockHeld | Code::WaitTimeout) => Err(Error::WaitTimeout { lock, holder, waited: started_at.elapsed() }),
            _ => Err(refused(&self.held, reply)),
        }
    }
}

impl IntoFuture for Upgrade {
    type Output = Result<FencingToken, Error>;
    type IntoFuture = BoxFuture<'static, Result<FencingToken, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

async fn downgrade(held: &Held) -> Result<(), Error> {
    held.token()?;
    let inner = held.client().inner();
    let call = Call::new(Method::POST, format!("/v1/grants/{}/downgrade", held.id())).key(inner.ids.make());
    let reply = tokio::select! {
        biased;
        lost = held.lost() => return Err(Error::Lost(lost)),
        reply = held.client().send(&call) => reply?,
    };
    if reply.status.is_success() { Ok(()) } else { Err(refused(held, &reply)) }
}

/// The error of a refusal. If it says that the grant has ended, the holder loses the lock.
fn refused(held: &Held, reply: &Reply) -> Error {
    let problem = reply.problem();
    let error = match problem.code {
        Some(Code::GrantNotFound) => Error::Lost(Lost::Expired),
        _ => Error::refused(reply.status.as_u16(), problem),
    };
    if let Error::Lost(lost) = error { Error::Lost(held.end(lost)) } else { error }
}
