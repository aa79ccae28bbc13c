//! The count-down latch: waiters continue when it is counted down to 0.

use super::tree::{self, Of, Where};
use crate::{client::Client, error::Error};

/// A latch. Its count is a number in the tree, under `/latches`, and never rises.
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

    /// Sets how often it must be counted down, where nobody has set it yet; says whether this did.
    ///
    /// # Errors
    /// Those of a write.
    pub async fn set(&self, count: u64) -> Result<bool, Error> {
        Ok(tree::write(&self.client, &self.path, count.to_string().into_bytes(), Where::Absent, None).await?.is_some())
    }

    /// Counts it down by one, and says what is left. At 0 it stays there.
    ///
    /// # Errors
    /// Those of a write; [`Error::NoNode`] where it was not set.
    pub async fn count_down(&self) -> Result<u64, Error> {
        let path = &self.path;
        let rule = |left: Option<u64>| match left {
            Some(left) => Ok(left.checked_sub(1)),
            None => Err(Error::NoNode { path: path.clone() }),
        };
        Ok(tree::change_number(&self.client, path, rule).await?.unwrap_or(0))
    }

    /// How often it must still be counted down; nothing where it was not set.
    ///
    /// # Errors
    /// Those of a read.
    pub async fn count(&self) -> Result<Option<u64>, Error> {
        let value = tree::look(&self.client, &self.path, Of::Value).await?.value()?;
        value.map(|(value, _)| tree::number(&self.path, &value)).transpose()
    }

    /// Waits until it was counted down to 0; one that is not set yet is waited for too.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where nobody answers for the client's time.
    pub async fn wait(&self) -> Result<(), Error> {
        tree::until(&self.client, &self.path, Of::Value, |look| match look.value()? {
            Some((value, _)) => Ok((tree::number::<u64>(&self.path, &value)? == 0).then_some(())),
            None => Ok(None),
        })
        .await
    }
}
