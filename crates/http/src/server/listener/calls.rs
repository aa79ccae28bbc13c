//! The requests of one connection, one at a time, and the progress of their answers.

use crate::{edge::delivery::Undelivered, edge::memory_quota::ConnectionMemory, server::connection_slots::SlotState};
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
    pub(super) memory: Arc<ConnectionMemory>,
    /// Whether another connection may get the slot of this one.
    pub(super) slot_state: Arc<SlotState>,
    /// Requests that have started.
    pub(super) started: AtomicU64,
    /// Requests whose whole answer was handed over for writing.
    pub(super) sent: AtomicU64,
    /// Whether bytes of an answer may still be written: from the start of its request until the last byte is out.
    pub(super) answering: AtomicBool,
    /// Whether reading or writing failed.
    pub(super) broken: AtomicBool,
    /// Whether another task consumed the socket's readiness event.
    pub(super) readiness_taken: AtomicBool,
    /// The clean-up of the last answer, and when that was handed over.
    undelivered: Mutex<Option<(Instant, Undelivered)>>,
    /// The hold stream in progress, if any.
    stream: Mutex<Option<CallerSilent>>,
}

impl ConnectionCalls {
    pub(super) fn new(memory: Arc<ConnectionMemory>, slot_state: Arc<SlotState>) -> ConnectionCalls {
        ConnectionCalls {
            memory,
            slot_state,
            started: AtomicU64::default(),
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
        // A client that closes or resets its connection has disconnected. Any other error only means that the server
        // receives nothing more from it.
        let disconnected = matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
        if let (false, Some(caller_silent)) = (disconnected, &*self.stream.lock()) {
            caller_silent.set();
        }
    }

    /// The current answer is a hold stream. `caller_silent` is set if silence ends it.
    pub(super) fn set_stream(&self, caller_silent: CallerSilent) {
        *self.stream.lock() = Some(caller_silent);
    }

    /// Counts a new request. Drops the clean-up of the previous answer: the client has received that.
    pub(super) fn begin(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.answering.store(true, Ordering::Relaxed);
        *self.undelivered.lock() = None;
    }

    /// The answer is ready. Keeps its clean-up until its delivery is certain.
    pub(super) fn answer_ready(&self, undelivered: Option<Undelivered>) {
        let undelivered = undelivered.map(|undelivered| (Instant::now(), undelivered));
        *self.undelivered.lock() = undelivered;
    }

    /// Whether the delivery of the last answer matters and is still uncertain.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.undelivered.lock().as_ref().is_some_and(|(answered, _)| answered.elapsed() < DELIVERY_OPEN_MAX)
    }

    /// Takes the clean-up of the last answer, if its delivery is still uncertain.
    pub(super) fn take_unconfirmed(&self) -> Option<Undelivered> {
        let (answered, undelivered) = self.undelivered.lock().take()?;
        (answered.elapsed() < DELIVERY_OPEN_MAX).then_some(undelivered)
    }
}
