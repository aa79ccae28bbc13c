//! The client and its builder.

use crate::{
    error::Error,
    wire::{
        auth_token::{AuthToken, TokenSource},
        background::Background,
        call::Call,
        endpoints::{Endpoint, Endpoints, Prefer},
        http::Caller,
        identity::{Contact, Identity},
        ids::Ids,
        reply::Reply,
        retry::{RetryBudget, Transport},
        tls::{TlsFiles, TlsSettings},
    },
};
use fairhold_types::{ClusterId, limits::TIMEOUT_MAX, trace_context::TraceParent};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::Semaphore};

/// The default time for a call that does not wait.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The most acquires in sessions that enqueue at a time over a connection each, because they cannot be part of a batch.
/// None of these requests waits for a lock, so the bound blocks no caller for good.
const ENQUEUES_MAX: usize = 16;
/// The most grants with a separate session that the client watches, over an open request each. A session that many
/// grants share needs one watch for all of them.
const SESSION_WATCHES_MAX: usize = 16;

/// A client of one cluster. It is cheap to clone; clones share the connections and what they know about the cluster.
#[derive(Debug, Clone)]
pub struct Client(Arc<ClientInner>);

#[derive(Debug)]
pub(crate) struct ClientInner {
    pub(crate) calls: Transport,
    /// With separate connections and batches, so that other requests do not delay them.
    pub(crate) renewals: Transport,
    pub(crate) identity: Identity,
    pub(crate) ids: Ids,
    pub(crate) background: Background,
    /// Permits for requests that enqueue a grant and are answered at once.
    pub(crate) enqueues: Semaphore,
    /// Permits for watches of grants with a separate session.
    pub(crate) session_watches: Arc<Semaphore>,
    pub(crate) timeout: Duration,
    pub(crate) owner: String,
}

/// The settings of a new client.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    timeout: Duration,
    owner: Option<String>,
    auth_token: Option<TokenSource>,
    user_agent: Option<String>,
    trace_parent: Option<TraceParent>,
    tls: TlsFiles,
    discover: bool,
    cluster: Option<ClusterId>,
}

impl ClientBuilder {
    /// Adds a node's address for clients, like `http://10.0.0.1:7171`, or several, separated by commas. A node with TLS has an
    /// `https://` address.
    pub fn endpoint(mut self, url: impl AsRef<str>) -> ClientBuilder {
        self.endpoints.extend(url.as_ref().split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned));
        self
    }

    /// How long a call that does not wait may take, over all retries: over 0, up to 10 minutes; 10 s by default.
    pub fn timeout(self, timeout: Duration) -> ClientBuilder {
        ClientBuilder { timeout, ..self }
    }

    /// The name of this program, for people who read queues. By default it is the program's file name and process id.
    pub fn owner(self, owner: impl Into<String>) -> ClientBuilder {
        ClientBuilder { owner: Some(owner.into()), ..self }
    }

    /// Sends this token with every request, as `Authorization: Bearer`.
    pub fn auth_token(self, token: impl Into<String>) -> ClientBuilder {
        ClientBuilder { auth_token: Some(TokenSource::Text(token.into())), ..self }
    }

    /// The same with the token in this file: its first line that is not empty. The client reads the file again while it runs,
    /// at the latest when a server refuses the token, so that a token that expires does not cost a lock: replace the file
    /// before that, in one step (rename it).
    pub fn auth_token_file(self, file: impl Into<PathBuf>) -> ClientBuilder {
        ClientBuilder { auth_token: Some(TokenSource::File(file.into())), ..self }
    }

    /// Trusts only the servers whose certificates come from an authority in this PEM file. Without it, the client trusts the
    /// authorities of the operating system. Needs the feature `tls`.
    pub fn ca_certificate(mut self, file: impl Into<PathBuf>) -> ClientBuilder {
        self.tls.ca = Some(file.into());
        self
    }

    /// Shows this certificate to servers with TLS: the PEM file of the certificate, and that of its private key. Needs the
    /// feature `tls`.
    pub fn client_certificate(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> ClientBuilder {
        self.tls.pair = Some((cert.into(), key.into()));
        self
    }

    /// The `User-Agent` of every request. By default it is the program's file name.
    pub fn user_agent(self, program: impl Into<String>) -> ClientBuilder {
        ClientBuilder { user_agent: Some(program.into()), ..self }
    }

    /// Makes the requests of your calls a part of this trace: sends it as the header `traceparent`, so that a cluster with
    /// traces shows its spans below yours. Renewals and watches are no part of it: they may go on for hours. It is for a
    /// program whose run is one span; for a single request, set the header of a [`RawCall`](crate::RawCall).
    pub fn trace_parent(self, parent: TraceParent) -> ClientBuilder {
        ClientBuilder { trace_parent: Some(parent), ..self }
    }

    /// Whether to use the addresses that the cluster reports, in addition to the given ones; `true` by default. Turn it
    /// off if clients reach the nodes by other addresses, for example through a proxy.
    pub fn discover(self, discover: bool) -> ClientBuilder {
        ClientBuilder { discover, ..self }
    }

    /// Accepts only the cluster with this id. By default, the client accepts the first cluster that answers. Set it if
    /// an address may one day belong to another cluster: two programs that start with different addresses would hold
    /// the same lock at once.
    pub fn cluster_id(self, cluster: ClusterId) -> ClientBuilder {
        ClientBuilder { cluster: Some(cluster), ..self }
    }

    /// Creates the client. It sends nothing yet. Call this within a tokio runtime with time and I/O: that runtime runs
    /// the renewals and the release of dropped guards.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an address, the timeout, the token, its file or a file of a certificate is not usable, if there is
    /// no address, or outside a runtime.
    pub fn build(self) -> Result<Client, Error> {
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return Err(Error::Invalid(format!("the timeout must be over 0 and up to {TIMEOUT_MAX:?}")));
        }
        let runtime = Handle::try_current().map_err(|_| {
            Error::Invalid("a client needs a tokio runtime; without one, use fairhold_client::blocking".to_owned())
        })?;
        let given = self.endpoints.iter().map(|url| Endpoint::parse(url)).collect::<Result<Vec<_>, _>>()?;
        let program = program();
        let user_agent = self.user_agent.unwrap_or_else(|| program.clone());
        let tls = TlsSettings::load(&self.tls, given.iter().any(Endpoint::has_tls))?;
        let auth_token = self.auth_token.as_ref().map(|source| AuthToken::load(source, runtime.clone())).transpose()?;
        let caller =
            Caller { program: user_agent, auth_token: auth_token.unwrap_or_default(), tls, trace_parent: self.trace_parent };
        let endpoints = Arc::new(Endpoints::new(given, self.discover)?);
        let identity = Identity::new(self.cluster);
        let calls = Transport::new(Arc::clone(&endpoints), &identity, &caller, runtime.clone())?;
        let untraced = Caller { trace_parent: None, ..caller.clone() };
        Ok(Client(Arc::new(ClientInner {
            renewals: Transport::new(endpoints, &identity, &untraced, runtime.clone())?,
            background: Background::new(runtime, calls.with_separate_connections(&identity, &caller)?),
            identity,
            ids: Ids::default(),
            enqueues: Semaphore::new(ENQUEUES_MAX),
            session_watches: Arc::new(Semaphore::new(SESSION_WATCHES_MAX)),
            timeout: self.timeout,
            owner: self.owner.unwrap_or_else(|| format!("{program}-{}", std::process::id())),
            calls,
        })))
    }
}

