//! Standard output. What reads it may go away at any time: that is the end of the output, not an error.

use fairhold_types::text::harmless;
use std::io::{self, Write};

/// Writes all of it in one call, and flushes it to the reader.
pub(crate) fn write_stdout(text: &str) -> io::Result<()> {
    write_bytes(text.as_bytes())
}

/// The same with bytes.
pub(crate) fn write_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Says something on stderr that is not a part of the output.
pub(crate) fn note(text: &str) {
    // Where it goes may be gone: the output and the exit code are what matters.
    writeln!(io::stderr(), "fairhold: {}", harmless(text)).ok();
}

/// A closed pipe is no failure of ours.
pub(crate) fn unless_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Ok(()) | Err(_) => result,
    }
}

/// Writes a line to stderr under the name of this program.
pub(crate) fn say(text: &str) {
    // Where it goes may be gone: the exit code says what can be said.
    writeln!(io::stderr(), "fairhold: {}", harmless(text)).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is_one() {
        assert!(unless_closed(Ok(())).is_ok());
        assert!(unless_closed(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(unless_closed(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
