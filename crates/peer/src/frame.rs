//! The frames of a connection, after both sides have sent their preambles.
//!
//! ```text
//! length of what follows (u32) │ kind (u8) │ number (u64) │ payload │ CRC-32 of all before it (u32)
//! ```
//!
//! All numbers are little endian. A length is checked before any memory is allocated for it.

use bytes::{BufMut, Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio_util::codec::{Decoder, Encoder};

/// Bytes of the length field.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Bytes of kind and number.
const HEAD_BYTES: usize = 1 + 8;

/// Bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;

/// The part of the length that is not payload.
pub const FRAME_OVERHEAD: usize = HEAD_BYTES + CHECKSUM_BYTES;

/// The largest payload: everything that the codec can write fits.
pub const PAYLOAD_BYTES_MAX: usize = fairhold_codec::BYTES_MAX;

/// The largest frame from an admitted node.
pub const FRAME_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + FRAME_OVERHEAD;

/// The largest frame before admission: an unauthenticated connection cannot make this node allocate much.
pub const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// Frames are batched up to about this many bytes and then written together.
pub(crate) const WRITE_BYTES: usize = 64 * 1024;

/// A write buffer larger than this is freed after the large frame that grew it.
const WRITE_BYTES_KEPT_MAX: usize = 1024 * 1024;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// The dialler's hello.
    Hello,
    /// The acceptor's proof and introduction, after the dialler's proof.
    Welcome,
    /// The acceptor's refusal.
    Refused,
    /// A request, from the dialler.
    Request,
    /// The answer to the request of the same number.
    Answer,
    /// The acceptor's challenge for the dialler's proof.
    Challenge,
    /// The dialler's proof.
    Proof,
    /// The dialler's introduction.
    Introduction,
    /// The acceptor admits the dialler.
    Admitted,
    /// The dialler wants to join the acceptor's cluster.
    Join,
    /// The cluster's decision on the join.
    Joined,
}

impl FrameKind {
    pub(crate) fn byte(self) -> u8 {
        match self {
            FrameKind::Hello => 1,
            FrameKind::Welcome => 2,
            FrameKind::Refused => 3,
            FrameKind::Request => 4,
            FrameKind::Answer => 5,
            FrameKind::Challenge => 6,
            FrameKind::Proof => 7,
            FrameKind::Introduction => 8,
            FrameKind::Admitted => 9,
            FrameKind::Join => 10,
            FrameKind::Joined => 11,
        }
    }

    fn from_byte(byte: u8) -> Result<Self, FrameError> {
        match byte {
            1 => Ok(FrameKind::Hello),
            2 => Ok(FrameKind::Welcome),
            3 => Ok(FrameKind::Refused),
            4 => Ok(FrameKind::Request),
            5 => Ok(FrameKind::Answer),
            6 => Ok(FrameKind::Challenge),
            7 => Ok(FrameKind::Proof),
            8 => Ok(FrameKind::Introduction),
            9 => Ok(FrameKind::Admitted),
            10 => Ok(FrameKind::Join),
            11 => Ok(FrameKind::Joined),
            unknown => Err(FrameError::UnknownKind(unknown)),
        }
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its kind.
    pub kind: FrameKind,
    /// The number of the request, or of the request that it answers; 0 in the handshake.
    pub number: u64,
    /// Its payload.
    pub payload: Bytes,
}

/// An error that closes the connection.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The frame is too short.
    #[error("a frame has {length} bytes, fewer than {FRAME_OVERHEAD}")]
    TooShort {
        /// The announced length.
        length: usize,
    },
    /// The frame is too long.
    #[error("a frame has {length} bytes, more than {max}")]
    TooLarge {
        /// The announced length.
        length: usize,
        /// The allowed length.
        max: usize,
    },
    /// The bytes were corrupted.
    #[error("a frame has the wrong checksum: {found:08x} instead of {expected:08x}")]
    Checksum {
        /// The checksum in the frame.
        expected: u32,
        /// The checksum of its bytes.
        found: u32,
    },
    /// The kind of the frame is unknown to this version.
    #[error("a frame has the unknown kind {0}")]
    UnknownKind(u8),
    /// The frame is out of order in the protocol.
    #[error("a frame of kind {0:?} is not expected here")]
    UnexpectedKind(FrameKind),
    /// The answer belongs to no pending request.
    #[error("an answer to request {0}, which is not waiting for an answer")]
    UnexpectedAnswer(u64),
    /// A certificate of the connection expired some time ago.
    #[error("a certificate of the connection has expired: the next connection uses the renewed one")]
    CertificateExpired,
    /// The frame did not arrive in time.
    #[error("a frame was not complete within {within:?}")]
    TooSlow {
        /// The time limit.
        within: std::time::Duration,
    },
    /// Incomplete frames of all connections have used up their memory budget.
    #[error("no memory for a frame: incomplete frames already take {max} bytes")]
    OverBudget {
        /// The budget, in bytes.
        max: usize,
    },
    /// The connection ended inside a frame.
    #[error("the connection ended inside a frame, after {length} bytes")]
    Truncated {
        /// How many bytes arrived.
        length: usize,
    },
}

