//! A socket with TLS.

use rustls::CommonState;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsStream as RustlsStream, client, server};

/// A socket with TLS.
#[derive(Debug)]
pub struct TlsStream<S>(Box<RustlsStream<S>>);

impl<S> TlsStream<S> {
    pub(crate) fn from_accepted(stream: server::TlsStream<S>) -> Self {
        TlsStream(Box::new(RustlsStream::Server(stream)))
    }

    pub(crate) fn from_dialled(stream: client::TlsStream<S>) -> Self {
        TlsStream(Box::new(RustlsStream::Client(stream)))
    }

    /// The socket below.
    #[must_use]
    pub fn socket(&self) -> &S {
        self.0.get_ref().0
    }

    /// The version and the key exchange, such as `TLSv1_3 with X25519MLKEM768`, for people.
    #[must_use]
    pub fn description(&self) -> String {
        let state: &CommonState = self.0.get_ref().1;
        let version = state.protocol_version().map_or_else(|| "unknown".to_owned(), |version| format!("{version:?}"));
        let group =
            state.negotiated_key_exchange_group().map_or_else(|| "none".to_owned(), |group| format!("{:?}", group.name()));
        format!("{version} with {group}")
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.get_mut().0).poll_write(cx, buf)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.get_mut().0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_shutdown(cx)
    }
}
