//! The token that every request shows. It may come from a file, in which another program replaces it before it expires.
//!
//! The client reads the file again at most once a second while it sends requests, and once more if a node refuses the token.
//! It reads in a thread of its own and waits for the file only after a refusal, so that a file system that hangs delays no
//! renewal. A file that has no usable token changes nothing.

use crate::error::Error;
use parking_lot::Mutex;
use reqwest::header::HeaderValue;
use std::{
    fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, timeout},
};

/// How long a token counts as current, before the next request lets a thread read the file again.
const READ_EVERY: Duration = Duration::from_secs(1);
/// How long a refused request waits for the file.
const READ_WITHIN: Duration = Duration::from_secs(1);
/// The largest file. A token has at most 8 KiB.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Where the program has the token from.
#[derive(Clone)]
pub(crate) enum TokenSource {
    Text(String),
    File(PathBuf),
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenSource::Text(_) => f.write_str("Text(secret)"),
            TokenSource::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// The token of `Authorization: Bearer`, if there is one. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuthToken(Option<Arc<ShownToken>>);

struct ShownToken {
    /// The header. Receivers learn of each new one.
    header: watch::Sender<HeaderValue>,
    /// A file that can change; `None` for a token that cannot.
    file: Option<TokenFile>,
}

struct TokenFile {
    path: PathBuf,
    runtime: Handle,
    /// The number of finished reads.
    reads: watch::Sender<u64>,
    state: Mutex<ReadState>,
}

struct ReadState {
    started_at: Instant,
    is_running: bool,
}

impl fmt::Debug for ShownToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownToken").field("file", &self.file.as_ref().map(|file| &file.path)).finish_non_exhaustive()
    }
}

impl AuthToken {
    /// Reads the token. Threads of that runtime read the file again.
    pub(crate) fn load(source: &TokenSource, runtime: Handle) -> Result<AuthToken, Error> {
        let (header, file) = match source {
            TokenSource::Text(token) => {
                let unusable = || Error::Invalid("the token has characters that a header cannot contain".to_owned());
                (bearer(token).ok_or_else(unusable)?, None)
            }
            TokenSource::File(path) => {
                let header = read(path).map_err(|why| Error::Invalid(format!("the token file {} {why}", path.display())))?;
                // A pipe has its token once.
                let file = path.is_file().then(|| TokenFile {
                    path: path.clone(),
                    runtime,
                    reads: watch::Sender::new(0),
                    state: Mutex::new(ReadState { started_at: Instant::now(), is_running: false }),
                });
                (header, file)
            }
        };
        Ok(AuthToken(Some(Arc::new(ShownToken { header: watch::Sender::new(header), file }))))
    }

    /// The header of the next request.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let shown = self.0.as_ref()?;
        if let Some(file) = &shown.file {
            let is_due = file.state.lock().started_at.elapsed() >= READ_EVERY;
            if is_due {
                shown.start_reading(file);
            }
        }
        Some(shown.header.borrow().clone())
    }

    /// The header to try once more after a node has refused this one; `None` if there is no other one.
    pub(crate) async fn instead_of(&self, refused: &HeaderValue) -> Option<HeaderValue> {
        self.instead_of_within(refused, READ_WITHIN).await
    }

    async fn instead_of_within(&self, refused: &HeaderValue, within: Duration) -> Option<HeaderValue> {
        let shown = self.0.as_ref()?;
        let file = shown.file.as_ref()?;
        let replacement = || Some(shown.header.borrow().clone()).filter(|header| header != refused);
        // Another request may have read the file already.
        if let Some(header) = replacement() {
            return Some(header);
        }
        let mut reads = file.reads.subscribe();
        let reading = async {
            // A read that is under way may have begun before the file changed. The read after it has not.
            let last = shown.start_reading(file);
            while replacement().is_none() && *reads.borrow_and_update() < last {
                shown.start_read(file, last);
                if reads.changed().await.is_err() {
                    return;
                }
            }
        };
        timeout(within, reading).await.ok();
        replacement()
    }

    /// Waits for new tokens from now on.
    pub(crate) fn changes(&self) -> TokenChanges {
        TokenChanges(self.0.as_ref().filter(|shown| shown.file.is_some()).map(|shown| shown.header.subscribe()))
    }
}

/// Learns of new tokens.
#[derive(Debug)]
pub(crate) struct TokenChanges(Option<watch::Receiver<HeaderValue>>);

impl TokenChanges {
    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        if let Some(changes) = &mut self.0
            && changes.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

impl ShownToken {
    /// Lets a thread read the file, unless one is reading it now. Returns the number of the first read that begins from now
    /// on.
    fn start_reading(self: &Arc<Self>, file: &TokenFile) -> u64 {
        let mut state = file.state.lock();
        let next = *file.reads.borrow() + 1;
        if state.is_running {
            return next + 1;
        }
        self.start(file, &mut state);
        next
    }

    /// Lets a thread make the read with this number, unless one is reading now or that read has finished.
    fn start_read(self: &Arc<Self>, file: &TokenFile, number: u64) {
        let mut state = file.state.lock();
        if !state.is_running && *file.reads.borrow() < number {
            self.start(file, &mut state);
        }
    }

    fn start(self: &Arc<Self>, file: &TokenFile, state: &mut ReadState) {
        *state = ReadState { started_at: Instant::now(), is_running: true };
        let shown = Arc::clone(self);
        drop(file.runtime.spawn_blocking(move || shown.read_again()));
    }

    fn read_again(&self) {
        let Some(file) = &self.file else { return };
        match read(&file.path) {
            Ok(read) => {
                let is_new = self.header.send_if_modified(|header| {
                    let is_new = *header != read;
                    *header = read;
                    is_new
                });
                if is_new {
                    tracing::info!(file = %file.path.display(), "the token file has another token");
                }
            }
            // It may be half written: the next read finds the rest.
            Err(why) => tracing::debug!(file = %file.path.display(), why, "the token stays: its file is not usable"),
        }
        let mut state = file.state.lock();
        state.is_running = false;
        file.reads.send_modify(|reads| *reads += 1);
    }
}

/// Reads the first line that is not empty. The error says what is wrong with the file.
fn read(path: &Path) -> Result<HeaderValue, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| format!("cannot be read: {error}"))?;
    let token = text.lines().map(str::trim).find(|line| !line.is_empty()).ok_or("is empty")?;
    bearer(token).ok_or_else(|| "has characters that a header cannot contain".to_owned())
}

fn bearer(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
#[path = "auth_token_tests.rs"]
mod tests;
