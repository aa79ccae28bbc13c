//! Why a development cluster cannot run.

use fairhold_types::NodeId;
use std::{io, os::unix::process::ExitStatusExt as _, process::ExitStatus};

/// Why the cluster cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    /// The runtime, the signals or standard output.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The data directory.
    #[error("the data directory {path} cannot be used: {error}")]
    Data {
        /// Which.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// A port is in use.
    #[error("cannot listen at {address}: {error}. Stop the process that uses it, or choose other ports with --port")]
    Port {
        /// Where.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// The program's own file cannot be run.
    #[error("node {id} cannot be started: {error}")]
    Spawn {
        /// Which.
        id: NodeId,
        /// Why.
        error: io::Error,
    },
    /// A node ended by itself before the cluster was ever ready: starting it again would not help.
    #[error("node {id} {}: its last messages are above", ended_how(*status))]
    NodeFailed {
        /// Which.
        id: NodeId,
        /// How.
        status: ExitStatus,
    },
}

/// In words, to follow "node 1".
pub(super) fn ended_how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
