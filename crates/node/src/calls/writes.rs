//! Everything that changes something, but for taking a grant: releases, sessions and renewals. The tree's writes are in `tree`.

use crate::{
    api::{At, CallError, OpenSessionCall, OpenedSession, Renewal},
    calls::write_key::write_key,
    clock::wall_now,
    leader::keepalive::Renewed,
    node::Node,
};
use fairhold_raft::error::{NotProposed, ProposeError, UnknownReason};
use fairhold_state::{
    State,
    command::{Answer, Command, OpenSession, Outcome, Rejection},
};
use fairhold_types::{GrantId, Revision, SessionId, SessionNumber, duration};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

/// So many grants or nodes of a session surely go with the command that ends it.
const AT_ONCE_MAX: usize = 256;

/// How long it is waited until an end is seen here that the leader has told of: the holder is to hear of it soon.
const END_SEEN_WITHIN: Duration = Duration::from_millis(300);

impl<RT: AsyncRuntime> Node<RT> {
    /// Gives a grant back, or leaves the queue. Again, or with an unknown id, it does the same: that id is ended for as long as
    /// the session lives that is named, or without one for `REMEMBERED_FOR` at least.
    pub async fn release(&self, grant: GrantId, session: Option<SessionId>, timeout: Duration) -> Result<Revision, CallError> {
        let answer = self.propose(Command::Release { grant, session, at: wall_now() }, timeout).await?;
        answer.result?;
        Ok(answer.revision)
    }

    /// Renews a grant that has no named session, with another timeout where one is given; says how long it lives from its
    /// arrival on. With a key the timeout is set once.
    pub async fn renew_grant(
        &self,
        grant: GrantId,
        key: Option<GrantId>,
        ttl: Option<Duration>,
        timeout: Duration,
    ) -> Result<At<Duration>, CallError> {
        let deadline = RT::Instant::now() + timeout;
        if let Some(ttl) = ttl {
            let timeout_ms = duration::millis(ttl);
            let key = write_key(key, &("renew", &grant, timeout_ms))?;
            let command = Command::SetGrantTimeout { grant, timeout_ms, key, at: wall_now() };
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
            timeout_ms: duration::millis(call.timeout),
            name: call.name,
            meta: call.meta,
            at: wall_now(),
        });
        let deadline = RT::Instant::now() + call.work_timeout;
        let answer = self.propose_until(command, deadline).await?;
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
            | Outcome::WrittenBefore { .. }
            | Outcome::Broken { .. }
            | Outcome::Judged { .. }) => {
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

    /// Ends a session, with all that it owns. That is so at once for everybody; where it owns very much, what is left of it goes
    /// in pieces, for which the answer waits as long as it may.
    pub async fn close_session(&self, session: SessionId, timeout: Duration) -> Result<Revision, CallError> {
        let deadline = RT::Instant::now() + timeout;
        let of_much = |state: &State| {
            let number = state.session_by_id(&session)?.number;
            let much = state.ephemeral_count(number) > AT_ONCE_MAX || state.contenders_of(number).nth(AT_ONCE_MAX).is_some();
            much.then_some(number)
        };
        let of_much = self.0.replica.read(of_much);
        let answer = self.0.replica.propose(Command::CloseSession { session, at: wall_now() }, deadline).await?;
        answer.result?;
        Ok(match of_much {
            Some(number) => self.settled(answer.revision, deadline, |state| !state.is_ending(number)).await,
            None => answer.revision,
        })
    }

    /// Waits until what was begun at a revision is all done, as far as is known here, or until the deadline: it is true without.
    pub(crate) async fn settled(&self, revision: Revision, deadline: RT::Instant, done: impl Fn(&State) -> bool) -> Revision {
        let mut seen = revision;
        while self.0.replica.wait_for_revision(seen, deadline).await.is_ok() {
            let (is_done, now) = self.0.replica.read(|state| (done(state), state.revision()));
            if is_done {
                return seen;
            }
            seen = now.next();
        }
        revision
    }

    pub(crate) async fn propose(&self, command: Command, timeout: Duration) -> Result<Answer, CallError> {
        self.propose_until(command, RT::Instant::now() + timeout).await
    }

    /// Proposes a command, unless this node is short of memory and the command creates something.
    pub(crate) async fn propose_until(&self, command: Command, deadline: RT::Instant) -> Result<Answer, CallError> {
        if self.0.memory.is_short() && command.creates() {
            return Err(ProposeError::from(NotProposed::Overloaded).into());
        }
        Ok(self.0.replica.propose(command, deadline).await?)
    }
}
