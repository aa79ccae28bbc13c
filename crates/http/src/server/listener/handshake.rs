//! TLS of a new connection: one handshake, within its limits.

use super::{
    context::ConnectionContext,
    timed_stream::lingering_close,
    transport::{SharedSocket, Transport},
};
use crate::{
    edge::metrics::{HANDSHAKE_TIMEOUT, HANDSHAKE_TOO_MANY},
    server::{connection_slots::SlotState, handshake_slots::HandshakeSlots},
};
use fairhold_trust::{
    client_port::{CertifiedUser, ClientConnection, ClientPortTls},
    fault::{FaultReason, TlsFault},
};
use fairhold_types::time::WallMillis;
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};

/// The first byte of every TLS connection: a record of its handshake.
const TLS_HANDSHAKE: u8 = 22;
/// How long a connection may go on after a certificate of it has expired.
const EXPIRED_GRACE: Duration = Duration::from_secs(3_600);

/// A connection with TLS.
pub(super) struct TlsConnection {
    pub(super) transport: Transport,
    /// The user that the client's certificate names.
    pub(super) user: Option<CertifiedUser>,
    /// When a certificate of the connection has expired for too long.
    pub(super) closes_at: Instant,
}

/// Why there is no TLS connection.
#[derive(Debug)]
enum HandshakeFailure {
    /// The client has closed the connection before it sent anything.
    Nothing,
    /// It speaks plain text.
    PlainText,
    /// It is too slow.
    TooSlow,
    /// Too many handshakes were running.
    NoSlot,
    /// TLS.
    Fault(TlsFault),
}

impl HandshakeFailure {
    /// What counters call it.
    fn label(&self) -> Option<&'static str> {
        match self {
            HandshakeFailure::Nothing => None,
            HandshakeFailure::PlainText => Some(FaultReason::NotTls.as_str()),
            HandshakeFailure::TooSlow => Some(HANDSHAKE_TIMEOUT),
            HandshakeFailure::NoSlot => Some(HANDSHAKE_TOO_MANY),
            HandshakeFailure::Fault(fault) => Some(fault.reason.as_str()),
        }
    }

    /// Whether the client left in the middle, for example because another node has answered it.
    fn is_departure(&self) -> bool {
        matches!(self, HandshakeFailure::Fault(fault) if fault.reason == FaultReason::ConnectionLost)
    }

    fn message(&self, limit: Duration) -> String {
        match self {
            HandshakeFailure::Nothing => "the client closed the connection".to_owned(),
            HandshakeFailure::PlainText => "the client speaks plain HTTP: it needs an https:// URL".to_owned(),
            HandshakeFailure::TooSlow => format!("it was not complete within {limit:?}"),
            HandshakeFailure::NoSlot => "too many other handshakes were running".to_owned(),
            HandshakeFailure::Fault(fault) => fault.to_string(),
        }
    }
}

/// Accepts TLS on a new connection. `None` if that fails: the connection is then answered, if it can be, and done.
pub(super) async fn accept(
    tls: &ClientPortTls,
    socket: SharedSocket,
    peer: SocketAddr,
    context: &ConnectionContext,
    slot_state: &SlotState,
) -> Option<TlsConnection> {
    let stream = Arc::clone(socket.stream());
    let accepted = tokio::select! {
        biased;
        () = context.handshakes.stopped() => return None,
        () = slot_state.given_up() => return None,
        accepted = handshake(tls, socket, peer, context) => accepted,
    };
    let failure = match accepted {
        Ok(connection) => {
            context.metrics.handshake(None);
            return Some(connection);
        }
        Err(failure) => failure,
    };
    if let Some(label) = failure.label() {
        context.metrics.handshake(Some(label));
        let message = failure.message(context.timeouts.handshake);
        if failure.is_departure() {
            tracing::debug!(%peer, "a TLS handshake failed: {message}");
        } else {
            context.handshake_log.failed(peer, &message);
        }
    }
    if let HandshakeFailure::PlainText = failure {
        answer_plain_text(&stream).await;
    }
    None
}

async fn handshake(
    tls: &ClientPortTls,
    socket: SharedSocket,
    peer: SocketAddr,
    context: &ConnectionContext,
) -> Result<TlsConnection, HandshakeFailure> {
    let limit = context.timeouts.handshake;
    let stream = Arc::clone(socket.stream());
    // A client that sends nothing takes no slot.
    let mut first = [0];
    match timeout(limit, stream.peek(&mut first)).await {
        Err(_) => return Err(HandshakeFailure::TooSlow),
        Ok(Err(_) | Ok(0)) => return Err(HandshakeFailure::Nothing),
        Ok(Ok(_)) if first[0] != TLS_HANDSHAKE => return Err(HandshakeFailure::PlainText),
        Ok(Ok(_)) => {}
    }
    let slot = timeout(context.timeouts.handshake_wait, HandshakeSlots::take(&context.handshakes, peer.ip())).await;
    let Ok(Some(_slot)) = slot else { return Err(HandshakeFailure::NoSlot) };
    match timeout(limit, tls.accept(socket)).await {
        Err(_) => Err(HandshakeFailure::TooSlow),
        Ok(Err(fault)) => Err(HandshakeFailure::Fault(fault)),
        Ok(Ok((stream, ClientConnection { user, not_after }))) => {
            Ok(TlsConnection { transport: Transport::tls(stream), user, closes_at: closes_at(not_after) })
        }
    }
}

fn closes_at(not_after: WallMillis) -> Instant {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::now() + Duration::from_millis(not_after.0).saturating_sub(now) + EXPIRED_GRACE
}

/// Tells a client without TLS where it is. The request stays unread.
async fn answer_plain_text(stream: &TcpStream) {
    let Ok(here) = stream.local_addr() else { return };
    let body = format!("this port speaks TLS: https://{here}\n");
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    match stream.try_write(answer.as_bytes()) {
        Ok(_) => lingering_close(stream).await,
        Err(error) => tracing::debug!(%error, "cannot answer a client that does not use TLS"),
    }
}
