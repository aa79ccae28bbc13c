//! The count-down latch: waiters continue when its count is 0.

use super::tree::{self, Of, WriteIf};
use crate::{client::Client, error::Error};

/// A latch. Its count is a number in the tree, under `/latches`, that never rises.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let latch = client.latch("shards-loaded");
/// latch.set(3).await?; //          the first caller sets it
/// // … each of three workers, when it has loaded its shard:
/// latch.count_down().await?;
/// // … and a task that needs all of them:
/// latch.wait().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Latch {
    client: Client,
    path: String,
}

impl Latch {
    pub(super) fn new(client: Client, name: &str) -> Latch {
        Latch { client, path: format!("/latches/{name}") }
    }

    /// Sets the count, unless it is already set. Returns whether this call set it.
    ///
    /// # Errors
    /// The errors of a write.
    pub async fn set(&self, count: u64) -> Result<bool, Error> {
        Ok(tree::write(&self.client, &self.path, count.to_string().into_bytes(), WriteIf::Absent, None).await?.is_some())
    }

    /// Counts down by one and returns what is left. It stays at 0.
    ///
    /// # Errors
    /// The errors of a write; [`Error::NoNode`] if the count is not set.
    pub async fn count_down(&self) -> Result<u64, Error> {
        let path = &self.path;
        let rule = |left: Option<u64>| match left {
            Some(left) => Ok(left.checked_sub(1)),
            None => Err(Error::NoNode { path: path.clone() }),
        };
        Ok(tree::change_number(&self.client, path, rule).await?.unwrap_or(0))
    }

    /// The remaining count. `None` if it is not set.
    ///
    /// # Errors
    /// The errors of a read.
    pub async fn count(&self) -> Result<Option<u64>, Error> {
        let value = tree::read(&self.client, &self.path, Of::Value).await?.value()?;
        value.map(|(value, _)| tree::number(&self.path, &value)).transpose()
    }

    /// Waits until the count is 0. It also waits while the count is not set yet.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no node answers for the client's timeout.
    pub async fn wait(&self) -> Result<(), Error> {
        tree::until(&self.client, &self.path, Of::Value, |view| match view.value()? {
            Some((value, _)) => Ok((tree::number::<u64>(&self.path, &value)? == 0).then_some(())),
            None => Ok(None),
        })
        .await
    }
}
