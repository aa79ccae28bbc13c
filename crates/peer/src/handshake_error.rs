//! Why a handshake failed.

use crate::frame::FrameError;
use fairhold_codec::{DecodeError, EncodeError};
use fairhold_types::NodeId;
use std::{io, time::Duration};

/// Why a handshake failed, apart from a refusal.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The peer is not a Fairhold node.
    #[error("the other side is not a fairhold node, or this is not its peer port")]
    NotANode,
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
    Frame(#[from] FrameError),
    /// A frame has the wrong content.
    #[error("the message cannot be decoded: {0}")]
    Unreadable(#[from] DecodeError),
    /// This node's own message cannot be encoded.
    #[error("this node's message cannot be sent: {0}")]
    Unwritable(#[from] EncodeError),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match error.kind() == io::ErrorKind::UnexpectedEof {
            true => HandshakeError::Closed,
            false => HandshakeError::Frame(FrameError::Io(error)),
        }
    }
}
