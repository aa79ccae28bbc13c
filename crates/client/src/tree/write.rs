//! Writes to the tree. Each write has an idempotency key, so the cluster applies it at most once, however often the
//! client repeats it.

use crate::{
    client::Client,
    error::Error,
    hold::{guard::Held, session::Session},
    wire::{
        call::{Call, CallBody},
        reply::Reply,
        url::{encode, node_url},
    },
};
use fairhold_types::{SessionId, dto, duration};
use futures_util::future::BoxFuture;
use reqwest::{Method, StatusCode};
use std::time::Duration;

/// How long a created node lives.
#[derive(Debug, Clone, Copy)]
enum NodeLife {
    UntilRemoved,
    /// Ephemeral: until this session ends.
    Session(SessionId),
    /// Until it has been unchanged and without children for this long.
    Idle(Duration),
    /// Until its last child is gone.
    Container,
}

impl NodeLife {
    fn parameter(self) -> Option<String> {
        match self {
            NodeLife::UntilRemoved => None,
            NodeLife::Session(session) => Some(format!("session={}", session.to_hex())),
            NodeLife::Idle(ttl) => Some(format!("ttl={}", encode(&duration::format(ttl)))),
            NodeLife::Container => Some("container".to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum WriteCondition {
    Version(i32),
    Absent,
    Present,
}

impl WriteCondition {
    fn header(self) -> (&'static str, String) {
        match self {
            WriteCondition::Version(version) => ("if-match", format!("\"{version}\"")),
            WriteCondition::Absent => ("if-none-match", "*".to_owned()),
            WriteCondition::Present => ("if-match", "*".to_owned()),
        }
    }
}

/// The common part of all writes.
#[derive(Debug, Clone)]
struct WriteCall {
    client: Client,
    path: String,
    held: Option<Held>,
}

impl WriteCall {
    /// Sends the write, and repeats it until it has a definite answer or the client's timeout passes.
    async fn send(
        self,
        method: Method,
        parameters: &[Option<String>],
        complete: impl FnOnce(Call) -> Call,
    ) -> Result<Reply, Error> {
        let inner = self.client.inner();
        let parameters: Vec<&str> = parameters.iter().flatten().map(String::as_str).collect();
        let separator = if parameters.is_empty() { "" } else { "?" };
        let target = format!("{}{separator}{}", node_url(&self.path)?, parameters.join("&"));
        let mut call = complete(Call::new(method, target).key(inner.ids.make()));
        let mut fence = None;
        if let Some(held) = &self.held {
            let (lock, token, id) = held.fence()?;
            let lock = encode(lock.as_str());
            call = call.header("fairhold-fence", format!("{lock}={token};grant={id}"));
            fence = Some((held, token));
        }
        let reply = self.client.send(&call).await?;
        // A stale token with another status does not come from the fence of this write.
        if let (Some((held, token)), StatusCode::PRECONDITION_FAILED, Err(Error::StaleToken { .. })) =
            (fence, reply.status, reply.done())
        {
            held.fenced_out(token);
        }
        Ok(reply)
    }
}

impl Held {
    /// Writes a node's value if this grant is still held when the write takes effect: the cluster checks and writes in
    /// one step. Set options, then `.await` it.
    pub fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Put {
        Put::new(self.client().clone(), path, value.into()).fenced(self)
    }
}

/// A write to send: `.await` it.
#[derive(Debug, Clone)]
#[must_use = "a write is sent only if you await it"]
pub struct Put {
    write: WriteCall,
    value: Vec<u8>,
    parents: bool,
    life: NodeLife,
    condition: Option<WriteCondition>,
}

impl Put {
    pub(crate) fn new(client: Client, path: &str, value: Vec<u8>) -> Put {
        let write = WriteCall { client, path: path.to_owned(), held: None };
        Put { write, value, parents: false, life: NodeLife::UntilRemoved, condition: None }
    }

    /// Writes only if the node has this version.
    pub fn version(self, version: i32) -> Put {
        Put { condition: Some(WriteCondition::Version(version)), ..self }
    }

    /// Writes only if the node does not exist.
    pub fn absent(self) -> Put {
        Put { condition: Some(WriteCondition::Absent), ..self }
    }

    /// Writes only if the node exists.
    pub fn present(self) -> Put {
        Put { condition: Some(WriteCondition::Present), ..self }
    }

    /// Creates missing parents.
    pub fn parents(self) -> Put {
        Put { parents: true, ..self }
    }

    /// The node lives as long as this session.
    pub fn ephemeral(self, session: &Session) -> Put {
        Put { life: NodeLife::Session(session.id()), ..self }
    }

    /// The cluster removes the node when it has been unchanged and without children for this long.
    pub fn ttl(self, ttl: Duration) -> Put {
        Put { life: NodeLife::Idle(ttl), ..self }
    }

    /// The cluster removes the node some time after its last child is gone.
    pub fn container(self) -> Put {
        Put { life: NodeLife::Container, ..self }
    }

    /// Writes only if this grant is still held, like [`Held::put`].
    pub fn fenced(mut self, held: &Held) -> Put {
        self.write.held = Some(held.clone());
        self
    }

    async fn send(self) -> Result<dto::Written, Error> {
        let Put { write, value, parents, life, condition } = self;
        let parameters = [parents.then(|| "parents".to_owned()), life.parameter()];
        let complete = |mut call: Call| {
            call.body = Some(CallBody::Raw(value));
            match condition.map(WriteCondition::header) {
                Some((name, value)) => call.header(name, value),
                None => call,
            }
        };
        write.send(Method::PUT, &parameters, complete).await?.json()
    }
}

/// A node to create: `.await` it. The result has the node's path.
#[derive(Debug, Clone)]
#[must_use = "a node is created only if you await this"]
pub struct Create {
    put: Put,
    sequential: Option<String>,
}

impl Create {
    pub(crate) fn new(client: Client, path: &str, value: Vec<u8>) -> Create {
        Create { put: Put::new(client, path, value).absent(), sequential: None }
    }

    /// The path is the parent. The new node's name is this prefix followed by the parent's next number.
    pub(crate) fn sequential(self, name: &str) -> Create {
        Create { sequential: Some(name.to_owned()), ..self }
    }

    /// Creates missing parents.
    pub fn parents(self) -> Create {
        Create { put: self.put.parents(), ..self }
    }

    /// The node lives as long as this session.
    pub fn ephemeral(self, session: &Session) -> Create {
        Create { put: self.put.ephemeral(session), ..self }
    }

    /// The cluster removes the node when it has been unchanged and without children for this long.
    pub fn ttl(self, ttl: Duration) -> Create {
        Create { put: self.put.ttl(ttl), ..self }
    }

    /// Creates the node only if this grant is still held.
    pub fn fenced(self, held: &Held) -> Create {
        Create { put: self.put.fenced(held), ..self }
    }

    async fn send(self) -> Result<dto::Written, Error> {
        let Some(name) = self.sequential else {
            let path = self.put.write.path.clone();
            // The only condition is that the node does not exist, so a mismatch means that it exists.
            return self.put.send().await.map_err(|error| {
                if matches!(error, Error::VersionMismatch { .. }) { Error::NodeExists { path } } else { error }
            });
        };
        let Put { write, value, parents, life, condition: _ } = self.put;
        let name = (!name.is_empty()).then(|| format!("name={}", encode(&name)));
        let parents = parents.then(|| "parents".to_owned());
        let parameters = [Some("sequential".to_owned()), name, parents, life.parameter()];
        let complete = |call: Call| Call { body: Some(CallBody::Raw(value)), ..call };
        write.send(Method::POST, &parameters, complete).await?.json()
    }
}

/// A node to remove: `.await` it.
#[derive(Debug, Clone)]
#[must_use = "a node is removed only if you await this"]
pub struct Delete {
    write: WriteCall,
    recursive: bool,
    version: Option<i32>,
}

impl Delete {
    pub(crate) fn new(client: Client, path: &str) -> Delete {
        Delete { write: WriteCall { client, path: path.to_owned(), held: None }, recursive: false, version: None }
    }

    /// Removes the node with all its descendants, up to 10,000 nodes in one step.
    pub fn recursive(self) -> Delete {
        Delete { recursive: true, ..self }
    }

    /// Removes the node only if it has this version.
    pub fn version(self, version: i32) -> Delete {
        Delete { version: Some(version), ..self }
    }

    /// Removes the node only if this grant is still held.
    pub fn fenced(mut self, held: &Held) -> Delete {
        self.write.held = Some(held.clone());
        self
    }

    async fn send(self) -> Result<(), Error> {
        let parameters = [self.recursive.then(|| "recursive".to_owned())];
        let condition = self.version.map(|version| WriteCondition::Version(version).header());
        let complete = |call: Call| match condition {
            Some((name, value)) => call.header(name, value),
            None => call,
        };
        self.write.send(Method::DELETE, &parameters, complete).await?.done()
    }
}

impl IntoFuture for Put {
    type Output = Result<dto::Written, Error>;
    type IntoFuture = BoxFuture<'static, Result<dto::Written, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl IntoFuture for Create {
    type Output = Result<dto::Written, Error>;
    type IntoFuture = BoxFuture<'static, Result<dto::Written, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl IntoFuture for Delete {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'static, Result<(), Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
