//! A connection during its handshake: what each side sends, proves and receives.

use crate::{
    compat::IntroductionV3,
    frame::{Frame, FrameCodec, FrameKind, HANDSHAKE_BYTES_MAX},
    handshake_error::HandshakeError,
    key::{Keys, PROOF_BYTES, Proof, Side, Transcript},
    peer_socket::{PeerSocket, WriteSocket},
    reader::{FrameLimits, FrameReader},
};
use bytes::{Bytes, BytesMut};
use fairhold_raft::peer::{Introduction, KeyMismatch, Refusal, WIRE_VERSION, WIRE_VERSION_OLDEST};
use fairhold_trust::peer::{PeerCertificate, TLS_ALERT_BYTE, TLS_FIRST_BYTE};
use fairhold_types::{NodeId, time::WallMillis};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};
use tokio_util::codec::Encoder;

/// The first bytes of every connection, in both directions.
pub const MAGIC: [u8; 8] = *b"FAIRHOLD";

/// Magic and version.
pub const PREAMBLE_BYTES: usize = MAGIC.len() + 2;

/// The timeout of closing a refused connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection ends this long after the first of its certificates has expired, so that a renewed one takes over.
const EXPIRED_FOR: Duration = Duration::from_secs(3_600);

/// The codec's version byte of the values in the handshake.
const VALUE_VERSION: u8 = 1;

/// Both directions of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) reader: FrameReader,
    pub(crate) writer: WriteSocket,
    /// What TLS says about the other side; none without TLS.
    pub(crate) certificate: Option<Box<PeerCertificate>>,
}

impl Connection {
    pub(crate) fn has_tls(&self) -> bool {
        self.certificate.is_some()
    }

    /// Resolves when a certificate of the connection has been expired for `EXPIRED_FOR`. Without TLS, it never does.
    pub(crate) fn certificate_expired(&self) -> impl Future<Output = ()> + Send + use<> {
        let not_after = self.certificate.as_deref().map(PeerCertificate::not_after);
        async move {
            let Some(not_after) = not_after else { return std::future::pending().await };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            sleep(until_end(not_after, now)).await;
        }
    }
}

/// A handshake in progress.
#[derive(Debug)]
pub(crate) struct Exchange {
    connection: Connection,
    /// The wire version of the connection.
    version: u16,
    transcript: Transcript,
    keys: Arc<Keys>,
    side: Side,
}

/// A message from the peer.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: FrameKind,
    value: Bytes,
}

impl Message {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, HandshakeError> {
        unsealed(&self.value)
    }
}

impl Exchange {
    /// Begins in a dialler. `version` is the wire version that it offers.
    pub(crate) async fn dial(
        socket: PeerSocket,
        version: u16,
        keys: Arc<Keys>,
        frame_limits: &FrameLimits,
    ) -> Result<Self, HandshakeError> {
        let mut exchange = Exchange::new(socket, version, Side::Dialler, keys, frame_limits);
        exchange.write(&preamble(version)).await?;
        Ok(exchange)
    }

    /// The wire version of the connection.
    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    /// Receives the acceptor's preamble. The inner error: it speaks another version.
    pub(crate) async fn receive_version(&mut self) -> Result<Result<(), Refusal>, HandshakeError> {
        let theirs = self.receive_preamble().await?;
        Ok(if theirs == self.version { Ok(()) } else { Err(Refusal::Version { theirs, ours: self.version }) })
    }

    /// Begins in an acceptor, with the preambles. Without a common version, the inner error has its refusal.
    pub(crate) async fn accept(
        socket: PeerSocket,
        keys: Arc<Keys>,
        frame_limits: &FrameLimits,
    ) -> Result<(Self, Result<(), Refusal>), HandshakeError> {
        let mut exchange = Exchange::new(socket, WIRE_VERSION, Side::Acceptor, keys, frame_limits);
        // Only a node learns anything: this node sends its preamble only after it has received the magic.
        let theirs = exchange.receive_preamble().await?;
        let is_spoken = (WIRE_VERSION_OLDEST..=WIRE_VERSION).contains(&theirs);
        if is_spoken {
            exchange.version = theirs;
            exchange.transcript = Transcript::new(theirs);
        }
        exchange.write(&preamble(exchange.version)).await?;
        Ok((exchange, if is_spoken { Ok(()) } else { Err(Refusal::Version { theirs, ours: WIRE_VERSION }) }))
    }

