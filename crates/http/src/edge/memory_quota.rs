//! The memory that one connection may pin: for bodies that arrive, and for answers that wait for its socket. Each connection has
//! a small part for itself, and takes the rest from the quota that all connections share.

use crate::edge::quota::{Share, Shares};
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
pub(crate) struct Room {
    /// Bytes of bodies.
    bodies: Arc<Shares>,
    /// Bytes of answers that wait for sockets.
    answers: Arc<Shares>,
    address: IpAddr,
    /// Bytes of answers that wait for this connection's socket.
    unwritten: AtomicUsize,
}

/// Marks an answer whose bytes are already counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HasRoom;

/// Too many bytes wait for their readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// Bytes with their share of the quota, which is returned when the last of them is written.
struct Roomed {
    bytes: Bytes,
    _room: Share,
}

impl AsRef<[u8]> for Roomed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same bytes, which keep their share until they are dropped.
pub(crate) fn with_room(bytes: Bytes, room: Share) -> Bytes {
    Bytes::from_owner(Roomed { bytes, _room: room })
}

impl Room {
    pub(crate) fn new(bodies: &Arc<Shares>, answers: &Arc<Shares>, address: IpAddr) -> Arc<Room> {
        let (bodies, answers) = (Arc::clone(bodies), Arc::clone(answers));
        Arc::new(Room { bodies, answers, address, unwritten: AtomicUsize::new(0) })
    }

    /// A share for a body that has no bytes yet.
    pub(crate) fn body(&self) -> Option<Share> {
        Shares::take(&self.bodies, self.address, 0)
    }

    /// A share for this many bytes of an answer; `Ok(None)` if they fit into the connection's own part.
    pub(crate) fn answer(&self, bytes: usize) -> Result<Option<Share>, NoRoom> {
        if bytes <= self.free() { Ok(None) } else { Shares::take(&self.answers, self.address, bytes).map(Some).ok_or(NoRoom) }
    }

    /// The size limit of a stream's next frame: large if the quota allows it, otherwise the connection's own part.
    pub(crate) fn frame_bytes(&self) -> usize {
        if self.answers.fits(self.address, FRAME_BYTES_MAX) { FRAME_BYTES_MAX } else { self.free() }
    }

    /// Counts bytes of an answer that wait to be written.
    pub(crate) fn took(&self, bytes: usize) {
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

    fn room(answers: usize) -> (Arc<Shares>, Arc<Room>) {
        let (bodies, answers) = (Shares::new(0, 0), Shares::new(answers, answers));
        let room = Room::new(&bodies, &answers, IpAddr::from([10, 0, 0, 1]));
        (answers, room)
    }

    #[test]
    fn small_answers_that_nobody_reads_count_together() {
        let (_, room) = room(0);
        assert!(matches!(room.answer(ANSWER_BYTES_FREE), Ok(None)));
        room.took(ANSWER_BYTES_FREE - 1);
        assert!(matches!(room.answer(1), Ok(None)));
        assert_eq!(room.answer(2).unwrap_err(), NoRoom, "what was not written yet counts too");
        room.flushed();
        assert!(matches!(room.answer(ANSWER_BYTES_FREE), Ok(None)));
    }

    #[test]
    fn room_is_held_until_the_last_byte_is_dropped() {
        let bytes = 2 * ANSWER_BYTES_FREE;
        let (answers, room) = room(bytes);
        let share = room.answer(bytes).unwrap().unwrap();
        let mut answer = with_room(vec![b'x'; bytes].into(), share);
        let rest = answer.split_off(bytes - 1);
        drop(answer);
        assert!(answers.is_full(), "a byte is not written yet");
        drop(rest);
        assert!(room.answer(bytes).is_ok());
    }

    #[test]
    fn a_frame_is_short_where_there_is_no_room_for_a_long_one() {
        let (_, room) = room(FRAME_BYTES_MAX);
        assert_eq!(room.frame_bytes(), FRAME_BYTES_MAX);
        let _taken = room.answer(ANSWER_BYTES_FREE + 1).unwrap();
        assert_eq!(room.frame_bytes(), ANSWER_BYTES_FREE);
        room.took(10);
        assert_eq!(room.frame_bytes(), ANSWER_BYTES_FREE - 10);
    }
}
