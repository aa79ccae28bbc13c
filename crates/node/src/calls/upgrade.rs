//! Changes the mode of a held grant: exclusive to shared at once, shared to exclusive once it is the only holder.
//!
//! The wait for the other holders runs as a separate task, as with an acquire: a caller that disconnects must not hold
//! back new readers any longer.

use crate::{
    api::{At, CallError, GrantView},
    calls::{
        abandon::ABANDON_AFTER,
        acquire::{UNKNOWN, after_waiting, as_unknown},
        attempt::{CommittedAcquire, expires_in},
        keep_alive_guard::KeepAliveGuard,
        waiter_rights::instead_of_timeout,
        write_key::write_key,
    },
    clock::wall_now,
    node::Node,
    views::{self, positions},
};
use fairhold_state::{
    State,
    command::{Command, HeldGrant, IfBusy, Outcome, Queued, Rejection, WriteKey},
    read::GrantStatus,
};
use fairhold_types::{EndReason, GrantId, Mode, Revision};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;
use tokio::sync::oneshot;

type Answer = Result<At<GrantView>, CallError>;

/// A request for an upgrade.
struct UpgradeWait {
    grant: GrantId,
    key: Option<WriteKey>,
    wait: Duration,
    timeout: Duration,
}

/// The status of an upgrade for one attempt.
enum UpgradeStatus {
    Waiting,
    Done,
    /// Another request on the same grant waits for the upgrade, or has given it up.
    Superseded,
    Ended(EndReason),
    Unknown,
}

