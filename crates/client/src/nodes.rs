//! The tree of nodes: small values with versions.

use crate::{
    calls::Patience,
    claim::LEVEL,
    client::Client,
    error::{Error, Lost},
    exchange::{Body, Call},
    guard::Held,
};
use fairhold_types::{Path, Revision, dto};
use futures_util::future::BoxFuture;
use percent_encoding::utf8_percent_encode;
use reqwest::{Method, StatusCode};

/// The tree of nodes, as this client reaches it.
#[derive(Debug, Clone)]
pub struct Nodes {
    client: Client,
}

/// A node's value, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Value {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How often it was written; for [`Put::version`].
    pub version: i32,
    /// The revision of the whole tree that the answer shows.
    pub revision: Revision,
}

impl Nodes {
    pub(crate) fn new(client: Client) -> Nodes {
        Nodes { client }
    }

    /// Reads a node, linearizably: all that was acknowledged to anybody before is seen. Nothing where it does not exist.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where no answer came in the client's time.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        let inner = self.client.inner();
        self.client.learn();
        let reply = inner.calls.send(&Call::new(Method::GET, url_path(path)?), Patience::within(inner.timeout)).await?;
        let number = |name: &str| reply.headers.get(name).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        match reply.done() {
            Ok(()) => {
                let version = number("fairhold-version").and_then(|version| i32::try_from(version).ok());
                let revision = number("fairhold-revision");
                let (Some(version), Some(revision)) = (version, revision) else {
                    let (status, detail) = (reply.status.as_u16(), "the answer has no version".to_owned());
                    return Err(Error::Refused { code: None, status, detail });
                };
                Ok(Some(Value { bytes: reply.body, version, revision: Revision(revision) }))
            }
            Err(Error::NoNode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a node's value: say more, or `.await` it.
    pub fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Put {
        let (client, path, value) = (self.client.clone(), path.to_owned(), value.into());
        Put { client, path, value, parents: false, condition: None, held: None }
    }
}

#[derive(Debug, Clone, Copy)]
enum Condition {
    Version(i32),
    Absent,
}

/// A write about to be made: `.await` it. Its key is made before it is sent, so that however often it is repeated, it is made
/// once at most.
#[derive(Debug, Clone)]
#[must_use = "a write is made when this is awaited"]
pub struct Put {
    client: Client,
    path: String,
    value: Vec<u8>,
    parents: bool,
    condition: Option<Condition>,
    held: Option<Held>,
}

impl Put {
    /// Only where the node has this version.
    pub fn version(self, version: i32) -> Put {
        Put { condition: Some(Condition::Version(version)), ..self }
    }

    /// Only where the node does not exist.
    pub fn absent(self) -> Put {
        Put { condition: Some(Condition::Absent), ..self }
    }

    /// Creates what is missing above it.
    pub fn parents(self) -> Put {
        Put { parents: true, ..self }
    }

    /// Only while this grant is held; the same as [`Held::put`].
    pub fn fenced(self, held: &Held) -> Put {
        Put { held: Some(held.clone()), ..self }
    }

    async fn send(self) -> Result<dto::Written, Error> {
        let inner = self.client.inner();
        let query = if self.parents { "?parents" } else { "" };
        let mut call = Call::new(Method::PUT, format!("{}{query}", url_path(&self.path)?)).key(inner.ids.make());
        call.body = Some(Body::Raw(self.value));
        call = match self.condition {
            Some(Condition::Version(version)) => call.header("if-match", format!("\"{version}\"")),
            Some(Condition::Absent) => call.header("if-none-match", "*".to_owned()),
            None => call,
        };
        if let Some(held) = &self.held {
            let (lock, token, id) = held.fence()?;
            let lock = utf8_percent_encode(lock.as_str(), LEVEL);
            call = call.header("fairhold-fence", format!("{lock}={token};grant={id}"));
        }
        self.client.learn();
        let reply = inner.calls.send(&call, Patience::within(inner.timeout)).await?;
        // 412 alone is the fence of this write; and who is refused by it holds no longer, whatever his clock says.
        if let (Some(held), StatusCode::PRECONDITION_FAILED, Err(Error::StaleToken { .. })) =
            (&self.held, reply.status, reply.done())
        {
            held.end(Lost::Fenced);
        }
        reply.json()
    }
}

impl IntoFuture for Put {
    type Output = Result<dto::Written, Error>;
    type IntoFuture = BoxFuture<'static, Result<dto::Written, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// Where a node is reached: a path with or without a slash at its beginning.
fn url_path(path: &str) -> Result<String, Error> {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let path = Path::parse(&path).map_err(|error| Error::Invalid(format!("the path: {error}")))?;
    let levels = path.as_str().split('/').map(|level| utf8_percent_encode(level, LEVEL).to_string());
    Ok(format!("/v1/nodes{}", levels.collect::<Vec<_>>().join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_encoded_level_by_level() {
        assert_eq!(url_path("/a b/ü?").unwrap(), "/v1/nodes/a%20b/%C3%BC%3F");
        assert_eq!(url_path("a").unwrap(), "/v1/nodes/a");
        assert!(matches!(url_path("/a//b"), Err(Error::Invalid(_))));
    }
}
