//! Something that is done once, by exactly one of all who try.

use super::tree::{self, Of, Where};
use crate::{client::Client, error::Error};

/// A key that one wins.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// use fairhold_client::recipes::Claimed;
/// match client.once("welcome-mail/ann").claim("worker-3").await? {
///     Claimed::Won => send_mail().await,
///     Claimed::By(other) => println!("{} does it, or did", String::from_utf8_lossy(&other)),
/// }
/// # Ok(())
/// # }
/// # async fn send_mail() {}
/// ```
#[derive(Debug, Clone)]
pub struct Once {
    client: Client,
    path: String,
}

/// What came of trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// This one is to do it: nobody else was or will be told so.
    Won,
    /// Another one is, who left this value.
    By(Vec<u8>),
}

impl Once {
    pub(super) fn new(client: Client, key: &str) -> Once {
        Once { client, path: format!("/once/{key}") }
    }

    /// Tries, and leaves a value for those who come later. Exactly one wins, for ever: also where it dies before it has done
    /// anything. Where the work must be done in any case, take a lock, and write down at its end that it is done.
    ///
    /// # Errors
    /// Those of a write: after [`Error::OutcomeUnknown`] it may be that nobody knows that he has won, and
    /// [`winner`](Once::winner) says who it is.
    pub async fn claim(&self, value: impl Into<Vec<u8>>) -> Result<Claimed, Error> {
        if tree::write(&self.client, &self.path, value.into(), Where::Absent, None).await?.is_some() {
            return Ok(Claimed::Won);
        }
        // What is there was not removed by anybody who keeps to this recipe.
        Ok(Claimed::By(self.winner().await?.unwrap_or_default()))
    }

    /// What the winner left; nothing where nobody has tried.
    ///
    /// # Errors
    /// Those of a read.
    pub async fn winner(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(tree::look(&self.client, &self.path, Of::Value).await?.value()?.map(|(value, _)| value))
    }
}
