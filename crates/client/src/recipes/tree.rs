//! How recipes read, write and wait for the tree.

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

/// What a node of the tree, or a listing, looks like now.
pub(super) struct TreeLook(Reply);

impl TreeLook {
    /// Its value and version; nothing where it does not exist.
    pub(super) fn value(&self) -> Result<Option<(Vec<u8>, i32)>, Error> {
        if self.is_absent() {
            return Ok(None);
        }
        self.0.done()?;
        let version = self.0.headers.get("fairhold-version").and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Some((self.0.body.clone(), version.unwrap_or_default())))
    }

    /// The names of its children; none where it does not exist.
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

/// What of a node is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Its value.
    Value,
    /// Its children, the first thousand by name.
    Children,
}

impl Of {
    /// Where it is read.
    fn path(self, path: &str) -> Result<String, Error> {
        let path = node_url(path)?;
        Ok(match self {
            Of::Value => path,
            Of::Children => format!("{path}?children&limit={PAGE}"),
        })
    }
}

/// Looks once.
pub(super) async fn look(client: &Client, path: &str, of: Of) -> Result<TreeLook, Error> {
    client.send(&Call::new(Method::GET, of.path(path)?)).await.map(TreeLook)
}

/// Looks again whenever something has changed, until it is as it should be.
pub(super) async fn until<T>(
    client: &Client,
    path: &str,
    of: Of,
    mut is_so: impl FnMut(&TreeLook) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let mut last = look(client, path, of).await?;
    // What an answer says is at least as new as the answer before it, so nothing that came after that one is missed.
    let mut after = None;
    loop {
        if let Some(found) = is_so(&last)? {
            return Ok(found);
        }
        let next = match after {
            None => look(client, path, of).await?,
            Some(_) => {
                let news = LongPoll { path: &of.path(path)?, reading: ReadOptions::default(), after, wait: None };
                // It waits as long as it takes, so there is an answer.
                let Some(reply) = client.news(&news).await? else { continue };
                TreeLook(reply)
            }
        };
        after = last.revision();
        last = next;
    }
}

/// Under which condition a node is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Where {
    /// Whether it exists or not.
    Any,
    /// It does not exist.
    Absent,
    /// It exists.
    Present,
    /// It has this version.
    Version(i32),
}

/// Writes a node, and what is missing above it; it lives as long as the session, where one is named. Nothing where the
/// condition does not hold.
pub(super) async fn write(
    client: &Client,
    path: &str,
    value: Vec<u8>,
    condition: Where,
    session: Option<&Session>,
) -> Result<Option<i32>, Error> {
    let put = client.nodes().put(path, value).parents();
    let put = match condition {
        Where::Any => put,
        Where::Absent => put.absent(),
        Where::Present => put.present(),
        Where::Version(version) => put.version(version),
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

/// Removes a node, for a holder only as long as it holds; says whether it was there.
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

/// A number as text, as people can read and write it too.
pub(super) fn number<T: std::str::FromStr>(path: &str, value: &[u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
    text.ok_or_else(|| Error::Invalid(format!("{path} does not hold a number: somebody else has written it")))
}

/// Changes a number by a rule, again and again until nobody has written in between. The rule says what it becomes, or nothing
/// where it stays.
pub(super) async fn change_number<T: std::str::FromStr + ToString>(
    client: &Client,
    path: &str,
    rule: impl Fn(Option<T>) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let mut backoff = Backoff::new();
    loop {
        let before = look(client, path, Of::Value).await?.value()?;
        let (number, how) = match before {
            Some((value, version)) => (Some(self::number(path, &value)?), Where::Version(version)),
            None => (None, Where::Absent),
        };
        let Some(new) = rule(number)? else { return Ok(None) };
        if write(client, path, new.to_string().into_bytes(), how, None).await?.is_some() {
            return Ok(Some(new));
        }
        sleep(backoff.next(None)).await;
    }
}
