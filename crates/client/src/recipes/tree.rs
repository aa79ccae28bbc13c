//! How recipes read, write and wait for the tree.

use crate::{
    backoff::Backoff,
    calls::{Patience, Trouble},
    client::Client,
    endpoints::Prefer,
    error::Error,
    exchange::{Call, Reply, Tried},
    guard::Held,
    nodes::url_path,
    session::Session,
};
use fairhold_types::{Code, Revision, dto};
use reqwest::{Method, StatusCode};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a node is asked to wait for a change before it is asked again.
const WAIT: Duration = Duration::from_secs(25);

/// What a node of the tree, or a listing, looks like now.
pub(super) struct Look(Reply);

impl Look {
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

/// Looks once.
pub(super) async fn look(client: &Client, path: &str, of: Of) -> Result<Look, Error> {
    client.learn();
    let inner = client.inner();
    inner.calls.send(&reading(path, of, None)?, Patience::within(inner.timeout)).await.map(Look)
}

/// Looks again whenever something has changed, until it is as it should be.
pub(super) async fn until<T>(
    client: &Client,
    path: &str,
    of: Of,
    mut is_so: impl FnMut(&Look) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let mut last = look(client, path, of).await?;
    // What an answer says is at least as new as the answer before it, so nothing that came after that one is missed.
    let mut after = None;
    loop {
        if last.0.status != StatusCode::NOT_MODIFIED
            && let Some(found) = is_so(&last)?
        {
            return Ok(found);
        }
        let next = match after {
            None => look(client, path, of).await?,
            Some(after) => Look(waiting(client, &reading(path, of, Some(after))?).await?),
        };
        after = last.revision();
        last = next;
    }
}

fn reading(path: &str, of: Of, after: Option<Revision>) -> Result<Call, Error> {
    let mut query = match of {
        Of::Value => Vec::new(),
        Of::Children => vec!["children".to_owned(), "limit=1000".to_owned()],
    };
    query.extend(after.map(|after| format!("wait={}s&after={after}", WAIT.as_secs())));
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    Ok(Call::new(Method::GET, format!("{}{query}", url_path(path)?)))
}

/// Sends a read that waits to one node after the other, until one answers.
async fn waiting(client: &Client, call: &Call) -> Result<Reply, Error> {
    let (inner, mut trouble, mut backoff) = (client.inner(), Trouble::default(), Backoff::new());
    let mut since: Option<Instant> = None;
    loop {
        for endpoint in inner.calls.endpoints.order(Prefer::Anybody) {
            match inner.calls.wait_at(&endpoint, call, WAIT, inner.timeout).await {
                Tried::Answered(reply) => return Ok(reply),
                tried @ (Tried::Nothing { .. } | Tried::Unknown { .. }) => drop(trouble.note(tried)),
            }
        }
        if since.get_or_insert_with(Instant::now).elapsed() >= inner.timeout {
            return Err(trouble.error(call));
        }
        sleep(backoff.next(None)).await;
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
