//! A connection between nodes, with or without TLS, in two halves.

use fairhold_trust::{peer::PeerCertificate, stream::TlsStream};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// A connection before its handshake.
#[derive(Debug)]
pub(crate) struct PeerSocket {
    pub(crate) reader: ReadSocket,
    pub(crate) writer: WriteSocket,
    /// What TLS says about the other side; none without TLS.
    pub(crate) certificate: Option<Box<PeerCertificate>>,
}

/// The half that receives.
#[derive(Debug)]
pub(crate) enum ReadSocket {
    Plain(OwnedReadHalf),
    Tls(ReadHalf<TlsStream<TcpStream>>),
}

/// The half that sends. With TLS, written bytes may leave only at a flush.
#[derive(Debug)]
pub(crate) enum WriteSocket {
    Plain(OwnedWriteHalf),
    Tls(WriteHalf<TlsStream<TcpStream>>),
}

impl PeerSocket {
    /// A connection without TLS.
    pub(crate) fn plain(stream: TcpStream) -> PeerSocket {
        let (reader, writer) = stream.into_split();
        PeerSocket { reader: ReadSocket::Plain(reader), writer: WriteSocket::Plain(writer), certificate: None }
    }

    /// A connection with TLS, and the certificate of the other side.
    pub(crate) fn tls((stream, certificate): (TlsStream<TcpStream>, PeerCertificate)) -> PeerSocket {
        let (reader, writer) = tokio::io::split(stream);
        PeerSocket { reader: ReadSocket::Tls(reader), writer: WriteSocket::Tls(writer), certificate: Some(Box::new(certificate)) }
    }
}

impl AsyncRead for ReadSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ReadSocket::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            ReadSocket::Tls(socket) => Pin::new(socket).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for WriteSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            WriteSocket::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            WriteSocket::Tls(socket) => Pin::new(socket).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            WriteSocket::Plain(socket) => Pin::new(socket).poll_flush(cx),
            WriteSocket::Tls(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            WriteSocket::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            WriteSocket::Tls(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}
