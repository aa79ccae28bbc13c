//! One lane to one node: a task that dials when there is something to send, writes requests, reads answers, and fails
//! all pending requests when the connection breaks.
//!
//! A request is in one of two places. In the queue, none of it has left this node: a failure there is `Unreachable`.
//! When it leaves the queue to be written, it is in flight: from then on only an answer or `Lost` ends it.

use crate::{
    exchange::Connection,
    frame::{Frame, FrameError, FrameKind, PAYLOAD_BYTES_MAX, WriteBuffer},
    handshake,
    handshake_error::DialError,
    lane_context::{LaneContext, NOT_READY, SHUTTING_DOWN},
    metrics::Flow,
    peer_socket::WriteSocket,
    reader::FrameReader,
};
use bytes::Bytes;
use fairhold_raft::peer::{Lane, PeerError, Refusal, Target};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};

/// The maximum number of requests in a lane's queue. Further requests fail as `Unreachable`.
pub const LANE_QUEUE_MAX: usize = 1024;

/// The maximum number of a lane's requests in flight. Further requests stay in the queue.
pub const LANE_IN_FLIGHT_MAX: usize = 1024;

/// The maximum number of bytes of all requests in a lane, queued and in flight. Further requests fail as `Unreachable`.
pub const LANE_BYTES_MAX: usize = 2 * PAYLOAD_BYTES_MAX;

/// A connection without requests for this long is closed. The next request opens another one.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// The backoff after the first failed dial. It doubles with each further one.
const BACK_OFF_FIRST: Duration = Duration::from_millis(25);

/// The maximum backoff: a node that returns must be reachable soon.
const BACK_OFF_MAX: Duration = Duration::from_millis(200);

/// The backoff after a refusal, which only an operator can change.
pub const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The sender of a call's answer.
type Answer = oneshot::Sender<Result<Bytes, PeerError>>;

/// A request, and the sender of its answer.
#[derive(Debug)]
struct LaneCall {
    request: Bytes,
    answer: Answer,
    share: LaneShare,
}

impl LaneCall {
    fn fail(self, error: PeerError) {
        complete(self.answer, Err(error));
    }
}

/// Completes a call. The receiver may be gone: a caller may give up its call.
fn complete(answer: Answer, result: Result<Bytes, PeerError>) {
    drop(answer.send(result));
}

/// A request's share of its lane's bytes, until the call ends.
#[derive(Debug)]
struct LaneShare {
    bytes: usize,
    lane_bytes: Arc<AtomicUsize>,
}

