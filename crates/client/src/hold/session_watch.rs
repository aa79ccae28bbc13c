//! Hears of grants that ended behind this program's back: broken by an administrator, or released by somebody else who has the
//! id. A session's keepalive does not speak of single grants, and a grant's own renewal may be far away. And of those that wait,
//! when they are granted.
//!
//! One watch of a session tells of all its grants, however many they are.

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

/// Events that are kept for grants without a listener yet: an event may be faster than the answer to the acquire. For older
/// events, the new listener looks at its grant.
const EARLY_MAX: usize = 1_024;

/// How a single grant ended, if it did: what its guard looks at.
pub(crate) type EndNotice = Arc<watch::Sender<Option<Lost>>>;

/// Says that it ended; how it ended first, counts.
pub(crate) fn end(ended: &EndNotice, lost: Lost) {
    ended.send_if_modified(|ended| {
        let is_first = ended.is_none();
        ended.get_or_insert(lost);
        is_first
    });
}

/// What a session's watch tells of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrantUpdate {
    Granted(FencingToken),
    Ended(Lost),
}

/// What a guard is told by.
#[derive(Debug)]
struct Guarded {
    ended: EndNotice,
    terms: HoldState,
}

/// The guards of a session, and those who wait.
#[derive(Debug, Default)]
pub(crate) struct SessionWatcher(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    /// More than one where a grant has several holds.
    guards: BTreeMap<GrantNumber, Vec<Guarded>>,
    waiting: BTreeMap<GrantNumber, oneshot::Sender<GrantUpdate>>,
    early: VecDeque<(GrantNumber, GrantUpdate)>,
    /// The greatest number whose news were passed over, for want of room. Numbers grow, so of later grants nothing was.
    passed_over: Option<GrantNumber>,
}

impl SessionWatcher {
    /// Looks out for a guard from now on. Says on which terms it holds: where another guard has the grant already, on its.
    pub(crate) fn add(&self, number: GrantNumber, ended: &EndNotice, terms: HoldState) -> HoldState {
        let mut known = self.known();
        let early = known.early.iter().find_map(|(early, news)| match news {
            GrantUpdate::Ended(lost) if *early == number => Some(*lost),
            GrantUpdate::Ended(_) | GrantUpdate::Granted(_) => None,
        });
        if let Some(lost) = early {
            end(ended, lost);
            return terms;
        }
        let guards = known.guards.entry(number).or_default();
        let common = guards.first().map_or_else(|| terms.clone(), |first| first.terms.clone());
        common.granted(terms.token());
        guards.push(Guarded { ended: Arc::clone(ended), terms: common.clone() });
        common
    }

    /// Listens for the next news of a grant that waits.
    pub(crate) fn wait_for(self: &Arc<Self>, number: GrantNumber) -> GrantWaiter {
        let (tell, news) = oneshot::channel();
        let mut known = self.known();
        // Where there are several, the last one counts.
        match known.early.iter().rev().find(|(early, _)| *early == number) {
            Some((_, early)) => drop(tell.send(*early)),
            None => drop(known.waiting.insert(number, tell)),
        }
        GrantWaiter { lookout: Arc::clone(self), number, news: Some(news) }
    }

    /// Whether news of this grant may have been passed over: then its state has to be looked at, once it is listened for.
    pub(crate) fn may_have_missed(&self, number: GrantNumber) -> bool {
        self.known().passed_over >= Some(number)
    }

    /// A guard of it is gone.
    pub(crate) fn remove(&self, number: GrantNumber, ended: &EndNotice) {
        let mut known = self.known();
        if let Entry::Occupied(mut guards) = known.guards.entry(number) {
            guards.get_mut().retain(|guard| !Arc::ptr_eq(&guard.ended, ended));
            if guards.get().is_empty() {
                guards.remove();
            }
        }
    }

    fn ended(&self, number: GrantNumber, lost: Lost) {
        let mut known = self.known();
        match known.guards.remove(&number) {
            Some(guards) => guards.iter().for_each(|guard| end(&guard.ended, lost)),
            None => known.tell(number, GrantUpdate::Ended(lost)),
        }
    }

    fn granted(&self, number: GrantNumber, token: FencingToken) {
        let mut known = self.known();
        match known.guards.get(&number) {
            // An upgrade gives a new token.
            Some(guards) => guards.iter().for_each(|guard| guard.terms.granted(token)),
            None => known.tell(number, GrantUpdate::Granted(token)),
        }
    }

