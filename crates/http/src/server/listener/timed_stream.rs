//! A connection's bytes, counted, with deadlines: for the rest of a head that has begun, for the next request while nothing
//! runs, and for the client to read an answer.
//!
//! hyper has a single timeout for a head and the idle time before it, too long for one or too short for the other. It
//! has none for answers.

use super::{calls::ConnectionCalls, context::ConnectionContext, framing::Framing, refusal, transport::Transport};
use socket2::SockRef;
use std::{
    future::Future,
    io,
    net::Shutdown,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep},
};

/// The bytes of an answer that a client must take within the answer timeout: 1 KiB a second.
const ANSWER_BYTES_LEAST: usize = 30 * 1024;

/// A connection's bytes, with deadlines.
pub(super) struct TimedStream {
    transport: Transport,
    context: ConnectionContext,
    calls: Arc<ConnectionCalls>,
    /// Looks at each byte before hyper does.
    framing: Framing,
    /// The current deadline for reading.
    reading: ReadDeadline,
    /// The number of requests started when `reading` was set.
    started_before: u64,
    /// Rings at the deadline, or before it.
    read_alarm: Option<Pin<Box<Sleep>>>,
    write_alarm: Option<Pin<Box<Sleep>>>,
    /// Bytes that the client has taken since `write_alarm` was set.
    bytes_taken: usize,
}

/// A deadline for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadDeadline {
    /// For the first byte of a request.
    Idle { until: Instant },
    /// For the end of a head.
    Head { until: Instant },
}

impl TimedStream {
    pub(super) fn new(transport: Transport, context: ConnectionContext, calls: Arc<ConnectionCalls>) -> TimedStream {
        context.metrics.connection_opened();
        // A client that has just connected has something to send.
        let reading = ReadDeadline::Idle { until: Instant::now() + context.timeouts.first };
        let (read_alarm, write_alarm) = (None, None);
        let framing = Framing::default();
        TimedStream { transport, context, calls, framing, reading, started_before: 0, read_alarm, write_alarm, bytes_taken: 0 }
    }

    /// Whether a request runs or its answer is being written. Reading then has no deadline; afterwards the idle time starts.
    fn is_busy(&mut self) -> bool {
        let started = self.calls.started.load(Ordering::Relaxed);
        if started != self.calls.sent.load(Ordering::Relaxed) {
            return true;
        }
        if started != self.started_before {
            self.started_before = started;
            let ConnectionContext { timeouts, slots, .. } = &self.context;
            // If many slots are taken, the idle timeout is shorter.
            let idle = if slots.is_crowded() { timeouts.idle_when_crowded } else { timeouts.idle };
            self.reading = ReadDeadline::Idle { until: Instant::now() + idle };
        }
        false
    }

