//! Giving up for a caller that went away before it was told what came of its acquire.
//!
//! Its grant ends soon, so that nobody waits for a holder that is gone. But one id can be in several requests, and they can be
//! committed in another order than they were sent:
//!
//! 1. A caller sends an acquire with its key to node A. A stands still, or the connection does.
//! 2. The caller sends it to node B, which commits attempt 1. Either the caller is told that it holds, or B's request waits.
//! 3. A goes on and commits what it received in step 1: attempt 2 of the same grant. If B's request waits, it is told that its
//!    place was taken over (`504`, or `error` in a stream). If the caller holds, it hears nothing of this.
//! 4. The connection to A ends, and nobody has read A's answer.
//!
//! Ending the grant in step 4 would take from the caller what it holds, or waits for, since step 2. `Abandon` names its attempt,
//! but attempt 2 is the newest. So a request gives up only what nobody was told of but itself:
//!
//! - **Attempt 1** made the grant. It ends `ABANDON_AFTER` later, unless a newer attempt came.
//! - **A later attempt on a grant that was held** leaves it alone: an earlier caller may hold it. Its timeout decides. A stream
//!   is different: an earlier stream on the same grant has ended with `error`, so its caller knows, and it is as in the next
//!   case.
//! - **A later attempt on a grant that waited** took the place from a request whose caller was told so and comes again: the grant
//!   ends `RETURN_WITHIN` later, unless a newer attempt came.
//! - **A later attempt whose caller was gone before it was committed** leaves the grant alone, held or waiting: it is probably
//!   the older request.
//! - **An outcome that is not known**: the command may be applied later, or never. Where the server made the id, nobody can come
//!   again with it, and a release ends it for good, also before it begins. Where the caller chose it, the newest attempt may be
//!   one that it made elsewhere, even attempt 1: nothing is given up, and the timeout decides.

use crate::{
    calls::{acquire::OpenAcquire, attempt::OwnGrant},
    clock::wall_now,
    node::Node,
};
use fairhold_raft::error::{NotProposed, ProposeError};
use fairhold_state::command::{Answer, Command};
use fairhold_types::GrantId;
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

/// How long a caller that went away may take to come back on another connection before its place is given up. It leaves
/// within a second, commit included.
pub(crate) const ABANDON_AFTER: Duration = Duration::from_millis(400);
/// The same for a caller that was told that its place was taken over: it may pause before it asks again, as programs do that
/// retry after a second.
const RETURN_WITHIN: Duration = Duration::from_secs(2);
/// How long to wait before a command is repeated that got no answer.
const REPEAT_PAUSE: Duration = Duration::from_millis(50);
/// How long giving up a place may take, across a change of leader.
const GIVE_UP_TIMEOUT: Duration = Duration::from_secs(30);

impl<RT: AsyncRuntime> OpenAcquire<RT> {
    /// Gives up for a caller that was not told what came of its request.
    pub(crate) async fn give_up(&self, claim: OwnGrant) {
        let (node, grant) = (&self.node, self.call.acquire.grant);
        if !self.ends_untold() {
            return;
        }
        match claim {
            OwnGrant::Nothing => {}
            OwnGrant::Unknown if self.call.acquire.id_given => {}
            OwnGrant::Unknown => node.release_unknown(grant).await,
            OwnGrant::Committed(standing) if standing.was_held() => {}
            OwnGrant::Committed(standing) => node.abandon(grant, standing.attempt).await,
        }
    }

    /// Whether the grant ends with its caller: not where the caller asked to be answered later, or has a session to come back
    /// with. When a server stops by itself, nobody loses a place.
    pub(crate) fn leaves_with_caller(&self) -> bool {
        self.is_anonymous() && !self.call.respond_async && !self.node.0.stop.is_requested()
    }

    /// The same as long as the caller was told nothing: an id that the server made is known to nobody then, and nobody can ever
    /// come back for the grant.
    fn ends_untold(&self) -> bool {
        self.leaves_with_caller() || (!self.call.acquire.id_given && !self.node.0.stop.is_requested())
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Ends a grant whose answer did not reach its caller, in the background.
    pub fn abandon_soon(&self, grant: GrantId, attempt: u64) {
        let node = self.clone();
        self.0.tasks.spawn::<RT>(async move { node.abandon(grant, attempt).await });
    }

    /// Ends a grant in the background, whether or not it was ever given, of which only a caller knew who did not get the answer.
    pub fn release_unknown_soon(&self, grant: GrantId) {
        let node = self.clone();
        self.0.tasks.spawn::<RT>(async move { node.release_unknown(grant).await });
    }

    /// Ends a grant whose caller went away, unless it comes again in the time that it is given.
    pub(crate) async fn abandon(&self, grant: GrantId, attempt: u64) {
        let returns_within = if attempt > 1 { RETURN_WITHIN } else { ABANDON_AFTER };
        tokio::select! {
            biased;
            // A server that stops by itself drops nobody from a queue.
            () = self.0.stop.requested() => {}
            () = RT::sleep(returns_within) => self.abandon_at_once(grant, attempt).await,
        }
    }

    /// The same for a caller that is not waited for.
    pub(crate) async fn abandon_at_once(&self, grant: GrantId, attempt: u64) {
        self.end_for_nobody(Command::Abandon { grant, attempt, at: wall_now() }).await;
    }

    /// Ends a grant whether or not it was ever given. If its acquire is applied later, that is refused.
    async fn release_unknown(&self, grant: GrantId) {
        self.end_for_nobody(Command::Release { grant, session: None, at: wall_now() }).await;
    }

    async fn end_for_nobody(&self, command: Command) {
        let answered = tokio::select! {
            biased;
            () = self.0.stop.requested() => return,
            answered = self.propose_until_answered(command, RT::Instant::now() + GIVE_UP_TIMEOUT) => answered,
        };
        if let Err(error) = answered {
            tracing::warn!(%error, "a client disconnected and its grant could not be ended; it ends with its ttl");
        }
    }

    /// Proposes a command that may be repeated, again and again, until it is answered or the time is up.
    pub(crate) async fn propose_until_answered(&self, command: Command, deadline: RT::Instant) -> Result<Answer, ProposeError> {
        loop {
            match self.0.replica.propose(command.clone(), deadline).await {
                Err(error) if error != NotProposed::ShuttingDown.into() && RT::Instant::now() < deadline => {
                    RT::sleep(REPEAT_PAUSE).await;
                }
                answered => return answered,
            }
        }
    }
}
