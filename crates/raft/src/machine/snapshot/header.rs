//! The header of a snapshot: the last log entry and the membership that it covers.

use crate::base::{encoding::Encodable, types::Types};
use bytes::Bytes;
use openraft::{AsyncRuntime, alias::SnapshotMetaOf};
use std::io;

/// The version byte of a header.
const SNAPSHOT_HEADER_FORMAT: u8 = 1;

/// Encodes a header.
pub(crate) fn encode<RT: AsyncRuntime>(meta: &SnapshotMetaOf<Types<RT>>) -> io::Result<Bytes> {
    fairhold_codec::encode(SNAPSHOT_HEADER_FORMAT, &Encodable(meta)).map(Bytes::from).map_err(io::Error::other)
}

/// Decodes a header.
pub(crate) fn decode<RT: AsyncRuntime>(header: &[u8]) -> io::Result<SnapshotMetaOf<Types<RT>>> {
    let decoded = fairhold_codec::decode(SNAPSHOT_HEADER_FORMAT, header);
    decoded
        .map(|Encodable(meta)| meta)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot's header: {error}")))
}