fn upgrade_status(state: &State, grant: &GrantId, attempt: u64) -> UpgradeStatus {
    match state.grant(grant) {
        GrantStatus::Live(contender) if contender.mode == Mode::Exclusive => UpgradeStatus::Done,
        GrantStatus::Live(contender) if contender.upgrading && contender.upgrade_attempt == attempt => UpgradeStatus::Waiting,
        GrantStatus::Live(_) => UpgradeStatus::Superseded,
        GrantStatus::Ended(reason) => UpgradeStatus::Ended(reason),
        GrantStatus::Unknown => UpgradeStatus::Unknown,
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Makes an exclusive grant shared. It keeps its token. A repeated call returns the same answer. With a key it
    /// happens once, even if the grant was upgraded again since.
    pub async fn downgrade(&self, grant: GrantId, key: Option<GrantId>, timeout: Duration) -> Answer {
        let deadline = RT::Instant::now() + timeout;
        let key = write_key(key, &("downgrade", &grant))?;
        let answer = self.propose(Command::Downgrade { grant, key, at: wall_now() }, timeout).await?;
        answer.result?;
        self.grant_after(grant, answer.revision, deadline, None).await
    }

    /// Makes a shared grant exclusive with a new token, and waits up to `wait` to be the only holder. If `wait` ends or
    /// the caller disconnects first (it drops the future), the grant stays shared. With a key, a repeated request joins
    /// the earlier one, and does not start again after that one was given up.
    pub async fn upgrade(&self, grant: GrantId, key: Option<GrantId>, wait: Duration, timeout: Duration) -> Answer {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
        let _waits = self.begin_wait(wait)?;
        let key = write_key(key, &("upgrade", &grant))?;
        let (answer, answered) = oneshot::channel();
        let upgrade = UpgradeWait { grant, key, wait, timeout };
        let node = self.clone();
        self.0.tasks.spawn::<RT>(async move { node.run_upgrade(&upgrade, answer).await });
        answered.await.unwrap_or(Err(CallError::Detached))
    }

    async fn run_upgrade(&self, upgrade: &UpgradeWait, mut answer: oneshot::Sender<Answer>) {
        let UpgradeWait { grant, key, wait, timeout } = *upgrade;
        let deadline = RT::Instant::now() + timeout;
        let if_busy = if wait.is_zero() { IfBusy::Refuse } else { IfBusy::Queue };
        let at = wall_now();
        let proposed = self.propose(Command::Upgrade { grant, if_busy, key, at }, timeout).await;
        let answered = match proposed {
            Ok(answered) => answered,
            Err(error) => return send(answer, Err(error)),
        };
        let revision = answered.revision;
        let result = match answered.result {
            Err(rejection) => Err(rejection.into()),
            Ok(Outcome::Held(HeldGrant { .. })) => self.grant_after(grant, revision, deadline, None).await,
            Ok(Outcome::Queued(Queued { number, session, attempt })) => {
                let committed = CommittedAcquire { number, session, attempt, token: None, revision, at };
                let until = RT::Instant::now() + wait;
                tokio::select! {
                    biased;
                    () = answer.closed() => return self.abandon_upgrade(grant, attempt, timeout).await,
                    result = self.wait_upgrade(grant, committed, until, deadline) => result,
                }
            }
            // An earlier request with the same key was given up.
            Ok(Outcome::Nothing) => self.answer_given_up(grant, revision, deadline, None).await,
            Ok(
                outcome @ (Outcome::Done
                | Outcome::SessionOpened { .. }
                | Outcome::Written { .. }
                | Outcome::WrittenBefore { .. }
                | Outcome::Broken { .. }
                | Outcome::Judged { .. }
                | Outcome::JoinTokenCreated { .. }
                | Outcome::Admitted { .. }
                | Outcome::AccessTokenCreated { .. }),
            ) => unreachable!("an upgrade was answered with {outcome:?}"),
        };
        send(answer, result);
    }

    async fn wait_upgrade(
        &self,
        grant: GrantId,
        committed: CommittedAcquire,
        until: RT::Instant,
        deadline: RT::Instant,
    ) -> Answer {
        let started_at = RT::Instant::now();
        self.0.replica.wait_for_revision(committed.revision, deadline).await.map_err(|error| as_unknown(error.into()))?;
        let own_timeout = self.0.replica.read(|state| {
            let session = state.session(committed.session).filter(|session| session.id.is_none());
            session.map(|session| Duration::from_millis(session.timeout_ms))
        });
        // The grant is older than this request, so it is renewed at once.
        let renewed = CommittedAcquire { attempt: committed.attempt.max(2), ..committed };
        let open = own_timeout.map(|timeout| KeepAliveGuard::start(self, renewed, timeout, started_at));
        let confirmed_at = || open.as_ref().and_then(KeepAliveGuard::confirmed_at);
        let since = RT::Instant::now();
        loop {
            let mut waiter = self.0.hub.register(committed.number);
            let (status, revision) =
                self.0.replica.read(|state| (upgrade_status(state, &grant, committed.attempt), state.revision()));
            match status {
                UpgradeStatus::Done => {
                    return self.grant_after(grant, revision, after_waiting(deadline, since), confirmed_at()).await;
                }
                UpgradeStatus::Superseded => return Err(CallError::Superseded),
                UpgradeStatus::Ended(reason) => return Err(self.grant_ended(&grant, reason)),
                UpgradeStatus::Unknown => return Err(self.grant_ended(&grant, EndReason::Expired)),
                UpgradeStatus::Waiting => {}
            }
            if let Err(refused) = self.check_upgrade(grant) {
                let deadline = after_waiting(deadline, since);
                return instead_of_timeout(self.end_upgrade(grant, committed.attempt, deadline, confirmed_at()).await, refused);
            }
            let waiting = self.begin_wait_time();
            tokio::select! {
                biased;
                () = self.0.stop.requested() => return Err(CallError::Detached),
                () = waiter.woken() => {}
                () = self.credential_expired() => {}
                () = RT::sleep_until(until) => {
                    drop(waiting);
                    return self.end_upgrade(grant, committed.attempt, after_waiting(deadline, since), confirmed_at()).await;
                }
            }
        }
    }

    /// Ends an upgrade that took too long, unless it has succeeded by then.
    async fn end_upgrade(
        &self,
        grant: GrantId,
        attempt: u64,
        deadline: RT::Instant,
        confirmed_at: Option<RT::Instant>,
    ) -> Answer {
        let command = Command::EndUpgrade { grant, attempt, at: wall_now() };
        let answer = self.propose_until_answered(command, deadline).await.map_err(|error| as_unknown(error.into()))?;
        match answer.result? {
            // A newer attempt continues to wait.
            Outcome::Nothing => Err(CallError::Superseded),
            _ended @ (Outcome::Held(_)
            | Outcome::Queued(_)
            | Outcome::Done
            | Outcome::SessionOpened { .. }
            | Outcome::Written { .. }
            | Outcome::WrittenBefore { .. }
            | Outcome::Broken { .. }
            | Outcome::Judged { .. }
            | Outcome::JoinTokenCreated { .. }
            | Outcome::Admitted { .. }
            | Outcome::AccessTokenCreated { .. }) => self.answer_given_up(grant, answer.revision, deadline, confirmed_at).await,
        }
    }

    /// The answer to an upgrade that was given up: the other holders, unless it succeeded after all.
    async fn answer_given_up(
        &self,
        grant: GrantId,
        revision: Revision,
        deadline: RT::Instant,
        confirmed_at: Option<RT::Instant>,
    ) -> Answer {
        let view = self.grant_after(grant, revision, deadline, confirmed_at).await?;
        if view.value.mode == Mode::Exclusive {
            return Ok(view);
        }
        let state = self.0.replica.state();
        let queue_position = positions::of_upgrade(&state, &view.value.lock, view.value.number);
        let holder = queue_position.ahead.first().map(|first| first.facts.clone());
        Err(CallError::WaitTimeout { holder, queue_position: Box::new(queue_position) })
    }

    /// Ends the upgrade of a caller that disconnected, after a pause. If the caller returns on another connection
    /// first, its newer attempt continues.
    async fn abandon_upgrade(&self, grant: GrantId, attempt: u64, timeout: Duration) {
        let command = Command::EndUpgrade { grant, attempt, at: wall_now() };
        let ended_after_pause = async {
            RT::sleep(ABANDON_AFTER).await;
            self.propose_until_answered(command, RT::Instant::now() + timeout).await
        };
        let answered = tokio::select! {
            biased;
            // A server that shuts down ends no upgrade: the caller retries at another node.
            () = self.0.stop.requested() => return,
            answered = ended_after_pause => answered,
        };
        if let Err(error) = answered {
            tracing::warn!(%error, "cannot end the upgrade of a client that disconnected; it ends with its grant");
        }
    }

    /// The grant at this revision or a later one.
    async fn grant_after(
        &self,
        grant: GrantId,
        revision: Revision,
        deadline: RT::Instant,
        confirmed_at: Option<RT::Instant>,
    ) -> Answer {
        self.0.replica.wait_for_revision(revision, deadline).await.map_err(|error| as_unknown(error.into()))?;
        self.0.replica.read(|state| match state.grant(&grant) {
            GrantStatus::Live(_) => {
                let mut value = views::grant_of(state, &grant).ok_or(UNKNOWN)?;
                value.expires_in = confirmed_at.and_then(|confirmed_at| expires_in::<RT>(state, &value, confirmed_at));
                Ok(At { value, revision: state.revision() })
            }
            GrantStatus::Ended(reason) => Err(Rejection::GrantEnded { reason, note: state.break_note(&grant) }.into()),
            GrantStatus::Unknown => Err(UNKNOWN.into()),
        })
    }
}

/// If the caller is gone, it can retry and gets the same answer.
fn send(caller: oneshot::Sender<Answer>, answer: Answer) {
    let _caller_may_be_gone = caller.send(answer);
}
