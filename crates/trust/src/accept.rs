//! The accepting side of a handshake. If it refuses the other side, that side gets the alert that says why.

use rustls::ServerConfig;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy, sink},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// How long a refused side may take to close its connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The most bytes that are read from a refused side.
const CLOSE_BYTES_MAX: u64 = 64 * 1024;

/// Accepts TLS. The caller limits the time.
pub(crate) async fn accept<S>(config: Arc<ServerConfig>, socket: S) -> io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match TlsAcceptor::from(config).accept(socket).into_fallible().await {
        Ok(stream) => Ok(stream),
        Err((error, socket)) => {
            close_after_alert(socket).await;
            Err(error)
        }
    }
}

/// Closes a socket whose last bytes are an alert. A socket that is closed with unread bytes sends a reset, which can
/// overtake the alert. A side that does not close is not waited for.
async fn close_after_alert<S: AsyncRead + AsyncWrite + Unpin>(mut socket: S) {
    let closing = async {
        socket.shutdown().await?;
        copy(&mut (&mut socket).take(CLOSE_BYTES_MAX), &mut sink()).await
    };
    // Whether the other side got the alert is its own concern.
    drop(timeout(CLOSE_TIMEOUT, closing).await);
}
