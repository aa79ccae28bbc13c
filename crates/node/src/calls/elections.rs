//! Elections: the leader, its proclaimed values, and observers.

use crate::{
    api::{At, CallError, PageQuery, ReadOptions},
    calls::{
        reads::list_locks,
        watch::{NodeWatch, RevisionChanges, WatchItem, WatchStart},
        write_key::fingerprint,
    },
    clock::wall_now,
    feed::{
        change::{Change, ChangedContender},
        watch_filter::WatchFilter,
    },
    node::Node,
};
use fairhold_state::{
    State,
    command::{Command, OperationResult, Outcome, Proclaim, Rejection, WriteKey},
    listing::{LockFilter, LockKey, LockListing, LockQuery},
    value::Value,
};
use fairhold_types::{FencingToken, GrantId, GrantNumber, LockName, Revision, SessionNumber, time::WallMillis};
use openraft_rt::AsyncRuntime;
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// A page of elections ends when its values have this many bytes.
const PAGE_VALUE_BYTES: usize = 256 * 1024;

/// The public view of the leader of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderView {
    /// The public number of its grant.
    pub number: GrantNumber,
    /// The public number of its session.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: Arc<str>,
    /// When its grant became held, if this node knows.
    pub held_since: Option<WallMillis>,
    /// Its fencing token, which is the revision of its election.
    pub token: FencingToken,
    /// The value that it proclaims.
    pub value: Value,
    /// How many new values the leader has proclaimed since its election.
    pub version: i32,
    /// The revision at which it proclaimed this value.
    pub value_since: Revision,
}

/// An election in the list of elections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionView {
    /// Its name.
    pub election: LockName,
    /// Its leader, if it has one.
    pub leader: Option<LeaderView>,
    /// The number of candidates that wait.
    pub waiting: usize,
}

/// A page of elections, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElectionPage {
    /// The elections. A page can be short or empty without being the last.
    pub items: Vec<ElectionView>,
    /// The key after which the next page begins; `None` on the last page.
    pub next: Option<LockKey>,
}

/// A request of the leader to proclaim another value.
#[derive(Debug, Clone)]
pub struct ProclaimCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// The election.
    pub election: LockName,
    /// The leader's grant.
    pub grant: GrantId,
    /// The new value.
    pub value: Value,
    /// The timeout of the call.
    pub timeout: Duration,
}

/// What an observer of an election sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderEvent {
    /// The leader when the observation began, if any.
    Initial(Option<LeaderView>),
    /// A new leader.
    Elected(LeaderView),
    /// The leader proclaimed another value.
    Proclaimed(LeaderView),
    /// The election no longer has a leader.
    Vacant,
    /// The observer has seen everything up to this revision.
    Bookmark,
    /// The caller's credential expires soon. The observer has seen everything up to this revision.
    CredentialExpires,
    /// The server is shutting down. The observer has seen everything up to this revision. This is the last event.
    GoAway,
    /// The observation cannot continue. This is the last event.
    Failed(CallError),
}

/// An open observation. Drop it to end it.
pub struct Observation<RT: AsyncRuntime> {
    watch: NodeWatch<RT>,
    /// The initial event includes all changes up to this revision.
    initial_revision: Revision,
    pending: VecDeque<At<LeaderEvent>>,
}

impl<RT: AsyncRuntime> std::fmt::Debug for Observation<RT> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation").field("initial_revision", &self.initial_revision).finish_non_exhaustive()
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// The leader of an election; refused if the name belongs to a lock.
    pub async fn leader(&self, election: &LockName, read: ReadOptions) -> Result<At<Option<LeaderView>>, CallError> {
        let found = self.read(read, |state| leader(state, election)).await?;
        Ok(At { value: found.value?, revision: found.revision })
    }

    /// One page of the elections that the caller may see, by name. `prefix` need not be a valid name. An election without
    /// candidates is listed until it is forgotten.
    pub async fn elections(
        &self,
        prefix: String,
        page: PageQuery<LockKey>,
        read: ReadOptions,
    ) -> Result<At<ElectionPage>, CallError> {
        let PageQuery { after, limit } = page;
        let query = LockQuery { prefix, filter: Some(LockFilter::Election), after, limit, ..LockQuery::default() };
        if let Some(empty) = self.page_without_locks(read).await? {
            return Ok(empty);
        }
        // A page may visit every election to find those that the caller may see.
        if !self.visible()?.has_all_locks() {
            let walk = self.walk(read).await?;
            return Ok(list_locks(&walk.state, &query, &self.visible()?, |listing| page_of(&walk.state, listing)).await);
        }
        let state = self.fresh_copy(read).await?;
        Ok(list_locks(&state, &query, &self.visible()?, |listing| page_of(&state, listing)).await)
    }

    /// Proclaims another value of the leader, and returns its version. Repeating a call with the same key changes
    /// nothing.
    pub async fn proclaim(&self, call: ProclaimCall) -> Result<At<i32>, CallError> {
        let ProclaimCall { key, election, grant, value, timeout } = call;
        let key = WriteKey { key, fingerprint: fingerprint(&("proclaim", &election, &grant, &value))? };
        let command = Proclaim { key, election, grant, value, at: wall_now() };
        let answer = self.propose(Command::Proclaim(command), timeout).await?;
        match answer.result? {
            Outcome::Written { results, .. } => match results.as_slice() {
                [OperationResult::Set { version }] => Ok(At { value: *version, revision: answer.revision }),
                other => unreachable!("a proclamation was answered with {other:?}"),
            },
            outcome @ (Outcome::Nothing
            | Outcome::Done
            | Outcome::SessionOpened { .. }
            | Outcome::Held(_)
            | Outcome::Queued(_)
            | Outcome::Broken { .. }
            | Outcome::WrittenBefore { .. }
            | Outcome::Judged { .. }
            | Outcome::JoinTokenCreated { .. }
            | Outcome::Admitted { .. }
            | Outcome::AccessTokenCreated { .. }) => unreachable!("a proclamation was answered with {outcome:?}"),
        }
    }

    /// Observes an election: first the current leader, then each new leader and each proclaimed value, once and in
    /// order. With `from`, the observation skips the current leader and begins with the changes at this revision.
    pub async fn observe(
        &self,
        election: &LockName,
        from: Option<Revision>,
        read: ReadOptions,
    ) -> Result<Observation<RT>, CallError> {
        let start = from.map_or(WatchStart::Now, WatchStart::From);
        let watch = self.watch(vec![WatchFilter::Leader(election.clone())], start, read).await?;
        if from.is_some() {
            return Ok(Observation { initial_revision: Revision(0), pending: VecDeque::new(), watch });
        }
        // The watch begins before this read of the state. A change in between is in both, so `next` drops the changes
        // up to `initial_revision`.
        let (leader, revision) = self.0.replica.read(|state| (leader(state, election), state.revision()));
        let first = At { value: LeaderEvent::Initial(leader?), revision };
        Ok(Observation { watch, initial_revision: revision, pending: VecDeque::from([first]) })
    }
}

