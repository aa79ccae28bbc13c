//! The watch of a session: reports which of its waiting grants were granted, and which grants ended without this
//! program doing it, because an administrator took the lock or another program released it by its id. A session's
//! keepalive says nothing about single grants, and a grant's own renewal may be far away.
//!
//! One watch serves all grants of a session.

use crate::{
    client::Client,
    error::{Error, Lost},
    hold::{hold_state::HoldState, lease::Lease},
    watch::WatchEvent,
    wire::{
        backoff::Backoff,
        call::Call,
        retry::RetryBudget,
        url::{PAGE, page},
    },
};
use fairhold_types::{
    Code, FencingToken, GrantId, GrantNumber, Revision, SessionNumber, dto,
    watch::{SessionEnd, What},
};
use parking_lot::{Mutex, MutexGuard};
use reqwest::Method;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    sync::Arc,
};
use tokio::{
    sync::{oneshot, watch},
    time::sleep,
};

/// The most events that are kept for grants without a guard or waiter yet: an event can be faster than the answer to
/// the acquire. If the event was dropped, the client reads the grant instead.
const EARLY_MAX: usize = 1_024;

/// How a grant ended, if it has: the guard reads it.
pub(crate) type EndNotice = Arc<watch::Sender<Option<Lost>>>;

/// Notes that it ended. The first reason counts.
pub(crate) fn end(ended: &EndNotice, lost: Lost) {
    ended.send_if_modified(|ended| {
        let is_first = ended.is_none();
        ended.get_or_insert(lost);
        is_first
    });
}

/// What a session's watch says about a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrantUpdate {
    Granted(FencingToken),
    Ended(Lost),
}

/// What the watch updates for a guard.
#[derive(Debug)]
struct Guarded {
    ended: EndNotice,
    state: HoldState,
}

/// The guards and the waiters of a session.
#[derive(Debug, Default)]
pub(crate) struct SessionWatcher(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    /// A grant with several holds has several guards.
    guards: BTreeMap<GrantNumber, Vec<Guarded>>,
    waiting: BTreeMap<GrantNumber, oneshot::Sender<GrantUpdate>>,
    early: VecDeque<(GrantNumber, GrantUpdate)>,
    /// The greatest number whose update was dropped. Numbers grow, so no update of a later grant was dropped.
    dropped: Option<GrantNumber>,
}

impl SessionWatcher {
    /// Adds a guard. Returns the state that it must use: if another guard already has the grant, they share its state.
    pub(crate) fn add(&self, number: GrantNumber, ended: &EndNotice, state: HoldState) -> HoldState {
        let mut watched = self.watched();
        let early = watched.early.iter().find_map(|(early, update)| match update {
            GrantUpdate::Ended(lost) if *early == number => Some(*lost),
            GrantUpdate::Ended(_) | GrantUpdate::Granted(_) => None,
        });
        if let Some(lost) = early {
            end(ended, lost);
            return state;
        }
        let guards = watched.guards.entry(number).or_default();
        let common = guards.first().map_or_else(|| state.clone(), |first| first.state.clone());
        common.granted(state.token());
        guards.push(Guarded { ended: Arc::clone(ended), state: common.clone() });
        common
    }

    /// Waits for the next update of a grant in the queue.
    pub(crate) fn wait_for(self: &Arc<Self>, number: GrantNumber) -> GrantWaiter {
        let (sender, receiver) = oneshot::channel();
        let mut watched = self.watched();
        // If there are several updates, the last one counts.
        match watched.early.iter().rev().find(|(early, _)| *early == number) {
            Some((_, early)) => drop(sender.send(*early)),
            None => drop(watched.waiting.insert(number, sender)),
        }
        GrantWaiter { watcher: Arc::clone(self), number, receiver: Some(receiver) }
    }

    /// Whether an update of this grant may have been dropped. Then read the grant, after adding its guard or waiter.
    pub(crate) fn may_have_missed(&self, number: GrantNumber) -> bool {
        self.watched().dropped >= Some(number)
    }

    /// Removes a guard.
    pub(crate) fn remove(&self, number: GrantNumber, ended: &EndNotice) {
        let mut watched = self.watched();
        if let Entry::Occupied(mut guards) = watched.guards.entry(number) {
            guards.get_mut().retain(|guard| !Arc::ptr_eq(&guard.ended, ended));
            if guards.get().is_empty() {
                guards.remove();
            }
        }
    }

    fn ended(&self, number: GrantNumber, lost: Lost) {
        let mut watched = self.watched();
        match watched.guards.remove(&number) {
            Some(guards) => guards.iter().for_each(|guard| end(&guard.ended, lost)),
            None => watched.notify(number, GrantUpdate::Ended(lost)),
        }
    }

