//! Reads: made fresh enough first, then answered from the state here.

use crate::{
    api::{At, CallError, Freshness, GrantLookup, LockInfo, NodeView, QueueItem, ReadOptions, SessionRef, SessionView},
    node::Node,
    positions::Positions,
    view,
};
use fairhold_state::{
    State,
    command::Rejection,
    history::{HistoryPage, HistoryQuery},
    listing::{LockPage, LockQuery},
    read::GrantStatus,
};
use fairhold_types::{EndReason, FencingToken, GrantId, GrantNumber, LockName, Path, Revision, SessionNumber, limits};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

impl<RT: AsyncRuntime> Node<RT> {
    /// A lock: who holds it, how many wait. A lock that was never used has nobody.
    pub async fn lock(&self, name: &LockName, read: ReadOptions) -> Result<At<LockInfo>, CallError> {
        self.read(read, |state| view::lock(state, name)).await
    }

    /// All who stand in a lock, in order.
    pub async fn queue(&self, name: &LockName, read: ReadOptions) -> Result<At<Vec<QueueItem>>, CallError> {
        self.read(read, |state| view::queue(state, name)).await
    }

    /// Passes exactly while a held grant of the lock has that token, and is that grant where one is named.
    pub async fn verify_fence(
        &self,
        name: &LockName,
        token: FencingToken,
        grant: Option<GrantId>,
        read: ReadOptions,
    ) -> Result<Revision, CallError> {
        let verified = self.read(read, |state| state.verify_fence(name, token, grant.as_ref())).await?;
        verified.value?;
        Ok(verified.revision)
    }

    /// A grant by its id; where it waits, the answer may wait for its turn.
    pub async fn grant(&self, id: GrantId, wait: Duration, read: ReadOptions) -> Result<At<GrantLookup>, CallError> {
        self.freshen(read).await?;
        let until = RT::Instant::now() + wait;
        loop {
            // Parked before the look, so that whatever happens after it is noticed.
            let mut place = self.0.replica.read(|state| waiting(state, &id)).map(|number| self.0.hub.park(number));
            let look = |state: &State| At { value: lookup(state, &id, &self.0.positions), revision: state.revision() };
            let found = self.0.replica.read(look);
            let waits = matches!(&found.value, GrantLookup::Live(view) if view.token.is_none());
            let (Some(place), true) = (place.as_mut(), waits && RT::Instant::now() < until) else {
                return Ok(found);
            };
            tokio::select! {
                biased;
                () = self.0.stop.asked() => return Err(CallError::ShuttingDown),
                () = place.woken() => {}
                () = RT::sleep_until(until) => {}
            }
        }
    }

    /// One page of the locks. It is gathered from a copy of the state, which costs nothing, so that apply goes on meanwhile.
    pub async fn locks(&self, query: &LockQuery, read: ReadOptions) -> Result<At<LockPage>, CallError> {
        self.freshen(read).await?;
        let state = self.0.replica.state();
        Ok(At { value: state.locks_page(query), revision: state.revision() })
    }

    /// One page of a lock's history, gathered from a copy of the state.
    pub async fn history(&self, query: &HistoryQuery, read: ReadOptions) -> Result<At<HistoryPage>, CallError> {
        self.freshen(read).await?;
        let state = self.0.replica.state();
        Ok(At { value: state.history(query), revision: state.revision() })
    }

    /// The refusal of a grant that has ended so, with what is known of it here.
    pub(crate) fn grant_ended(&self, grant: &GrantId, reason: EndReason) -> CallError {
        Rejection::GrantEnded { reason, note: self.0.replica.read(|state| state.break_note(grant)) }.into()
    }

    /// The sessions after a number, by number.
    pub async fn sessions(
        &self,
        after: Option<SessionNumber>,
        limit: usize,
        read: ReadOptions,
    ) -> Result<At<Vec<SessionView>>, CallError> {
        let (after, limit) = (after.unwrap_or_default(), limit.min(limits::PAGE_MAX + 1));
        self.read(read, |state| state.sessions_after(after).take(limit).map(|session| view::session(state, session)).collect())
            .await
    }

    /// One session.
    pub async fn session(&self, which: SessionRef, read: ReadOptions) -> Result<At<Option<SessionView>>, CallError> {
        self.read(read, |state| {
            let session = match which {
                SessionRef::Id(id) => state.session_by_id(&id),
                SessionRef::Number(number) => state.session(number),
            };
            session.map(|session| view::session(state, session))
        })
        .await
    }

    /// A node of the tree.
    pub async fn get_node(&self, path: &Path, read: ReadOptions) -> Result<At<NodeView>, CallError> {
        let found = self.read(read, |state| state.node(path).cloned()).await?;
        let node = found.value.ok_or_else(|| CallError::NoNode { path: path.clone() })?;
        Ok(At { value: NodeView { node }, revision: found.revision })
    }

    pub(crate) async fn read<T>(&self, options: ReadOptions, look: impl FnOnce(&State) -> T) -> Result<At<T>, CallError> {
        self.freshen(options).await?;
        Ok(self.0.replica.read(|state| At { value: look(state), revision: state.revision() }))
    }

    pub(crate) async fn freshen(&self, options: ReadOptions) -> Result<(), CallError> {
        let deadline = RT::Instant::now() + options.timeout;
        match options.freshness {
            Freshness::Linearizable => self.0.replica.read_barrier(deadline).await?,
            Freshness::Local => {}
            Freshness::AtLeast(revision) => self.0.replica.wait_for_revision(revision, deadline).await?,
            Freshness::LinearizableAtLeast(revision) => {
                self.0.replica.read_barrier(deadline).await?;
                self.0.replica.wait_for_revision(revision, deadline).await?;
            }
        }
        Ok(())
    }
}

fn waiting(state: &State, id: &GrantId) -> Option<GrantNumber> {
    match state.grant(id) {
        GrantStatus::Live(contender) if contender.granted_at.is_none() => Some(contender.number),
        GrantStatus::Live(_) | GrantStatus::Ended(_) | GrantStatus::Unknown => None,
    }
}

fn lookup<RT: AsyncRuntime>(state: &State, id: &GrantId, positions: &Positions<RT>) -> GrantLookup {
    match state.grant(id) {
        GrantStatus::Live(_) => {
            view::grant_in_queue(state, id, positions).map_or(GrantLookup::Unknown, |view| GrantLookup::Live(Box::new(view)))
        }
        GrantStatus::Ended(reason) => GrantLookup::Ended { reason, note: state.break_note(id) },
        GrantStatus::Unknown => GrantLookup::Unknown,
    }
}
