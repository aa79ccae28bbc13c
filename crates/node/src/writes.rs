//! Everything that changes something, but for taking a grant: releases, sessions and renewals. The tree's writes are in `tree`.

use crate::{
    api::{At, CallError, OpenSessionCall, OpenedSession, Renewal},
    clock::wall_now,
    keepalive::Renewed,
    node::Node,
};
use fairhold_raft::error::{ProposeError, UnknownReason};
use fairhold_state::command::{Answer, Command, OpenSession, Outcome, Rejection};
use fairhold_types::{GrantId, Revision, SessionId, SessionNumber};
use openraft_rt::{AsyncRuntime, Instant};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The version byte of the bytes under a write's fingerprint, which are never stored.
const FINGERPRINT_FORMAT: u8 = 1;

/// How long it is waited until an end is seen here that the leader has told of: the holder is to hear of it soon.
const END_SEEN_WITHIN: Duration = Duration::from_millis(300);

impl<RT: AsyncRuntime> Node<RT> {
    /// Gives a grant back, or leaves the queue. Again, or with an unknown id, it does the same: that id is ended for good.
    pub async fn release(&self, grant: GrantId, timeout: Duration) -> Result<Revision, CallError> {
        let answer = self.propose(Command::Release { grant, at: wall_now() }, timeout).await?;
        answer.result?;
        Ok(answer.revision)
    }

    /// Renews a grant that has no named session, with another timeout where one is given; says how long it lives from its
    /// arrival on.
    pub async fn renew_grant(&self, grant: GrantId, ttl: Option<Duration>, timeout: Duration) -> Result<At<Duration>, CallError> {
        let deadline = RT::Instant::now() + timeout;
        if let Some(ttl) = ttl {
            let command = Command::SetGrantTimeout { grant, timeout_ms: millis(ttl) };
            self.0.replica.propose(command, deadline).await?.result?;
        }
        let renewed = self.0.keepalives.renew::<RT>(Renewal::Grant(grant), deadline).await;
        // Where the timeout was set, something was done, whatever comes of the renewal.
        let renewed = renewed.map_err(|error| if ttl.is_some() { UnknownReason::Deadline.into() } else { error })?;
        let revision = self.seen_here(&[&renewed], deadline).await;
        match renewed.value {
            Renewed::Alive { timeout_ms } => Ok(At { value: Duration::from_millis(timeout_ms), revision }),
            Renewed::Ended { reason: Some(reason) } => Err(self.grant_ended(&grant, reason)),
            Renewed::Ended { reason: None } => Err(Rejection::NoGrant.into()),
            Renewed::SessionOwned { session } => Err(Rejection::SessionOwned { session }.into()),
            Renewed::Unproved => Err(ProposeError::Unknown(UnknownReason::Deadline).into()),
        }
    }

    /// Opens a named session; with the same key again, it is the same session.
    pub async fn open_session(&self, call: OpenSessionCall) -> Result<At<OpenedSession>, CallError> {
        let command = Command::OpenSession(OpenSession {
            key: Some(call.key),
            id: Self::new_session_id(),
            timeout_ms: millis(call.timeout),
            name: call.name,
            meta: call.meta,
            at: wall_now(),
        });
        let deadline = RT::Instant::now() + call.work_timeout;
        let answer = self.0.replica.propose(command, deadline).await?;
        match answer.result? {
            Outcome::SessionOpened { id, number, timeout_ms } => {
                if call.key_given {
                    // It may have been opened before, by a request whose answer was lost, and be nearly over by now.
                    self.renew_reopened(number, deadline).await?;
                }
                let value = OpenedSession { id, number, timeout: Duration::from_millis(timeout_ms) };
                Ok(At { value, revision: answer.revision })
            }
            outcome @ (Outcome::Nothing
            | Outcome::Done
            | Outcome::Held(_)
            | Outcome::Queued(_)
            | Outcome::Written { .. }
            | Outcome::Broken { .. }) => {
                unreachable!("opening a session was answered with {outcome:?}")
            }
        }
    }

    async fn renew_reopened(&self, number: SessionNumber, deadline: RT::Instant) -> Result<(), CallError> {
        match self.0.keepalives.renew::<RT>(Renewal::Number(number), deadline).await.map(|renewed| renewed.value) {
            Ok(Renewed::Alive { .. }) => Ok(()),
            Ok(Renewed::Ended { .. }) => Err(Rejection::SessionEnded.into()),
            Ok(Renewed::SessionOwned { .. } | Renewed::Unproved) | Err(_) => {
                Err(ProposeError::Unknown(UnknownReason::Deadline).into())
            }
        }
    }

    /// Keeps sessions alive: for each, in order, how long it lives from the arrival on, or nothing where it has ended.
    pub async fn keepalive(&self, ids: Vec<SessionId>, timeout: Duration) -> Result<At<Vec<Option<Duration>>>, CallError> {
        let deadline = RT::Instant::now() + timeout;
        let renewed = self.0.keepalives.renew_all::<RT>(ids.into_iter().map(Renewal::Session), deadline).await?;
        let revision = self.seen_here(&renewed.iter().collect::<Vec<_>>(), deadline).await;
        let lives = renewed.into_iter().map(|renewed| match renewed.value {
            Renewed::Alive { timeout_ms } => Ok(Some(Duration::from_millis(timeout_ms))),
            Renewed::Ended { .. } => Ok(None),
            Renewed::SessionOwned { .. } | Renewed::Unproved => Err(ProposeError::Unknown(UnknownReason::Deadline)),
        });
        let value = lives.collect::<Result<Vec<_>, _>>()?;
        Ok(At { value, revision })
    }

    /// The revision that what the leader said of keepalives reflects: its own, where this node is behind. Where something has
    /// ended that is waited for here, if it does not take long: then the refusal has the revision, and the note, of the end.
    async fn seen_here(&self, renewed: &[&At<Renewed>], deadline: RT::Instant) -> Revision {
        let leaders = renewed.iter().map(|renewed| renewed.revision).max().unwrap_or_default();
        if renewed.iter().any(|renewed| matches!(renewed.value, Renewed::Ended { .. })) {
            let until = deadline.min(RT::Instant::now() + END_SEEN_WITHIN);
            let _is_true_without = self.0.replica.wait_for_revision(leaders, until).await;
        }
        leaders.max(self.revision())
    }

    /// Ends a session, with all that it owns, in one step.
    pub async fn close_session(&self, session: SessionId, timeout: Duration) -> Result<Revision, CallError> {
        let answer = self.propose(Command::CloseSession { session, at: wall_now() }, timeout).await?;
        answer.result?;
        Ok(answer.revision)
    }

    pub(crate) async fn propose(&self, command: Command, timeout: Duration) -> Result<Answer, CallError> {
        Ok(self.0.replica.propose(command, RT::Instant::now() + timeout).await?)
    }
}

/// What tells one write from another, for its key: the first half of a hash over all that was asked.
pub(crate) fn fingerprint(asked: &impl Serialize) -> Result<[u8; 16], CallError> {
    let bytes = fairhold_codec::encode(FINGERPRINT_FORMAT, asked)
        .map_err(|error| Rejection::Unsupported { what: format!("a write of this size ({error})") })?;
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&Sha256::digest(&bytes)[..16]);
    Ok(fingerprint)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
