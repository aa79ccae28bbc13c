//! The client: where the cluster is, and what this program can ask of it.

use crate::{
    error::Error,
    wire::{
        background::Background,
        call::Call,
        endpoints::{Endpoint, Endpoints, Prefer},
        http::{AuthToken, Caller},
        identity::{Contact, Identity},
        ids::Ids,
        reply::Reply,
        retry::{RetryBudget, Transport},
    },
};
use fairhold_types::{ClusterId, limits::TIMEOUT_MAX};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::Semaphore};

/// How long a call that does not wait may take, where the program names no time.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Claims of sessions that ask at a time, each over a connection, where they cannot be part of a batch. None of these requests
/// waits for a lock, so the bound can hold nobody up for good.
const ENQUEUES_MAX: usize = 16;
/// Grants with a session of their own whose ends are listened for, each over an open request. A session that many grants share
/// needs one for all of them.
const SESSION_WATCHES_MAX: usize = 16;

/// A client of one cluster. Cheap to clone; clones share connections and what is known of the cluster.
#[derive(Debug, Clone)]
pub struct Client(Arc<ClientInner>);

#[derive(Debug)]
pub(crate) struct ClientInner {
    pub(crate) calls: Transport,
    /// Over connections and in batches of their own, so that nothing stands before them.
    pub(crate) renewals: Transport,
    pub(crate) identity: Identity,
    pub(crate) ids: Ids,
    pub(crate) background: Background,
    /// Places for requests that put claims into queues and are answered at once.
    pub(crate) enqueues: Semaphore,
    /// Places for grants with a session of their own that are looked out for.
    pub(crate) session_watches: Arc<Semaphore>,
    pub(crate) timeout: Duration,
    pub(crate) owner: String,
}

/// How a client is to be made.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    timeout: Duration,
    owner: Option<String>,
    auth_token: Option<AuthToken>,
    user_agent: Option<String>,
    discover: bool,
    cluster: Option<ClusterId>,
}

impl ClientBuilder {
    /// One more node's address for clients, like `http://10.0.0.1:7171`, or several with commas in between.
    pub fn endpoint(mut self, url: impl AsRef<str>) -> ClientBuilder {
        self.endpoints.extend(url.as_ref().split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned));
        self
    }

    /// How long a call that does not wait may take, over all retries: more than nothing, up to 10 minutes; 10 s if not set.
    pub fn timeout(self, timeout: Duration) -> ClientBuilder {
        ClientBuilder { timeout, ..self }
    }

    /// Who this program is, for people who read queues. Without it: the program's name and its process number.
    pub fn owner(self, owner: impl Into<String>) -> ClientBuilder {
        ClientBuilder { owner: Some(owner.into()), ..self }
    }

    /// Shows this token with every request, as `Authorization: Bearer`.
    pub fn auth_token(self, token: impl Into<String>) -> ClientBuilder {
        ClientBuilder { auth_token: Some(AuthToken(token.into())), ..self }
    }

    /// How this program names itself in the `User-Agent` header of each request. Without it: the program's file name.
    pub fn user_agent(self, program: impl Into<String>) -> ClientBuilder {
        ClientBuilder { user_agent: Some(program.into()), ..self }
    }

    /// Whether the addresses that the cluster names of itself are used besides those given here; they are, if this is not
    /// called. Say no where clients reach the nodes by other addresses, through a proxy for example.
    pub fn discover(self, discover: bool) -> ClientBuilder {
        ClientBuilder { discover, ..self }
    }

    /// Uses the cluster with this id alone. Without it, the client uses the first cluster that answers. Name it where one of the
    /// addresses may be another cluster's one day: two programs that begin at different ones would hold the same lock at once.
    pub fn cluster_id(self, cluster: ClusterId) -> ClientBuilder {
        ClientBuilder { cluster: Some(cluster), ..self }
    }

    /// Makes the client. Nothing is sent yet. Must be called within a tokio runtime, with time and I/O: on it the client
    /// renews, and gives back what was dropped.
    ///
    /// # Errors
    /// [`Error::Invalid`] where an address or the time cannot be used, none is given, or there is no runtime.
    pub fn build(self) -> Result<Client, Error> {
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return Err(Error::Invalid(format!("the timeout must be over 0 and up to {TIMEOUT_MAX:?}")));
        }
        let runtime = Handle::try_current().map_err(|_| {
            Error::Invalid("a client is made within a tokio runtime; without one use fairhold_client::blocking".to_owned())
        })?;
        let given = self.endpoints.iter().map(|url| Endpoint::parse(url)).collect::<Result<Vec<_>, _>>()?;
        let program = program();
        let user_agent = self.user_agent.unwrap_or_else(|| program.clone());
        let caller = Caller { program: user_agent, auth_token: self.auth_token };
        let (endpoints, identity) = (Arc::new(Endpoints::new(given, self.discover)?), Identity::new(self.cluster));
        let calls = Transport::new(Arc::clone(&endpoints), &identity, &caller, runtime.clone())?;
        Ok(Client(Arc::new(ClientInner {
            renewals: Transport::new(endpoints, &identity, &caller, runtime.clone())?,
            background: Background::new(runtime, calls.on_connections_of_its_own(&identity, &caller)?),
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

/// The program's own name, as far as it can stand in a header.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).take(48).collect();
    if plain.is_empty() { "fairhold-client".to_owned() } else { plain }
}

impl Client {
    /// A client of the cluster with a node at this address, like `http://10.0.0.1:7171`, or several with commas in between.
    /// The other nodes are learned from it. Nothing is sent yet.
    ///
    /// # Errors
    /// As [`ClientBuilder::build`].
    pub fn new(endpoints: impl AsRef<str>) -> Result<Client, Error> {
        Client::builder().endpoint(endpoints).build()
    }

    /// A client with settings of its own.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            endpoints: Vec::new(),
            timeout: TIMEOUT_DEFAULT,
            owner: None,
            auth_token: None,
            user_agent: None,
            discover: true,
            cluster: None,
        }
    }

    /// The id of the cluster that this client uses. If you named none, it is the first cluster that answered.
    /// Nothing before the first answer. It stays the same for this client's life: what another cluster says counts as silence.
    #[must_use]
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.0.identity.cluster()
    }

    /// The addresses that the client uses: the ones that you gave, and the ones that the cluster named.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.0.calls.endpoints.order(Prefer::Anybody).iter().map(Endpoint::to_string).collect()
    }

    /// When the cluster last answered, and what went wrong since. Look at it while you wait for a lock without a time limit.
    #[must_use]
    pub fn contact(&self) -> Contact {
        self.0.identity.contact()
    }

    /// Waits until what was dropped before this call is given back. A program calls it before it ends its runtime; without it,
    /// dropped locks may live on for their `ttl`.
    pub async fn settled(&self) {
        self.0.background.settled().await;
    }

    pub(crate) fn inner(&self) -> &ClientInner {
        &self.0
    }

    /// Sends a call until a node gives a definite answer, for as long as this client is patient.
    pub(crate) async fn send(&self, call: &Call) -> Result<Reply, Error> {
        self.learn();
        self.0.calls.send(call, RetryBudget::within(self.0.timeout)).await
    }

    /// Asks for the members of the cluster, in the background and not too often.
    pub(crate) fn learn(&self) {
        if self.0.calls.endpoints.should_learn() {
            // So there is a connection for renewals too, whatever else this program opens at once.
            let calls = self.0.renewals.clone();
            drop(self.0.background.spawn(async move { calls.learn().await }));
        }
    }
}
