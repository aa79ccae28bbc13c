//! A queue of values that is fair to producers and consumers.

use super::tree::{self, Of};
use crate::{client::Client, error::Error};

/// A queue: first in, first out, and the consumer that waits longest takes the next value. At most one consumer takes
/// each value. If it dies right afterwards, the value is lost: store a value elsewhere before you push it if you must
/// not lose it.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let queue = client.fair_queue("mails");
/// queue.push("to: ann").await?;
/// let mail = queue.pop().await?; //       waits until there is one, behind earlier consumers
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FairQueue {
    client: Client,
    name: String,
    path: String,
}

impl FairQueue {
    pub(super) fn new(client: Client, name: &str) -> FairQueue {
        FairQueue { client, name: format!("queues/{name}"), path: format!("/queues/{name}") }
    }

    /// Adds a value at the end.
    ///
    /// # Errors
    /// The errors of a write.
    pub async fn push(&self, value: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.client.nodes().create_sequential(&self.path, "", value).parents().await.map(|_| ())
    }

    /// Takes the first value; if there is none, waits for one. Dropping the future takes nothing, unless the value was
    /// just being taken.
    ///
    /// # Errors
    /// The errors of a lock and of a write.
    pub async fn pop(&self) -> Result<Vec<u8>, Error> {
        // The holder of this lock takes the next value; all other consumers queue behind it.
        let turn = self.client.lock(&self.name).await?;
        loop {
            let first = tree::until(&self.client, &self.path, Of::Children, |view| Ok(view.names()?.into_iter().next())).await?;
            let path = format!("{}/{first}", self.path);
            let Some((value, _)) = tree::read(&self.client, &path, Of::Value).await?.value()? else { continue };
            // The fence stops a consumer that has lost its turn.
            if tree::remove(&self.client, &path, Some(turn.held())).await? {
                drop(turn);
                return Ok(value);
            }
        }
    }

    /// The number of values; 1,000 if there are more.
    ///
    /// # Errors
    /// The errors of a read.
    pub async fn len(&self) -> Result<usize, Error> {
        Ok(tree::read(&self.client, &self.path, Of::Children).await?.names()?.len())
    }

    /// Whether the queue is empty.
    ///
    /// # Errors
    /// The errors of a read.
    pub async fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len().await? == 0)
    }
}
