//! Elections: the leader, the values that it proclaims, and the observers of both.

use crate::{
    api::{At, CallError, ReadOptions},
    calls::{
        watch::{NodeWatch, TellResult, WatchItem, WatchStart},
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
    value::Value,
};
use fairhold_types::{FencingToken, GrantId, GrantNumber, LockName, Revision, SessionNumber, time::WallMillis};
use openraft_rt::AsyncRuntime;
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// Who leads an election, as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderView {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: Arc<str>,
    /// Since when it leads, where that is known here.
    pub held_since: Option<WallMillis>,
    /// Its fencing token, which is the revision at which it was elected.
    pub token: FencingToken,
    /// What it proclaims.
    pub value: Value,
    /// How often the leader has proclaimed a new value since it took the lead.
    pub version: i32,
    /// Since which revision that value stands.
    pub value_since: Revision,
}

/// The leader's order to be known by another value.
#[derive(Debug, Clone)]
pub struct ProclaimCall {
    /// Its idempotency key.
    pub key: GrantId,
    /// The election.
    pub election: LockName,
    /// The leader's grant.
    pub grant: GrantId,
    /// The value.
    pub value: Value,
    /// How long the server may work on it.
    pub timeout: Duration,
}

/// What one who observes an election sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderEvent {
    /// How it stood when the observation began: the leader, or nobody.
    Initial(Option<LeaderView>),
    /// A new leader.
    Elected(LeaderView),
    /// The leader proclaims another value.
    Proclaimed(LeaderView),
    /// Nobody leads any more.
    Vacant,
    /// Everything up to its revision was seen.
    Bookmark,
    /// The server stops; everything up to its revision was seen. It is the last.
    GoAway,
    /// The observation cannot go on. It is the last.
    Failed(CallError),
}

/// An open observation; dropping it ends it.
pub struct Observation<RT: AsyncRuntime> {
    watch: NodeWatch<RT>,
    /// Up to there, what happened is in what was there.
    there: Revision,
    seen: VecDeque<At<LeaderEvent>>,
}

impl<RT: AsyncRuntime> std::fmt::Debug for Observation<RT> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation").field("there", &self.there).finish_non_exhaustive()
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Who leads an election; refused where the name is a lock's.
    pub async fn leader(&self, election: &LockName, read: ReadOptions) -> Result<At<Option<LeaderView>>, CallError> {
        let found = self.read(read, |state| leader(state, election)).await?;
        Ok(At { value: found.value?, revision: found.revision })
    }

    /// Has the leader known by another value; gives how often that has happened. The same key again does nothing more.
    pub async fn proclaim(&self, call: ProclaimCall) -> Result<At<i32>, CallError> {
        let ProclaimCall { key, election, grant, value, timeout } = call;
        let key = WriteKey { key, fingerprint: fingerprint(&("proclaim", &election, &grant, &value))? };
        let order = Proclaim { key, election, grant, value, at: wall_now() };
        let answer = self.propose(Command::Proclaim(order), timeout).await?;
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
            | Outcome::Judged { .. }) => unreachable!("a proclamation was answered with {outcome:?}"),
        }
    }

    /// Observes an election: how it stands, then each leader and each value that is proclaimed, once and in order; or, from a
    /// revision on, those alone.
    pub async fn observe(
        &self,
        election: &LockName,
        from: Option<Revision>,
        read: ReadOptions,
    ) -> Result<Observation<RT>, CallError> {
        let begin = from.map_or(WatchStart::Now, WatchStart::From);
        let watch = self.watch(vec![WatchFilter::Leader(election.clone())], begin, read).await?;
        if from.is_some() {
            return Ok(Observation { there: Revision(0), seen: VecDeque::new(), watch });
        }
        // The state is looked at after the watch began, so what happened in between is in both: it is told once.
        let (there, revision) = self.0.replica.read(|state| (leader(state, election), state.revision()));
        let first = At { value: LeaderEvent::Initial(there?), revision };
        Ok(Observation { watch, there: revision, seen: VecDeque::from([first]) })
    }
}

impl<RT: AsyncRuntime> Observation<RT> {
    /// The revision up to which everything was seen when it began.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.watch.revision().max(self.there)
    }

    /// What is seen next; nothing after the last. It waits for it, and is not to be dropped and asked again in between.
    pub async fn next(&mut self) -> Option<At<LeaderEvent>> {
        loop {
            if let Some(seen) = self.seen.pop_front() {
                return Some(seen);
            }
            match self.watch.next().await? {
                WatchItem::There(..) => {}
                WatchItem::Changes(told) => {
                    let news = told.into_iter().filter(|told| told.revision > self.there);
                    self.seen.extend(news.filter_map(sight));
                }
                WatchItem::Bookmark(revision) => {
                    self.seen.push_back(At { value: LeaderEvent::Bookmark, revision: revision.max(self.there) });
                }
                WatchItem::GoAway(revision) => {
                    self.seen.push_back(At { value: LeaderEvent::GoAway, revision: revision.max(self.there) })
                }
                WatchItem::Failed(revision, error) => self.seen.push_back(At { value: LeaderEvent::Failed(error), revision }),
            }
        }
    }
}

fn leader(state: &State, election: &LockName) -> Result<Option<LeaderView>, CallError> {
    if state.is_election(election) == Some(false) {
        return Err(Rejection::OtherUse { election: false }.into());
    }
    Ok(state.election(election).map(|now| LeaderView {
        number: now.contender.number,
        session: now.contender.session,
        owner: Arc::from(now.contender.owner.text.as_str()),
        held_since: now.contender.held_since,
        token: now.token,
        value: now.value.clone(),
        version: now.version,
        value_since: now.since,
    }))
}

/// What is seen of the changes of one revision: where one leader follows another in it, the new one alone.
fn sight(told: TellResult) -> Option<At<LeaderEvent>> {
    let revision = told.revision;
    let mut seen = None;
    for change in told.changes {
        // The scope has no other changes than these two.
        if let Change::Proclaimed { leader: ChangedContender { lock: _, number, session, owner }, token, version, value } = change
        {
            let view = LeaderView { number, session, owner, held_since: None, token, value, version, value_since: revision };
            seen = Some(if version == 0 { LeaderEvent::Elected(view) } else { LeaderEvent::Proclaimed(view) });
        } else if matches!(change, Change::Vacated { .. }) && seen.is_none() {
            seen = Some(LeaderEvent::Vacant);
        }
    }
    seen.map(|value| At { value, revision })
}
