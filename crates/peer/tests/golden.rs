//! Compares the bytes of the peer protocol with `proto/golden`: a format change shows up as a diff, and needs a new
//! `WIRE_VERSION`. `FAIRHOLD_GOLDEN=write` rewrites them.

#![cfg(test)]

use bytes::{Bytes, BytesMut};
use fairhold_peer::{
    frame::{Frame, FrameCodec, FrameKind},
    handshake::{
        Challenge, Hello, JOIN_WIRE_VERSION, Purpose, admitted, challenge, hello, introduction, join, joined, preamble, proof,
        refused, welcome,
    },
    key::{PROOF_BYTES, PeerKeys, Transcript},
};
use fairhold_raft::{
    JoinSecret, LostEntries, UnsupportedVersion,
    peer::{Introduction, JoinRefusal, JoinRequest, Joined, KeyMismatch, Lane, Refusal, WIRE_VERSION, WIRE_VERSION_OLDEST},
};
use fairhold_state::command::JoinTokenFault;
use fairhold_types::{ClusterId, ClusterVersion, Incarnation, JoinTokenNumber, MemberRole, Revision, SupportedVersions, Timing};
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
        program: Some("0.1.0".to_owned()),
        supports: SupportedVersions(ClusterVersion(1), ClusterVersion(2)),
        boot: 0x0123_4567_89ab_cdef,
    }
}

fn request() -> JoinRequest {
    JoinRequest {
        token: JoinTokenNumber(7),
        secret: JoinSecret::new([0x5e; 32]),
        cluster: ClusterId(0x00112233445566778899aabbccddeeff),
        incarnation: Incarnation(3),
        url: "http://n4:7171".to_owned(),
        address: "n4:7271".to_owned(),
        version: Some("0.2.0".to_owned()),
        supports: SupportedVersions(ClusterVersion(1), ClusterVersion(2)),
    }
}

