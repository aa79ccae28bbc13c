//! Backups: the whole state of the cluster, as a stream of bytes.

use crate::{
    error::Error,
    raw_call::{RawResponse, RawStream},
    views::cluster::Cluster,
};
use fairhold_types::Revision;
use reqwest::Method;
use std::time::Duration;

const PATH: &str = "/v1/cluster/backup";
const REVISION: &str = "fairhold-revision";

/// How long the server may prepare the next bytes. It may be busy with a snapshot of a large state.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// A backup as its bytes arrive. Read on without long pauses: the server cuts a reader off that takes more than 30 s for one
/// block.
#[derive(Debug)]
pub struct BackupStream {
    stream: RawStream,
    bytes: u64,
}

impl Cluster {
    /// Reads a backup from any server: everything that was acknowledged before the call is in it. It has all values, but
    /// no session, grant or id.
    ///
    /// Only a backup with its trailer is complete. `fairhold backup verify` checks that.
    ///
    /// # Errors
    /// [`Error::Busy`] if every server makes another backup, and [`Error::Unavailable`] if none answered, within the
    /// client's timeout; [`Error::Refused`] if the [`auth_token`](crate::ClientBuilder::auth_token) does not cover it.
    pub async fn backup(&self) -> Result<BackupStream, Error> {
        self.backup_at(self.client.endpoints(), false).await
    }

    /// The same from the first of these servers that makes one. With `local`, the backup has that server's own state, which
    /// may be behind the others, and needs no quorum.
    ///
    /// # Errors
    /// The errors of [`backup`](Cluster::backup); [`Error::Invalid`] if one of `urls` is not the URL of a server.
    pub async fn backup_at(&self, urls: Vec<String>, local: bool) -> Result<BackupStream, Error> {
        let call = self.client.call(Method::GET, PATH).retrying_busy().endpoints(urls);
        let call = if local { call.query("consistency", "local") } else { call };
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

    /// The next bytes, or nothing at the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the server stopped, cut this reader off, or became silent. What has arrived is not
    /// complete then: throw it away, and start again.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let chunk = self.stream.chunk(SILENCE_MAX).await?;
        self.bytes += chunk.as_ref().map_or(0, Vec::len) as u64;
        Ok(chunk)
    }

    /// How many bytes have arrived.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
