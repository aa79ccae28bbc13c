//! Both sides of a handshake by hand, for tests that deviate from it.

use crate::node::{PATIENCE, introduction};
use bytes::{Bytes, BytesMut};
use fairhold_peer::{
    frame::{Frame, FrameCodec},
    handshake::{self, Challenge, Hello, PREAMBLE_BYTES, Purpose, preamble},
    key::{Keys, PeerKeys, Transcript},
};
use fairhold_raft::peer::{Introduction, JoinRefusal, JoinRequest, Joined, Lane, WIRE_VERSION};
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_util::codec::{Decoder, Encoder};

/// A connection on which the test controls every frame.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    /// The wire version.
    pub(crate) version: u16,
    pub(crate) transcript: Transcript,
    pub(crate) keys: Arc<Keys>,
}

pub(crate) fn hello(lane: Lane) -> Hello {
    Hello { from: 1, to: 2, purpose: Purpose::Lane(lane), nonce: [7; 32] }
}

/// The hello of a node that wants to join.
pub(crate) fn join_hello() -> Hello {
    Hello { from: 0, to: 0, purpose: Purpose::Join, nonce: [7; 32] }
}

/// A dialler's preamble and hello.
pub(crate) fn opening(hello: &Hello) -> Vec<u8> {
    [&preamble(WIRE_VERSION)[..], &bytes(handshake::hello(hello, &mut Transcript::new(WIRE_VERSION)).unwrap())].concat()
}

pub(crate) fn bytes(frame: Frame) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    FrameCodec::for_handshake().encode(frame, &mut bytes).unwrap();
    bytes.to_vec()
}

pub(crate) fn frame(bytes: &[u8]) -> Frame {
    FrameCodec::for_handshake().decode_eof(&mut BytesMut::from(bytes)).unwrap().unwrap()
}

/// Reads a whole frame, including its length.
pub(crate) async fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let mut rest = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut rest).await?;
    Ok([&length[..], &rest].concat())
}

impl Raw {
    /// Dials, sends a hello and receives the challenge.
    pub(crate) async fn dial(address: SocketAddr, hello: &Hello, keys: &PeerKeys) -> Raw {
        Raw::dial_in(WIRE_VERSION, address, hello, keys).await
    }

    /// Dials in a wire version that the acceptor speaks.
    pub(crate) async fn dial_in(version: u16, address: SocketAddr, hello: &Hello, keys: &PeerKeys) -> Raw {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut raw = Raw { stream, version, transcript: Transcript::new(version), keys: keys.now() };
        raw.stream.write_all(&preamble(version)).await.unwrap();
        let mut answer = [0; PREAMBLE_BYTES];
        raw.stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, preamble(version));
        let frame = handshake::hello(hello, &mut raw.transcript).unwrap();
        raw.send(frame).await;
        let challenge = raw.receive().await;
        raw.transcript.add(challenge.kind, &challenge.payload);
        raw
    }

    /// Accepts a connection, and answers the hello with a challenge.
    pub(crate) async fn accept(stream: TcpStream, keys: &PeerKeys) -> Raw {
        let mut raw = Raw { stream, version: WIRE_VERSION, transcript: Transcript::new(WIRE_VERSION), keys: keys.now() };
        raw.stream.write_all(&preamble(WIRE_VERSION)).await.unwrap();
        raw.stream.read_exact(&mut [0; PREAMBLE_BYTES]).await.unwrap();
        let hello = raw.receive().await;
        raw.transcript.add(hello.kind, &hello.payload);
        let frame = handshake::challenge(&Challenge { nonce: [9; 32] }, &mut raw.transcript).unwrap();
        raw.send(frame).await;
        raw
    }

    pub(crate) async fn prove(&mut self) {
        let frame = handshake::proof(&mut self.transcript, &self.keys).unwrap();
        self.send(frame).await;
    }

    pub(crate) async fn welcome(&mut self, own: &Introduction) {
        let frame = handshake::welcome(self.version, own, &mut self.transcript, &self.keys).unwrap();
        self.send(frame).await;
    }

    pub(crate) async fn introduce(&mut self, own: &Introduction) {
        let frame = handshake::introduction(self.version, own, &mut self.transcript, &self.keys).unwrap();
        self.send(frame).await;
    }

    pub(crate) async fn admit(&mut self) {
        let frame = handshake::admitted(&mut self.transcript, &self.keys).unwrap();
        self.send(frame).await;
    }

    pub(crate) async fn join(&mut self, request: &JoinRequest) {
        let frame = handshake::join(request, &mut self.transcript, &self.keys).unwrap();
        self.send(frame).await;
    }

    pub(crate) async fn joined(&mut self, decision: &Result<Joined, JoinRefusal>) {
        let frame = handshake::joined(decision, &mut self.transcript, &self.keys).unwrap();
        self.send(frame).await;
    }

    pub(crate) async fn send(&mut self, frame: Frame) {
        self.stream.write_all(&bytes(frame)).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Frame {
        frame(&timeout(PATIENCE, read_frame(&mut self.stream)).await.expect("silence").unwrap())
    }

    /// Receives a value with a proof, without verifying the proof.
    pub(crate) async fn receive_with_proof(&mut self) -> Bytes {
        let frame = self.receive().await;
        let value = frame.payload.slice(fairhold_peer::key::PROOF_BYTES..);
        self.transcript.add(frame.kind, &value);
        value
    }
}

/// An admitted connection of node 1.
pub(crate) async fn admitted(address: SocketAddr, lane: Lane) -> TcpStream {
    let mut raw = Raw::dial(address, &hello(lane), &PeerKeys::none()).await;
    raw.prove().await;
    raw.receive_with_proof().await;
    raw.introduce(&introduction(1)).await;
    raw.receive_with_proof().await;
    raw.stream
}
