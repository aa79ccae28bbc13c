//! How many files and sockets this process may have open: as many as the system allows it, and a word where that is too few.

use fairhold_http::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files and sockets besides those of clients: the log, snapshots, other nodes, and what turns one too many away.
const OTHERS: u64 = 1_024;

/// Raises the soft limit to the hard one, as a process may do for itself.
pub(super) fn raise(limits: Limits) {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => before.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit on open files could not be raised");
            before.current
        }
    };
    // Nothing there means no limit.
    if let Some(open_files) = now
        && let Some(needed) = too_few(open_files, limits)
    {
        tracing::warn!(
            open_files,
            needed,
            "this process may have {open_files} files and sockets open, fewer than the {needed} that its connections may need: \
             raise its limit (ulimit -Hn, LimitNOFILE= of its unit), or lower --connections-max"
        );
    }
}

/// How many are needed, where those are more.
fn too_few(open_files: u64, limits: Limits) -> Option<u64> {
    let needed = u64::try_from(limits.connections).unwrap_or(u64::MAX).saturating_add(OTHERS);
    (open_files < needed).then_some(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_needs_a_file_and_so_do_others() {
        let limits = Limits { connections: 10_000, per_address: 5_000 };
        assert_eq!(too_few(1_024, limits), Some(11_024));
        assert_eq!((too_few(11_023, limits), too_few(11_024, limits)), (Some(11_024), None));
    }
}
