//! Why a development cluster cannot run.

use crate::exit::CANNOT_TAKE_PART;
use fairhold_trust::{ca_directory::CaError, name::ParseNameError};
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
    Data { path: String, error: io::Error },
    /// The certificates.
    #[error(transparent)]
    Certificates(#[from] CaError),
    /// A name in the certificates.
    #[error(transparent)]
    CertificateName(#[from] ParseNameError),
    /// A client cannot use the certificates.
    #[error("{0}")]
    Client(String),
    /// The nodes run, but the rights of the user cannot be set.
    #[error("access rights cannot be set: {0}")]
    Rights(String),
    /// A port is in use.
    #[error("cannot listen at {address}: {error}. Stop the process that uses it, or choose other ports with --port")]
    Port { address: String, error: io::Error },
    /// This program's own file cannot be run.
    #[error("node {id} cannot be started: {error}")]
    Spawn { id: NodeId, error: io::Error },
    /// A node ended by itself before the cluster was ready: a restart would not help.
    #[error("node {id} {}: its last messages are above", ended_how(*status))]
    NodeFailed { id: NodeId, status: ExitStatus },
}

/// Whether a restart cannot help: the node cannot take part any more.
pub(super) fn is_final(status: ExitStatus) -> bool {
    status.code() == Some(i32::from(CANNOT_TAKE_PART))
}

/// A status as text that follows "node 1".
pub(super) fn ended_how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
