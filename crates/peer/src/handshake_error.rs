//! Why a handshake came to nothing.

use crate::frame::FrameError;
use fairhold_codec::{DecodeError, EncodeError};
use fairhold_types::NodeId;
use std::{io, time::Duration};

/// Why a handshake came to nothing, other than by a refusal.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// Not a node at all.
    #[error("the other side is not a fairhold node, or this is not its peer port")]
    Stranger,
    /// It ended the connection.
    #[error("the other side closed the connection during the handshake")]
    Closed,
    /// It took too long.
    #[error("the handshake was not complete within {0:?}")]
    TimedOut(Duration),
    /// Its sender should have proved itself, but sent no proof.
    #[error("the other side sent a message without a proof")]
    Unproved,
    /// It introduced itself with another id than in its hello.
    #[error("the other side gave two node ids: first {began}, then {introduced}")]
    TwoNames {
        /// In its hello.
        began: NodeId,
        /// In its introduction.
        introduced: NodeId,
    },
    /// A frame that is none.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A frame with something else in it.
    #[error("the introduction cannot be decoded: {0}")]
    Unreadable(#[from] DecodeError),
    /// This node's own introduction cannot be written.
    #[error("this node's introduction cannot be sent: {0}")]
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