    /// Those that are guarded and are not among the living have ended; how, is not known any more.
    fn keep(&self, before: &BTreeSet<GrantNumber>, living: &BTreeSet<GrantNumber>) {
        before.difference(living).for_each(|number| self.ended(*number, Lost::Expired));
    }

    /// All whose news may have been missed.
    fn guarded(&self) -> BTreeSet<GrantNumber> {
        self.known().guards.keys().copied().collect()
    }

    fn known(&self) -> MutexGuard<'_, Watched> {
        self.0.lock()
    }
}

impl Watched {
    /// Tells who waits for it, or keeps it for who is about to. That of one that waits is kept too: its guard comes next.
    fn tell(&mut self, number: GrantNumber, news: GrantUpdate) {
        if let Some(waiting) = self.waiting.remove(&number) {
            // The waiting task is gone: then nobody needs it.
            waiting.send(news).ok();
        }
        self.early.push_back((number, news));
        if self.early.len() > EARLY_MAX
            && let Some((number, _)) = self.early.pop_front()
        {
            self.passed_over = self.passed_over.max(Some(number));
        }
    }
}

/// One that waits; dropping it ends that.
#[derive(Debug)]
pub(crate) struct GrantWaiter {
    lookout: Arc<SessionWatcher>,
    number: GrantNumber,
    /// Nothing once it was told.
    news: Option<oneshot::Receiver<GrantUpdate>>,
}

impl GrantWaiter {
    /// What is told of it first, once. Dropping the future loses nothing.
    pub(crate) async fn news(&mut self) -> GrantUpdate {
        if let Some(news) = &mut self.news {
            let told = news.await;
            self.news = None;
            if let Ok(told) = told {
                return told;
            }
        }
        std::future::pending().await
    }
}

impl Drop for GrantWaiter {
    fn drop(&mut self) {
        self.lookout.known().waiting.remove(&self.number);
    }
}

/// Listens to what becomes of a session and its grants, from that revision on, until the session has ended. To be run as a task.
pub(crate) async fn listen(client: Client, session: SessionNumber, from: Revision, lookout: Arc<SessionWatcher>, lease: Lease) {
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
    while let Some(told) = watching.next().await {
        match told {
            Ok(WatchEvent::Change(line)) => {
                if let What::GrantEnded { number, reason, .. } = line.what {
                    lookout.ended(number, Lost::from(reason));
                } else if let What::Granted { number, token, .. } = line.what {
                    lookout.granted(number, token);
                } else if let What::SessionEnded { reason, .. } = line.what {
                    // Not by this program, which stops listening first.
                    lease.end(if reason == SessionEnd::Closed { Lost::Broken } else { Lost::Expired });
                    return;
                }
            }
            Ok(WatchEvent::Compacted { .. }) => look(&client, session, &lookout, &lease).await,
            Ok(WatchEvent::Bookmark(_) | WatchEvent::Restarted) => {}
            Err(error) => {
                tracing::warn!(%error, "the client will notice broken grants late: the watch of their session has ended");
            }
        }
    }
}

/// Reads which grants are left, where events no longer tell which ended. They come page by page, in the order of their numbers.
/// A grant that was there before and is on no page has ended.
async fn look(client: &Client, session: SessionNumber, lookout: &SessionWatcher, lease: &Lease) {
    let (inner, guarded, mut backoff) = (client.inner(), lookout.guarded(), Backoff::new());
    let (mut left, mut cursor) = (BTreeSet::new(), None::<String>);
    loop {
        let call = Call::new(Method::GET, page(&format!("/v1/sessions/{session}"), PAGE, cursor.as_deref()));
        let reply = match inner.renewals.send(&call, RetryBudget::within(inner.timeout)).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::debug!(%error, "the grants of a session could not be read");
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
                lookout.keep(&guarded, &left);
            }
            Err(_) if reply.problem().code == Some(Code::SessionNotFound) => drop(lease.end(Lost::Expired)),
            Err(error) => tracing::warn!(%error, "the grants of a session cannot be listed"),
        }
        return;
    }
}