impl Drop for LaneShare {
    fn drop(&mut self) {
        self.lane_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// The caller's end of a lane.
#[derive(Debug, Clone)]
pub(crate) struct LaneQueue {
    calls: mpsc::Sender<LaneCall>,
    lane_bytes: Arc<AtomicUsize>,
}

impl LaneQueue {
    /// Queues a request, or returns the reason why it will never be sent.
    pub(crate) fn push(&self, request: Bytes) -> Result<oneshot::Receiver<Result<Bytes, PeerError>>, String> {
        let bytes = request.len();
        let others = self.lane_bytes.fetch_add(bytes, Relaxed);
        let share = LaneShare { bytes, lane_bytes: self.lane_bytes.clone() };
        // A request that is alone may be as large as a frame.
        if others > 0 && others.saturating_add(bytes) > LANE_BYTES_MAX {
            return Err(format!("{others} bytes of requests are waiting already"));
        }
        let (answer, answered) = oneshot::channel();
        match self.calls.try_send(LaneCall { request, answer, share }) {
            Ok(()) => Ok(answered),
            Err(mpsc::error::TrySendError::Full(_)) => Err(format!("{LANE_QUEUE_MAX} requests are waiting already")),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(SHUTTING_DOWN.to_owned()),
        }
    }
}

/// The task of a lane.
pub(crate) struct LaneTask {
    to: Target,
    lane: Lane,
    calls: mpsc::Receiver<LaneCall>,
    shared: Arc<LaneContext>,
    failures: u32,
}

/// Why a connection ended.
enum LaneEnd {
    /// The lane is no longer needed.
    Abandoned,
    /// No request was queued or in flight for `IDLE_MAX`.
    Idle,
    /// The connection broke.
    Broken(FrameError),
    /// The peer closed it.
    Closed,
}

impl LaneTask {
    /// A lane and its queue.
    pub(crate) fn new(to: Target, lane: Lane, shared: Arc<LaneContext>) -> (LaneQueue, LaneTask) {
        let (sender, calls) = mpsc::channel(LANE_QUEUE_MAX);
        (LaneQueue { calls: sender, lane_bytes: Arc::default() }, LaneTask { to, lane, calls, shared, failures: 0 })
    }

    /// Runs until the lane is dropped or the client is closed.
    pub(crate) async fn run(mut self) {
        let shared = self.shared.clone();
        tokio::select! {
            biased;
            () = shared.closed() => {}
            () = self.serve_calls() => {}
        }
        self.calls.close();
        self.fail_queued(&PeerError::Unreachable(SHUTTING_DOWN.to_owned()));
    }

    async fn serve_calls(&mut self) {
        while let Some(first) = self.calls.recv().await {
            match self.dial().await {
                Ok(connection) => self.use_connection(connection, first).await,
                Err(failure) => {
                    let error = failure.to_peer_error(&self.to);
                    first.fail(error.clone());
                    self.fail_queued(&error);
                    let pause = self.record_failure(&failure);
                    self.fail_until(Instant::now() + pause, &error).await;
                }
            }
        }
    }

    async fn dial(&self) -> Result<Connection, DialError> {
        let Some(service) = self.shared.service() else {
            return Err(DialError::Failed(NOT_READY.to_owned()));
        };
        let dialled = handshake::dial(&self.to, Some(self.lane), &*service, &self.shared.settings).await;
        let (connection, _) = dialled?;
        self.shared.forget_refusal(self.to.id);
        tracing::debug!(peer = self.to.id, lane = ?self.lane, "connected to a peer");
        Ok(connection)
    }

    /// Logs the failure once, and returns the backoff before the next dial.
    fn record_failure(&mut self, failure: &DialError) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.shared.metrics.dials_failed.inc();
        match failure {
            // This failure passes by itself, and a starting cluster should not wait longer than needed.
            DialError::Refused(refusal @ Refusal::Starting) => {
                self.shared.metrics.refuse(refusal);
                back_off(self.failures)
            }
            DialError::Refused(refusal) => {
                self.shared.metrics.refuse(refusal);
                self.shared.log_refusal(&self.to, refusal);
                // After a restart, the peer soon forgets the process before.
                if matches!(refusal, Refusal::Duplicate { .. }) { back_off(self.failures) } else { REFUSED_PAUSE }
            }
            DialError::Tls(fault) => {
                self.shared.record_tls_fault(&self.to, fault);
                if DialError::is_lasting(fault) { REFUSED_PAUSE } else { back_off(self.failures) }
            }
            DialError::Failed(_) => {
                if self.failures == 1 {
                    let error = failure.to_peer_error(&self.to);
                    tracing::info!(peer = self.to.id, lane = ?self.lane, "{error}");
                }
                back_off(self.failures)
            }
        }
    }

    /// Fails requests that arrive before the next dial is due, without a delay.
    async fn fail_until(&mut self, due: Instant, error: &PeerError) {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(due) => return,
                call = self.calls.recv() => match call {
                    Some(call) => call.fail(error.clone()),
                    None => return,
                },
            }
        }
    }

    fn fail_queued(&mut self, error: &PeerError) {
        while let Ok(call) = self.calls.try_recv() {
            call.fail(error.clone());
        }
    }

    /// Writes requests and reads answers until the connection ends.
    async fn use_connection(&mut self, connection: Connection, first: LaneCall) {
        let (mut expired, has_tls) = (pin!(connection.certificate_expired()), connection.has_tls());
        let Connection { mut reader, mut writer, .. } = connection;
        let in_flight = CallsInFlight::default();
        let mut first = Some(first);
        let flow = &self.shared.metrics.dialled;
        let _open = flow.open(has_tls);
        let ending = tokio::select! {
            biased;
            ending = read_answers(&mut reader, &in_flight, flow) => ending,
            ending = write_requests(&mut writer, &mut self.calls, &in_flight, &mut first, flow) => ending,
            () = &mut expired => LaneEnd::Broken(FrameError::CertificateExpired),
        };
        let reason = match ending {
            LaneEnd::Abandoned | LaneEnd::Idle => {
                tracing::debug!(peer = self.to.id, lane = ?self.lane, "closed an unused peer connection");
                return;
            }
            LaneEnd::Broken(error) => error.to_string(),
            LaneEnd::Closed => "the other side closed the connection".to_owned(),
        };
        tracing::info!(peer = self.to.id, lane = ?self.lane, "a peer connection broke: {reason}");
        in_flight.fail_all(&PeerError::Lost(reason.clone()));
        let unsent = PeerError::Unreachable(reason);
        if let Some(first) = first {
            first.fail(unsent.clone());
        }
        self.fail_queued(&unsent);
        if in_flight.has_answered() {
            // The connection worked until now, so the next request dials without a delay.
            self.failures = 0;
        } else {
            // Do not dial a peer in a tight loop if it admits this node and then drops it.
            self.failures = self.failures.saturating_add(1);
            self.fail_until(Instant::now() + back_off(self.failures), &unsent).await;
        }
    }
}