    fn read_in_time(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (ReadDeadline::Idle { until } | ReadDeadline::Head { until }) = self.reading;
        let alarm = self.read_alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        // Nearly every deadline is later than the last one. The alarm is set again only when it rings, and not for every
        // request.
        if alarm.deadline() > until {
            alarm.as_mut().reset(until);
        }
        while alarm.as_mut().poll(cx).is_ready() {
            if alarm.deadline() >= until {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            alarm.as_mut().reset(until);
        }
        Poll::Pending
    }

    /// Records the result of a write, and gives up on a client that does not read.
    fn after_write(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match done {
            Poll::Ready(Ok(bytes)) => {
                self.context.metrics.sent(bytes);
                self.bytes_taken = self.bytes_taken.saturating_add(bytes);
                if self.bytes_taken >= ANSWER_BYTES_LEAST {
                    self.write_alarm = None;
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => {
                self.calls.note_broken(&error);
                Poll::Ready(Err(error))
            }
            Poll::Pending => {
                ready!(self.write_alarm(cx));
                Poll::Ready(Err(self.unread()))
            }
        }
    }

    /// Rings when the client has not read for too long.
    fn write_alarm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let TimedStream { write_alarm, bytes_taken, context, .. } = self;
        let alarm = write_alarm.get_or_insert_with(|| {
            *bytes_taken = 0;
            Box::pin(tokio::time::sleep(context.timeouts.answer))
        });
        alarm.as_mut().poll(cx)
    }

    /// The client does not read its answer.
    fn unread(&self) -> io::Error {
        let error = io::ErrorKind::TimedOut.into();
        self.calls.note_broken(&error);
        error
    }

    /// hyper answers unreadable input with a bare status. This writes a whole problem instead, and returns the number
    /// of bytes it replaces.
    fn replace(&mut self, cx: &mut Context<'_>, bare: &[u8], length: usize) -> Option<usize> {
        // Bytes written while no answer is due come from hyper itself.
        if self.calls.answering.load(Ordering::Relaxed) {
            return None;
        }
        let refusal = refusal::replacement(bare, &self.context.cluster)?;
        // Nothing else is being sent, so the socket has room. If it has none, the bare status is sent.
        match self.transport.poll_write(cx, &refusal) {
            Poll::Ready(Ok(bytes)) => {
                self.context.metrics.sent(bytes);
                if bytes < refusal.len() {
                    self.calls.broken.store(true, Ordering::Relaxed);
                }
                Some(length)
            }
            Poll::Ready(Err(_)) | Poll::Pending => None,
        }
    }
}

impl Drop for TimedStream {
    fn drop(&mut self) {
        self.context.metrics.connection_closed();
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let timed = self.get_mut();
        let busy = timed.is_busy();
        let before = buffer.filled().len();
        let read = timed.transport.poll_read(cx, buffer);
        let arrived = buffer.filled().len() - before;
        // hyper also looks for more while a request runs, and nearly always finds nothing.
        if arrived > 0 {
            timed.framing.follow(&mut buffer.filled_mut()[before..]);
            timed.context.metrics.received(arrived);
        }
        if let Poll::Ready(Err(error)) = &read {
            timed.calls.note_broken(error);
        }
        if busy {
            return read;
        }
        match read {
            Poll::Ready(result) => {
                if arrived > 0 && matches!(timed.reading, ReadDeadline::Idle { .. }) {
                    timed.reading = ReadDeadline::Head { until: Instant::now() + timed.context.timeouts.head };
                }
                Poll::Ready(result)
            }
            Poll::Pending => timed.read_in_time(cx),
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let timed = self.get_mut();
        if let Some(length) = timed.replace(cx, bytes, bytes.len()) {
            return Poll::Ready(Ok(length));
        }
        let done = timed.transport.poll_write(cx, bytes);
        timed.after_write(cx, done)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let timed = self.get_mut();
        let length = parts.iter().map(|part| part.len()).sum();
        if let Some(length) = parts.first().and_then(|first| timed.replace(cx, first, length)) {
            return Poll::Ready(Ok(length));
        }
        let done = timed.transport.poll_write_vectored(cx, parts);
        timed.after_write(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The client has taken everything written so far.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let timed = self.get_mut();
        match timed.transport.poll_flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                timed.calls.note_broken(&error);
                return Poll::Ready(Err(error));
            }
            Poll::Pending => {
                ready!(timed.write_alarm(cx));
                return Poll::Ready(Err(timed.unread()));
            }
        }
        timed.write_alarm = None;
        timed.calls.memory.flushed();
        if timed.calls.started.load(Ordering::Relaxed) == timed.calls.sent.load(Ordering::Relaxed) {
            timed.calls.answering.store(false, Ordering::Relaxed);
            timed.calls.slot_state.end();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let timed = self.get_mut();
        match timed.transport.poll_shutdown(cx) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => {
                ready!(timed.write_alarm(cx));
                Poll::Ready(Err(timed.unread()))
            }
        }
    }
}

/// After the last answer, briefly reads what the client still sends. If a socket closes with unread bytes, the client
/// can lose the answer.
pub(super) async fn lingering_close(stream: &TcpStream) {
    if SockRef::from(stream).shutdown(Shutdown::Write).is_err() {
        return;
    }
    let mut sink = [0; 4 * 1024];
    let mut left = LINGER_BYTES_MAX;
    let to_the_end = async {
        while left > 0 && stream.readable().await.is_ok() {
            match stream.try_read(&mut sink) {
                Ok(0) => break,
                Ok(length) => left = left.saturating_sub(length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    };
    // If the client has not closed the connection by then, the server does.
    drop(tokio::time::timeout(LINGER_MAX, to_the_end).await);
}

/// How long a client may take to close its side after the last answer.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// The most bytes to read in that time.
const LINGER_BYTES_MAX: usize = 1024 * 1024;
