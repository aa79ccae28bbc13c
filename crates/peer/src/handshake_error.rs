//! Why a dial or a handshake failed.

use crate::frame::FrameError;
use fairhold_codec::{DecodeError, EncodeError};
use fairhold_raft::peer::{PeerError, Refusal, Target};
use fairhold_trust::fault::{FaultReason, TlsFault};
use fairhold_types::NodeId;
use std::{io, time::Duration};

/// Why a handshake failed, apart from a refusal.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The peer is not a Fairhold node.
    #[error("the other side is not a fairhold node, or this is not its peer port")]
    NotANode,
    /// The peer dials with TLS, which this node does not have.
    #[error(
        "the other side dials with TLS, which this node does not have. With --peer-tls optional, it then dials in plain text; \
         with required, this node needs --peer-tls too"
    )]
    UsesTls,
    /// The peer answers with a TLS alert: it accepts only TLS.
    #[error("the other side requires TLS: start this node with --peer-tls optional or required")]
    NeedsTls,
    /// TLS failed, or the certificate of the peer does not fit.
    #[error("{0}")]
    Tls(TlsFault),
    /// The peer closed the connection before it sent anything, as a health check does.
    #[error("the other side closed the connection before it sent anything")]
    Silent,
    /// The peer closed the connection.
    #[error("the other side closed the connection during the handshake")]
    Closed,
    /// The handshake took too long.
    #[error("the handshake was not complete within {0:?}")]
    TimedOut(Duration),
    /// A message that requires a proof has none.
    #[error("the other side sent a message without a proof")]
    MissingProof,
    /// The peer gave another node id in its introduction than in its hello.
    #[error("the other side gave two node ids: first {first}, then {introduced}")]
    IdChanged {
        /// The id in its hello.
        first: NodeId,
        /// The id in its introduction.
        introduced: NodeId,
    },
    /// The peer wants to join over a connection of an older wire version.
    #[error("the other side wants to join, which is not possible with peer protocol {version}")]
    JoinTooOld {
        /// The wire version of the connection.
        version: u16,
    },
    /// A frame is invalid.
    #[error("{0}")]
    Frame(FrameError),
    /// A frame has the wrong content.
    #[error("the message cannot be decoded: {0}")]
    Unreadable(#[from] DecodeError),
    /// This node's own message cannot be encoded.
    #[error("this node's message cannot be sent: {0}")]
    Unwritable(#[from] EncodeError),
}

impl From<TlsFault> for HandshakeError {
    fn from(fault: TlsFault) -> Self {
        HandshakeError::Tls(fault)
    }
}

impl From<FrameError> for HandshakeError {
    fn from(error: FrameError) -> Self {
        if let FrameError::Io(error) = error { error.into() } else { HandshakeError::Frame(error) }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        // With TLS 1.3, a dialler learns here that the other side has refused its certificate.
        if let Some(fault) = TlsFault::of_connection(&error) {
            return HandshakeError::Tls(fault);
        }
        match error.kind() == io::ErrorKind::UnexpectedEof {
            true => HandshakeError::Closed,
            false => HandshakeError::Frame(FrameError::Io(error)),
        }
    }
}

/// Why a dial failed.
#[derive(Debug)]
pub(crate) enum DialError {
    /// One of the two nodes refuses the other.
    Refused(Refusal),
    /// TLS failed, or a certificate does not fit.
    Tls(TlsFault),
    /// There is no connection, or the handshake failed.
    Failed(String),
}

impl DialError {
    /// The same for the caller of the transport.
    pub(crate) fn to_peer_error(&self, to: &Target) -> PeerError {
        let unreachable =
            |reason: &dyn std::fmt::Display| PeerError::Unreachable(format!("node {} at {}: {reason}", to.id, to.address));
        match self {
            DialError::Refused(refusal) => PeerError::Refused(refusal.clone()),
            DialError::Tls(fault) => unreachable(fault),
            DialError::Failed(reason) => unreachable(reason),
        }
    }

    /// Whether only an operator can change it. A lost connection passes, and so does a downgrade: the next dial has TLS.
    pub(crate) fn is_lasting(fault: &TlsFault) -> bool {
        !matches!(fault.reason, FaultReason::ConnectionLost | FaultReason::Downgrade)
    }
}

impl From<HandshakeError> for DialError {
    fn from(error: HandshakeError) -> Self {
        if let HandshakeError::Tls(fault) = error { DialError::Tls(fault) } else { DialError::Failed(error.to_string()) }
    }
}
