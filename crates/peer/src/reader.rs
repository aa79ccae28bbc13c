//! Reads frames from a socket. Each frame has a time limit, and all incomplete frames share one byte budget.
//!
//! A frame uses budget only for the bytes that have arrived, not for its announced length: to use memory here, a sender
//! must send the bytes.

use crate::{
    frame::{Frame, FrameCodec, FrameError, WRITE_BYTES},
    peer_socket::ReadSocket,
};
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
    time::{Instant, timeout_at},
};
use tokio_util::codec::Decoder;

/// The time limit from the first byte of a frame to its last. Pauses of the receiver do not count.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// The byte budget for all incomplete frames.
pub const INCOMPLETE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The first bytes of each frame, which use no budget: heartbeats and votes arrive even if larger frames have used it
/// up.
pub const FRAME_BYTES_FREE: usize = WRITE_BYTES;

/// The time limit of a frame, and the budget of all incomplete frames. Clones share the budget.
#[derive(Debug, Clone)]
pub struct FrameLimits {
    frame_timeout: Duration,
    bytes_max: usize,
    bytes: Arc<AtomicUsize>,
}

impl Default for FrameLimits {
    fn default() -> Self {
        FrameLimits::new(FRAME_TIMEOUT, INCOMPLETE_BYTES_MAX)
    }
}

impl FrameLimits {
    /// Sets both limits. No budget is used yet.
    #[must_use]
    pub fn new(frame_timeout: Duration, bytes_max: usize) -> FrameLimits {
        FrameLimits { frame_timeout, bytes_max, bytes: Arc::default() }
    }

    fn share(&self) -> ReadShare {
        ReadShare { bytes: 0, limits: self.clone() }
    }
}

/// The part of the budget that one incomplete frame uses. Dropping it returns the part.
#[derive(Debug)]
struct ReadShare {
    bytes: usize,
    limits: FrameLimits,
}

impl ReadShare {
    /// Reserves budget for a frame; `length` is the number of bytes that have arrived.
    fn grow(&mut self, length: usize) -> Result<(), FrameError> {
        let more = length.saturating_sub(FRAME_BYTES_FREE).saturating_sub(self.bytes);
        let before = self.limits.bytes.fetch_add(more, Relaxed);
        if more > 0 && before.saturating_add(more) > self.limits.bytes_max {
            self.limits.bytes.fetch_sub(more, Relaxed);
            return Err(FrameError::OverBudget { max: self.limits.bytes_max });
        }
        self.bytes += more;
        Ok(())
    }

    fn release(&mut self) {
        self.limits.bytes.fetch_sub(std::mem::take(&mut self.bytes), Relaxed);
    }
}

impl Drop for ReadShare {
    fn drop(&mut self) {
        self.release();
    }
}

/// The receiving end of a connection.
#[derive(Debug)]
pub(crate) struct FrameReader {
    socket: ReadSocket,
    codec: FrameCodec,
    buffer: BytesMut,
    share: ReadShare,
    /// The time left for the frame that has begun.
    time_left: Duration,
    /// The deadline of that frame, while it is read.
    deadline: Option<Instant>,
}

impl FrameReader {
    pub(crate) fn new(socket: ReadSocket, frame_limits: &FrameLimits) -> Self {
        FrameReader {
            socket,
            codec: FrameCodec::for_handshake(),
            buffer: BytesMut::with_capacity(WRITE_BYTES),
            share: frame_limits.share(),
            time_left: frame_limits.frame_timeout,
            deadline: None,
        }
    }

    /// Allows large frames, once the peer is admitted.
    pub(crate) fn admit(&mut self) {
        self.codec.admit();
    }

    /// Reads bytes that are not a frame, before the first frame.
    pub(crate) async fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.socket.read_exact(bytes).await.map(drop)
    }

    /// The next frame; `None` if the peer closed the connection between frames. Dropping the future loses no bytes.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(frame) = self.codec.decode(&mut self.buffer)? {
                self.share.release();
                self.time_left = self.share.limits.frame_timeout;
                self.deadline = None;
                return Ok(Some(frame));
            }
            self.share.grow(self.buffer.len())?;
            let has_begun = !self.buffer.is_empty();
            let reading = self.socket.read_buf(&mut self.buffer);
            let read = if has_begun {
                let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.time_left);
                let within = self.share.limits.frame_timeout;
                timeout_at(deadline, reading).await.map_err(|_| FrameError::TooSlow { within })?
            } else {
                reading.await
            };
            match end_of_tls(read)? {
                0 if self.buffer.is_empty() => return Ok(None),
                0 => return Err(FrameError::Truncated { length: self.buffer.len() }),
                _ => {}
            }
        }
    }

    /// Stops the clock of the current frame until the next read.
    pub(crate) fn pause(&mut self) {
        if let Some(deadline) = self.deadline.take() {
            self.time_left = deadline.saturating_duration_since(Instant::now());
        }
    }

    /// The socket. Bytes in the buffer are lost.
    pub(crate) fn into_socket(self) -> ReadSocket {
        self.socket
    }
}

/// A node that ends does not say so on its connections with TLS. For TLS this is an error, and for frames, which have
/// lengths, it is the end.
fn end_of_tls(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        Ok(_) | Err(_) => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_incomplete_frames_share_one_budget_and_return_it() {
        let frame_limits = FrameLimits::new(FRAME_TIMEOUT, 1_000);
        let (mut one, mut other) = (frame_limits.share(), frame_limits.share());
        one.grow(FRAME_BYTES_FREE + 600).unwrap();
        one.grow(FRAME_BYTES_FREE + 600).unwrap();
        other.grow(FRAME_BYTES_FREE).unwrap();
        assert!(matches!(other.grow(FRAME_BYTES_FREE + 401), Err(FrameError::OverBudget { max: 1_000 })));
        other.grow(FRAME_BYTES_FREE + 400).unwrap();
        drop(one);
        other.grow(FRAME_BYTES_FREE + 1_000).unwrap();
        other.release();
        assert_eq!(frame_limits.bytes.load(Relaxed), 0);
    }
}
