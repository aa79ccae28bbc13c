//! Work that exactly one of many programs does, once.

use super::tree::{self, Of, WriteIf};
use crate::{client::Client, error::Error};

/// A key that exactly one program wins.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// use fairhold_client::recipes::Claimed;
/// match client.once("welcome-mail/ann").claim("worker-3").await? {
///     Claimed::Won => send_mail().await,
///     Claimed::By(other) => println!("{} has it", String::from_utf8_lossy(&other)),
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

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// This program must do the work. No other program ever gets this result.
    Won,
    /// Another program won, and left this value.
    By(Vec<u8>),
}

impl Once {
    pub(super) fn new(client: Client, key: &str) -> Once {
        Once { client, path: format!("/once/{key}") }
    }

    /// Tries to win, and leaves a value for later callers. Exactly one program wins, for ever, even if it dies before
    /// it does the work. If the work must be done in any case, use a lock and record when the work is done.
    ///
    /// # Errors
    /// The errors of a write. After [`Error::OutcomeUnknown`], this program may have won without knowing it:
    /// [`winner`](Once::winner) returns the winner's value.
    pub async fn claim(&self, value: impl Into<Vec<u8>>) -> Result<Claimed, Error> {
        if tree::write(&self.client, &self.path, value.into(), WriteIf::Absent, None).await?.is_some() {
            return Ok(Claimed::Won);
        }
        // No user of this recipe removes the value.
        Ok(Claimed::By(self.winner().await?.unwrap_or_default()))
    }

    /// The winner's value. `None` if no program has tried.
    ///
    /// # Errors
    /// The errors of a read.
    pub async fn winner(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(tree::read(&self.client, &self.path, Of::Value).await?.value()?.map(|(value, _)| value))
    }
}
