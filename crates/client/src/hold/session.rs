//! Sessions: one keepalive for any number of grants.

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
    /// Opens a session, which keeps any number of grants alive with one keepalive.
    pub fn session(&self) -> OpenSession {
        OpenSession::new(self.clone())
    }
}

/// A session to open: set options, then `.await` it.
#[derive(Debug, Clone)]
#[must_use = "a session is opened only if you await this"]
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

    /// How long the session lives without a keepalive: 1 s to 1 h, 30 s by default. The client renews it after a third
    /// of this time.
    pub fn ttl(self, ttl: Duration) -> OpenSession {
        OpenSession { ttl, ..self }
    }

    /// The name, for people who read listings. By default it is the client's `owner`.
    pub fn name(self, name: impl Into<String>) -> OpenSession {
        OpenSession { name: name.into(), ..self }
    }

    /// Adds a key and a value, for people who read listings.
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
        let renew = lease.clone().keep(RenewTarget::Session(opened.id), inner.renewals.clone());
        let renewer = inner.background.keep(renew);
        tracing::debug!(session = %opened.number, "opened a session");
        Ok(Session(Arc::new(SessionInner {
            client: self.client,
            id: opened.id,
            number: opened.number,
            lease,
            renewer,
            watcher: Arc::default(),
            watch_task: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        })))
    }
}

impl IntoFuture for OpenSession {
    type Output = Result<Session, Error>;
    type IntoFuture = BoxFuture<'static, Result<Session, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// A session that a background task keeps alive. Clones are the same session. When the last clone and the last guard
/// are dropped, the client closes the session, which releases everything that it owns.
#[derive(Clone)]
pub struct Session(Arc<SessionInner>);

struct SessionInner {
    client: Client,
    id: SessionId,
    number: SessionNumber,
    lease: Lease,
    renewer: AbortHandle,
    watcher: Arc<SessionWatcher>,
    /// The task that watches the session. It starts with the first grant.
    watch_task: OnceLock<AbortHandle>,
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
        self.renewer.abort();
        if let Some(watch_task) = self.watch_task.get() {
            watch_task.abort();
        }
        self.client.inner().background.close(self.id)
    }
}

impl Session {
    /// The public number, as listings show it.
    #[must_use]
    pub fn number(&self) -> SessionNumber {
        self.0.number
    }

    /// Whether the session is alive, by this program's clock.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.lease.check().is_ok()
    }

    /// Waits until the session is lost or closed, like [`Held::lost`](crate::Held::lost).
    pub async fn lost(&self) -> Lost {
        self.0.lease.lost().await
    }

    /// Closes the session and waits for the cluster's confirmation. All its guards lose their grants at once.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if no answer came within the client's timeout; the client keeps trying in the
    /// background.
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

    /// The watch that notifies the session's guards when their grants end. The first call starts it.
    pub(crate) fn watcher(&self) -> Arc<SessionWatcher> {
        let SessionInner { client, number, lease, watcher, watch_task, .. } = &*self.0;
        watch_task.get_or_init(|| {
            // The number is the revision that opened the session, so there are no earlier events.
            let from = Revision(number.0);
            let watch = session_watch::run(client.clone(), *number, from, Arc::clone(watcher), lease.clone());
            client.inner().background.keep(watch)
        });
        Arc::clone(watcher)
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
