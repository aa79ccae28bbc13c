//! The requests of one connection, one after the other, and how far their answers are.

use crate::{edge::delivery::Undelivered, edge::memory_quota::Room, server::connection_slots::Seat};
use fairhold_node::api::Silence;
use parking_lot::Mutex;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// How long after an answer the end of its connection can mean that it was not read.
const DELIVERY_OPEN_MAX: Duration = Duration::from_millis(500);

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct ConnectionCalls {
    /// The memory that they may pin.
    pub(super) room: Arc<Room>,
    /// What they do, as far as their place may be given to another.
    pub(super) seat: Arc<Seat>,
    /// Requests that have begun.
    pub(super) begun: AtomicU64,
    /// Requests whose whole answer was handed over for writing.
    pub(super) sent: AtomicU64,
    /// Whether bytes of an answer may still be written: from the beginning of its request until all of them are.
    pub(super) answering: AtomicBool,
    /// Whether reading or writing failed.
    pub(super) broken: AtomicBool,
    /// Whether the news that there is something to read was taken from the one who reads.
    pub(super) readiness_taken: AtomicBool,
    /// What to do if the last answer turns out not to have arrived.
    undelivered: Mutex<Option<(Instant, Undelivered)>>,
    /// Of the stream that is under way, where it is one.
    stream: Mutex<Option<Silence>>,
}

impl ConnectionCalls {
    pub(super) fn new(room: Arc<Room>, seat: Arc<Seat>) -> ConnectionCalls {
        ConnectionCalls {
            room,
            seat,
            begun: AtomicU64::default(),
            sent: AtomicU64::default(),
            answering: AtomicBool::default(),
            broken: AtomicBool::default(),
            readiness_taken: AtomicBool::default(),
            undelivered: Mutex::default(),
            stream: Mutex::default(),
        }
    }

    /// Reading or writing failed.
    pub(super) fn note_broken(&self, error: &io::Error) {
        self.broken.store(true, Ordering::Relaxed);
        // Whoever closes or resets a connection has gone away. Of everybody else nothing is known, but that no more is heard.
        let went_away = matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
        if let (false, Some(silence)) = (went_away, &*self.stream.lock()) {
            silence.note();
        }
    }

    /// The answer under way is a stream, whose end by silence is to be noted here.
    pub(super) fn stream(&self, silence: Silence) {
        *self.stream.lock() = Some(silence);
    }

    /// A request came, so its sender has had the answer to the one before.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.answering.store(true, Ordering::Relaxed);
        self.unsettled();
    }

    pub(super) fn end(&self, undelivered: Option<Undelivered>) {
        let undelivered = undelivered.map(|undelivered| (Instant::now(), undelivered));
        *self.undelivered.lock() = undelivered;
    }

    /// What to do if the last answer did not arrive, while that is open.
    pub(super) fn unsettled(&self) -> Option<Undelivered> {
        let (answered, undelivered) = self.undelivered.lock().take()?;
        (answered.elapsed() < DELIVERY_OPEN_MAX).then_some(undelivered)
    }
}
