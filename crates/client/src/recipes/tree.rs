//! How recipes read, write and wait for nodes.

use crate::{
    client::Client,
    error::Error,
    hold::{guard::Held, session::Session},
    views::{long_poll::LongPoll, read_options::ReadOptions},
    wire::{
        backoff::Backoff,
        call::Call,
        reply::Reply,
        url::{PAGE, node_url},
    },
};
use fairhold_types::{Code, Revision, dto};
use reqwest::{Method, StatusCode};
use tokio::time::sleep;

/// The state of a node or of its children, as a read found it.
pub(super) struct TreeView(Reply);

impl TreeView {
    /// The node's value and version. `None` if it does not exist.
    pub(super) fn value(&self) -> Result<Option<(Vec<u8>, i32)>, Error> {
        if self.is_absent() {
            return Ok(None);
        }
        self.0.done()?;
        let version = self.0.headers.get("fairhold-version").and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Some((self.0.body.clone(), version.unwrap_or_default())))
    }

    /// The names of the node's children. Empty if it does not exist.
    pub(super) fn names(&self) -> Result<Vec<String>, Error> {
        if self.is_absent() {
            return Ok(Vec::new());
        }
        self.0.json::<dto::Page<String>>().map(|page| page.items)
    }

    fn is_absent(&self) -> bool {
        self.0.problem().code == Some(Code::NoNode) && self.0.status == StatusCode::NOT_FOUND
    }

    fn revision(&self) -> Option<Revision> {
        self.0.revision().ok()
    }
}

/// What to read of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Its value.
    Value,
    /// Its children: the first 1,000 by name.
    Children,
}

impl Of {
    /// The path of the URL.
    fn path(self, path: &str) -> Result<String, Error> {
        let path = node_url(path)?;
        Ok(match self {
            Of::Value => path,
            Of::Children => format!("{path}?children&limit={PAGE}"),
        })
    }
}

/// Reads once.
pub(super) async fn read(client: &Client, path: &str, of: Of) -> Result<TreeView, Error> {
    client.send(&Call::new(Method::GET, of.path(path)?)).await.map(TreeView)
}

/// Reads again after each change until the condition returns something.
pub(super) async fn until<T>(
    client: &Client,
    path: &str,
    of: Of,
    mut condition: impl FnMut(&TreeView) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let mut last = read(client, path, of).await?;
    // Each answer is at least as new as the one before it, so waiting for something newer than that one misses nothing.
    let mut after = None;
    loop {
        if let Some(found) = condition(&last)? {
            return Ok(found);
        }
        let next = match after {
            None => read(client, path, of).await?,
            Some(_) => {
                let poll = LongPoll { path: &of.path(path)?, options: ReadOptions::default(), after, wait: None };
                // Without a time limit, there is always an answer.
                let Some(reply) = client.long_poll(&poll).await? else { continue };
                TreeView(reply)
            }
        };
        after = last.revision();
        last = next;
    }
}

/// The condition of a write.
#[derive(Debug, Clone, Copy)]
pub(super) enum WriteIf {
    /// No condition.
    Any,
    /// The node does not exist.
    Absent,
    /// The node exists.
    Present,
    /// The node has this version.
    Version(i32),
}

/// Writes a node and creates missing parents. With a session, the node lives as long as the session. Returns the new
/// version, or `None` if the condition does not hold.
pub(super) async fn write(
    client: &Client,
    path: &str,
    value: Vec<u8>,
    condition: WriteIf,
    session: Option<&Session>,
) -> Result<Option<i32>, Error> {
    let put = client.nodes().put(path, value).parents();
    let put = match condition {
        WriteIf::Any => put,
        WriteIf::Absent => put.absent(),
        WriteIf::Present => put.present(),
        WriteIf::Version(version) => put.version(version),
    };
    let put = match session {
        Some(session) => put.ephemeral(session),
        None => put,
    };
    match put.await {
        Ok(written) => Ok(Some(written.version)),
        Err(Error::VersionMismatch { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a node; with a grant, only while the grant is held. Returns whether the node existed.
pub(super) async fn remove(client: &Client, path: &str, held: Option<&Held>) -> Result<bool, Error> {
    let delete = client.nodes().delete(path);
    let delete = match held {
        Some(held) => delete.fenced(held),
        None => delete,
    };
    match delete.await {
        Ok(()) => Ok(true),
        Err(Error::NoNode { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Parses a number, which is stored as text so that people can read and write it.
pub(super) fn number<T: std::str::FromStr>(path: &str, value: &[u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
    text.ok_or_else(|| Error::Invalid(format!("{path} does not hold a number: another program has written it")))
}

/// Changes a number by a rule, and tries again if another program has written in between. The rule returns the new
/// number, or `None` to leave it.
pub(super) async fn change_number<T: std::str::FromStr + ToString>(
    client: &Client,
    path: &str,
    rule: impl Fn(Option<T>) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let mut backoff = Backoff::new();
    loop {
        let before = read(client, path, Of::Value).await?.value()?;
        let (number, how) = match before {
            Some((value, version)) => (Some(self::number(path, &value)?), WriteIf::Version(version)),
            None => (None, WriteIf::Absent),
        };
        let Some(new) = rule(number)? else { return Ok(None) };
        if write(client, path, new.to_string().into_bytes(), how, None).await?.is_some() {
            return Ok(Some(new));
        }
        sleep(backoff.next(None)).await;
    }
}
