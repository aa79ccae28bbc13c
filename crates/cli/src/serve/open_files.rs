//! The open files and sockets of this process, and their limit: raises it as far as the system allows, and lowers the
//! limit on connections to leave enough descriptors for everything else.

use super::error::ServeError;
use fairhold_http::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

/// The open files and sockets of this process, as a directory. Only Linux has it.
const DIRECTORY: &str = "/proc/self/fd";

/// Files and sockets that are not for clients: the log, snapshots, other nodes, and refusals of connections over the
/// limit.
const OTHERS: u64 = 1_024;
/// A lower limit leaves hardly any connections for clients.
const OPEN_FILES_MIN: u64 = 1_200;

/// How many files and sockets this process has open, if the system tells.
pub(super) fn count() -> Option<u64> {
    // From Linux 6.2 on, the size of the directory is their number. To list 10,000 of them takes milliseconds.
    if let Some(count) = fs::metadata(DIRECTORY).ok().map(|directory| directory.len()).filter(|count| *count > 0) {
        return Some(count);
    }
    // The handle that reads the directory is one of the entries.
    fs::read_dir(DIRECTORY).ok().map(|entries| entries.count().saturating_sub(1) as u64)
}

/// How many files and sockets this process can have open; `None` means unlimited.
pub(super) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the soft limit to the hard limit, and lowers the limit on connections to what fits.
pub(super) fn fit_connections(limits: Limits) -> Result<Limits, ServeError> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => before.maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit on open files: the current limit applies");
            before.current
        }
    };
    // `None` means unlimited.
    let Some(open_files) = now else { return Ok(limits) };
    let fitting = within(open_files, limits).ok_or(ServeError::OpenFiles { open_files, min: OPEN_FILES_MIN })?;
    if fitting != limits {
        tracing::warn!(
            open_files,
            connections = fitting.connections,
            "this process can open {open_files} files and sockets: it accepts {} client connections instead of {}, and {} \
             instead of {} from one address. To accept more, raise its limit (ulimit -Hn, or LimitNOFILE= in its systemd unit)",
            fitting.connections,
            limits.connections,
            fitting.per_address,
            limits.per_address
        );
    }
    Ok(fitting)
}

/// The connections that fit, with the limit for one address lowered in proportion; `None` if the limit is too low.
fn within(open_files: u64, limits: Limits) -> Option<Limits> {
    if open_files < OPEN_FILES_MIN {
        return None;
    }
    let room = usize::try_from(open_files.saturating_sub(OTHERS)).unwrap_or(usize::MAX);
    if limits.connections <= room {
        return Some(limits);
    }
    let per_address = limits.per_address.saturating_mul(room).checked_div(limits.connections)?.max(1);
    Some(Limits { connections: room, per_address, ..limits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(connections: usize, per_address: usize) -> Limits {
        Limits { connections, per_address, ..Limits::default() }
    }

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        let limits = of(10_000, 5_000);
        assert_eq!(within(11_024, limits), Some(limits));
        assert_eq!(within(11_023, limits), Some(of(9_999, 4_999)));
        assert_eq!(within(1_200, limits), Some(of(176, 88)));
        assert_eq!(within(1_199, limits), None);
        let few = of(100, 100);
        assert_eq!(within(1_200, few), Some(few));
        assert_eq!(within(1_200, of(10_000, 1)).unwrap().per_address, 1);
    }
}
