//! The memory that one connection may pin: for bodies that arrive, and for answers that its socket has not taken yet. A little of
//! it each connection has for itself; the rest is taken from what all connections share.

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

/// What one connection may pin. The listener hangs it on every request; a simulator has no sockets, and leaves it out.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes of bodies.
    bodies: Arc<Shares>,
    /// Bytes of answers that sockets have not taken yet.
    answers: Arc<Shares>,
    address: IpAddr,
    /// Bytes of answers that this connection's socket has not taken yet.
    unwritten: AtomicUsize,
}

/// On an answer that brings the room for its bytes along.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HasRoom;

/// Too much waits for its readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// Bytes with their room, which is given back when the last of them is written.
struct Roomed {
    bytes: Bytes,
    _room: Share,
}

impl AsRef<[u8]> for Roomed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same bytes, which hold their room until they are dropped.
pub(crate) fn with_room(bytes: Bytes, room: Share) -> Bytes {
    Bytes::from_owner(Roomed { bytes, _room: room })
}

impl Room {
    pub(crate) fn new(bodies: &Arc<Shares>, answers: &Arc<Shares>, address: IpAddr) -> Arc<Room> {
        let (bodies, answers) = (Arc::clone(bodies), Arc::clone(answers));
        Arc::new(Room { bodies, answers, address, unwritten: AtomicUsize::new(0) })
    }

    /// Room for a body that has no bytes yet.
    pub(crate) fn body(&self) -> Option<Share> {
        Shares::take(&self.bodies, self.address, 0)
    }

    /// Room for so many bytes of an answer; `Ok(None)` where they fit into what the connection has for itself.
    pub(crate) fn answer(&self, bytes: usize) -> Result<Option<Share>, NoRoom> {
        if bytes <= self.free() { Ok(None) } else { Shares::take(&self.answers, self.address, bytes).map(Some).ok_or(NoRoom) }
    }

    /// How long the next frame of a stream may be: long where there is room for it, else what the connection has for itself.
    pub(crate) fn frame_bytes(&self) -> usize {
        if self.answers.fits(self.address, FRAME_BYTES_MAX) { FRAME_BYTES_MAX } else { self.free() }
    }

    /// Bytes of an answer were taken over to be written.
    pub(crate) fn took(&self, bytes: usize) {
        self.unwritten.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The socket has taken everything.
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
