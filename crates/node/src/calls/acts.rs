//! The audit of administrative acts: commands get their origin, and acts outside the state are noted.

use crate::{
    access::Caller,
    api::{At, CallError, ReadOptions},
    base::walks::walk_in_turns,
    calls::acquire::UNKNOWN,
    clock::wall_now,
    node::Node,
};
use fairhold_state::{
    State,
    audit::{AuditPage, AuditQuery},
    command::{ActOrigin, Command, NoteAct, NotedAct, NotedEnd, WriteKey},
};
use fairhold_types::cluster_version::AUDIT_SINCE;
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the note about an act may take. Its caller may have little time left.
const NOTE_TIMEOUT: Duration = Duration::from_secs(5);
/// A reader that waits looks at the audit this often at most, however often the state changes.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

impl<RT: AsyncRuntime> Node<RT> {
    /// Where the acts of this handle come from.
    pub(crate) fn act_origin(&self) -> ActOrigin {
        self.caller().map_or_else(ActOrigin::of_node, Caller::act_origin)
    }

    /// The act with its origin, if the cluster's version has the audit. A node that has only heard of an older version asks:
    /// it may have missed the newer one.
    pub(crate) async fn attributed(&self, command: Command, deadline: RT::Instant) -> Command {
        let has_audit = || self.0.replica.read(|state| state.cluster_version() >= AUDIT_SINCE);
        // Without a leader the proposal fails too, and says why.
        if has_audit() || (self.0.replica.read_barrier(deadline).await.is_ok() && has_audit()) {
            command.attributed(self.act_origin())
        } else {
            command
        }
    }

    /// Makes an act outside the state, and then the note that `noted` chooses by its result: the act, and whether it is done.
    /// Both go on if the caller disconnects, or has no answer at the deadline. The note of an act that is done comes before the
    /// answer, because it has the key of the request.
    pub(crate) async fn noted<T: Send + 'static, E: Send + 'static>(
        &self,
        key: Option<WriteKey>,
        deadline: RT::Instant,
        act: impl Future<Output = Result<T, E>> + Send + 'static,
        noted: impl FnOnce(&Result<T, E>) -> Option<(NotedAct, bool)> + Send + 'static,
    ) -> Result<T, CallError>
    where
        CallError: From<E>,
    {
        let at = wall_now();
        let node = self.clone();
        let (done, mut result) = oneshot::channel();
        let mut work = self.0.tasks.begin::<RT>(async move {
            let made = act.await;
            let note = noted(&made).map(|(act, done)| {
                // An earlier try of the same request may have done it.
                let end = if done { NotedEnd::Done } else { NotedEnd::Unknown };
                NoteAct { key: key.filter(|_| done), act, end, at }
            });
            // The caller may have disconnected.
            if made.is_err() {
                done.send(made).ok();
                node.note(note).await;
            } else {
                node.note(note).await;
                done.send(made).ok();
            }
        });
        match RT::timeout_at(deadline, work.until(|| result.try_recv().ok())).await {
            Ok(Some(made)) => Ok(made?),
            Ok(None) | Err(_) => Err(UNKNOWN.into()),
        }
    }

    /// Notes an act that was made, if there is something to note. The act cannot be undone, so a note that fails is logged.
    async fn note(&self, note: Option<NoteAct>) {
        let Some(note) = note else { return };
        let deadline = RT::Instant::now() + NOTE_TIMEOUT;
        let command = self.attributed(Command::NoteAct(note), deadline).await;
        if !matches!(command, Command::Attributed(_)) {
            return;
        }
        if let Err(error) = self.0.replica.propose(command.clone(), deadline).await {
            tracing::warn!(?command, "an administrative act may be missing in the audit: {error}");
        }
    }

    /// A page of the audit. With `wait`, it waits for an entry that fits if there is none; the page is empty if none comes.
    pub async fn acts(&self, query: &AuditQuery, wait: Duration, read: ReadOptions) -> Result<At<AuditPage>, CallError> {
        let _waits = self.begin_wait(wait)?;
        self.freshen(read).await?;
        let until = RT::Instant::now() + wait;
        let mut is_last = wait.is_zero();
        let mut seen = None;
        // From its first pause on, all of it is one wait, which may have thousands of looks.
        let mut waiting = None;
        loop {
            let (ring, revision) = self.0.replica.read(|state| (State::shared_audit(state), state.revision()));
            let mut value = AuditPage::default();
            // Most changes of the state are no acts.
            if seen != Some(ring.head()) {
                seen = Some(ring.head());
                let mut listing = ring.listing(query);
                walk_in_turns(|count| listing.visit(count)).await;
                value = listing.into_page();
            }
            self.check_caller()?;
            if !value.lines.is_empty() || is_last {
                return Ok(At { value, revision });
            }
            waiting.get_or_insert_with(|| self.begin_wait_time());
            tokio::select! {
                biased;
                () = self.0.stop.requested() => return Err(CallError::ShuttingDown),
                changed = self.0.replica.wait_for_revision(revision.next(), until) => {
                    // At the end of the wait it looks once more.
                    is_last = changed.is_err();
                    if !is_last {
                        RT::sleep_until(until.min(RT::Instant::now() + LOOK_PAUSE)).await;
                    }
                }
                () = self.credential_expired() => {}
            }
        }
    }
}
