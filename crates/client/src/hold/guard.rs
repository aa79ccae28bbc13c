//! A lock that is held: the guard, and what its holder may do with it.

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

/// A lock that is held for less than this is not looked out for: its next renewal is soon enough.
const LOOK_OUT_AFTER: Duration = Duration::from_millis(100);

/// A grant that was given to this program. Clones speak of the same grant; they keep nothing alive and give nothing back, which
/// is the [`Guard`]'s.
#[derive(Clone)]
pub struct Held(Arc<HeldInner>);

struct HeldInner {
    client: Client,
    lock: LockName,
    id: GrantId,
    number: GrantNumber,
    terms: HoldState,
    lease: Lease,
    /// How this grant alone ended, whatever becomes of the session that keeps it.
    ended: EndNotice,
    lookout: Arc<SessionWatcher>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (HeldInner { lock, number, .. }, token) = (&*self.0, self.0.terms.token());
        f.debug_struct("Held").field("lock", lock).field("number", number).field("token", &token).finish_non_exhaustive()
    }
}

impl Held {
    /// The fencing token, to be sent with every write that the lock protects. Each later holder has a larger one, so whoever
    /// is written to can refuse what comes late. After [`Guard::upgrade`] it is the new one.
    ///
    /// # Errors
    /// [`Error::Lost`] once it was lost or given back. The answer comes from this program's clock, without a network.
    pub fn token(&self) -> Result<FencingToken, Error> {
        self.check().map(|()| self.0.terms.token()).map_err(Error::Lost)
    }

