//! Whether connections between nodes have TLS: never, where both sides have it, or always.
//!
//! With optional TLS, a dialler tries TLS first, and dials again in plain text if the connection ends before the other
//! side says anything: a node without TLS does that. An attacker on the path can do the same, so optional TLS is for the
//! way from plain text to TLS, and no protection. One case is noticed: a process does not change its mind, so if it has
//! had TLS before, a plain connection of the same process is refused.

use crate::{
    handshake_error::{DialError, HandshakeError},
    peer_socket::PeerSocket,
    socket::{self, CONNECT_TIMEOUT},
};
use fairhold_raft::peer::Introduction;
use fairhold_trust::{
    fault::{FaultReason, TlsFault},
    live_pair::LivePair,
    peer::{PeerTls, TLS_FIRST_BYTE},
};
use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::{collections::BTreeMap, io, sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// How the connections of a node are protected. Clones share what they know about other processes, so the client and
/// the server of a node need clones of one value.
#[derive(Debug, Clone)]
pub struct PeerSecurity {
    mode: Mode,
    /// The processes that have had a connection with TLS: the boot number of each node's last one.
    processes: Arc<Mutex<BTreeMap<NodeId, u64>>>,
}

#[derive(Debug, Clone)]
enum Mode {
    Plain,
    Optional(PeerTls),
    Required(PeerTls),
}

impl PeerSecurity {
    /// No connection has TLS.
    #[must_use]
    pub fn plain() -> PeerSecurity {
        PeerSecurity::new(Mode::Plain)
    }

    /// A connection has TLS if the other side can have it too.
    #[must_use]
    pub fn optional(tls: PeerTls) -> PeerSecurity {
        PeerSecurity::new(Mode::Optional(tls))
    }

    /// Every connection has TLS.
    #[must_use]
    pub fn required(tls: PeerTls) -> PeerSecurity {
        PeerSecurity::new(Mode::Required(tls))
    }

    fn new(mode: Mode) -> PeerSecurity {
        PeerSecurity { mode, processes: Arc::default() }
    }

    /// The certificate of this node, if it has TLS.
    #[must_use]
    pub fn pair(&self) -> Option<&Arc<LivePair>> {
        match &self.mode {
            Mode::Plain => None,
            Mode::Optional(tls) | Mode::Required(tls) => Some(tls.pair()),
        }
    }

    /// Dials an address. If the node's id is known, its certificate must name it.
    pub(crate) async fn dial(&self, address: &str, node: Option<NodeId>, within: Duration) -> Result<PeerSocket, DialError> {
        let stream = socket::connect(address, CONNECT_TIMEOUT.min(within)).await.map_err(DialError::Failed)?;
        self.secure(stream, address, node, within).await
    }

    /// The same with a connection to the address.
    pub(crate) async fn secure(
        &self,
        stream: TcpStream,
        address: &str,
        node: Option<NodeId>,
        within: Duration,
    ) -> Result<PeerSocket, DialError> {
        let failed = |error: io::Error| DialError::Failed(error.to_string());
        socket::configure(&stream).map_err(failed)?;
        let tls = match &self.mode {
            Mode::Plain => return Ok(PeerSocket::plain(stream)),
            Mode::Optional(tls) | Mode::Required(tls) => tls,
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let Ok(connected) = timeout(within, tls.connect(stream, host, node)).await else {
            return Err(DialError::Failed(HandshakeError::TimedOut(within).to_string()));
        };
        match connected {
            Ok(secured) => Ok(PeerSocket::tls(secured)),
            Err(fault) if self.may_be_plain(fault.reason) => {
                let stream = socket::connect(address, CONNECT_TIMEOUT.min(within)).await.map_err(DialError::Failed)?;
                socket::configure(&stream).map_err(failed)?;
                Ok(PeerSocket::plain(stream))
            }
            Err(fault) => Err(DialError::Tls(fault)),
        }
    }

    /// Whether a handshake may have failed because the other side has no TLS. A side with TLS sends an alert.
    fn may_be_plain(&self, reason: FaultReason) -> bool {
        matches!(self.mode, Mode::Optional(_)) && matches!(reason, FaultReason::ConnectionLost | FaultReason::NotTls)
    }

    /// Accepts a connection. The caller limits the time.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Result<PeerSocket, HandshakeError> {
        socket::configure(&stream)?;
        let first = first_byte(&stream).await?.ok_or(HandshakeError::Silent)?;
        match &self.mode {
            Mode::Plain => Ok(PeerSocket::plain(stream)),
            Mode::Optional(_) if first != TLS_FIRST_BYTE => Ok(PeerSocket::plain(stream)),
            Mode::Optional(tls) | Mode::Required(tls) => Ok(PeerSocket::tls(tls.accept(stream).await?)),
        }
    }

    /// Refuses a plain connection of a process that has had TLS before, and remembers the processes that have it. Call it
    /// for nodes that are admitted.
    pub(crate) fn check_process(&self, other: &Introduction, has_tls: bool) -> Result<(), HandshakeError> {
        // An older program does not tell its number.
        if !matches!(self.mode, Mode::Optional(_)) || other.boot == 0 {
            return Ok(());
        }
        let mut processes = self.processes.lock();
        if has_tls {
            processes.insert(other.id, other.boot);
            Ok(())
        } else if processes.get(&other.id) == Some(&other.boot) {
            Err(TlsFault::downgrade(other.id).into())
        } else {
            Ok(())
        }
    }
}

impl Default for PeerSecurity {
    fn default() -> Self {
        PeerSecurity::plain()
    }
}

/// The first byte, which stays where it is. Waits for it. `None` if the other side closes or resets the connection
/// before it sends one.
async fn first_byte(stream: &TcpStream) -> io::Result<Option<u8>> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(first[0])),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        Err(error) => Err(error),
    }
}