/// Encodes and decodes frames.
#[derive(Debug)]
pub struct FrameCodec {
    length_max: usize,
}

impl FrameCodec {
    /// A codec for a connection whose peer is not yet admitted.
    #[must_use]
    pub fn for_handshake() -> Self {
        FrameCodec { length_max: HANDSHAKE_BYTES_MAX }
    }

    /// The peer was admitted: from now on, frames may be large.
    pub fn admit(&mut self) {
        self.length_max = FRAME_BYTES_MAX;
    }

    fn check(&self, length: usize) -> Result<(), FrameError> {
        if length < FRAME_OVERHEAD {
            return Err(FrameError::TooShort { length });
        }
        if length > self.length_max {
            return Err(FrameError::TooLarge { length, max: self.length_max });
        }
        Ok(())
    }
}

impl Encoder<Frame> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, frame: Frame, bytes: &mut BytesMut) -> Result<(), FrameError> {
        let length = FRAME_OVERHEAD + frame.payload.len();
        self.check(length)?;
        let length_field = u32::try_from(length).map_err(|_| FrameError::TooLarge { length, max: self.length_max })?;
        let start = bytes.len();
        bytes.reserve(LENGTH_BYTES + length);
        bytes.put_u32_le(length_field);
        bytes.put_u8(frame.kind.byte());
        bytes.put_u64_le(frame.number);
        bytes.put_slice(&frame.payload);
        let checksum = fairhold_codec::checksum(&bytes[start..]);
        bytes.put_u32_le(checksum);
        Ok(())
    }
}

impl Decoder for FrameCodec {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(length_field) = bytes.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length_field) as usize;
        self.check(length)?;
        let whole = LENGTH_BYTES + length;
        if bytes.len() < whole {
            // Reserves at most as many bytes as have arrived, or one write: an announced length alone must not cost
            // memory.
            bytes.reserve((whole - bytes.len()).min(bytes.len().max(WRITE_BYTES)));
            return Ok(None);
        }
        parse(bytes.split_to(whole).freeze()).map(Some)
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        match self.decode(bytes)? {
            Some(frame) => Ok(Some(frame)),
            None if bytes.is_empty() => Ok(None),
            None => Err(FrameError::Truncated { length: bytes.len() }),
        }
    }
}

/// Parses a complete frame without copying its payload.
fn parse(bytes: Bytes) -> Result<Frame, FrameError> {
    let truncated = || FrameError::Truncated { length: bytes.len() };
    let (covered, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(truncated)?;
    let expected = u32::from_le_bytes(*checksum);
    let found = fairhold_codec::checksum(covered);
    if expected != found {
        return Err(FrameError::Checksum { expected, found });
    }
    let (kind, rest) = covered.get(LENGTH_BYTES..).and_then(<[u8]>::split_first).ok_or_else(truncated)?;
    let number = rest.first_chunk::<8>().ok_or_else(truncated)?;
    Ok(Frame {
        kind: FrameKind::from_byte(*kind)?,
        number: u64::from_le_bytes(*number),
        payload: bytes.slice(LENGTH_BYTES + HEAD_BYTES..bytes.len() - CHECKSUM_BYTES),
    })
}

/// A batch of frames to be written together.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    codec: FrameCodec,
    bytes: BytesMut,
}

impl WriteBuffer {
    /// A batch for frames to an admitted node.
    pub(crate) fn new() -> Self {
        let mut codec = FrameCodec::for_handshake();
        codec.admit();
        WriteBuffer { codec, bytes: BytesMut::new() }
    }

    pub(crate) fn push(&mut self, frame: Frame) -> Result<(), FrameError> {
        self.codec.encode(frame, &mut self.bytes)
    }

