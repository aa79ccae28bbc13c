//! What a frame between two nodes costs, without a socket: `cargo bench --workspace --bench frames`.

use bytes::{Bytes, BytesMut};
use divan::{Bencher, black_box, counter::BytesCount};
use fairhold_peer::frame::{Frame, FrameCodec, FrameKind};
use tokio_util::codec::{Decoder, Encoder};

/// Bytes of a heartbeat's answer, of one command, of 32 of them, and of a block of a snapshot, each about.
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
    codec().encode(frame(payload), &mut bytes).expect("it is small enough");
    bytes
}

/// Into a buffer that has room, as a connection's has after its first frames.
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