impl<RT: AsyncRuntime> Observation<RT> {
    /// The revision up to which the observer has seen everything.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.watch.revision().max(self.initial_revision)
    }

    /// Waits for the next event; `None` after the last one. Not cancel-safe: do not drop the future before it
    /// completes.
    pub async fn next(&mut self) -> Option<At<LeaderEvent>> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            match self.watch.next().await? {
                WatchItem::Initial(..) => {}
                WatchItem::Changes(changes) => {
                    let new = changes.into_iter().filter(|changes| changes.revision > self.initial_revision);
                    self.pending.extend(new.filter_map(leader_event));
                }
                WatchItem::Bookmark(revision) => {
                    self.pending.push_back(At { value: LeaderEvent::Bookmark, revision: revision.max(self.initial_revision) });
                }
                WatchItem::CredentialExpires(revision) => {
                    let revision = revision.max(self.initial_revision);
                    self.pending.push_back(At { value: LeaderEvent::CredentialExpires, revision });
                }
                WatchItem::GoAway(revision) => {
                    self.pending.push_back(At { value: LeaderEvent::GoAway, revision: revision.max(self.initial_revision) })
                }
                WatchItem::Failed(revision, error) => self.pending.push_back(At { value: LeaderEvent::Failed(error), revision }),
            }
        }
    }
}

fn leader(state: &State, election: &LockName) -> Result<Option<LeaderView>, CallError> {
    if state.is_election(election) == Some(false) {
        return Err(Rejection::OtherUse { election: false }.into());
    }
    Ok(leader_view(state, election))
}

fn leader_view(state: &State, election: &LockName) -> Option<LeaderView> {
    state.election(election).map(|found| LeaderView {
        number: found.contender.number,
        session: found.contender.session,
        owner: Arc::from(found.contender.owner.text.as_str()),
        held_since: found.contender.held_since,
        token: found.token,
        value: found.value.clone(),
        version: found.version,
        value_since: found.since,
    })
}

fn page_of(state: &State, listing: LockListing<'_>) -> ElectionPage {
    let (names, next) = listing.into_names();
    let (mut items, mut value_bytes) = (Vec::with_capacity(names.len()), 0);
    for (index, name) in names.iter().enumerate() {
        let leader = leader_view(state, name);
        value_bytes += leader.as_ref().map_or(0, |leader| leader.value.len());
        items.push(ElectionView { election: LockName::clone(name), leader, waiting: state.lock_summary(name).waiting });
        if value_bytes >= PAGE_VALUE_BYTES && index + 1 < names.len() {
            return ElectionPage { items, next: Some(LockKey { rank: 0, name: LockName::clone(name) }) };
        }
    }
    ElectionPage { items, next }
}

/// The event for the changes of one revision. If a new leader replaces the old one, the event is `Elected`.
fn leader_event(changes: RevisionChanges) -> Option<At<LeaderEvent>> {
    let revision = changes.revision;
    let mut event = None;
    for change in changes.changes {
        // The filter passes only these two kinds of change.
        if let Change::Proclaimed { leader: ChangedContender { lock: _, number, session, owner }, token, version, value } = change
        {
            let view = LeaderView { number, session, owner, held_since: None, token, value, version, value_since: revision };
            event = Some(if version == 0 { LeaderEvent::Elected(view) } else { LeaderEvent::Proclaimed(view) });
        } else if matches!(change, Change::Vacated { .. }) && event.is_none() {
            event = Some(LeaderEvent::Vacant);
        }
    }
    event.map(|value| At { value, revision })
}
