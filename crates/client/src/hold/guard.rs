//! A held lock: the guard, and what its holder can do with it.

use crate::{
    client::Client,
    error::{Error, Lost},
    hold::{
        hold_state::HoldState,
        lease::{Lease, RenewTarget},
        session::Session,
        session_watch::{self, EndNotice, SessionWatcher},
    },
};
use fairhold_types::{FencingToken, GrantId, GrantNumber, LockName, Revision, SessionNumber, dto};
use std::{fmt, ops::Deref, sync::Arc, time::Duration};
use tokio::{sync::watch, task::AbortHandle, time::sleep};

/// A lock that is held for a shorter time than this gets no watch: its next renewal is soon enough.
const WATCH_AFTER: Duration = Duration::from_millis(100);

/// A grant of this program. Clones refer to the same grant. They neither renew nor release it: the [`Guard`] does.
#[derive(Clone)]
pub struct Held(Arc<HeldInner>);

struct HeldInner {
    client: Client,
    lock: LockName,
    id: GrantId,
    number: GrantNumber,
    state: HoldState,
    lease: Lease,
    /// How this grant ended, independent of the session that keeps it alive.
    ended: EndNotice,
    watcher: Arc<SessionWatcher>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HeldInner { lock, number, state, .. } = &*self.0;
        let token = state.token();
        f.debug_struct("Held").field("lock", lock).field("number", number).field("token", &token).finish_non_exhaustive()
    }
}

impl Held {
    /// The fencing token. Send it with every write that the lock protects: each later holder has a larger token, so the
    /// receiver can refuse late writes. [`Guard::upgrade`] replaces it.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock is lost or released. The answer comes from this program's clock, without a network.
    pub fn token(&self) -> Result<FencingToken, Error> {
        self.check().map(|()| self.0.state.token()).map_err(Error::Lost)
    }

    /// Whether this program still holds the lock, by its own clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Waits until the lock is lost or released. It needs no network, and returns before the cluster can grant the lock
    /// to another client: at the latest, one `ttl` less the [`margin`](crate::margin) after the last acknowledged
    /// keepalive was sent. A [`max_hold`](crate::Acquire::max_hold) can end it earlier.
    pub async fn lost(&self) -> Lost {
        let mut ended = self.0.ended.subscribe();
        tokio::select! {
            biased;
            lost = async { ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended) } => {
                // The sender belongs to this grant, so it still exists.
                lost.unwrap_or(Lost::Released)
            }
            lost = self.0.lease.lost() => lost,
            () = self.0.state.expired() => self.end(Lost::Expired),
        }
    }

    /// The lock's name.
    #[must_use]
    pub fn lock(&self) -> &LockName {
        &self.0.lock
    }

    /// The grant's secret id. Anyone who knows it can renew and release the grant: give it only to work under this
    /// lock.
    #[must_use]
    pub fn id(&self) -> GrantId {
        self.0.id
    }

    /// How long this program still holds the lock if no further keepalive is acknowledged. Like [`token`](Held::token),
    /// this uses only this program's clock.
    ///
    /// # Errors
    /// How the lock was lost, or that it was released.
    pub fn left(&self) -> Result<Duration, Lost> {
        let ended = *self.0.ended.borrow();
        let left = ended.map_or_else(|| self.0.lease.left(), Err)?;
        match self.0.state.left() {
            Some(Duration::ZERO) => Err(self.end(Lost::Expired)),
            bound => Ok(bound.map_or(left, |bound| left.min(bound))),
        }
    }

    /// The grant's public number, as queues and logs show it.
    #[must_use]
    pub fn number(&self) -> GrantNumber {
        self.0.number
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    /// The fence to send. It is exact even among readers that share a token.
    pub(crate) fn fence(&self) -> Result<(&LockName, FencingToken, GrantId), Error> {
        Ok((&self.0.lock, self.token()?, self.0.id))
    }

    pub(crate) fn state(&self) -> &HoldState {
        &self.0.state
    }

    /// Ends the grant for every clone. Returns how it ended first.
    pub(crate) fn end(&self, lost: Lost) -> Lost {
        session_watch::end(&self.0.ended, lost);
        self.0.ended.borrow().unwrap_or(lost)
    }

    /// Notes that a fence refused this token. The holder has lost the lock, whatever its clock says, unless an upgrade
    /// replaced the token during the write.
    pub(crate) fn fenced_out(&self, token: FencingToken) {
        if self.0.state.is_certainly(token) {
            self.end(Lost::Fenced);
        }
    }

    fn check(&self) -> Result<(), Lost> {
        self.left().map(|_| ())
    }
}

