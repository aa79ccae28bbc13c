//! Reads: the node makes its state fresh enough, then answers from it. A look-up reads the state itself, a listing
//! reads a copy.

use crate::{
    access::Visible,
    api::{
        At, CallError, Freshness, GrantLookup, LockInfo, NodeView, OwnedAfter, PageQuery, QueueItem, QueueView, ReadOptions,
        SessionRef, SessionView,
    },
    base::walks::{Walk, count_in_turns, find_in_turns, walk_in_turns},
    leader::heard,
    node::Node,
    views,
};
use fairhold_state::{
    State,
    command::Rejection,
    grant_list::{GrantPage, GrantQuery},
    histories::{HistoriesPage, HistoriesQuery},
    history_page::{HistoryPage, HistoryQuery},
    listing::{LockListing, LockPage, LockQuery},
    queue_view::{Before, QueueAnchor, QueueKey},
    read::GrantStatus,
};
use fairhold_trace::Stage;
use fairhold_types::{
    EndReason, FencingToken, GrantId, GrantNumber, LockName, Path, Revision, SessionNumber, cluster_version::HEARD_SINCE,
    limits::SESSION_ROW_MAX,
};
use openraft_rt::{AsyncRuntime, Instant};
use std::{sync::Arc, time::Duration};

impl<RT: AsyncRuntime> Node<RT> {
    /// A lock with a page of its holders. A lock that was never used has none.
    pub async fn lock(
        &self,
        name: &LockName,
        page: PageQuery<GrantNumber>,
        read: ReadOptions,
    ) -> Result<At<LockInfo>, CallError> {
        let state = self.fresh_copy(read).await?;
        let count = match page.after.map(QueueKey::Holder) {
            Some(key) => before(&state, name, key).await.count,
            None => 0,
        };
        Ok(At { value: views::lock_page(&state, name, page, count), revision: state.revision() })
    }

    /// A page of a lock's contenders, in order: after a key, or around a contender.
    pub async fn queue(
        &self,
        name: &LockName,
        mut page: PageQuery<QueueKey>,
        around: Option<QueueAnchor>,
        read: ReadOptions,
    ) -> Result<At<QueueView>, CallError> {
        let state = self.fresh_copy(read).await?;
        if let Some(anchor) = around {
            page.after = match (state.queue_key(name, anchor), anchor) {
                (Some(key), _) => state.page_around(name, key, page.limit),
                // The queue is empty.
                (None, QueueAnchor::Last) => None,
                (None, QueueAnchor::Grant(number)) => return Err(CallError::NotInQueue { lock: name.clone(), number }),
            };
        }
        let before = match page.after {
            Some(key) => before(&state, name, key).await,
            None => Before::default(),
        };
        let mut view = views::queue_page(&state, name, page, before);
        let visible = self.visible()?;
        if !visible.has_all_locks() {
            hide_locks(&state, name, &mut view.items, &visible).await;
        }
        Ok(At { value: view, revision: state.revision() })
    }

    /// Succeeds if the lock has a held grant with this token. If `grant` is given, it must be that grant.
    pub async fn verify_fence(
        &self,
        name: &LockName,
        token: FencingToken,
        grant: Option<GrantId>,
        read: ReadOptions,
    ) -> Result<Revision, CallError> {
        let state = self.fresh_copy(read).await?;
        state.verify_fence(name, token, grant.as_ref())?;
        Ok(state.revision())
    }

    /// A grant by its id. If it waits in the queue, the answer may wait for the grant too.
    pub async fn grant(&self, id: GrantId, wait: Duration, read: ReadOptions) -> Result<At<GrantLookup>, CallError> {
        let _waits = self.begin_wait(wait)?;
        self.freshen(read).await?;
        self.note_grant(&id);
        let until = RT::Instant::now() + wait;
        loop {
            // Registered before the state is read, so that no later event is missed.
            let mut waiter = self.0.replica.read(|state| waiting(state, &id)).map(|number| self.0.hub.register(number));
            let state = self.0.replica.state();
            let found = At { value: lookup(&state, &id), revision: state.revision() };
            drop(state);
            let waits = matches!(&found.value, GrantLookup::Live(view) if view.token.is_none());
            self.require_credential()?;
            let (Some(waiter), true) = (waiter.as_mut(), waits && RT::Instant::now() < until) else {
                return Ok(found);
            };
            let _waiting = self.begin_wait_time();
            tokio::select! {
                biased;
                () = self.0.stop.requested() => return Err(CallError::ShuttingDown),
                () = waiter.woken() => {}
                () = self.credential_expired() => {}
                () = RT::sleep_until(until) => {}
            }
        }
    }

