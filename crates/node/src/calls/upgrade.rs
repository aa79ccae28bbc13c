//! Changing the mode of a grant that is held: exclusive to shared at once, shared to exclusive when it is the only holder.
//!
//! Waiting to be the only one runs as a task of its own, for the same reason as taking a grant does: a caller that goes away must
//! not leave readers held back for nothing.

use crate::{
    api::{At, CallError, GrantView},
    calls::{
        abandon::ABANDON_AFTER,
        acquire::{UNKNOWN, after_waiting, expires_in, uncertain},
        attempt::CallerStanding,
        keep_alive_guard::OpenRequest,
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

/// A wish to be the only holder.
struct UpgradeWait {
    grant: GrantId,
    key: Option<WriteKey>,
    wait: Duration,
    timeout: Duration,
}

/// What one who waits to be the only holder sees of its grant.
enum UpgradeLook {
    Waiting,
    Done,
    /// Another request on the same grant waits for the upgrade, or gave it up.
    Superseded,
    Ended(EndReason),
    Unknown,
}

fn look(state: &State, grant: &GrantId, attempt: u64) -> UpgradeLook {
    match state.grant(grant) {
        GrantStatus::Live(contender) if contender.mode == Mode::Exclusive => UpgradeLook::Done,
        GrantStatus::Live(contender) if contender.upgrading && contender.upgrade_attempt == attempt => UpgradeLook::Waiting,
        GrantStatus::Live(_) => UpgradeLook::Superseded,
        GrantStatus::Ended(reason) => UpgradeLook::Ended(reason),
        GrantStatus::Unknown => UpgradeLook::Unknown,
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Makes an exclusive grant a shared one, with the token that it has. Again: the same answer. With a key it happens once,
    /// also where the grant was made exclusive again since.
    pub async fn downgrade(&self, grant: GrantId, key: Option<GrantId>, timeout: Duration) -> Answer {
        let deadline = RT::Instant::now() + timeout;
        let key = write_key(key, &("downgrade", &grant))?;
        let answer = self.propose(Command::Downgrade { grant, key, at: wall_now() }, timeout).await?;
        answer.result?;
        self.converted(grant, answer.revision, deadline, None).await
    }

    /// Makes a shared grant an exclusive one with a new token, and waits that long to be the only holder. Where that does not
    /// come about, or the caller goes away first (which dropping the future means), it goes on being shared. With a key, a
    /// request that is repeated joins the one before, and begins no new one after that was given up.
    pub async fn upgrade(&self, grant: GrantId, key: Option<GrantId>, wait: Duration, timeout: Duration) -> Answer {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
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
        let proposed = self.propose(Command::Upgrade { grant, if_busy, key, at: wall_now() }, timeout).await;
        let committed = match proposed {
            Ok(committed) => committed,
            Err(error) => return tell(answer, Err(error)),
        };
        let revision = committed.revision;
        let result = match committed.result {
            Err(rejection) => Err(rejection.into()),
            Ok(Outcome::Held(HeldGrant { .. })) => self.converted(grant, revision, deadline, None).await,
            Ok(Outcome::Queued(Queued { number, session, attempt })) => {
                let standing = CallerStanding { number, session, attempt, token: None, revision };
                let until = RT::Instant::now() + wait;
                tokio::select! {
                    biased;
                    () = answer.closed() => return self.give_up_upgrade(grant, attempt, timeout).await,
                    result = self.wait_upgrade(grant, standing, until, deadline) => result,
                }
            }
            // It was given up before, by a try with the same key.
            Ok(Outcome::Nothing) => self.still_shared(grant, revision, deadline, None).await,
            Ok(
                outcome @ (Outcome::Done
                | Outcome::SessionOpened { .. }
                | Outcome::Written { .. }
                | Outcome::WrittenBefore { .. }
                | Outcome::Broken { .. }
                | Outcome::Judged { .. }),
            ) => unreachable!("an upgrade was answered with {outcome:?}"),
        };
        tell(answer, result);
    }

    async fn wait_upgrade(&self, grant: GrantId, standing: CallerStanding, until: RT::Instant, deadline: RT::Instant) -> Answer {
        let begun = RT::Instant::now();
        self.0.replica.wait_for_revision(standing.revision, deadline).await.map_err(|error| uncertain(error.into()))?;
        let own_timeout = self.0.replica.read(|state| {
            let session = state.session(standing.session).filter(|session| session.id.is_none());
            session.map(|session| Duration::from_millis(session.timeout_ms))
        });
        // The grant is older than this request: so it is renewed at once.
        let renewed = CallerStanding { attempt: standing.attempt.max(2), ..standing };
        let open = own_timeout.map(|timeout| OpenRequest::keep(self, renewed, timeout, begun));
        let proved = || open.as_ref().and_then(OpenRequest::proved);
        let since = RT::Instant::now();
        loop {
            let mut place = self.0.hub.park(standing.number);
            let (seen, revision) = self.0.replica.read(|state| (look(state, &grant, standing.attempt), state.revision()));
            match seen {
                UpgradeLook::Done => return self.converted(grant, revision, after_waiting(deadline, since), proved()).await,
                UpgradeLook::Superseded => return Err(CallError::Superseded),
                UpgradeLook::Ended(reason) => return Err(self.grant_ended(&grant, reason)),
                UpgradeLook::Unknown => return Err(self.grant_ended(&grant, EndReason::Expired)),
                UpgradeLook::Waiting => {}
            }
            tokio::select! {
                biased;
                () = self.0.stop.requested() => return Err(CallError::Detached),
                () = place.woken() => {}
                () = RT::sleep_until(until) => {
                    return self.end_upgrade(grant, standing.attempt, after_waiting(deadline, since), proved()).await;
                }
            }
        }
    }

    /// Gives up an upgrade that took too long, unless it has come about by then.
    async fn end_upgrade(&self, grant: GrantId, attempt: u64, deadline: RT::Instant, proved: Option<RT::Instant>) -> Answer {
        let command = Command::EndUpgrade { grant, attempt, at: wall_now() };
        let answer = self.propose_until_answered(command, deadline).await.map_err(|error| uncertain(error.into()))?;
        match answer.result? {
            // A newer attempt goes on waiting.
            Outcome::Nothing => Err(CallError::Superseded),
            _told @ (Outcome::Held(_)
            | Outcome::Queued(_)
            | Outcome::Done
            | Outcome::SessionOpened { .. }
            | Outcome::Written { .. }
            | Outcome::WrittenBefore { .. }
            | Outcome::Broken { .. }
            | Outcome::Judged { .. }) => self.still_shared(grant, answer.revision, deadline, proved).await,
        }
    }

    /// The answer to an upgrade that was given up: the contenders in its way, unless it succeeded after all.
    async fn still_shared(
        &self,
        grant: GrantId,
        revision: Revision,
        deadline: RT::Instant,
        proved: Option<RT::Instant>,
    ) -> Answer {
        let view = self.converted(grant, revision, deadline, proved).await?;
        if view.value.mode == Mode::Exclusive {
            return Ok(view);
        }
        let state = self.0.replica.state();
        let in_the_way = positions::of_upgrade(&state, &view.value.lock, view.value.number);
        let holder = in_the_way.ahead.first().map(|first| first.facts.clone());
        Err(CallError::WaitTimeout { holder, in_the_way: Box::new(in_the_way) })
    }

    /// A caller went away. It may come back soon on another connection, and then its newer attempt goes on.
    async fn give_up_upgrade(&self, grant: GrantId, attempt: u64, timeout: Duration) {
        let command = Command::EndUpgrade { grant, attempt, at: wall_now() };
        let gives_up = async {
            RT::sleep(ABANDON_AFTER).await;
            self.propose_until_answered(command, RT::Instant::now() + timeout).await
        };
        let answered = tokio::select! {
            biased;
            // A server that stops by itself gives nothing up: the caller asks again at another node.
            () = self.0.stop.requested() => return,
            answered = gives_up => answered,
        };
        if let Err(error) = answered {
            tracing::warn!(%error, "a client disconnected and its upgrade could not be ended; it ends with its grant");
        }
    }

    /// The grant as it stands at that revision or later.
    async fn converted(&self, grant: GrantId, revision: Revision, deadline: RT::Instant, proved: Option<RT::Instant>) -> Answer {
        self.0.replica.wait_for_revision(revision, deadline).await.map_err(|error| uncertain(error.into()))?;
        self.0.replica.read(|state| match state.grant(&grant) {
            GrantStatus::Live(_) => {
                let mut value = views::grant_of(state, &grant).ok_or(UNKNOWN)?;
                value.expires_in = proved.and_then(|proved| expires_in::<RT>(state, &value, proved));
                Ok(At { value, revision: state.revision() })
            }
            GrantStatus::Ended(reason) => Err(Rejection::GrantEnded { reason, note: state.break_note(&grant) }.into()),
            GrantStatus::Unknown => Err(UNKNOWN.into()),
        })
    }
}

/// The caller may be gone: it asks again, and is told the same.
fn tell(caller: oneshot::Sender<Answer>, answer: Answer) {
    let _caller_may_be_gone = caller.send(answer);
}