/// A lock that this program holds. The background renews it, and releases it, with retries, when the guard is dropped.
/// [`Held`] has the holder's methods.
#[must_use = "dropping a guard releases its lock at once"]
pub struct Guard {
    held: Held,
    /// The tasks that renew and watch it, if no session does.
    tasks: Vec<AbortHandle>,
    is_released: bool,
    /// Must live as long as its grants.
    _session: Option<Session>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held.fmt(f)
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Guard {
    pub(crate) fn new(client: &Client, session: Option<&Session>, grant: &dto::Grant, state: HoldState, lease: Lease) -> Guard {
        let inner = client.inner();
        let ended = EndNotice::new(watch::Sender::new(None));
        let mut tasks = Vec::new();
        let watcher = session.map_or_else(Arc::default, Session::watcher);
        let token = state.token();
        let state = watcher.add(grant.number, &ended, state);
        if watcher.may_have_missed(grant.number) {
            let read = session_watch::read_grant(client.clone(), grant.id, grant.number, Arc::clone(&watcher), lease.clone());
            tasks.push(inner.background.keep(read));
        }
        if session.is_none() {
            let renew = lease.clone().keep(RenewTarget::Grant(grant.id), inner.renewals.clone());
            tasks.push(inner.background.keep(renew));
            let watch = watch_grant(client.clone(), grant.session, Revision(token.0), Arc::clone(&watcher), lease.clone());
            tasks.push(inner.background.keep(watch));
        }
        let held = Held(Arc::new(HeldInner {
            client: client.clone(),
            lock: grant.lock.clone(),
            id: grant.id,
            number: grant.number,
            state,
            lease,
            ended,
            watcher,
        }));
        tracing::debug!(lock = %grant.lock, grant = %grant.number, %token, "acquired a lock");
        Guard { held, tasks, is_released: false, _session: session.cloned() }
    }

    /// The holder's methods, to pass to other tasks.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Releases the lock and waits for the cluster's confirmation. Dropping the future does not cancel the release.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if no answer came within the client's timeout; the background keeps trying.
    pub async fn release(mut self) -> Result<(), Error> {
        let timeout = self.held.0.client.inner().timeout;
        let released = self.start_release();
        match tokio::time::timeout(timeout, released).await {
            Ok(Ok(released)) => released,
            Ok(Err(_)) => Err(Error::OutcomeUnknown { key: None, last: "this program's runtime is shutting down".to_owned() }),
            Err(_) => Err(Error::OutcomeUnknown {
                key: None,
                last: format!("no answer within {timeout:?}; the client keeps trying, and the grant ends with its ttl anyway"),
            }),
        }
    }

    /// Stops renewing the lock and does **not** release it: the lock stays held until its `ttl` has passed or its
    /// session ends. This program can no longer use it.
    pub fn forget(mut self) {
        self.stop_renewing();
        self.is_released = true;
    }

    /// Ends the grant for this program. No renewal starts any more.
    fn stop_renewing(&mut self) {
        self.held.end(Lost::Released);
        self.held.0.watcher.remove(self.held.0.number, &self.held.0.ended);
        self.tasks.drain(..).for_each(|task| task.abort());
    }

    fn start_release(&mut self) -> tokio::task::JoinHandle<Result<(), Error>> {
        self.stop_renewing();
        self.is_released = true;
        let held = &self.held.0;
        held.client.inner().background.release(held.id, None)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_released {
            drop(self.start_release());
        }
    }
}

/// Watches the separate session of one grant, if the client has room for one more such watch. Otherwise the client
/// learns of the grant's end at its next renewal.
async fn watch_grant(client: Client, session: SessionNumber, from: Revision, watcher: Arc<SessionWatcher>, lease: Lease) {
    sleep(WATCH_AFTER).await;
    let Ok(_permit) = Arc::clone(&client.inner().session_watches).try_acquire_owned() else { return };
    session_watch::run(client, session, from, watcher, lease).await;
}
