//! Backups: the whole state of the cluster, as a stream of bytes.

use crate::{
    client::Client,
    error::Error,
    raw_call::{RawResponse, RawStream},
    views::read_options::{ReadOptions, freshness},
};
use fairhold_types::Revision;
use reqwest::Method;
use std::time::Duration;

const PATH: &str = "/v1/cluster/backup";
const REVISION: &str = "fairhold-revision";

/// How long the server may prepare the next bytes of a large state.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Backups of the cluster, for administrators.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::{fs::File, io::Write};
/// let mut file = File::create("fairhold.backup.partial")?;
/// let mut backup = client.backups().take().await?;
/// while let Some(bytes) = backup.chunk().await? {
///     file.write_all(&bytes)?;
/// }
/// file.sync_all()?; //   then verify it: fairhold backup verify
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Backups {
    client: Client,
    options: ReadOptions,
}

/// A backup as its bytes arrive. Read on without long pauses: the server cuts off a reader that takes more than 30 s for
/// one block.
#[derive(Debug)]
pub struct BackupStream {
    stream: RawStream,
    bytes: u64,
}

impl Client {
    /// Backups of the whole state, for administrators.
    #[must_use]
    pub fn backups(&self) -> Backups {
        Backups { client: self.clone(), options: ReadOptions::default() }
    }
}

freshness!(Backups);

impl Backups {
    /// Reads a backup from any server. Everything that was acknowledged before the call is in it, unless you asked for
    /// a [`local`](Backups::local) one. It has all values, but no session, grant or id.
    ///
    /// Only a backup with its trailer is complete. `fairhold backup verify` checks that.
    ///
    /// # Errors
    /// [`Error::Busy`] if every server makes another backup, and [`Error::Unavailable`] if none answered, within the
    /// client's timeout; [`Error::Refused`] if the [`auth_token`](crate::ClientBuilder::auth_token) does not cover it.
    pub async fn take(&self) -> Result<BackupStream, Error> {
        self.take_at(self.client.endpoints()).await
    }

    /// The same from the first of these servers that makes one.
    ///
    /// # Errors
    /// The errors of [`take`](Backups::take); [`Error::Invalid`] if one of `urls` is not the URL of a server.
    pub async fn take_at(&self, urls: Vec<String>) -> Result<BackupStream, Error> {
        let mut call = self.client.call(Method::GET, PATH).retrying_busy().endpoints(urls);
        if self.options.local {
            call = call.query("consistency", "local");
        }
        if let Some(Revision(revision)) = self.options.min_revision {
            call = call.header("fairhold-min-revision", revision.to_string());
        }
        match call.open().await? {
            RawResponse::Stream(stream) => Ok(BackupStream { stream, bytes: 0 }),
            RawResponse::Reply(reply) => Err(reply.into_error()),
        }
    }
}

impl BackupStream {
    /// The revision of the state in the backup.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        self.stream.headers().get(REVISION)?.to_str().ok()?.parse().ok().map(Revision)
    }

    /// How many bytes have arrived.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next bytes, or nothing at the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the server stopped, cut this reader off, or became silent. The bytes that arrived are no
    /// backup then: throw them away, and start again.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let chunk = self.stream.chunk(SILENCE_MAX).await?;
        self.bytes += chunk.as_ref().map_or(0, Vec::len) as u64;
        Ok(chunk)
    }
}
