//! A connection during its handshake: what each side sends, proves and receives.

use crate::{
    frame::{Frame, FrameCodec, FrameKind, HANDSHAKE_BYTES_MAX},
    handshake_error::HandshakeError,
    key::{Keys, PROOF_BYTES, Proof, Side, Transcript},
    reader::{Arrivals, FrameReader},
};
use bytes::{Bytes, BytesMut};
use fairhold_raft::peer::{KeyMismatch, Refusal, WIRE_VERSION};
use serde::{Serialize, de::DeserializeOwned};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedWriteHalf},
    time::timeout,
};
use tokio_util::codec::Encoder;

/// What every connection begins with, in both directions.
pub const MAGIC: [u8; 8] = *b"FAIRHOLD";

/// Magic and version.
pub const PREAMBLE_BYTES: usize = MAGIC.len() + 2;

/// How long the end of a connection whose peer is refused may take.
const PARTING_MAX: Duration = Duration::from_secs(1);

/// The codec's version byte of the values in the handshake.
const VALUE_VERSION: u8 = 1;

/// Both directions of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) reader: FrameReader,
    pub(crate) writer: OwnedWriteHalf,
}

/// A handshake under way.
#[derive(Debug)]
pub(crate) struct Meeting {
    connection: Connection,
    transcript: Transcript,
    keys: Arc<Keys>,
    side: Side,
}

/// What the other side said.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) kind: FrameKind,
    value: Bytes,
}

impl Greeting {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, HandshakeError> {
        unsealed(&self.value)
    }
}

impl Meeting {
    pub(crate) fn new(stream: TcpStream, side: Side, keys: Arc<Keys>, arrivals: &Arrivals) -> io::Result<Self> {
        crate::socket::configure(&stream)?;
        let (reader, writer) = stream.into_split();
        let connection = Connection { reader: FrameReader::new(reader, arrivals), writer };
        Ok(Meeting { connection, transcript: Transcript::new(), keys, side })
    }

