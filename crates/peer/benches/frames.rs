//! The cost of a frame between two nodes, without a socket: `cargo bench --workspace --bench frames`.

use bytes::{Bytes, BytesMut};
use divan::{Bencher, black_box, counter::BytesCount};
use fairhold_peer::frame::{Frame, FrameCodec, FrameKind};
use tokio_util::codec::{Decoder, Encoder};

/// Approximate sizes in bytes: a heartbeat's answer, one command, 32 commands, and a block of a snapshot.
const PAYLOADS: [usize; 4] = [16, 100, 3_200, 1 << 20];

fn main() {
    divan::main();
}

fn frame(payload: usize) -> Frame {
    Frame { kind: FrameKind::Request, number: 1_000_000, payload: Bytes::from(vec![7; payload]) }
}

fn codec() -> FrameCodec {
    let mut codec = FrameCodec::for_handshake();
    codec.admit();
    codec
}

fn written(payload: usize) -> BytesMut {
    let mut bytes = BytesMut::new();
    codec().encode(frame(payload), &mut bytes).expect("the frame is small enough");
    bytes
}

/// Encodes into a buffer that is already large enough, like that of a connection after its first frames.
#[divan::bench(args = PAYLOADS)]
fn encode(bencher: Bencher<'_, '_>, payload: usize) {
    let (frame, mut codec, mut bytes) = (frame(payload), codec(), written(payload));
    bencher.counter(BytesCount::new(payload)).bench_local(|| {
        bytes.clear();
        codec.encode(black_box(frame.clone()), &mut bytes)
    });
}

#[divan::bench(args = PAYLOADS)]
fn decode(bencher: Bencher<'_, '_>, payload: usize) {
    let (bytes, mut codec) = (written(payload), codec());
    let received = || bytes.clone();
    bencher.counter(BytesCount::new(payload)).with_inputs(received).bench_local_values(|mut bytes| codec.decode(&mut bytes));
}
