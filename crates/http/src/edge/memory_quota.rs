//! The memory that one connection may pin: for bodies that arrive, and for answers that wait for its socket. Each connection has
//! a small part of its own, and takes the rest from a quota that all connections share.

use crate::edge::quota::{Quota, Share};
use bytes::Bytes;
use fairhold_types::limits::{ANSWER_BYTES_FREE, FRAME_BYTES_MAX};
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The memory of one connection. The listener attaches it to every request; the simulator has no sockets and omits it.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    /// Bytes of bodies.
    bodies: Arc<Quota>,
    /// Bytes of answers that wait for sockets.
    answers: Arc<Quota>,
    address: IpAddr,
    /// Bytes of answers that wait for this connection's socket.
    unwritten: AtomicUsize,
}

/// Marks an answer whose bytes are already counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlreadyCounted;

/// The quota is used up: too many bytes wait for their readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoMemory;

/// Bytes with their share of the quota, which is returned when the last of them is written.
struct CountedBytes {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same bytes, which keep their share until they are dropped.
pub(crate) fn with_share(bytes: Bytes, share: Share) -> Bytes {
    Bytes::from_owner(CountedBytes { bytes, _share: share })
}

impl ConnectionMemory {
    pub(crate) fn new(bodies: &Arc<Quota>, answers: &Arc<Quota>, address: IpAddr) -> Arc<ConnectionMemory> {
        let (bodies, answers) = (Arc::clone(bodies), Arc::clone(answers));
        Arc::new(ConnectionMemory { bodies, answers, address, unwritten: AtomicUsize::new(0) })
    }

    /// A share for a body that has no bytes yet.
    pub(crate) fn body(&self) -> Option<Share> {
        Quota::take(&self.bodies, self.address, 0)
    }

    /// A share for this many bytes of an answer; `Ok(None)` if they fit into the connection's own part.
    pub(crate) fn answer(&self, bytes: usize) -> Result<Option<Share>, NoMemory> {
        if bytes <= self.free() { Ok(None) } else { Quota::take(&self.answers, self.address, bytes).map(Some).ok_or(NoMemory) }
    }

    /// The size limit of a stream's next frame: large if the quota allows it, otherwise the connection's own part.
    pub(crate) fn frame_bytes(&self) -> usize {
        if self.answers.fits(self.address, FRAME_BYTES_MAX) { FRAME_BYTES_MAX } else { self.free() }
    }

    /// Counts bytes of an answer that now wait to be written.
    pub(crate) fn add_unwritten(&self, bytes: usize) {
        self.unwritten.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The socket has accepted everything.
    pub(crate) fn flushed(&self) {
        self.unwritten.store(0, Ordering::Relaxed);
    }

    fn free(&self) -> usize {
        ANSWER_BYTES_FREE.saturating_sub(self.unwritten.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(answers: usize) -> (Arc<Quota>, Arc<ConnectionMemory>) {
        let (bodies, answers) = (Quota::new(0, 0), Quota::new(answers, answers));
        let memory = ConnectionMemory::new(&bodies, &answers, IpAddr::from([10, 0, 0, 1]));
        (answers, memory)
    }

    #[test]
    fn small_unread_answers_count_together() {
        let (_, memory) = memory(0);
        assert!(matches!(memory.answer(ANSWER_BYTES_FREE), Ok(None)));
        memory.add_unwritten(ANSWER_BYTES_FREE - 1);
        assert!(matches!(memory.answer(1), Ok(None)));
        assert_eq!(memory.answer(2).unwrap_err(), NoMemory, "unwritten bytes count too");
        memory.flushed();
        assert!(matches!(memory.answer(ANSWER_BYTES_FREE), Ok(None)));
    }

    #[test]
    fn a_share_is_held_until_its_last_byte_is_dropped() {
        let bytes = 2 * ANSWER_BYTES_FREE;
        let (answers, memory) = memory(bytes);
        let share = memory.answer(bytes).unwrap().unwrap();
        let mut answer = with_share(vec![b'x'; bytes].into(), share);
        let rest = answer.split_off(bytes - 1);
        drop(answer);
        assert!(answers.is_full(), "a byte is not written yet");
        drop(rest);
        assert!(memory.answer(bytes).is_ok());
    }

    #[test]
    fn a_frame_is_short_if_there_is_no_memory_for_a_long_one() {
        let (_, memory) = memory(FRAME_BYTES_MAX);
        assert_eq!(memory.frame_bytes(), FRAME_BYTES_MAX);
        let _taken = memory.answer(ANSWER_BYTES_FREE + 1).unwrap();
        assert_eq!(memory.frame_bytes(), ANSWER_BYTES_FREE);
        memory.add_unwritten(10);
        assert_eq!(memory.frame_bytes(), ANSWER_BYTES_FREE - 10);
    }
}
