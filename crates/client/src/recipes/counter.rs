//! Counters.

use super::tree::{self, Of};
use crate::{client::Client, error::Error};

/// A counter. Each addition is made once, even if its answer was lost and the client sent it again.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let number = client.counter("invoices").add(1).await?; //   no two programs get the same number
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SharedCounter {
    client: Client,
    path: String,
}

impl SharedCounter {
    pub(super) fn new(client: Client, name: &str) -> SharedCounter {
        SharedCounter { client, path: format!("/counters/{name}") }
    }

    /// Adds a number, which may be negative, and returns the sum. The counter starts at 0.
    ///
    /// # Errors
    /// The errors of a write; [`Error::Invalid`] if the counter would leave the range of 64 bits.
    pub async fn add(&self, number: i64) -> Result<i64, Error> {
        let rule = |before: Option<i64>| {
            let sum = before.unwrap_or(0).checked_add(number);
            sum.map(Some).ok_or_else(|| Error::Invalid("the counter would leave the range of 64 bits".to_owned()))
        };
        Ok(tree::change_number(&self.client, &self.path, rule).await?.unwrap_or(0))
    }

    /// The current number.
    ///
    /// # Errors
    /// The errors of a read.
    pub async fn get(&self) -> Result<i64, Error> {
        let value = tree::read(&self.client, &self.path, Of::Value).await?.value()?;
        value.map_or(Ok(0), |(value, _)| tree::number(&self.path, &value))
    }
}
