//! Releases, sessions and renewals. The writes to the tree are in `tree`.

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

/// The command that ends a session also ends at least this many of its grants and nodes.
const ENDED_AT_ONCE: usize = 256;

/// How long to wait until this node sees an end that the leader has reported: the holder should learn of it soon.
const END_SEEN_TIMEOUT: Duration = Duration::from_millis(300);

impl<RT: AsyncRuntime> Node<RT> {
    /// Releases a grant, or leaves the queue. A repeated call or an unknown id succeeds too: no acquire can use the id
    /// again while the named session lives, or without a session for at least `TOMBSTONE_KEPT_FOR`.
    pub async fn release(&self, grant: GrantId, session: Option<SessionId>, timeout: Duration) -> Result<Revision, CallError> {
        let answer = self.propose(Command::Release { grant, session, at: wall_now() }, timeout).await?;
        answer.result?;
        Ok(answer.revision)
    }

    /// Renews an anonymous grant, with a new timeout if `ttl` is given. Returns how long the grant lives from the
    /// arrival of the call. With a key the timeout is set once.
    pub async fn renew_grant(
        &self,
        grant: GrantId,
        key: Option<GrantId>,
        ttl: Option<Duration>,
        timeout: Duration,
    ) -> Result<At<Duration>, CallError> {
        let deadline = RT::Instant::now() + timeout;
        self.note_grant(&grant);
        if let Some(ttl) = ttl {
            let timeout_ms = duration::millis(ttl);
            self.check_ttl(timeout_ms)?;
            let key = write_key(key, &("renew", &grant, timeout_ms))?;
            let command = Command::SetGrantTimeout { grant, timeout_ms, key, at: wall_now() };
            self.0.replica.propose_for(self.proposer(None), &command, deadline).await?.result?;
        }
        let renewed = self.0.keepalives.renew::<RT>(Renewal::Grant(grant), deadline).await;
        // After the timeout was set, a failed renewal does not mean that nothing happened.
        let renewed = renewed.map_err(|error| if ttl.is_some() { UnknownReason::Deadline.into() } else { error })?;
        let revision = self.revision_of(std::slice::from_ref(&renewed.value), renewed.revision, deadline).await;
        match renewed.value {
            Renewed::Alive { timeout_ms } => Ok(At { value: Duration::from_millis(timeout_ms), revision }),
            Renewed::Ended { reason: Some(reason) } => Err(self.grant_ended(&grant, reason)),
            Renewed::Ended { reason: None } => Err(Rejection::NoGrant.into()),
            Renewed::SessionOwned { session } => Err(Rejection::SessionOwned { session }.into()),
            Renewed::Unconfirmed => Err(ProposeError::Unknown(UnknownReason::Deadline).into()),
        }
    }

    /// Opens a named session. A repeated key returns the same session.
    pub async fn open_session(&self, call: OpenSessionCall) -> Result<At<OpenedSession>, CallError> {
        self.check_ttl(duration::millis(call.timeout))?;
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
                    // An earlier request, whose answer was lost, may have opened the session, and its timeout may be
                    // nearly over.
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
            | Outcome::Judged { .. }
            | Outcome::JoinTokenCreated { .. }
            | Outcome::Admitted { .. }
            | Outcome::AccessTokenCreated { .. }) => {
                unreachable!("opening a session was answered with {outcome:?}")
            }
        }
    }

    async fn renew_reopened(&self, number: SessionNumber, deadline: RT::Instant) -> Result<(), CallError> {
        match self.0.keepalives.renew::<RT>(Renewal::Number(number), deadline).await.map(|renewed| renewed.value) {
            Ok(Renewed::Alive { .. }) => Ok(()),
            Ok(Renewed::Ended { .. }) => Err(Rejection::SessionEnded.into()),
            Ok(Renewed::SessionOwned { .. } | Renewed::Unconfirmed) | Err(_) => {
                Err(ProposeError::Unknown(UnknownReason::Deadline).into())
            }
        }
    }

    /// Keeps sessions alive. Returns for each, in the same order, how long it lives from the arrival of the call;
    /// `None` if it has ended.
    pub async fn keepalive(&self, ids: Vec<SessionId>, timeout: Duration) -> Result<At<Vec<Option<Duration>>>, CallError> {
        let deadline = RT::Instant::now() + timeout;
        let renewals = ids.into_iter().map(Renewal::Session).collect();
        let renewed = self.0.keepalives.renew_all::<RT>(renewals, deadline).await?;
        let revision = self.revision_of(&renewed.value, renewed.revision, deadline).await;
        let timeouts = renewed.value.into_iter().map(|renewed| match renewed {
            Renewed::Alive { timeout_ms } => Ok(Some(Duration::from_millis(timeout_ms))),
            Renewed::Ended { .. } => Ok(None),
            Renewed::SessionOwned { .. } | Renewed::Unconfirmed => Err(ProposeError::Unknown(UnknownReason::Deadline)),
        });
        let value = timeouts.collect::<Result<Vec<_>, _>>()?;
        Ok(At { value, revision })
    }

    /// The revision of the leader's answers to keepalives, or this node's if that is later. If something has ended, it
    /// waits a moment for this node to reach the leader's revision: then the refusal carries the revision and the note
    /// of the end.
    async fn revision_of(&self, renewed: &[Renewed], leader_revision: Revision, deadline: RT::Instant) -> Revision {
        if renewed.iter().any(|renewed| matches!(renewed, Renewed::Ended { .. })) {
            let until = deadline.min(RT::Instant::now() + END_SEEN_TIMEOUT);
            let _optional = self.0.replica.wait_for_revision(leader_revision, until).await;
        }
        leader_revision.max(self.revision())
    }

    /// Closes a session, with everything that it owns. It ends at once, for every caller. If it owns a lot, the rest of
    /// the work is done in pieces, and the answer waits for it until the deadline.
    pub async fn close_session(&self, session: SessionId, timeout: Duration) -> Result<Revision, CallError> {
        let deadline = RT::Instant::now() + timeout;
        let large_session = |state: &State| {
            let number = state.session_by_id(&session)?.number;
            let is_large =
                state.ephemeral_count(number) > ENDED_AT_ONCE || state.contenders_of(number).nth(ENDED_AT_ONCE).is_some();
            is_large.then_some(number)
        };
        let large_session = self.0.replica.read(large_session);
        let close = Command::CloseSession { session, at: wall_now() };
        let answer = self.0.replica.propose_for(self.proposer(None), &close, deadline).await?;
        answer.result?;
        Ok(match large_session {
            Some(number) => self.wait_until_settled(answer.revision, deadline, |state| !state.is_ending(number)).await,
            None => answer.revision,
        })
    }

    /// Waits until this node has seen all the work that began at a revision, or until the deadline. The answer is
    /// correct even without it.
    pub(crate) async fn wait_until_settled(
        &self,
        revision: Revision,
        deadline: RT::Instant,
        done: impl Fn(&State) -> bool,
    ) -> Revision {
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

    /// Proposes a command, unless it creates something while this node is short of memory.
    pub(crate) async fn propose_until(&self, command: Command, deadline: RT::Instant) -> Result<Answer, CallError> {
        if self.0.memory.is_short() && command.creates() {
            return Err(ProposeError::from(NotProposed::Overloaded).into());
        }
        self.propose_decided(command, deadline).await
    }
}
