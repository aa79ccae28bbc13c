//! Why a node could not run, or could not go on: each with what to do.

use fairhold_raft::{FatalReason, StartError};
use fairhold_storage::{StorageError, data_dir::DataDirError};
use std::io;

/// Why a node could not run, or could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The log.
    #[error("logging cannot be set up: {0}")]
    Telemetry(String),
    /// Threads or signals.
    #[error("the process cannot be set up: {0}")]
    Runtime(io::Error),
    /// The data directory.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The data directory belongs elsewhere.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A port.
    #[error("cannot listen at {address} for {whom}: {error}. {}", advice(error, flag))]
    Listen {
        /// Where.
        address: String,
        /// Who would have come there.
        whom: &'static str,
        /// The flag that changes it.
        flag: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The replica.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The replica ended by itself.
    #[error("{reason}{}", aftermath(reason, data))]
    Stopped {
        /// Why.
        reason: FatalReason,
        /// The data directory.
        data: String,
    },
    /// A part of the process ended that never should.
    #[error("a part of the node ended by itself, which is a defect: {0}")]
    Ended(String),
}

fn advice(error: &io::Error, flag: &str) -> String {
    if error.kind() == io::ErrorKind::AddrInUse {
        return format!("Another process listens there: end it, or choose another address with {flag} or --member");
    }
    format!("If that is no address of this machine itself, say where to listen instead: {flag} 0.0.0.0:PORT")
}

fn aftermath(reason: &FatalReason, data: &str) -> String {
    match reason {
        FatalReason::Failed(_) => format!(
            ". The node stops, because what it cannot store it must not acknowledge; the other nodes go on. \
             Check the disk of {data} (is it full? does the kernel log name errors?), then start the node again"
        ),
        FatalReason::Formation(_) | FatalReason::Stopped => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named_with_the_way_out() {
        let listen = |kind: io::ErrorKind| ServeError::Listen {
            address: "127.0.0.1:7171".to_owned(),
            whom: "clients",
            flag: "--listen",
            error: kind.into(),
        };
        let text = listen(io::ErrorKind::AddrInUse).to_string();
        assert!(
            text.starts_with("cannot listen at 127.0.0.1:7171 for clients: ") && text.contains("--listen or --member"),
            "{text}"
        );
        let text = listen(io::ErrorKind::AddrNotAvailable).to_string();
        assert!(text.ends_with("--listen 0.0.0.0:PORT"), "{text}");
    }

    #[test]
    fn a_failed_disk_says_what_to_do() {
        let stopped = |reason| ServeError::Stopped { reason, data: "/data".to_owned() }.to_string();
        let text = stopped(FatalReason::Failed("no space left".to_owned()));
        assert!(text.starts_with("no space left. ") && text.contains("the disk of /data"), "{text}");
        assert_eq!(stopped(FatalReason::Stopped), "it was shut down");
    }
}