    fn granted(&self, number: GrantNumber, token: FencingToken) {
        let mut watched = self.watched();
        match watched.guards.get(&number) {
            // An upgrade gives a new token.
            Some(guards) => guards.iter().for_each(|guard| guard.state.granted(token)),
            None => watched.notify(number, GrantUpdate::Granted(token)),
        }
    }

    /// Ends the grants of `before` that are not among the living. How they ended is no longer known.
    fn keep(&self, before: &BTreeSet<GrantNumber>, living: &BTreeSet<GrantNumber>) {
        before.difference(living).for_each(|number| self.ended(*number, Lost::Expired));
    }

    /// The grants whose updates may have been missed.
    fn guarded(&self) -> BTreeSet<GrantNumber> {
        self.watched().guards.keys().copied().collect()
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.0.lock()
    }
}

impl Watched {
    /// Sends an update to the waiter, and keeps it for a guard or waiter that comes later: the guard of a waiter comes
    /// next.
    fn notify(&mut self, number: GrantNumber, update: GrantUpdate) {
        if let Some(waiting) = self.waiting.remove(&number) {
            // If the waiting task is gone, nobody needs the update.
            waiting.send(update).ok();
        }
        self.early.push_back((number, update));
        if self.early.len() > EARLY_MAX
            && let Some((number, _)) = self.early.pop_front()
        {
            self.dropped = self.dropped.max(Some(number));
        }
    }
}

/// Waits for the update of a grant, until it is dropped.
#[derive(Debug)]
pub(crate) struct GrantWaiter {
    watcher: Arc<SessionWatcher>,
    number: GrantNumber,
    /// `None` after the update.
    receiver: Option<oneshot::Receiver<GrantUpdate>>,
}

impl GrantWaiter {
    /// The first update, once. Dropping the future loses nothing.
    pub(crate) async fn update(&mut self) -> GrantUpdate {
        if let Some(receiver) = &mut self.receiver {
            let update = receiver.await;
            self.receiver = None;
            if let Ok(update) = update {
                return update;
            }
        }
        std::future::pending().await
    }
}

impl Drop for GrantWaiter {
    fn drop(&mut self) {
        self.watcher.watched().waiting.remove(&self.number);
    }
}

/// Watches a session and its grants, from this revision on, until the session has ended. Runs as a task.
pub(crate) async fn run(client: Client, session: SessionNumber, from: Revision, watcher: Arc<SessionWatcher>, lease: Lease) {
    let mut backoff = Backoff::new();
    let mut watching = loop {
        match client.watch().session(session).from(from).await {
            Ok(watching) => break watching,
            Err(error) if error.is_retryable() => sleep(backoff.next(None)).await,
            Err(error) => {
                tracing::warn!(%error, "the client will notice broken grants late: it cannot watch their session");
                return;
            }
        }
    };
    while let Some(event) = watching.next().await {
        match event {
            Ok(WatchEvent::Change(line)) => {
                if let What::GrantEnded { number, reason, .. } = line.what {
                    watcher.ended(number, Lost::from(reason));
                } else if let What::Granted { number, token, .. } = line.what {
                    watcher.granted(number, token);
                } else if let What::SessionEnded { reason, .. } = line.what {
                    // This program did not close it: it would have stopped this task first.
                    lease.end(if reason == SessionEnd::Closed { Lost::Broken } else { Lost::Expired });
                    return;
                }
            }
            Ok(WatchEvent::Compacted { .. }) => read_session(&client, session, &watcher, &lease).await,
            Ok(WatchEvent::Bookmark(_) | WatchEvent::Restarted) => {}
            Err(error) => {
                tracing::warn!(%error, "the client will notice broken grants late: the watch of their session has ended");
            }
        }
    }
}

/// Reads which grants are left, if events no longer say which ended. They come page by page, in the order of their
/// numbers. A grant that existed before and is on no page has ended.
async fn read_session(client: &Client, session: SessionNumber, watcher: &SessionWatcher, lease: &Lease) {
    let inner = client.inner();
    let guarded = watcher.guarded();
    let mut backoff = Backoff::new();
    let mut left = BTreeSet::new();
    let mut cursor = None::<String>;
    loop {
        let call = Call::new(Method::GET, page(&format!("/v1/sessions/{session}"), PAGE, cursor.as_deref()));
        let reply = match inner.renewals.send(&call, RetryBudget::within(inner.timeout)).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::debug!(%error, "cannot read the grants of a session; the client tries again");
                sleep(backoff.next(None)).await;
                continue;
            }
        };
        match reply.json::<dto::Session>() {
            Ok(listed) => {
                left.extend(listed.grants.iter().map(|grant| grant.number));
                cursor = listed.next_cursor;
                if cursor.is_some() {
                    continue;
                }
                watcher.keep(&guarded, &left);
            }
            Err(_) if reply.problem().code == Some(Code::SessionNotFound) => drop(lease.end(Lost::Expired)),
            Err(error) => tracing::warn!(%error, "cannot list the grants of a session"),
        }
        return;
    }
}

