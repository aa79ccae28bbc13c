//! What only an administrator may ask for. Who is one is decided at the door; who asked, and why, is logged here.

use crate::{
    api::{BreakCall, CallError},
    clock::wall_now,
    node::Node,
    writes::fingerprint,
};
use fairhold_state::command::{Break, Command, Outcome, WriteKey};
use fairhold_types::{Revision, SessionNumber};
use openraft_rt::AsyncRuntime;
use std::time::Duration;

impl<RT: AsyncRuntime> Node<RT> {
    /// Takes a lock from all who hold it; where nobody does, nothing changes. The same key again does nothing, whoever holds it
    /// by then.
    pub async fn break_lock(&self, call: BreakCall) -> Result<Revision, CallError> {
        let BreakCall { key, lock, by, reason, timeout } = call;
        let key = WriteKey { key, fingerprint: fingerprint(&("break", &lock, &reason))? };
        let order = Break { key, lock: lock.clone(), by: by.clone(), reason: reason.clone(), at: wall_now() };
        let answer = self.propose(Command::Break(order), timeout).await?;
        match answer.result? {
            Outcome::Broken { holders, named } => {
                let named: Vec<String> = named.iter().map(|number| format!("#{number}")).collect();
                let (lock, grants, revision) = (lock.as_str(), named.join(" "), answer.revision.0);
                tracing::info!(lock, holders, %grants, revision, by, reason, "an administrator broke a lock");
            }
            Outcome::Nothing => {}
            outcome @ (Outcome::Done
            | Outcome::SessionOpened { .. }
            | Outcome::Held(_)
            | Outcome::Queued(_)
            | Outcome::Written { .. }) => unreachable!("a break was answered with {outcome:?}"),
        }
        Ok(answer.revision)
    }

    /// Ends a session by its number, with all that it owns, in one step.
    pub async fn end_session(
        &self,
        session: SessionNumber,
        by: String,
        reason: String,
        timeout: Duration,
    ) -> Result<Revision, CallError> {
        let command = Command::EndSession { session, by: by.clone(), reason: reason.clone(), at: wall_now() };
        let answer = self.propose(command, timeout).await?;
        answer.result?;
        tracing::info!(session = session.0, revision = answer.revision.0, by, reason, "an administrator ended a session");
        Ok(answer.revision)
    }
}