fn node_4_joins() -> Joined {
    Joined {
        id: 4,
        cluster: ClusterId(0x00112233445566778899aabbccddeeff),
        role: MemberRole::Learner,
        members: vec![(1, "http://n1:7171".to_owned(), "n1:7271".to_owned())],
        timing: Timing::Wan,
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
    for version in WIRE_VERSION_OLDEST..=WIRE_VERSION {
        assert_handshake(version);
    }
}

fn assert_handshake(version: u16) {
    let keys = PeerKeys::parse(b"a key of thirty-two bytes at least").unwrap().now();
    let mut transcript = Transcript::new(version);
    let first = Hello { from: 300, to: 1, purpose: Purpose::Lane(Lane::Append), nonce: [0xd1; 32] };
    let frames = [
        ("hello", hello(&first, &mut transcript)),
        ("challenge", challenge(&Challenge { nonce: [0xac; 32] }, &mut transcript)),
        ("proof", proof(&mut transcript, &keys)),
        ("welcome", welcome(version, &node_1(), &mut transcript, &keys)),
        ("introduction", introduction(version, &Introduction { id: 300, ..node_1() }, &mut transcript, &keys)),
        ("admitted", admitted(&mut transcript, &keys)),
    ];
    assert_golden(&format!("peer_preamble.v{version}.hex"), &preamble(version));
    for (name, frame) in frames {
        let frame = frame.unwrap();
        let bytes = written(frame.clone());
        assert_golden(&format!("peer_{name}.v{version}.hex"), &bytes);
        assert_eq!(read(&bytes), frame);
    }
}

#[test]
fn join_bytes_are_stable() {
    let keys = PeerKeys::parse(b"a key of thirty-two bytes at least").unwrap().now();
    let mut transcript = Transcript::new(JOIN_WIRE_VERSION);
    let first = Hello { from: 0, to: 0, purpose: Purpose::Join, nonce: [0xd1; 32] };
    let frames = [
        ("hello_join", hello(&first, &mut transcript)),
        ("join", join(&request(), &mut transcript, &keys)),
        ("joined", joined(&Ok(node_4_joins()), &mut transcript, &keys)),
    ];
    for (name, frame) in frames {
        let frame = frame.unwrap();
        let bytes = written(frame.clone());
        assert_golden(&format!("peer_{name}.v{JOIN_WIRE_VERSION}.hex"), &bytes);
        assert_eq!(read(&bytes), frame);
    }
}

#[test]
fn the_bytes_of_a_refused_join_are_stable() {
    let keys = PeerKeys::parse(b"a key of thirty-two bytes at least").unwrap().now();
    let token = JoinRefusal::Token;
    let unsupported =
        UnsupportedVersion { version: ClusterVersion(3), supports: SupportedVersions(ClusterVersion(1), ClusterVersion(2)) };
    for (name, refusal) in [
        ("other_cluster", JoinRefusal::OtherCluster { theirs: ClusterId(1), ours: ClusterId(2) }),
        ("token_unknown", token(JoinTokenFault::Unknown)),
        ("token_expired", token(JoinTokenFault::Expired)),
        ("token_used", token(JoinTokenFault::Used { node: 4 })),
        ("token_no_replacement", token(JoinTokenFault::NoReplacement)),
        ("token_removed", token(JoinTokenFault::Removed { node: 4 })),
        ("needs_upgrade", JoinRefusal::NeedsUpgrade { version: ClusterVersion(1) }),
        ("unsupported", JoinRefusal::Unsupported(unsupported)),
        ("address_in_use", JoinRefusal::AddressInUse { address: "n2:7271".to_owned(), node: 2 }),
        ("too_many_members", JoinRefusal::TooManyMembers { max: 7 }),
        ("unreplaceable", JoinRefusal::Unreplaceable { node: 2, why: "it answers".to_owned() }),
        ("too_many_joins", JoinRefusal::TooManyJoins { max: 10 }),
        ("no_leader", JoinRefusal::NoLeader),
        ("bad_request", JoinRefusal::BadRequest("its URL is not usable".to_owned())),
    ] {
        let refused = Err(refusal);
        let bytes = written(joined(&refused, &mut Transcript::new(JOIN_WIRE_VERSION), &keys).unwrap());
        assert_golden(&format!("peer_join_refused_{name}.v{JOIN_WIRE_VERSION}.hex"), &bytes);
        let value = read(&bytes).payload.slice(PROOF_BYTES..);
        assert_eq!(fairhold_codec::decode::<Result<Joined, JoinRefusal>>(1, &value).unwrap(), refused);
    }
}

#[test]
fn refusal_bytes_are_stable() {
    let keys = PeerKeys::parse(b"a key of thirty-two bytes at least").unwrap().now();
    // The proof covers the wire version in which the refusal first appeared.
    let first = WIRE_VERSION_OLDEST;
    let newer = JOIN_WIRE_VERSION;
    for (version, name, refusal) in [
        (first, "version", Refusal::Version { theirs: 2, ours: 1 }),
        (first, "cluster", Refusal::Cluster { theirs: ClusterId(1), ours: ClusterId(2) }),
        (first, "incarnation", Refusal::Incarnation { id: 1, expected: Incarnation(1), found: Incarnation(2) }),
        (first, "identity", Refusal::Identity { expected: 1, found: 2 }),
        (first, "starting", Refusal::Starting),
        (first, "stranger", Refusal::NotAMember { id: 1 }),
        (first, "lost_entries", Refusal::LostEntries(LostEntries { node: 2, leader: 1, acknowledged: 57, has: Some(40) })),
        (first, "key", Refusal::Key(KeyMismatch::DiallerHasNone)),
        (newer, "removed", Refusal::Removed { id: 4, revision: Revision(300) }),
        (newer, "duplicate", Refusal::Duplicate { id: 4 }),
    ] {
        let bytes = written(refused(&refusal, &mut Transcript::new(version), &keys).unwrap());
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
