//! Reads frames from a socket: each within a time limit, and all incomplete frames within one budget of bytes.
//!
//! A frame counts the bytes that have arrived, whatever length it announced: to use memory here, a sender must send the bytes.

use crate::frame::{Frame, FrameCodec, FrameError, WRITE_BYTES};
use bytes::BytesMut;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::AsyncReadExt,
    net::tcp::OwnedReadHalf,
    time::{Instant, timeout_at},
};
use tokio_util::codec::Decoder;

/// How long a frame may take from its first byte to its last, while the receiver reads.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// The budget of bytes for all incomplete frames.
pub const UNFINISHED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of each frame that do not count, so that heartbeats and votes arrive even if larger frames have used up the budget.
pub const FRAME_BYTES_FREE: usize = WRITE_BYTES;

/// The time limit of a frame, and the budget of all incomplete frames. Clones share the budget.
#[derive(Debug, Clone)]
pub struct Arrivals {
    frame_timeout: Duration,
    bytes_max: usize,
    bytes: Arc<AtomicUsize>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Arrivals::new(FRAME_TIMEOUT, UNFINISHED_BYTES_MAX)
    }
}

impl Arrivals {
    /// The same with other limits.
    #[must_use]
    pub fn new(frame_timeout: Duration, bytes_max: usize) -> Arrivals {
        Arrivals { frame_timeout, bytes_max, bytes: Arc::default() }
    }

    fn share(&self) -> ReadShare {
        ReadShare { bytes: 0, of: self.clone() }
    }
}

/// The part of the budget that one incomplete frame uses. Dropping it returns the part.
#[derive(Debug)]
struct ReadShare {
    bytes: usize,
    of: Arrivals,
}

impl ReadShare {
    /// Reserves the budget for a frame of which this many bytes have arrived.
    fn grow(&mut self, length: usize) -> Result<(), FrameError> {
        let more = length.saturating_sub(FRAME_BYTES_FREE).saturating_sub(self.bytes);
        let before = self.of.bytes.fetch_add(more, Relaxed);
        if more > 0 && before.saturating_add(more) > self.of.bytes_max {
            self.of.bytes.fetch_sub(more, Relaxed);
            return Err(FrameError::NoRoom { max: self.of.bytes_max });
        }
        self.bytes += more;
        Ok(())
    }

    fn give_back(&mut self) {
        self.of.bytes.fetch_sub(std::mem::take(&mut self.bytes), Relaxed);
    }
}

impl Drop for ReadShare {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The receiving end of a connection.
#[derive(Debug)]
pub(crate) struct FrameReader {
    socket: OwnedReadHalf,
    codec: FrameCodec,
    buffer: BytesMut,
    share: ReadShare,
    /// The time left for the frame that has begun.
    left: Duration,
    /// The deadline of that frame, while it is read.
    due: Option<Instant>,
}

impl FrameReader {
    pub(crate) fn new(socket: OwnedReadHalf, arrivals: &Arrivals) -> Self {
        FrameReader {
            socket,
            codec: FrameCodec::for_handshake(),
            buffer: BytesMut::with_capacity(WRITE_BYTES),
            share: arrivals.share(),
            left: arrivals.frame_timeout,
            due: None,
        }
    }

    /// The other side was admitted: from now on, frames may be large.
    pub(crate) fn admit(&mut self) {
        self.codec.admit();
    }

    /// Reads bytes that are not a frame, before the first frame.
    pub(crate) async fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.socket.read_exact(bytes).await.map(drop)
    }

    /// The next frame, or none if the connection was closed properly. Dropping the future loses no bytes.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(frame) = self.codec.decode(&mut self.buffer)? {
                self.share.give_back();
                (self.left, self.due) = (self.share.of.frame_timeout, None);
                return Ok(Some(frame));
            }
            self.share.grow(self.buffer.len())?;
            let begun = !self.buffer.is_empty();
            let reading = self.socket.read_buf(&mut self.buffer);
            let length = if begun {
                let due = *self.due.get_or_insert_with(|| Instant::now() + self.left);
                let within = self.share.of.frame_timeout;
                timeout_at(due, reading).await.map_err(|_| FrameError::TooSlow { within })??
            } else {
                reading.await?
            };
            match length {
                0 if self.buffer.is_empty() => return Ok(None),
                0 => return Err(FrameError::Truncated { length: self.buffer.len() }),
                _ => {}
            }
        }
    }

    /// This node pauses reading: the pause does not count against the frame.
    pub(crate) fn pause(&mut self) {
        if let Some(due) = self.due.take() {
            self.left = due.saturating_duration_since(Instant::now());
        }
    }

    /// The socket. Bytes that arrived and were not read are lost.
    pub(crate) fn into_socket(self) -> OwnedReadHalf {
        self.socket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_unfinished_frames_share_one_budget_and_give_it_back() {
        let arrivals = Arrivals::new(FRAME_TIMEOUT, 1_000);
        let (mut one, mut other) = (arrivals.share(), arrivals.share());
        one.grow(FRAME_BYTES_FREE + 600).unwrap();
        one.grow(FRAME_BYTES_FREE + 600).unwrap();
        other.grow(FRAME_BYTES_FREE).unwrap();
        assert!(matches!(other.grow(FRAME_BYTES_FREE + 401), Err(FrameError::NoRoom { max: 1_000 })));
        other.grow(FRAME_BYTES_FREE + 400).unwrap();
        drop(one);
        other.grow(FRAME_BYTES_FREE + 1_000).unwrap();
        other.give_back();
        assert_eq!(arrivals.bytes.load(Relaxed), 0);
    }
}