/// The backoff after this many failed dials: exponential, capped, and with jitter.
fn back_off(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(8);
    let longest = BACK_OFF_FIRST.saturating_mul(1 << doublings).min(BACK_OFF_MAX);
    rand::random_range(longest / 2..=longest)
}

async fn write_requests(
    socket: &mut WriteSocket,
    calls: &mut mpsc::Receiver<LaneCall>,
    in_flight: &CallsInFlight,
    first: &mut Option<LaneCall>,
    flow: &Flow,
) -> LaneEnd {
    let mut buffer = WriteBuffer::new();
    let mut next = first.take();
    let mut number = 0;
    loop {
        while let Some(LaneCall { request, answer, share }) = next {
            number += 1;
            flow.sent(request.len());
            let frame = Frame { kind: FrameKind::Request, number, payload: request };
            in_flight.insert(number, CallInFlight { answer, _share: share });
            if let Err(error) = buffer.push(frame) {
                return LaneEnd::Broken(error);
            }
            next = match buffer.is_full() || in_flight.is_full() {
                true => None,
                false => calls.try_recv().ok(),
            };
        }
        if let Err(error) = buffer.write_to(socket).await {
            return LaneEnd::Broken(error.into());
        }
        in_flight.wait_for_room().await;
        next = match timeout(IDLE_MAX, calls.recv()).await {
            Ok(Some(call)) => Some(call),
            Ok(None) => return LaneEnd::Abandoned,
            Err(_) if in_flight.is_empty() => return LaneEnd::Idle,
            Err(_) => None,
        };
    }
}

async fn read_answers(socket: &mut FrameReader, in_flight: &CallsInFlight, flow: &Flow) -> LaneEnd {
    loop {
        let frame = match socket.next().await {
            Ok(Some(frame)) => frame,
            Ok(None) => return LaneEnd::Closed,
            Err(error) => return LaneEnd::Broken(error),
        };
        flow.received(frame.payload.len());
        match frame.kind {
            FrameKind::Answer => {
                let Some(waiting) = in_flight.remove(frame.number) else {
                    return LaneEnd::Broken(FrameError::UnexpectedAnswer(frame.number));
                };
                complete(waiting.answer, Ok(frame.payload));
            }
            FrameKind::Hello
            | FrameKind::Welcome
            | FrameKind::Refused
            | FrameKind::Request
            | FrameKind::Challenge
            | FrameKind::Proof
            | FrameKind::Introduction
            | FrameKind::Admitted
            | FrameKind::Join
            | FrameKind::Joined => return LaneEnd::Broken(FrameError::UnexpectedKind(frame.kind)),
        }
    }
}

/// A request in flight.
#[derive(Debug)]
struct CallInFlight {
    answer: Answer,
    _share: LaneShare,
}

/// The requests in flight on one connection.
#[derive(Debug, Default)]
struct CallsInFlight {
    waiting: Mutex<HashMap<u64, CallInFlight>>,
    room: Notify,
    answered: AtomicBool,
}

impl CallsInFlight {
    fn insert(&self, number: u64, waiting: CallInFlight) {
        self.lock().insert(number, waiting);
    }

    fn remove(&self, number: u64) -> Option<CallInFlight> {
        let waiting = self.lock().remove(&number)?;
        self.answered.store(true, Relaxed);
        self.room.notify_one();
        Some(waiting)
    }

    /// Whether any request was ever answered.
    fn has_answered(&self) -> bool {
        self.answered.load(Relaxed)
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn is_full(&self) -> bool {
        self.lock().len() >= LANE_IN_FLIGHT_MAX
    }

    async fn wait_for_room(&self) {
        while self.is_full() {
            self.room.notified().await;
        }
    }

    fn fail_all(&self, error: &PeerError) {
        for (_, waiting) in std::mem::take(&mut *self.lock()) {
            complete(waiting.answer, Err(error.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, CallInFlight>> {
        self.waiting.lock()
    }
}