    /// Sends bytes that are no frame.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        Ok(self.connection.writer.write_all(bytes).await?)
    }

    /// The inner error refuses another version.
    pub(crate) async fn hear_preamble(&mut self) -> Result<Result<(), Refusal>, HandshakeError> {
        let mut bytes = [0; PREAMBLE_BYTES];
        self.connection.reader.read_exact(&mut bytes).await?;
        let [magic @ .., low, high] = bytes;
        if magic != MAGIC {
            return Err(HandshakeError::Stranger);
        }
        match u16::from_le_bytes([low, high]) {
            WIRE_VERSION => Ok(Ok(())),
            theirs => Ok(Err(Refusal::Version { theirs, ours: WIRE_VERSION })),
        }
    }

    /// Says something before anything is proved.
    pub(crate) async fn say(&mut self, kind: FrameKind, value: &impl Serialize) -> Result<(), HandshakeError> {
        let frame = said(kind, value, &mut self.transcript)?;
        self.send(frame).await
    }

    /// Says something, and proves that a member says it.
    pub(crate) async fn prove(&mut self, kind: FrameKind, value: &impl Serialize) -> Result<(), HandshakeError> {
        let frame = proved(kind, value, &mut self.transcript, &self.keys, self.side)?;
        self.send(frame).await
    }

    /// Refuses a side that has proved nothing. This refusal cannot have a proof.
    pub(crate) async fn refuse_key(&mut self, mismatch: KeyMismatch) -> Result<(), HandshakeError> {
        let value = sealed(&Refusal::Key(mismatch))?;
        self.send(Frame { kind: FrameKind::Refused, number: 0, payload: [&[0; PROOF_BYTES][..], &value].concat().into() }).await
    }

    /// Hears what is said before anything is proved.
    pub(crate) async fn hear(&mut self, kind: FrameKind) -> Result<Greeting, HandshakeError> {
        let frame = self.read_frame().await?;
        if frame.kind != kind {
            return Err(crate::frame::FrameError::UnexpectedKind(frame.kind).into());
        }
        self.transcript.note(kind, &frame.payload);
        Ok(Greeting { kind, value: frame.payload })
    }

    /// Hears what a member says. The inner error: it is none, or has another key, or says that this node has.
    pub(crate) async fn hear_proved(&mut self) -> Result<Result<Greeting, KeyMismatch>, HandshakeError> {
        let frame = self.read_frame().await?;
        let mut payload = frame.payload;
        let Some(proof) = payload.first_chunk::<PROOF_BYTES>().copied() else {
            return Err(HandshakeError::Unproved);
        };
        let value = payload.split_off(PROOF_BYTES);
        self.transcript.note(frame.kind, &value);
        let by = self.side.other();
        if self.keys.verify(&proof, by, &self.transcript) {
            return Ok(Ok(Greeting { kind: frame.kind, value }));
        }
        // A node with another key cannot prove this refusal.
        if frame.kind == FrameKind::Refused
            && let Ok(Refusal::Key(mismatch)) = unsealed(&value)
        {
            return Ok(Err(mismatch));
        }
        Ok(Err(self.mismatch(&proof, by)))
    }

    fn mismatch(&self, proof: &Proof, by: Side) -> KeyMismatch {
        let has_none = |side: Side| match side {
            Side::Dialler => KeyMismatch::DiallerHasNone,
            Side::Acceptor => KeyMismatch::AcceptorHasNone,
        };
        if self.keys.is_none() {
            has_none(self.side)
        } else if Keys::is_of_none(proof, by, &self.transcript) {
            has_none(by)
        } else {
            KeyMismatch::Differ
        }
    }

    /// The handshake is over, and both may speak.
    pub(crate) fn admit(mut self) -> Connection {
        self.connection.reader.admit();
        self.connection
    }

    async fn read_frame(&mut self) -> Result<Frame, HandshakeError> {
        self.connection.reader.next().await?.ok_or(HandshakeError::Closed)
    }

    async fn send(&mut self, frame: Frame) -> Result<(), HandshakeError> {
        let mut bytes = BytesMut::new();
        FrameCodec::for_handshake().encode(frame, &mut bytes)?;
        self.write(&bytes).await
    }

    /// Ends a connection so that the last message arrives: a socket that is closed with unread bytes in it sends a reset, which
    /// can overtake them. A peer that goes on sending, or does not hang up, is not waited for long.
    pub(crate) async fn part(mut self) -> Result<(), HandshakeError> {
        self.connection.writer.shutdown().await?;
        let mut rest = self.connection.reader.into_socket().take(HANDSHAKE_BYTES_MAX as u64);
        match timeout(PARTING_MAX, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await {
            Ok(Ok(_)) | Err(_) => Ok(()),
            // The other side has read what it wanted and hung up.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            Ok(Err(error)) => Err(error.into()),
        }
    }
}

/// A frame by which nothing is proved, and which is noted.
pub(crate) fn said(kind: FrameKind, value: &impl Serialize, transcript: &mut Transcript) -> Result<Frame, HandshakeError> {
    let payload = sealed(value)?;
    transcript.note(kind, &payload);
    Ok(Frame { kind, number: 0, payload })
}

/// A frame by which its sender proves itself, after it was noted.
pub(crate) fn proved(
    kind: FrameKind,
    value: &impl Serialize,
    transcript: &mut Transcript,
    keys: &Keys,
    side: Side,
) -> Result<Frame, HandshakeError> {
    let value = sealed(value)?;
    transcript.note(kind, &value);
    let proof = keys.own().prove(side, transcript);
    Ok(Frame { kind, number: 0, payload: [&proof[..], &value].concat().into() })
}

fn sealed(value: &impl Serialize) -> Result<Bytes, HandshakeError> {
    Ok(fairhold_codec::encode(VALUE_VERSION, value)?.into())
}

pub(crate) fn unsealed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, HandshakeError> {
    Ok(fairhold_codec::decode(VALUE_VERSION, bytes)?)
}