/// Reads one grant whose update may have been dropped, until its state is known. Runs as a task.
pub(crate) async fn read_grant(client: Client, id: GrantId, number: GrantNumber, watcher: Arc<SessionWatcher>, lease: Lease) {
    let inner = client.inner();
    let mut backoff = Backoff::new();
    let call = Call::new(Method::GET, format!("/v1/grants/{id}"));
    while lease.check().is_ok() {
        match inner.renewals.send(&call, RetryBudget::within(inner.timeout)).await.and_then(|reply| reply.json::<dto::Grant>()) {
            Ok(_) => return,
            Err(Error::Lost(lost)) => return watcher.ended(number, lost),
            Err(Error::Refused { code: Some(Code::GrantNotFound), .. }) => return watcher.ended(number, Lost::Expired),
            Err(error) => tracing::debug!(%error, "cannot read the state of a grant; the client tries again"),
        }
        sleep(backoff.next(None)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl GrantWaiter {
        /// The update, if it has arrived.
        fn now(&mut self) -> Option<GrantUpdate> {
            self.receiver.as_mut().and_then(|receiver| receiver.try_recv().ok())
        }
    }

    fn guard() -> EndNotice {
        Arc::new(watch::Sender::new(None))
    }

    fn state(token: u64) -> HoldState {
        HoldState::new(FencingToken(token), None)
    }

    #[test]
    fn holds_of_one_grant_share_its_token_and_each_learns_of_its_end() {
        let (watcher, first, second, third) = (SessionWatcher::default(), guard(), guard(), guard());
        let number = GrantNumber(1);
        let of_first = watcher.add(number, &first, state(1));
        let of_second = watcher.add(number, &second, state(1));
        watcher.add(number, &third, state(1));
        of_second.granted(FencingToken(5));
        assert_eq!(of_first.token(), FencingToken(5), "an upgrade through one hold applies to all");
        watcher.granted(number, FencingToken(8));
        assert_eq!((of_first.token(), of_second.token()), (FencingToken(8), FencingToken(8)));
        watcher.remove(number, &second);
        watcher.ended(number, Lost::Broken);
        assert_eq!((*first.borrow(), *second.borrow(), *third.borrow()), (Some(Lost::Broken), None, Some(Lost::Broken)));
    }

    #[test]
    fn a_guard_learns_of_its_end_even_if_the_event_came_before_the_guard() {
        let (watcher, early, late, gone) = (SessionWatcher::default(), guard(), guard(), guard());
        watcher.ended(GrantNumber(1), Lost::Broken);
        watcher.add(GrantNumber(1), &early, state(1));
        watcher.add(GrantNumber(2), &late, state(2));
        watcher.add(GrantNumber(3), &gone, state(3));
        watcher.remove(GrantNumber(3), &gone);
        assert_eq!((*early.borrow(), *late.borrow()), (Some(Lost::Broken), None));
        [2, 3].into_iter().for_each(|number| watcher.ended(GrantNumber(number), Lost::Released));
        end(&late, Lost::Broken);
        assert_eq!((*late.borrow(), *gone.borrow()), (Some(Lost::Released), None));
    }

    #[test]
    fn a_grant_that_is_no_longer_listed_has_ended_and_a_new_grant_has_not() {
        let (watcher, ended, lives, new) = (SessionWatcher::default(), guard(), guard(), guard());
        watcher.add(GrantNumber(1), &ended, state(1));
        watcher.add(GrantNumber(2), &lives, state(2));
        let before = watcher.guarded();
        watcher.add(GrantNumber(3), &new, state(3));
        watcher.keep(&before, &[GrantNumber(2)].into());
        assert_eq!((*ended.borrow(), *lives.borrow(), *new.borrow()), (Some(Lost::Expired), None, None));
        let watcher = Arc::new(watcher);
        watcher.granted(GrantNumber(4), FencingToken(9));
        let (mut early, mut late) = (watcher.wait_for(GrantNumber(4)), watcher.wait_for(GrantNumber(5)));
        assert_eq!(early.now(), Some(GrantUpdate::Granted(FencingToken(9))));
        assert!(late.now().is_none());
        watcher.ended(GrantNumber(5), Lost::Broken);
        assert_eq!(late.now(), Some(GrantUpdate::Ended(Lost::Broken)));
        drop(watcher.wait_for(GrantNumber(6)));
        assert!(watcher.watched().waiting.is_empty(), "a dropped waiter is forgotten");
        for number in 10..10 + EARLY_MAX as u64 + 5 {
            watcher.ended(GrantNumber(number), Lost::Broken);
        }
        assert_eq!(watcher.watched().early.len(), EARLY_MAX);
        assert!(watcher.may_have_missed(GrantNumber(14)) && !watcher.may_have_missed(GrantNumber(15)));
    }
}
