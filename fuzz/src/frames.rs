//! The peer port: bytes to frames, before and after the other side is admitted.

use bytes::BytesMut;
use fairhold_peer::{
    frame::{Frame, FrameCodec, FrameError},
    handshake::read_hello,
};
use tokio_util::codec::{Decoder, Encoder};

/// A decoder may reserve at most this, plus three times the received bytes, whatever length is announced.
const RESERVE_MAX: usize = 128 * 1024;

/// The first byte decides how the rest arrives: whether the other side is admitted, and the size of the pieces.
pub fn run(bytes: &[u8]) {
    let Some((manner, bytes)) = bytes.split_first() else { return };
    let mut codec = FrameCodec::for_handshake();
    if manner & 1 == 1 {
        codec.admit();
    }
    let piece = usize::from(manner >> 1) + 1;
    let whole = decode_all(&mut codec, bytes, bytes.len().max(1));
    let pieces = decode_all(&mut codec, bytes, piece);
    assert_eq!(whole.frames.len(), pieces.frames.len(), "how the bytes arrive changes what they say");
    assert_eq!(whole.refused, pieces.refused, "how the bytes arrive changes why they are refused");
    for (frame, other) in whole.frames.into_iter().zip(pieces.frames) {
        assert_eq!(frame, other);
        // A frame's first content is a hello from a stranger.
        let _any_answer = read_hello(&frame).is_ok();
        let mut again = BytesMut::new();
        codec.encode(frame.clone(), &mut again).expect("what was decoded can be encoded");
        let decoded = codec.decode(&mut again).expect("what was encoded can be decoded");
        assert_eq!(decoded, Some(frame));
        assert!(again.is_empty());
    }
}

#[derive(Default)]
struct Decoded {
    frames: Vec<Frame>,
    refused: Option<String>,
}

fn decode_all(codec: &mut FrameCodec, bytes: &[u8], piece: usize) -> Decoded {
    let (mut buffer, mut decoded) = (BytesMut::new(), Decoded::default());
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(frame)) => decoded.frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    decoded.refused = Some(error.to_string());
                    return decoded;
                }
            }
        }
        assert!(buffer.capacity() <= 3 * bytes.len() + RESERVE_MAX, "{} bytes are reserved", buffer.capacity());
    }
    decoded.refused = match codec.decode_eof(&mut buffer) {
        Ok(None) => None,
        Ok(Some(frame)) => unreachable!("a frame that was there was not given before: {frame:?}"),
        Err(error @ FrameError::Truncated { .. }) => Some(error.to_string()),
        Err(error) => unreachable!("bytes that were accepted are refused at the end: {error}"),
    };
    decoded
}