    /// The empty page of a caller that may see no lock; `None` for other callers. A walk over all locks would find nothing,
    /// and keep others from theirs.
    pub(super) async fn page_without_locks<T: Default>(&self, read: ReadOptions) -> Result<Option<At<T>>, CallError> {
        if self.visible()?.has_some_locks() {
            return Ok(None);
        }
        self.freshen(read).await?;
        // Its rights may be newer now.
        let is_empty = !self.visible()?.has_some_locks();
        Ok(is_empty.then(|| At { value: T::default(), revision: self.revision() }))
    }

    /// One page of the locks. Callers that may see the same locks share the first page of a search in this node's own state
    /// for a second.
    pub async fn locks(&self, query: &LockQuery, read: ReadOptions) -> Result<At<LockPage>, CallError> {
        let needs_walk = query.is_search() || self.is_enforced();
        if let Some(empty) = self.page_without_locks(read).await? {
            return Ok(empty);
        }
        if !needs_walk {
            let state = self.fresh_copy(read).await?;
            return Ok(list_locks(&state, query, &self.visible()?, |listing| listing.into_page()).await);
        }
        // Open pages ask for the first page again and again. A following page has one reader.
        let is_shared = query.is_search() && query.after.is_none() && read.freshness == Freshness::Local;
        if is_shared {
            let make = |walk, visible| walk_over_locks(query, walk, visible);
            return self.shared(&self.0.shared_locks, query, read, make).await.map(Arc::unwrap_or_clone);
        }
        let walk = self.walk(read).await?;
        Ok(walk_over_locks(query, walk, self.visible()?).await)
    }

    /// One page of a lock's history.
    pub async fn history(&self, query: &HistoryQuery, read: ReadOptions) -> Result<At<HistoryPage>, CallError> {
        let needs_walk = query.when.is_some();
        if needs_walk {
            let walk = self.walk(read).await?;
            return Ok(page_of_history(&walk.state, query).await);
        }
        Ok(page_of_history(&self.fresh_copy(read).await?, query).await)
    }

    /// One page of the histories of all locks that the caller may see.
    pub async fn histories(&self, query: &HistoriesQuery, read: ReadOptions) -> Result<At<HistoriesPage>, CallError> {
        if let Some(empty) = self.page_without_locks(read).await? {
            return Ok(empty);
        }
        let walk = self.walk(read).await?;
        Ok(page_of_histories(&walk.state, query, &self.visible()?).await)
    }

    /// One page of the grants in the locks that the caller may see.
    pub async fn grants(&self, query: &GrantQuery, read: ReadOptions) -> Result<At<GrantPage>, CallError> {
        if let Some(empty) = self.page_without_locks(read).await? {
            return Ok(empty);
        }
        let walk = self.walk(read).await?;
        Ok(page_of_grants(&walk.state, query, &self.visible()?).await)
    }

    /// The refusal for a grant that has ended, with the note that this node has of it.
    pub(crate) fn grant_ended(&self, grant: &GrantId, reason: EndReason) -> CallError {
        Rejection::GrantEnded { reason, note: self.0.replica.read(|state| state.break_note(grant)) }.into()
    }