    /// Whether the batch is large enough to be written before more is added.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= WRITE_BYTES
    }

    /// Writes the whole batch.
    pub(crate) async fn write_to(&mut self, socket: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        socket.write_all(&self.bytes).await?;
        socket.flush().await?;
        if self.bytes.capacity() > WRITE_BYTES_KEPT_MAX {
            self.bytes = BytesMut::new();
        } else {
            self.bytes.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Frame {
        Frame { kind: FrameKind::Request, number: 7, payload: Bytes::from_static(b"printer") }
    }

    fn written(frame: Frame) -> BytesMut {
        let mut bytes = BytesMut::new();
        WriteBuffer::new().codec.encode(frame, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn encoded_frames_decode_to_the_same_frames() {
        let mut bytes = written(request());
        bytes.extend_from_slice(&written(Frame { kind: FrameKind::Answer, number: u64::MAX, payload: Bytes::new() }));
        let mut codec = FrameCodec::for_handshake();
        assert_eq!(codec.decode(&mut bytes).unwrap(), Some(request()));
        let second = codec.decode(&mut bytes).unwrap().unwrap();
        assert_eq!((second.kind, second.number, second.payload.len()), (FrameKind::Answer, u64::MAX, 0));
        assert_eq!(codec.decode_eof(&mut bytes).unwrap(), None);
    }

    #[test]
    fn a_frame_that_arrives_byte_by_byte_decodes_once_complete() {
        let (mut codec, mut bytes) = (FrameCodec::for_handshake(), BytesMut::new());
        let whole = written(request());
        for byte in &whole[..whole.len() - 1] {
            bytes.put_u8(*byte);
            assert_eq!(codec.decode(&mut bytes).unwrap(), None);
        }
        bytes.put_u8(whole[whole.len() - 1]);
        assert_eq!(codec.decode(&mut bytes).unwrap(), Some(request()));
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let whole = written(request());
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(FrameCodec::for_handshake().decode_eof(&mut flipped).is_err(), "bit {bit} was not detected");
        }
    }

    #[test]
    fn every_truncation_is_detected() {
        let whole = written(request());
        for length in 1..whole.len() {
            let error = FrameCodec::for_handshake().decode_eof(&mut BytesMut::from(&whole[..length])).unwrap_err();
            assert!(matches!(error, FrameError::Truncated { .. }), "{length} bytes: {error}");
        }
    }

    #[test]
    fn a_huge_length_is_refused_before_any_allocation() {
        let mut admitted = FrameCodec::for_handshake();
        admitted.admit();
        for (mut codec, length_max) in [(FrameCodec::for_handshake(), HANDSHAKE_BYTES_MAX), (admitted, FRAME_BYTES_MAX)] {
            let announce = |length: usize| BytesMut::from(&u32::try_from(length).unwrap().to_le_bytes()[..]);
            let mut just_allowed = announce(length_max);
            assert_eq!(codec.decode(&mut just_allowed).unwrap(), None);
            for length in [length_max + 1, u32::MAX as usize] {
                let mut bytes = announce(length);
                let error = codec.decode(&mut bytes).unwrap_err();
                assert!(matches!(error, FrameError::TooLarge { .. }), "{length}: {error}");
                assert!(bytes.capacity() < 1024, "{} bytes were allocated", bytes.capacity());
            }
        }
    }

    #[test]
    fn a_length_too_short_for_a_frame_is_refused() {
        for length in 0..u32::try_from(FRAME_OVERHEAD).unwrap() {
            let error = FrameCodec::for_handshake().decode(&mut BytesMut::from(&length.to_le_bytes()[..])).unwrap_err();
            assert!(matches!(error, FrameError::TooShort { .. }), "{length}: {error}");
        }
    }

    #[test]
    fn an_unknown_kind_with_a_valid_checksum_is_refused() {
        for kind in (0..=u8::MAX).filter(|kind| !(1..=11).contains(kind)) {
            let mut bytes = written(request());
            bytes[LENGTH_BYTES] = kind;
            let end = bytes.len() - CHECKSUM_BYTES;
            let checksum = fairhold_codec::checksum(&bytes[..end]);
            bytes[end..].copy_from_slice(&checksum.to_le_bytes());
            let error = FrameCodec::for_handshake().decode(&mut bytes).unwrap_err();
            assert!(matches!(error, FrameError::UnknownKind(found) if found == kind), "{error}");
        }
    }
}
