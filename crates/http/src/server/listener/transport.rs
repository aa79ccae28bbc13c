//! The bytes of a connection: of its socket, which other parts of the connection look at too, or of TLS over it.

use super::calls::ConnectionCalls;
use fairhold_trust::stream::TlsStream;
use socket2::SockRef;
use std::{
    io::{self, Read},
    net::Shutdown,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};

/// A connection without TLS, or with it.
#[derive(Debug)]
pub(super) enum Transport {
    /// Plain text.
    Plain(SharedSocket),
    /// TLS.
    Tls {
        stream: TlsStream<SharedSocket>,
        /// Whether the client has closed its side.
        is_client_gone: bool,
    },
}

impl Transport {
    /// A connection whose handshake is done.
    pub(super) fn tls(stream: TlsStream<SharedSocket>) -> Transport {
        Transport::Tls { stream, is_client_gone: false }
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(socket) => socket.poll_read_shared(cx, buffer),
            Transport::Tls { stream, is_client_gone } => {
                let before = buffer.filled().len();
                match ready!(Pin::new(stream).poll_read(cx, buffer)) {
                    // Many clients close their socket without a last word of TLS. That cuts off nothing: HTTP has its own
                    // lengths.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => *is_client_gone = true,
                    Err(error) => return Poll::Ready(Err(error)),
                    Ok(()) => *is_client_gone = buffer.filled().len() == before && buffer.remaining() > 0,
                }
                Poll::Ready(Ok(()))
            }
        }
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => poll_write(&socket.stream, cx, || socket.stream.try_write(bytes)),
            Transport::Tls { stream, .. } => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    pub(super) fn poll_write_vectored(&mut self, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => poll_write(&socket.stream, cx, || socket.stream.try_write_vectored(parts)),
            Transport::Tls { stream, .. } => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls { stream, .. } => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Says that no more follows. TLS has a last word for that, but a client that has closed its socket answers it with a reset,
    /// and that would look as if it had not read its answer.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Tls { stream, is_client_gone: false } if !stream.socket().calls.is_unconfirmed() => {
                Pin::new(stream).poll_shutdown(cx)
            }
            Transport::Tls { stream, .. } => Poll::Ready(stream.socket().shutdown()),
            Transport::Plain(socket) => Poll::Ready(socket.shutdown()),
        }
    }
}

/// A socket that this connection alone reads and writes, while other tasks may wait for its end.
#[derive(Debug)]
pub(super) struct SharedSocket {
    stream: Arc<TcpStream>,
    calls: Arc<ConnectionCalls>,
}

impl SharedSocket {
    pub(super) fn new(stream: Arc<TcpStream>, calls: Arc<ConnectionCalls>) -> SharedSocket {
        SharedSocket { stream, calls }
    }

    pub(super) fn stream(&self) -> &Arc<TcpStream> {
        &self.stream
    }

    fn shutdown(&self) -> io::Result<()> {
        SockRef::from(&*self.stream).shutdown(Shutdown::Write)
    }

    fn poll_read_shared(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let SharedSocket { stream, calls } = self;
        // The task that watches for a disconnect may have consumed the readiness event.
        if calls.readiness_taken.swap(false, Ordering::Relaxed) {
            match (&*SockRef::from(&**stream)).read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    // More bytes may be waiting.
                    calls.readiness_taken.store(length > 0, Ordering::Relaxed);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match read_available(stream, buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncRead for SharedSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_read_shared(cx, buffer)
    }
}

impl AsyncWrite for SharedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        poll_write(&self.stream, cx, || self.stream.try_write(bytes))
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        poll_write(&self.stream, cx, || self.stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shutdown())
    }
}

/// Reads. A short read means that the socket is empty, so readiness is cleared and the next poll needs no extra system
/// call.
fn read_available(stream: &TcpStream, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
    let mut read = 0;
    let done = stream.try_io(Interest::READABLE, || {
        // This does not clear the buffer first.
        read = stream.try_read_buf(buffer)?;
        if read > 0 && buffer.remaining() > 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    if read > 0 { Ok(()) } else { done }
}

/// Writes to a shared socket. This connection is its only writer.
fn poll_write<T>(stream: &TcpStream, cx: &mut Context<'_>, write: impl Fn() -> io::Result<T>) -> Poll<io::Result<T>> {
    loop {
        ready!(stream.poll_write_ready(cx))?;
        match write() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return Poll::Ready(done),
        }
    }
}
