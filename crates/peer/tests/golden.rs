//! The bytes of the peer protocol, compared with `proto/golden`: a change of the format is a visible diff, and a reason for
//! another `WIRE_VERSION`. `FAIRHOLD_GOLDEN=write` writes them anew.

#![cfg(test)]

use bytes::{Bytes, BytesMut};
use fairhold_peer::{
    frame::{Frame, FrameCodec, Kind},
    handshake::{Hello, PREAMBLE_BYTES, Purpose, opening, refused, unsealed, welcome},
};
use fairhold_raft::{
    LostEntries,
    peer::{Introduction, Lane, Refusal},
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

fn introduction() -> Introduction {
    Introduction {
        id: 1,
        cluster: Some(ClusterId(0x00112233445566778899aabbccddeeff)),
        incarnation: Incarnation(0xf0e0d0c0b0a090807060504030201000),
        empty: false,
        members: vec![(1, Incarnation(0xf0e0d0c0b0a090807060504030201000)), (300, Incarnation(3))],
    }
}

/// Compares in hexadecimal, 16 bytes a line, and gives back what the file has.
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
    assert_eq!(text, golden, "{} has other bytes", path.display());
}

#[test]
fn a_hello_has_its_bytes() {
    let hello = Hello { introduction: introduction(), to: 2, purpose: Purpose::Lane(Lane::Append) };
    let bytes = opening(&hello).unwrap();
    assert_golden("peer_hello.hex", &bytes);
    assert_eq!(unsealed::<Hello>(&read(&bytes[PREAMBLE_BYTES..])).unwrap(), hello);
}

#[test]
fn a_welcome_has_its_bytes() {
    let bytes = written(welcome(&introduction()).unwrap());
    assert_golden("peer_welcome.hex", &bytes);
    assert_eq!(unsealed::<Introduction>(&read(&bytes)).unwrap(), introduction());
}

#[test]
fn every_refusal_has_its_bytes() {
    for (name, refusal) in [
        ("version", Refusal::Version { theirs: 2, ours: 1 }),
        ("cluster", Refusal::Cluster { theirs: ClusterId(1), ours: ClusterId(2) }),
        ("incarnation", Refusal::Incarnation { id: 1, expected: Incarnation(1), found: Incarnation(2) }),
        ("identity", Refusal::Identity { expected: 1, found: 2 }),
        ("starting", Refusal::Starting),
        ("stranger", Refusal::Stranger { id: 1 }),
        ("lost_entries", Refusal::LostEntries(LostEntries { node: 2, leader: 1, acknowledged: 57, has: Some(40) })),
    ] {
        let bytes = written(refused(&refusal).unwrap());
        assert_golden(&format!("peer_refusal_{name}.hex"), &bytes);
        assert_eq!(unsealed::<Refusal>(&read(&bytes)).unwrap(), refusal);
    }
}

#[test]
fn a_request_has_its_bytes() {
    let frame = Frame { kind: Kind::Request, number: 258, payload: Bytes::from_static(b"a request") };
    let bytes = written(frame.clone());
    assert_golden("frame_request.hex", &bytes);
    assert_eq!(read(&bytes), frame);
}

#[test]
fn an_answer_has_its_bytes() {
    let frame = Frame { kind: Kind::Answer, number: 258, payload: Bytes::from_static(b"an answer") };
    let bytes = written(frame.clone());
    assert_golden("frame_answer.hex", &bytes);
    assert_eq!(read(&bytes), frame);
}
