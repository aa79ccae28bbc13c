//! Compares the bytes of the peer protocol with `proto/golden`: a format change shows up as a diff, and needs a new
//! `WIRE_VERSION`. `FAIRHOLD_GOLDEN=write` rewrites them.

#![cfg(test)]

use bytes::{Bytes, BytesMut};
use fairhold_peer::{
    frame::{Frame, FrameCodec, FrameKind},
    handshake::{Challenge, Hello, Purpose, admitted, challenge, hello, introduction, preamble, proof, refused, welcome},
    key::{PROOF_BYTES, PeerKeys, Transcript},
};
use fairhold_raft::{
    LostEntries,
    peer::{Introduction, KeyMismatch, Lane, Refusal},
};
use fairhold_types::{ClusterId, Incarnation};
use std::{fmt::Write, fs, path::PathBuf};
use tokio_util::codec::{Decoder, Encoder};

fn written(frame: Frame) -> BytesMut {
    let mut bytes = BytesMut::new();
    FrameCodec::for_handshake().encode(frame, &mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Frame {
    FrameCodec::for_handshake().decode_eof(&mut BytesMut::from(bytes)).unwrap().unwrap()
}

fn node_1() -> Introduction {
    Introduction {
        id: 1,
        cluster: Some(ClusterId(0x00112233445566778899aabbccddeeff)),
        incarnation: Incarnation(0xf0e0d0c0b0a090807060504030201000),
        empty: false,
        members: vec![(1, Incarnation(0xf0e0d0c0b0a090807060504030201000)), (300, Incarnation(3))],
    }
}

/// Compares the bytes with the file, which has 16 hexadecimal bytes per line.
fn assert_golden(name: &str, bytes: &[u8]) {
    let path = PathBuf::from("../../proto/golden").join(name);
    let mut text = String::new();
    for line in bytes.chunks(16) {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{}", digits.join(" ")).unwrap();
    }
    if std::env::var("FAIRHOLD_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(&path, &text).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(text, golden, "{} has different bytes", path.display());
}

#[test]
fn handshake_bytes_are_stable() {
    let keys = PeerKeys::parse(b"a key of thirty-two bytes at least").unwrap().now();
    let mut transcript = Transcript::new();
    let first = Hello { from: 300, to: 1, purpose: Purpose::Lane(Lane::Append), nonce: [0xd1; 32] };
    let frames = [
        ("hello", hello(&first, &mut transcript)),
        ("challenge", challenge(&Challenge { nonce: [0xac; 32] }, &mut transcript)),
        ("proof", proof(&mut transcript, &keys)),
        ("welcome", welcome(&node_1(), &mut transcript, &keys)),
        ("introduction", introduction(&Introduction { id: 300, ..node_1() }, &mut transcript, &keys)),
        ("admitted", admitted(&mut transcript, &keys)),
    ];
    assert_golden("peer_preamble.hex", &preamble());
    for (name, frame) in frames {
        let frame = frame.unwrap();
        let bytes = written(frame.clone());
        assert_golden(&format!("peer_{name}.hex"), &bytes);
        assert_eq!(read(&bytes), frame);
    }
}

#[test]
fn refusal_bytes_are_stable() {
    let keys = PeerKeys::parse(b"a key of thirty-two bytes at least").unwrap().now();
    for (name, refusal) in [
        ("version", Refusal::Version { theirs: 2, ours: 1 }),
        ("cluster", Refusal::Cluster { theirs: ClusterId(1), ours: ClusterId(2) }),
        ("incarnation", Refusal::Incarnation { id: 1, expected: Incarnation(1), found: Incarnation(2) }),
        ("identity", Refusal::Identity { expected: 1, found: 2 }),
        ("starting", Refusal::Starting),
        ("stranger", Refusal::NotAMember { id: 1 }),
        ("lost_entries", Refusal::LostEntries(LostEntries { node: 2, leader: 1, acknowledged: 57, has: Some(40) })),
        ("key", Refusal::Key(KeyMismatch::DiallerHasNone)),
    ] {
        let bytes = written(refused(&refusal, &mut Transcript::new(), &keys).unwrap());
        assert_golden(&format!("peer_refusal_{name}.hex"), &bytes);
        let value = read(&bytes).payload.slice(PROOF_BYTES..);
        assert_eq!(fairhold_codec::decode::<Refusal>(1, &value).unwrap(), refusal);
    }
}

#[test]
fn request_bytes_are_stable() {
    let frame = Frame { kind: FrameKind::Request, number: 258, payload: Bytes::from_static(b"a request") };
    let bytes = written(frame.clone());
    assert_golden("frame_request.hex", &bytes);
    assert_eq!(read(&bytes), frame);
}

#[test]
fn answer_bytes_are_stable() {
    let frame = Frame { kind: FrameKind::Answer, number: 258, payload: Bytes::from_static(b"an answer") };
    let bytes = written(frame.clone());
    assert_golden("frame_answer.hex", &bytes);
    assert_eq!(read(&bytes), frame);
}