/// Reads one grant, whose events may have been dropped, until its state is known. Runs as a task.
pub(crate) async fn look_at(client: Client, id: GrantId, number: GrantNumber, lookout: Arc<SessionWatcher>, lease: Lease) {
    let (inner, mut backoff) = (client.inner(), Backoff::new());
    let call = Call::new(Method::GET, format!("/v1/grants/{id}"));
    while lease.check().is_ok() {
        match inner.renewals.send(&call, RetryBudget::within(inner.timeout)).await.and_then(|reply| reply.json::<dto::Grant>()) {
            Ok(_) => return,
            Err(Error::Lost(lost)) => return lookout.ended(number, lost),
            Err(Error::Refused { code: Some(Code::GrantNotFound), .. }) => return lookout.ended(number, Lost::Expired),
            Err(error) => tracing::debug!(%error, "the state of a grant could not be read"),
        }
        sleep(backoff.next(None)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl GrantWaiter {
        /// What was told so far.
        fn now(&mut self) -> Option<GrantUpdate> {
            self.news.as_mut().and_then(|news| news.try_recv().ok())
        }
    }

    fn guard() -> EndNotice {
        Arc::new(watch::Sender::new(None))
    }

    fn terms(token: u64) -> HoldState {
        HoldState::new(FencingToken(token), None)
    }

    #[test]
    fn holds_of_one_grant_have_its_token_in_common_and_each_hears_of_its_end() {
        let (lookout, first, second, third) = (SessionWatcher::default(), guard(), guard(), guard());
        let number = GrantNumber(1);
        let of_first = lookout.add(number, &first, terms(1));
        let of_second = lookout.add(number, &second, terms(1));
        lookout.add(number, &third, terms(1));
        of_second.granted(FencingToken(5));
        assert_eq!(of_first.token(), FencingToken(5), "an upgrade through one is one of all");
        lookout.granted(number, FencingToken(8));
        assert_eq!((of_first.token(), of_second.token()), (FencingToken(8), FencingToken(8)));
        lookout.remove(number, &second);
        lookout.ended(number, Lost::Broken);
        assert_eq!((*first.borrow(), *second.borrow(), *third.borrow()), (Some(Lost::Broken), None, Some(Lost::Broken)));
    }

    #[test]
    fn a_guard_hears_of_its_own_end_also_where_the_news_was_faster() {
        let (lookout, early, late, gone) = (SessionWatcher::default(), guard(), guard(), guard());
        lookout.ended(GrantNumber(1), Lost::Broken);
        lookout.add(GrantNumber(1), &early, terms(1));
        lookout.add(GrantNumber(2), &late, terms(2));
        lookout.add(GrantNumber(3), &gone, terms(3));
        lookout.remove(GrantNumber(3), &gone);
        assert_eq!((*early.borrow(), *late.borrow()), (Some(Lost::Broken), None));
        [2, 3].into_iter().for_each(|number| lookout.ended(GrantNumber(number), Lost::Released));
        end(&late, Lost::Broken);
        assert_eq!((*late.borrow(), *gone.borrow()), (Some(Lost::Released), None));
    }

    #[test]
    fn a_grant_that_is_no_longer_listed_has_ended_and_a_new_one_has_not() {
        let (lookout, ended, lives, new) = (SessionWatcher::default(), guard(), guard(), guard());
        lookout.add(GrantNumber(1), &ended, terms(1));
        lookout.add(GrantNumber(2), &lives, terms(2));
        let before = lookout.guarded();
        lookout.add(GrantNumber(3), &new, terms(3));
        lookout.keep(&before, &[GrantNumber(2)].into());
        assert_eq!((*ended.borrow(), *lives.borrow(), *new.borrow()), (Some(Lost::Expired), None, None));
        let lookout = Arc::new(lookout);
        lookout.granted(GrantNumber(4), FencingToken(9));
        let (mut early, mut late) = (lookout.wait_for(GrantNumber(4)), lookout.wait_for(GrantNumber(5)));
        assert_eq!(early.now(), Some(GrantUpdate::Granted(FencingToken(9))));
        assert!(late.now().is_none());
        lookout.ended(GrantNumber(5), Lost::Broken);
        assert_eq!(late.now(), Some(GrantUpdate::Ended(Lost::Broken)));
        drop(lookout.wait_for(GrantNumber(6)));
        assert!(lookout.known().waiting.is_empty(), "who is gone is forgotten");
        for number in 10..10 + EARLY_MAX as u64 + 5 {
            lookout.ended(GrantNumber(number), Lost::Broken);
        }
        assert_eq!(lookout.known().early.len(), EARLY_MAX);
        assert!(lookout.may_have_missed(GrantNumber(14)) && !lookout.may_have_missed(GrantNumber(15)));
    }
}