    fn new(socket: PeerSocket, version: u16, side: Side, keys: Arc<Keys>, frame_limits: &FrameLimits) -> Self {
        let PeerSocket { reader, writer, certificate } = socket;
        let connection = Connection { reader: FrameReader::new(reader, frame_limits), writer, certificate };
        Exchange { connection, version, transcript: Transcript::new(version), keys, side }
    }

    /// Sends bytes that are not a frame.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        self.connection.writer.write_all(bytes).await?;
        Ok(self.connection.writer.flush().await?)
    }

    /// Receives the peer's preamble, and returns its version.
    async fn receive_preamble(&mut self) -> Result<u16, HandshakeError> {
        let mut bytes = [0; PREAMBLE_BYTES];
        let (first, rest) = bytes.split_at_mut(1);
        self.connection.reader.read_exact(first).await?;
        match first {
            [TLS_FIRST_BYTE] => return Err(HandshakeError::UsesTls),
            [TLS_ALERT_BYTE] => return Err(HandshakeError::NeedsTls),
            _ => self.connection.reader.read_exact(rest).await?,
        }
        let [magic @ .., low, high] = bytes;
        if magic == MAGIC { Ok(u16::from_le_bytes([low, high])) } else { Err(HandshakeError::NotANode) }
    }

    /// Checks that the other side's certificate names this node. Without TLS there is none.
    pub(crate) fn check_certificate(&self, node: NodeId) -> Result<(), HandshakeError> {
        Ok(self.connection.certificate.as_ref().map_or(Ok(()), |certificate| certificate.check_node(node))?)
    }

    /// Whether the connection has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.connection.has_tls()
    }

    /// Sends this node's introduction, with a proof that a member sent it.
    pub(crate) async fn send_introduction(&mut self, kind: FrameKind, own: &Introduction) -> Result<(), HandshakeError> {
        let frame = frame_with_introduction(kind, self.version, own, &mut self.transcript, &self.keys, self.side)?;
        self.send(frame).await
    }

    /// Reads the peer's introduction.
    pub(crate) fn read_introduction(&self, message: &Message) -> Result<Introduction, HandshakeError> {
        match self.version {
            WIRE_VERSION => message.read(),
            _ => message.read::<IntroductionV3>().map(Introduction::from),
        }
    }

    /// Sends a message without a proof.
    pub(crate) async fn send_without_proof(&mut self, kind: FrameKind, value: &impl Serialize) -> Result<(), HandshakeError> {
        let frame = frame_without_proof(kind, value, &mut self.transcript)?;
        self.send(frame).await
    }

    /// Sends a message with a proof that a member sent it.
    pub(crate) async fn send_with_proof(&mut self, kind: FrameKind, value: &impl Serialize) -> Result<(), HandshakeError> {
        let frame = frame_with_proof(kind, value, &mut self.transcript, &self.keys, self.side)?;
        self.send(frame).await
    }

    /// Refuses an unauthenticated peer. This refusal cannot have a proof.
    pub(crate) async fn refuse_key(&mut self, mismatch: KeyMismatch) -> Result<(), HandshakeError> {
        let value = sealed(&Refusal::Key(mismatch))?;
        self.send(Frame { kind: FrameKind::Refused, number: 0, payload: [&[0; PROOF_BYTES][..], &value].concat().into() }).await
    }

    /// Receives a message without a proof.
    pub(crate) async fn receive(&mut self, kind: FrameKind) -> Result<Message, HandshakeError> {
        let frame = self.read_frame().await?;
        if frame.kind != kind {
            return Err(crate::frame::FrameError::UnexpectedKind(frame.kind).into());
        }
        self.transcript.add(kind, &frame.payload);
        Ok(Message { kind, value: frame.payload })
    }

    /// Receives a message with a proof. The inner error: the peer is not a member, has another key, or says that this
    /// node has another key.
    pub(crate) async fn receive_with_proof(&mut self) -> Result<Result<Message, KeyMismatch>, HandshakeError> {
        let frame = self.read_frame().await?;
        let mut payload = frame.payload;
        let Some(proof) = payload.first_chunk::<PROOF_BYTES>().copied() else {
            return Err(HandshakeError::MissingProof);
        };
        let value = payload.split_off(PROOF_BYTES);
        self.transcript.add(frame.kind, &value);
        let by = self.side.other();
        if self.keys.verify(&proof, by, &self.transcript) {
            return Ok(Ok(Message { kind: frame.kind, value }));
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
        } else if Keys::is_keyless(proof, by, &self.transcript) {
            has_none(by)
        } else {
            KeyMismatch::Differ
        }
    }

    /// Ends the handshake: requests may follow.
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

    /// Closes a connection so that the last message arrives. A socket closed with unread bytes sends a reset, which can
    /// overtake the message. The wait for a peer that continues to send, or does not close, is short.
    pub(crate) async fn close_gracefully(mut self) -> Result<(), HandshakeError> {
        self.connection.writer.shutdown().await?;
        let mut rest = self.connection.reader.into_socket().take(HANDSHAKE_BYTES_MAX as u64);
        match timeout(CLOSE_TIMEOUT, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await {
            Ok(Ok(_)) | Err(_) => Ok(()),
            // The peer has read the message and closed, with TLS possibly without saying so.
            Ok(Err(error)) if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
        }
    }
}

