//! Standard output and standard error. The reader of a pipe may close it at any time: this ends the output, and is not
//! an error.

use fairhold_types::text::terminal_safe;
use std::io::{self, Write};

/// Writes text to standard output in one call, and flushes it.
pub(crate) fn write_stdout(text: &str) -> io::Result<()> {
    write_bytes(text.as_bytes())
}

/// Writes bytes to standard output in one call, and flushes them.
pub(crate) fn write_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes a line to stderr, prefixed with the name of this program.
pub(crate) fn note(text: &str) {
    // Nobody may read stderr; the output and the exit code are what matters.
    writeln!(io::stderr(), "fairhold: {}", terminal_safe(text)).ok();
}

/// Ignores a closed pipe.
pub(crate) fn unless_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Ok(()) | Err(_) => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_failure_and_a_closed_pipe_is_not() {
        assert!(unless_closed(Ok(())).is_ok());
        assert!(unless_closed(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(unless_closed(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
