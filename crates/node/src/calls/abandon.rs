//! Ends a grant whose caller disconnected before it received the answer to its acquire.
//!
//! The grant ends soon, so that no request waits for a holder that is gone. But several requests can carry the same id,
//! and they can be committed in another order than they were sent:
//!
//! 1. A caller sends an acquire with its key to node A. Node A or the connection stalls.
//! 2. The caller sends it to node B, which commits attempt 1. Either the caller receives `held`, or B's request waits.
//! 3. A continues and commits what it received in step 1: attempt 2 of the same grant. If B's request waits, it learns
//!    that its place was taken over (`504`, or `error` in a stream). If the caller holds, it does not learn of this.
//! 4. The connection to A ends before A's answer is read.
//!
//! Ending the grant in step 4 would take from the caller what it has held or waited for since step 2. `Abandon` names
//! its attempt, but attempt 2 is the newest. So a request gives up only what no other request has reported to the
//! caller:
//!
//! - **Attempt 1** created the grant. It ends `ABANDON_AFTER` later, unless a newer attempt has arrived.
//! - **A later attempt on a grant that was held** leaves it alone: the caller of an earlier attempt may hold it. Its
//!   timeout decides. A stream is different: an earlier stream on the same grant has ended with `error`, so its caller
//!   knows, and the next case applies.
//! - **A later attempt on a grant that waited** took the place of a request whose caller learned of it and will retry:
//!   the grant ends `RETURN_WITHIN` later, unless a newer attempt has arrived.
//! - **A later attempt whose caller disconnected before the commit** leaves the grant alone, held or waiting: it is
//!   probably the older request.
//! - **An unknown outcome**: the command may be applied later, or never. If the server made the id, no other request
//!   can carry it, and a release ends the grant permanently, even before it exists. If the caller chose the id, the
//!   newest attempt may be one that it sent elsewhere, even attempt 1: nothing is given up, and the timeout decides.

use crate::{
    calls::{acquire::PendingAcquire, attempt::OwnGrant},
    clock::wall_now,
    node::Node,
};
use fairhold_raft::{
    Proposer,
    error::{NotProposed, ProposeError},
};
use fairhold_state::command::{Answer, Command};
use fairhold_types::GrantId;
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

/// How long a caller that disconnected may take to return on another connection. Including the commit, its place is
/// free within a second.
pub(crate) const ABANDON_AFTER: Duration = Duration::from_millis(400);
/// How long a caller may take to return after it learned that its place was taken over: programs often pause for a
/// second before a retry.
const RETURN_WITHIN: Duration = Duration::from_secs(2);
/// The pause before a command without an answer is proposed again.
const REPEAT_PAUSE: Duration = Duration::from_millis(50);
/// How long giving up a place may take, across a change of leader.
const GIVE_UP_TIMEOUT: Duration = Duration::from_secs(30);

impl<RT: AsyncRuntime> PendingAcquire<RT> {
    /// Gives up the grant of a caller that did not receive the answer.
    pub(crate) async fn give_up(&self, own: OwnGrant) {
        let node = &self.node;
        let grant = self.call.acquire.grant;
        if !self.ends_without_answer() {
            return;
        }
        match own {
            OwnGrant::Nothing => {}
            OwnGrant::Unknown if self.call.acquire.id_given => {}
            OwnGrant::Unknown => node.release_unknown(grant).await,
            OwnGrant::Committed(committed) if committed.was_held() => {}
            OwnGrant::Committed(committed) => node.abandon(grant, committed.attempt).await,
        }
    }

    /// Whether the grant ends with its caller's connection: not if the caller wants the answer later or named a
    /// session. A server that shuts down ends no grant.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.is_anonymous() && !self.call.respond_async && !self.node.0.stop.is_requested()
    }

    /// Whether the grant ends if the caller receives no answer at all. Then no caller knows an id that the server made,
    /// and none can return for the grant.
    fn ends_without_answer(&self) -> bool {
        self.ends_with_connection() || (!self.call.acquire.id_given && !self.node.0.stop.is_requested())
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Ends a grant whose answer did not reach its caller, in the background.
    pub fn abandon_soon(&self, grant: GrantId, attempt: u64) {
        let node = self.clone();
        self.0.tasks.spawn::<RT>(async move { node.abandon(grant, attempt).await });
    }

    /// Ends a grant whose id only the caller could have learned, in the background, whether or not the grant was ever
    /// created. For an answer that did not reach its caller.
    pub fn release_unknown_soon(&self, grant: GrantId) {
        let node = self.clone();
        self.0.tasks.spawn::<RT>(async move { node.release_unknown(grant).await });
    }

    /// Ends a grant whose caller disconnected, unless the caller returns in time.
    pub(crate) async fn abandon(&self, grant: GrantId, attempt: u64) {
        let returns_within = if attempt > 1 { RETURN_WITHIN } else { ABANDON_AFTER };
        tokio::select! {
            biased;
            // A server that shuts down removes no grant from a queue.
            () = self.0.stop.requested() => {}
            () = RT::sleep(returns_within) => self.abandon_at_once(grant, attempt).await,
        }
    }

    /// Like `abandon`, but without waiting for the caller to return.
    pub(crate) async fn abandon_at_once(&self, grant: GrantId, attempt: u64) {
        self.end_abandoned(Command::Abandon { grant, attempt, at: wall_now() }).await;
    }

    /// Ends a grant whether or not it was ever created. If its acquire is applied later, it is refused.
    async fn release_unknown(&self, grant: GrantId) {
        self.end_abandoned(Command::Release { grant, session: None, at: wall_now() }).await;
    }

    async fn end_abandoned(&self, command: Command) {
        let answered = tokio::select! {
            biased;
            () = self.0.stop.requested() => return,
            answered = self.propose_until_answered(command, RT::Instant::now() + GIVE_UP_TIMEOUT) => answered,
        };
        if let Err(error) = answered {
            tracing::warn!(%error, "cannot end the grant of a client that disconnected; it expires after its ttl");
        }
    }

    /// Proposes an idempotent command until it is answered or the deadline has passed.
    pub(crate) async fn propose_until_answered(&self, command: Command, deadline: RT::Instant) -> Result<Answer, ProposeError> {
        loop {
            match self.0.replica.propose_for(Proposer::default(), &command, deadline).await {
                Err(error) if error != NotProposed::ShuttingDown.into() && RT::Instant::now() < deadline => {
                    RT::sleep(REPEAT_PAUSE).await;
                }
                answered => return answered,
            }
        }
    }
}