    /// A page of the sessions, by number, each with the first of its grants and nodes.
    pub async fn sessions(
        &self,
        page: PageQuery<SessionNumber>,
        read: ReadOptions,
    ) -> Result<At<(Vec<SessionView>, Option<SessionNumber>)>, CallError> {
        let state = self.fresh_copy(read).await?;
        let (sessions, has_more) = page.collect(state.sessions_after(page.after.unwrap_or_default()));
        let next = sessions.last().filter(|_| has_more).map(|last| last.number);
        let mut left = sessions.into_iter();
        let mut views = Vec::new();
        let shown = PageQuery { after: None, limit: SESSION_ROW_MAX };
        walk_in_turns(|count| {
            // Each session costs one page.
            let turn = left.by_ref().take((count / SESSION_ROW_MAX).max(1));
            views.extend(turn.map(|session| views::session(&state, session, &shown)));
            left.len() == 0
        })
        .await;
        let visible = self.visible()?;
        let views = views.into_iter().map(|view| view.for_reader(&visible)).collect();
        Ok(At { value: (views, next), revision: state.revision() })
    }

    /// One session, with a page of its grants and nodes. Only the leader knows when it last heard from the session: a read of
    /// another node's own state does not ask it, nor does any node that may have a leader with an older program.
    pub async fn session(
        &self,
        which: SessionRef,
        page: &PageQuery<OwnedAfter>,
        read: ReadOptions,
    ) -> Result<At<Option<SessionView>>, CallError> {
        let deadline = RT::Instant::now() + read.timeout;
        let state = self.fresh_copy(read).await?;
        let session = match which {
            SessionRef::Id(id) => state.session_by_id(&id),
            SessionRef::Number(number) => state.session(number),
        };
        let mut view = session.map(|session| views::session(&state, session, page));
        let (revision, version) = (state.revision(), state.cluster_version());
        // The leader may take a while.
        drop(state);
        let is_linearizable = matches!(read.freshness, Freshness::Linearizable | Freshness::LinearizableAtLeast(_));
        let asks_leader = self.is_leader() || (is_linearizable && version >= HEARD_SINCE);
        if let Some(view) = view.as_mut().filter(|_| asks_leader) {
            view.heard_ago = heard::ask_leader(&self.0.replica, view.number, deadline).await;
        }
        let value = match which {
            // The owner sees all of it.
            SessionRef::Id(_) => view,
            SessionRef::Number(_) => {
                let visible = self.visible()?;
                view.map(|view| view.for_reader(&visible))
            }
        };
        Ok(At { value, revision })
    }

    /// A node of the tree, with its value.
    pub async fn get_node(&self, path: &Path, read: ReadOptions) -> Result<At<NodeView>, CallError> {
        let found = self.read(read, |state| state.node(path).cloned()).await?;
        let node = found.value.ok_or_else(|| CallError::NoNode { path: path.clone() })?;
        Ok(At { value: NodeView { node }, revision: found.revision })
    }

    /// A look-up in the state itself, which blocks apply meanwhile. A walk over several entries takes a copy instead.
    pub(crate) async fn read<T>(&self, options: ReadOptions, read: impl FnOnce(&State) -> T) -> Result<At<T>, CallError> {
        self.freshen(options).await?;
        Ok(self.0.replica.read(|state| At { value: read(state), revision: state.revision() }))
    }

    /// A copy of the state, as fresh as required. It costs almost nothing, and apply continues while the caller reads
    /// it.
    pub(crate) async fn fresh_copy(&self, options: ReadOptions) -> Result<State, CallError> {
        self.freshen(options).await?;
        Ok(self.0.replica.state())
    }

    pub(crate) async fn freshen(&self, options: ReadOptions) -> Result<(), CallError> {
        self.freshen_by(options.freshness, RT::Instant::now() + options.timeout).await
    }

    pub(crate) async fn freshen_by(&self, freshness: Freshness, deadline: RT::Instant) -> Result<(), CallError> {
        match freshness {
            Freshness::Local => self.prove_access(deadline).await?,
            Freshness::Linearizable | Freshness::AtLeast(_) | Freshness::LinearizableAtLeast(_) => {
                self.timed(Stage::Read, self.catch_up(freshness, deadline)).await?;
            }
        }
        // Only now the caller is decided by everything that was acknowledged before the read.
        self.check_caller()
    }

