//! Another mode for a lock that is held: shared to exclusive, with a new token, and back.

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
    /// Makes a lock that is shared one that is held alone, as soon as no other holds it: `guard.upgrade().wait(minute).await?`.
    /// The answer is a new token, which [`token`](Held::token) gives from then on.
    pub fn upgrade(&self) -> Upgrade {
        Upgrade::new(self.held().clone())
    }

    /// Shares a lock that is held alone, with the token that it has: readers join at once. Shared already, it stays so:
    /// `guard.downgrade().await?`.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Refused`] for an election, a semaphore, and several locks at once;
    /// [`Error::OutcomeUnknown`] where no answer came in the client's time: then it may be shared.
    pub async fn downgrade(&self) -> Result<(), Error> {
        downgrade(self.held()).await
    }
}

/// An upgrade about to be asked for: `.await` it, for the new token. It goes on holding shared while it waits, before all who
/// stand in line, and no reader joins meanwhile. Dropped, it is given up, and the lock stays shared.
///
/// # Errors
/// Those below leave it shared, with the token that it has:
/// [`Error::WaitTimeout`] where others held it for longer than the caller waits, and [`Error::LockHeld`] where he does not wait;
/// [`Error::Refused`] with [`Code::WouldDeadlock`] where another who shares it waits to be upgraded too: each would wait for the
/// other, so give it back and take it anew; [`Error::Unavailable`] and [`Error::Busy`] where the cluster cannot now.
///
/// [`Error::Lost`]: it was lost, or given back, while it waited. [`Error::OutcomeUnknown`]: no answer came in time, and it may be
/// upgraded; until that is known a token may be refused as stale without a loss of the lock. To ask again is safe, and tells.
#[derive(Debug)]
#[must_use = "an upgrade is asked for when this is awaited"]
pub struct Upgrade {
    held: Held,
    wait: Option<Duration>,
}

impl Upgrade {
    pub(crate) fn new(held: Held) -> Upgrade {
        Upgrade { held, wait: None }
    }

    /// How long to wait until no other holds it; without it, as long as it takes. Zero: only if it is so now.
    pub fn wait(self, wait: Duration) -> Upgrade {
        Upgrade { wait: Some(wait), ..self }
    }

    async fn send(self) -> Result<FencingToken, Error> {
        // What is lost already is not asked for.
        self.held.token()?;
        tokio::select! {
            biased;
            lost = self.held.lost() => Err(Error::Lost(lost)),
            upgraded = self.ask() => upgraded,
        }
    }

    /// Asks one node after the other, always with the same key, until there is a definite answer or the caller's time is up.
    async fn ask(&self) -> Result<FencingToken, Error> {
        let inner = self.held.client().inner();
        let (begun, key, asked) = (Instant::now(), inner.ids.make(), self.held.terms().ask());
        let until = self.wait.and_then(|wait| begun.checked_add(wait));
        let (mut backoff, mut trouble) = (Backoff::new(), LastError::default());
        loop {
            let mut pause = None;
            for endpoint in inner.calls.endpoints.order(Prefer::Leader) {
                let now = Instant::now();
                let wait = until.map_or(WAIT_MAX, |until| until.saturating_duration_since(now).min(WAIT_MAX));
                let call = self.call(key, wait);
                let late = until.map_or(Duration::ZERO, |until| now.saturating_duration_since(until));
                let work = inner.timeout.saturating_sub(late);
                if work.is_zero() {
                    return Err(self.given_up(trouble, &call));
                }
                match inner.calls.wait_at(&endpoint, &call, wait, work).await {
                    Attempted::Answered(reply) => match self.answered(&reply, asked, begun, trouble.may_arrive()) {
                        // The server's longest wait is over, and the caller's is not.
                        Err(Error::WaitTimeout { .. }) if until.is_none_or(|until| Instant::now() < until) => break,
                        answer => return answer,
                    },
                    tried @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => pause = trouble.note(tried).max(pause),
                }
            }
            sleep(backoff.next(pause)).await;
        }
    }

    fn call(&self, key: GrantId, wait: Duration) -> Call {
        let path = format!("/v1/grants/{}/upgrade", self.held.id());
        Call::new(Method::POST, path).key(key).json(&json!({ "wait": duration::format(wait) }))
    }

    fn given_up(&self, trouble: LastError, call: &Call) -> Error {
        if !trouble.may_arrive() {
            self.held.terms().refused();
        }
        trouble.error(call)
    }

    /// Judges a definite answer; `may_arrive` says whether an earlier request may yet bring it about.
    fn answered(&self, reply: &Reply, asked: PendingUpgrade, begun: Instant, may_arrive: bool) -> Result<FencingToken, Error> {
        if reply.status.is_success() {
            let grant: dto::Grant = reply.json()?;
            let token = grant.token.ok_or_else(|| Error::NotUnderstood { why: "it has no token".to_owned() })?;
            self.held.terms().upgraded(asked, token);
            tracing::debug!(lock = %self.held.lock(), contender = %self.held.number(), %token, "upgraded");
            return Ok(token);
        }
        if !may_arrive {
            self.held.terms().refused();
        }
        let problem = reply.problem();
        let (lock, holder) = (self.held.lock().clone(), problem.holder.clone().map(Box::new));
        match problem.code {
            Some(Code::LockHeld | Code::WaitTimeout) if self.wait == Some(Duration::ZERO) => {
                Err(Error::LockHeld { lock, holder })
            }
            Some(Code::LockHeld | Code::WaitTimeout) => Err(Error::WaitTimeout { lock, holder, waited: begun.elapsed() }),
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

/// Has others share it.
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

/// A definite no; where it says that the grant is over, its holder is told.
fn refused(held: &Held, reply: &Reply) -> Error {
    let problem = reply.problem();
    let error = match problem.code {
        Some(Code::GrantNotFound) => Error::Lost(Lost::Expired),
        _ => Error::refused(reply.status.as_u16(), problem),
    };
    if let Error::Lost(lost) = error { Error::Lost(held.end(lost)) } else { error }
}