    /// Whether it may be believed in now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Waits until it is lost, or given back. It fires by itself, without a network, before the cluster may grant the lock to
    /// another: no later than the `ttl`, less [`margin`](crate::margin), after the last acknowledged keepalive was sent; and
    /// where it has a [`max_hold`](crate::Acquire::max_hold), as is said there.
    pub async fn lost(&self) -> Lost {
        let mut ended = self.0.ended.subscribe();
        tokio::select! {
            biased;
            lost = async { ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended) } => {
                // The sending end is in this very grant.
                lost.unwrap_or(Lost::Released)
            }
            lost = self.0.lease.lost() => lost,
            () = self.0.terms.over() => self.end(Lost::Expired),
        }
    }

    /// The lock's name.
    #[must_use]
    pub fn lock(&self) -> &LockName {
        &self.0.lock
    }

    /// The grant's secret id: who knows it can renew and release. To be handed to none but what works under this lock.
    #[must_use]
    pub fn id(&self) -> GrantId {
        self.0.id
    }

    /// For how long it may be believed in from now on if no further keepalive is acknowledged; as [`token`](Held::token), by
    /// this program's clock alone.
    ///
    /// # Errors
    /// How it was lost, or that it was given back.
    pub fn left(&self) -> Result<Duration, Lost> {
        let ended = *self.0.ended.borrow();
        let left = ended.map_or_else(|| self.0.lease.left(), Err)?;
        match self.0.terms.left() {
            Some(Duration::ZERO) => Err(self.end(Lost::Expired)),
            most => Ok(most.map_or(left, |most| left.min(most))),
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

    /// The fence as it travels; exact also among readers who share a token.
    pub(crate) fn fence(&self) -> Result<(&LockName, FencingToken, GrantId), Error> {
        Ok((&self.0.lock, self.token()?, self.0.id))
    }

    pub(crate) fn terms(&self) -> &HoldState {
        &self.0.terms
    }

    /// It has ended, for everybody who has it; says how, which is how it ended first.
    pub(crate) fn end(&self, lost: Lost) -> Lost {
        session_watch::end(&self.0.ended, lost);
        self.0.ended.borrow().unwrap_or(lost)
    }

    /// A fence refused that token. A refused holder no longer holds the lock, whatever its clock says, unless it was upgraded
    /// while the write was under way.
    pub(crate) fn fenced_out(&self, token: FencingToken) {
        if self.0.terms.is_surely(token) {
            self.end(Lost::Fenced);
        }
    }

    fn check(&self) -> Result<(), Lost> {
        self.left().map(|_| ())
    }
}

/// A lock that this program holds. It is renewed in the background; dropped, it is given back in the background, with retries.
/// What the holder may ask of it is at [`Held`].
#[must_use = "a guard that is dropped gives its lock back at once"]
pub struct Guard {
    held: Held,
    /// The tasks that renew it and look out for it, where no session does.
    tasks: Vec<AbortHandle>,
    is_given_back: bool,
    /// Lives as long as what it keeps.
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
    pub(crate) fn new(client: &Client, session: Option<&Session>, grant: &dto::Grant, terms: HoldState, lease: Lease) -> Guard {
        let (inner, ended) = (client.inner(), EndNotice::new(watch::Sender::new(None)));
        let mut tasks = Vec::new();
        let lookout = session.map_or_else(Arc::default, Session::lookout);
        let token = terms.token();
        let terms = lookout.add(grant.number, &ended, terms);
        if lookout.may_have_missed(grant.number) {
            let look = session_watch::look_at(client.clone(), grant.id, grant.number, Arc::clone(&lookout), lease.clone());
            tasks.push(inner.background.keep(look));
        }
        if session.is_none() {
            let keep = lease.clone().keep(RenewTarget::Grant(grant.id), inner.renewals.clone());
            tasks.push(inner.background.keep(keep));
            let listen = look_out(client.clone(), grant.session, Revision(token.0), Arc::clone(&lookout), lease.clone());
            tasks.push(inner.background.keep(listen));
        }
        let held = Held(Arc::new(HeldInner {
            client: client.clone(),
            lock: grant.lock.clone(),
            id: grant.id,
            number: grant.number,
            terms,
            lease,
            ended,
            lookout,
        }));
        tracing::debug!(lock = %grant.lock, contender = %grant.number, %token, "held");
        Guard { held, tasks, is_given_back: false, _session: session.cloned() }
    }

    /// What the holder may do: to be handed around.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Gives it back, and waits until the cluster has said so. Dropping the future does not take that back.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] where no answer came in the client's time; it is tried further in the background.
    pub async fn release(mut self) -> Result<(), Error> {
        let timeout = self.held.0.client.inner().timeout;
        let released = self.give_back();
        match tokio::time::timeout(timeout, released).await {
            Ok(Ok(released)) => released,
            // The runtime ends.
            Ok(Err(_)) => Err(Error::OutcomeUnknown { key: None, last: "this program's runtime ends".to_owned() }),
            Err(_) => Err(Error::OutcomeUnknown {
                key: None,
                last: format!("no answer within {timeout:?}; the client keeps trying, and the grant ends with its ttl anyway"),
            }),
        }
    }

    /// Stops renewing and does **not** give it back: the lock stays taken until its `ttl` has passed (or its session ends), and
    /// nobody here may use it any more.
    pub fn forget(mut self) {
        self.stop_renewing();
        self.is_given_back = true;
    }

    /// Nobody may use it from here on, and no renewal is begun.
    fn stop_renewing(&mut self) {
        self.held.end(Lost::Released);
        self.held.0.lookout.remove(self.held.0.number, &self.held.0.ended);
        self.tasks.drain(..).for_each(|task| task.abort());
    }

    fn give_back(&mut self) -> tokio::task::JoinHandle<Result<(), Error>> {
        self.stop_renewing();
        self.is_given_back = true;
        let facts = &self.held.0;
        facts.client.inner().background.release(facts.id, None)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_given_back {
            drop(self.give_back());
        }
    }
}

/// Listens for the end of a grant with a session of its own, where the client has a place for one more such watch. Those without
/// a place hear of it when they are renewed.
async fn look_out(client: Client, session: SessionNumber, from: Revision, lookout: Arc<SessionWatcher>, lease: Lease) {
    sleep(LOOK_OUT_AFTER).await;
    let Ok(_place) = Arc::clone(&client.inner().lookouts).try_acquire_owned() else { return };
    session_watch::listen(client, session, from, lookout, lease).await;
}