    /// Waits until the state of this node is as fresh as required.
    async fn catch_up(&self, freshness: Freshness, deadline: RT::Instant) -> Result<(), CallError> {
        match freshness {
            Freshness::Local => {}
            Freshness::Linearizable => self.0.replica.read_barrier(deadline).await?,
            Freshness::AtLeast(revision) => {
                self.prove_access(deadline).await?;
                self.0.replica.wait_for_revision(revision, deadline).await?;
            }
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

fn lookup(state: &State, id: &GrantId) -> GrantLookup {
    match state.grant(id) {
        GrantStatus::Live(_) => {
            views::grant_in_queue(state, id).map_or(GrantLookup::Unknown, |view| GrantLookup::Live(Box::new(view)))
        }
        GrantStatus::Ended(reason) => GrantLookup::Ended { reason, note: state.break_note(id) },
        GrantStatus::Unknown => GrantLookup::Unknown,
    }
}

async fn walk_over_locks(query: &LockQuery, walk: Walk, visible: Visible) -> At<LockPage> {
    list_locks(&walk.state, query, &visible, |listing| listing.into_page()).await
}

/// Visits the locks of a query, and makes the page of those that the caller may see.
pub(super) async fn list_locks<T>(
    state: &State,
    query: &LockQuery,
    visible: &Visible,
    page: impl FnOnce(LockListing<'_>) -> T,
) -> At<T> {
    let is_visible = |lock: &LockName| visible.has_lock(lock);
    let mut listing = state.lock_listing(query);
    if !visible.has_all_locks() {
        listing = listing.only(&is_visible);
    }
    walk_in_turns(|count| listing.visit(count)).await;
    At { value: page(listing), revision: state.revision() }
}

async fn page_of_history(state: &State, query: &HistoryQuery) -> At<HistoryPage> {
    let mut listing = state.history_listing(query);
    walk_in_turns(|count| listing.visit(count)).await;
    At { value: listing.into_page(), revision: state.revision() }
}

async fn page_of_histories(state: &State, query: &HistoriesQuery, visible: &Visible) -> At<HistoriesPage> {
    let is_visible = |lock: &LockName| visible.has_lock(lock);
    let mut listing = state.histories_listing(query);
    if !visible.has_all_locks() {
        listing = listing.only(&is_visible);
    }
    walk_in_turns(|count| listing.visit(count)).await;
    At { value: listing.into_page(), revision: state.revision() }
}

async fn page_of_grants(state: &State, query: &GrantQuery, visible: &Visible) -> At<GrantPage> {
    let is_visible = |lock: &LockName| visible.has_lock(lock);
    let mut listing = state.grant_listing(query);
    if !visible.has_all_locks() {
        listing = listing.only(&is_visible);
    }
    walk_in_turns(|count| listing.visit(count)).await;
    At { value: listing.into_page(), revision: state.revision() }
}

/// Removes the other locks of a grant that the caller may not see, and the grant that it waits for in one of them. If only
/// one lock of a grant is left, the entry looks like that of a grant of one lock.
async fn hide_locks(state: &State, name: &LockName, items: &mut [QueueItem], visible: &Visible) {
    let mut left = items.iter_mut();
    walk_in_turns(|count| {
        let mut decided = 0;
        while decided < count {
            let Some(item) = left.next() else { return true };
            decided += 1 + item.locks.len();
            // Only a grant of several locks waits for a contender in another one.
            let blocker = if item.locks.is_empty() { None } else { state.waits_for(name, item.number) };
            if blocker.is_some_and(|other| !visible.has_lock(&other.lock)) {
                item.waits_for = None;
            }
            item.locks.retain(|want| visible.has_lock(&want.lock));
            if item.locks.len() < 2 {
                item.locks.clear();
            }
        }
        false
    })
    .await;
}

/// What a page in the middle of a queue needs to know about the contenders before it.
async fn before<'a>(state: &'a State, name: &LockName, key: QueueKey) -> Before<'a> {
    let (counted, left) = state.queue_through(name, key);
    let count = counted + count_in_turns(left).await;
    let blocker = find_in_turns(state.waiters_back_from(name, key), |waiter| waiter.holds_readers_back()).await;
    Before { count, blocker }
}
