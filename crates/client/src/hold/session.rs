//! A named session: one keepalive for any number of grants.

use crate::{
    client::Client,
    error::{Error, Lost},
    hold::{
        lease::{Lease, RenewTarget, RenewalProof},
        session_watch::{self, SessionWatcher},
    },
    wire::call::Call,
};
use fairhold_types::{
    Revision, SessionId, SessionNumber,
    dto::{self, Meta},
    duration,
    limits::{SESSION_TIMEOUT_DEFAULT, SESSION_TIMEOUT_MAX, SESSION_TIMEOUT_MIN},
};
use futures_util::future::BoxFuture;
use reqwest::Method;
use serde_json::json;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::AbortHandle;

impl Client {
    /// Opens a session, which keeps any number of grants alive by one keepalive.
    pub fn session(&self) -> OpenSession {
        OpenSession::new(self.clone())
    }
}

/// A session about to be opened: `.await` it.
#[derive(Debug, Clone)]
#[must_use = "a session is opened when this is awaited"]
pub struct OpenSession {
    client: Client,
    ttl: Duration,
    name: String,
    meta: Meta,
}

impl OpenSession {
    pub(crate) fn new(client: Client) -> OpenSession {
        OpenSession { name: client.inner().owner.clone(), client, ttl: SESSION_TIMEOUT_DEFAULT, meta: Meta::new() }
    }

    /// How long it lives without a keepalive: 1 s to 1 h; 30 s if not set. It is kept alive at a third of it.
    pub fn ttl(self, ttl: Duration) -> OpenSession {
        OpenSession { ttl, ..self }
    }

    /// Its name, for people who read listings. Without it: the client's owner.
    pub fn name(self, name: impl Into<String>) -> OpenSession {
        OpenSession { name: name.into(), ..self }
    }

    /// A pair of text, for people who read listings.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> OpenSession {
        self.meta.insert(key.into(), value.into());
        self
    }

    async fn open(self) -> Result<Session, Error> {
        if !(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX).contains(&self.ttl) {
            return Err(Error::Invalid(format!("the ttl must be from {SESSION_TIMEOUT_MIN:?} to {SESSION_TIMEOUT_MAX:?}")));
        }
        let inner = self.client.inner();
        let body = json!({ "ttl": duration::format(self.ttl), "name": self.name, "meta": self.meta });
        let call = Call::new(Method::POST, "/v1/sessions".to_owned()).key(inner.ids.make()).json(&body);
        let reply = self.client.send(&call).await?;
        let opened: dto::OpenedSession = reply.json()?;
        let parsed = duration::parse(&opened.ttl).and_then(|ttl| Ok(ttl.min(duration::parse(&opened.expires_in)?)));
        let ttl = parsed.map_err(|error| Error::NotUnderstood { why: error.to_string() })?;
        let lease = Lease::new(self.ttl, RenewalProof { sent: reply.sent, ttl });
        let keeper = inner.background.keep(lease.clone().keep(RenewTarget::Session(opened.id), inner.renewals.clone()));
        tracing::debug!(session = %opened.number, "opened");
        let (id, number, client) = (opened.id, opened.number, self.client);
        let (lookout, listener, is_closed) = (Arc::default(), OnceLock::new(), AtomicBool::new(false));
        Ok(Session(Arc::new(SessionInner { client, id, number, lease, keeper, lookout, listener, is_closed })))
    }
}

impl IntoFuture for OpenSession {
    type Output = Result<Session, Error>;
    type IntoFuture = BoxFuture<'static, Result<Session, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// A session that is kept alive in the background. Clones are the same session. It is closed, and with it all that it owns is
/// given back, when the last clone and the last guard of it are dropped.
#[derive(Clone)]
pub struct Session(Arc<SessionInner>);

struct SessionInner {
    client: Client,
    id: SessionId,
    number: SessionNumber,
    lease: Lease,
    keeper: AbortHandle,
    lookout: Arc<SessionWatcher>,
    /// The task that hears of grants that ended, once there is a grant.
    listener: OnceLock<AbortHandle>,
    is_closed: AtomicBool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("number", &self.0.number).finish_non_exhaustive()
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        if !self.is_closed.load(Ordering::Relaxed) {
            drop(self.close());
        }
    }
}

impl SessionInner {
    fn close(&self) -> tokio::task::JoinHandle<Result<(), Error>> {
        self.is_closed.store(true, Ordering::Relaxed);
        self.lease.end(Lost::Released);
        self.keeper.abort();
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
        self.client.inner().background.close(self.id)
    }
}

impl Session {
    /// Its public number, as listings show it.
    #[must_use]
    pub fn number(&self) -> SessionNumber {
        self.0.number
    }

    /// Whether it may be believed in now.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.lease.check().is_ok()
    }

    /// Waits until it is lost, or closed; like [`Held::lost`](crate::Held::lost).
    pub async fn lost(&self) -> Lost {
        self.0.lease.lost().await
    }

    /// Closes it, and waits until the cluster has said so. All its guards are lost from this moment on.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] where no answer came in the client's time; it is tried further in the background.
    pub async fn close(self) -> Result<(), Error> {
        let timeout = self.0.client.inner().timeout;
        match tokio::time::timeout(timeout, self.0.close()).await {
            Ok(Ok(closed)) => closed,
            Ok(Err(_)) | Err(_) => Err(Error::OutcomeUnknown {
                key: None,
                last: "the close of the session was not confirmed; it ends with its ttl".to_owned(),
            }),
        }
    }

    /// Where its guards are told of their ends. With the first of them it begins to listen.
    pub(crate) fn lookout(&self) -> Arc<SessionWatcher> {
        let SessionInner { client, number, lease, lookout, listener, .. } = &*self.0;
        listener.get_or_init(|| {
            // Its number is the revision that opened it: there is no earlier news of it.
            let from = Revision(number.0);
            let listen = session_watch::listen(client.clone(), *number, from, Arc::clone(lookout), lease.clone());
            client.inner().background.keep(listen)
        });
        Arc::clone(lookout)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(crate) fn id(&self) -> SessionId {
        self.0.id
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.0.lease.ttl()
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.0.lease
    }
}
