//! The file `TIMING`: the timing profile of the cluster, for the next start. A node needs its timings before it can
//! read the replicated state.

use crate::durable;
use fairhold_types::Timing;
use std::{io, path::Path};

/// The version byte of the `TIMING` file.
pub const TIMING_FORMAT: u8 = 1;

const TIMING: &str = "TIMING";

/// What to do about a damaged file.
const ADVICE: &str = "Look for a failing disk. To start without the file, remove it: the node writes it again from the \
                      cluster's state";

/// Reads the file of a data directory; `None` if there is none.
pub fn read(directory: &Path) -> io::Result<Option<Timing>> {
    let path = directory.join(TIMING);
    let Some(bytes) = durable::read(&path)? else { return Ok(None) };
    let decoded = fairhold_codec::decode(TIMING_FORMAT, &bytes);
    decoded.map(Some).map_err(|error| durable::damaged(&path, format!("{error}. {ADVICE}")))
}

/// Writes the file durably. The caller holds the directory's lock.
pub fn write(directory: &Path, timing: Timing) -> io::Result<()> {
    durable::write(&directory.join(TIMING), &[&encode(timing)?])
}

/// The bytes of the file.
pub(crate) fn encode(timing: Timing) -> io::Result<Vec<u8>> {
    fairhold_codec::encode(TIMING_FORMAT, &timing).map_err(io::Error::other)
}
