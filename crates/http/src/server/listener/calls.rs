//! The requests of one connection, one at a time, and the progress of their answers.

use crate::{edge::delivery::Undelivered, edge::memory_quota::Room, server::connection_slots::Seat};
use fairhold_node::api::CallerSilent;
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

/// How long after an answer a closed connection can mean that the client did not read it.
const DELIVERY_OPEN_MAX: Duration = Duration::from_millis(500);

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct ConnectionCalls {
    /// The memory that the requests may pin.
    pub(super) room: Arc<Room>,
    /// Whether the connection's place may be given to another one.
    pub(super) seat: Arc<Seat>,
    /// Requests that have begun.
    pub(super) begun: AtomicU64,
    /// Requests whose whole answer was handed over for writing.
    pub(super) sent: AtomicU64,
    /// Whether bytes of an answer may still be written: from the start of its request until the last byte is out.
    pub(super) answering: AtomicBool,
    /// Whether reading or writing failed.
    pub(super) broken: AtomicBool,
    /// Whether another task consumed the socket's readiness event.
    pub(super) readiness_taken: AtomicBool,
    /// What to do if the last answer did not arrive.
    undelivered: Mutex<Option<(Instant, Undelivered)>>,
    /// The hold stream in progress, if any.
    stream: Mutex<Option<CallerSilent>>,
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
        // A client that closes or resets its connection has gone away. Any other error only means that the server
        // receives nothing more from it.
        let went_away = matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
        if let (false, Some(caller_silent)) = (went_away, &*self.stream.lock()) {
            caller_silent.set();
        }
    }

    /// The current answer is a hold stream. If silence ends it, this is recorded here.
    pub(super) fn stream(&self, caller_silent: CallerSilent) {
        *self.stream.lock() = Some(caller_silent);
    }

    /// A new request shows that the client received the previous answer.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.answering.store(true, Ordering::Relaxed);
        self.unsettled();
    }

    pub(super) fn end(&self, undelivered: Option<Undelivered>) {
        let undelivered = undelivered.map(|undelivered| (Instant::now(), undelivered));
        *self.undelivered.lock() = undelivered;
    }

    /// What to do if the last answer did not arrive, while delivery is still uncertain.
    pub(super) fn unsettled(&self) -> Option<Undelivered> {
        let (answered, undelivered) = self.undelivered.lock().take()?;
        (answered.elapsed() < DELIVERY_OPEN_MAX).then_some(undelivered)
    }
}