/// How long a connection may last whose first certificate expires then. `now` is the time since 1970.
fn until_end(not_after: WallMillis, now: Duration) -> Duration {
    Duration::from_millis(not_after.0).saturating_add(EXPIRED_FOR).saturating_sub(now)
}

/// The first bytes of a connection of this wire version.
#[must_use]
pub fn preamble(version: u16) -> [u8; PREAMBLE_BYTES] {
    let [low, high] = version.to_le_bytes();
    let [a, b, c, d, e, f, g, h] = MAGIC;
    [a, b, c, d, e, f, g, h, low, high]
}

/// Makes a frame without a proof, and adds it to the transcript.
pub(crate) fn frame_without_proof(
    kind: FrameKind,
    value: &impl Serialize,
    transcript: &mut Transcript,
) -> Result<Frame, HandshakeError> {
    let payload = sealed(value)?;
    transcript.add(kind, &payload);
    Ok(Frame { kind, number: 0, payload })
}

/// Makes a frame with a proof, and adds its value to the transcript.
pub(crate) fn frame_with_proof(
    kind: FrameKind,
    value: &impl Serialize,
    transcript: &mut Transcript,
    keys: &Keys,
    side: Side,
) -> Result<Frame, HandshakeError> {
    let value = sealed(value)?;
    transcript.add(kind, &value);
    let proof = keys.own().prove(side, transcript);
    Ok(Frame { kind, number: 0, payload: [&proof[..], &value].concat().into() })
}

/// Makes a frame with this node's introduction, in the form of the wire version.
pub(crate) fn frame_with_introduction(
    kind: FrameKind,
    version: u16,
    own: &Introduction,
    transcript: &mut Transcript,
    keys: &Keys,
    side: Side,
) -> Result<Frame, HandshakeError> {
    match version {
        WIRE_VERSION => frame_with_proof(kind, own, transcript, keys, side),
        _ => frame_with_proof(kind, &IntroductionV3::from(own), transcript, keys, side),
    }
}

fn sealed(value: &impl Serialize) -> Result<Bytes, HandshakeError> {
    Ok(fairhold_codec::encode(VALUE_VERSION, value)?.into())
}

pub(crate) fn unsealed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, HandshakeError> {
    Ok(fairhold_codec::decode(VALUE_VERSION, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_ends_an_hour_after_its_first_certificate() {
        let at = Duration::from_secs;
        assert_eq!(until_end(WallMillis(10_000_000), at(10_000)), EXPIRED_FOR);
        assert_eq!(until_end(WallMillis(10_000_000), at(10_000) + EXPIRED_FOR + at(1)), Duration::ZERO);
        assert_eq!(until_end(WallMillis(20_000_000), at(10_000)), EXPIRED_FOR + at(10_000));
    }
}