/// The program's file name, without characters that a header cannot contain.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).take(48).collect();
    if plain.is_empty() { "fairhold-client".to_owned() } else { plain }
}

impl Client {
    /// Creates a client of the cluster with a node at this address, like `http://10.0.0.1:7171`, or several, separated
    /// by commas. It learns the other nodes from the first one that answers. It sends nothing yet.
    ///
    /// # Errors
    /// The errors of [`ClientBuilder::build`].
    pub fn new(endpoints: impl AsRef<str>) -> Result<Client, Error> {
        Client::builder().endpoint(endpoints).build()
    }

    /// Creates a client with other settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            endpoints: Vec::new(),
            timeout: TIMEOUT_DEFAULT,
            owner: None,
            auth_token: None,
            user_agent: None,
            trace_parent: None,
            tls: TlsFiles::default(),
            discover: true,
            cluster: None,
        }
    }

    /// The id of this client's cluster: the one that you named, or else the first one that answered. `None` before the
    /// first answer. It never changes: an answer from another cluster counts as no answer.
    #[must_use]
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.0.identity.cluster()
    }

    /// The addresses that the client uses: the given ones, and those that the cluster reported.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.0.calls.endpoints.order(Prefer::Any).iter().map(Endpoint::to_string).collect()
    }

    /// When the cluster last answered, what has failed since, and why it refuses changes for now. Check it while you wait
    /// for a lock without a time limit.
    #[must_use]
    pub fn contact(&self) -> Contact {
        self.0.identity.contact()
    }

    /// Waits until everything that was dropped before this call is released. Call it before the runtime ends; otherwise
    /// dropped locks may stay held for their `ttl`.
    pub async fn settled(&self) {
        self.0.background.settled().await;
    }

    pub(crate) fn inner(&self) -> &ClientInner {
        &self.0
    }

    /// Sends a call until a node gives a definite answer, within the client's timeout.
    pub(crate) async fn send(&self, call: &Call) -> Result<Reply, Error> {
        self.discover();
        self.0.calls.send(call, RetryBudget::within(self.0.timeout)).await
    }

    /// Reads the members of the cluster in the background whenever it is time, from now on.
    pub(crate) fn discover(&self) {
        // This also opens a connection for renewals, whatever else this program does at once.
        self.0.renewals.keep_discovering();
    }
}
