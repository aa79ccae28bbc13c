//! Why a node cannot start or continue, each with advice.

use super::{admin_token::AdminTokenError, exit_code, join_token::JoinTokenError, peer_key::PeerKeyError};
use crate::exit;
use fairhold_raft::{FatalReason, StartError, peer::JoinRefusal};
use fairhold_storage::{
    DAMAGE_ADVICE, StorageError,
    data_dir::DataDirError,
    fault::{Fault, FaultKind},
    free_space::START_ROOM_BYTES,
};
use fairhold_trust::{jwt::key_set::JwksError, pair::PairError};
use fairhold_types::NodeId;
use std::io;

/// Why a node cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// Logs and traces.
    #[error("cannot set up logs and traces: {0}")]
    Telemetry(String),
    /// Threads or signals.
    #[error("cannot set up the process: {0}")]
    Runtime(io::Error),
    /// The administrators' token.
    #[error(transparent)]
    AdminToken(#[from] AdminTokenError),
    /// The certificate for clients, or the one for the other nodes.
    #[error("{options}: {error}")]
    Certificate {
        /// The options with its files.
        options: &'static str,
        error: PairError,
    },
    /// The audit log cannot be opened, and will not be by itself.
    #[error(
        "the audit log {file} cannot be opened: {error}. Make its folder, writable for the user of this node, or correct \
         audit.file in the configuration file"
    )]
    Audit { file: String, error: io::Error },
    /// The keys of a provider of JWTs.
    #[error("jwks of a table [jwt.*]: {0}")]
    Jwks(#[from] JwksError),
    /// The key of the cluster.
    #[error(transparent)]
    PeerKey(#[from] PeerKeyError),
    /// The file with the join token.
    #[error(transparent)]
    JoinToken(#[from] JoinTokenError),
    /// The cluster does not admit this node.
    #[error("the cluster does not admit this node: {0}")]
    Join(#[from] JoinRefusal),
    /// The limit on open files is too low.
    #[error(
        "this process may open {open_files} files and sockets, but a node needs at least {min}: raise its hard limit \
         (`ulimit -n`, LimitNOFILE= of its unit, --ulimit nofile= of its container)"
    )]
    OpenFiles {
        /// The limit on open files.
        open_files: u64,
        /// How many a node needs.
        min: u64,
    },
    /// The data directory.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The data directory belongs to another node or cluster.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The port of a listener.
    #[error("cannot listen at {address} for {whom}: {error}. {}", advice(error, flag))]
    Listen {
        address: String,
        /// Who would connect to it.
        whom: &'static str,
        /// The flag that changes it.
        flag: &'static str,
        error: io::Error,
    },
    /// The replica cannot start.
    #[error("{}", start_failed(.0))]
    Start(#[from] StartError),
    /// The state is restored, and a node of the list belongs to another cluster.
    #[error(
        "this node has a restored state, but node {by} runs at {address} and belongs to another cluster, such as the old one. \
         Stop all nodes of the old cluster, delete their data directories, and start this node again: its own data directory is \
         in order"
    )]
    RestoredBesideOthers {
        /// The node of the other cluster.
        by: NodeId,
        /// Its address in the list.
        address: String,
    },
    /// The replica stopped.
    #[error("{}", stop_message(reason, fault.as_ref(), data))]
    Stopped {
        reason: FatalReason,
        /// The first error of the storage, if that is the cause.
        fault: Option<Fault>,
        /// The data directory.
        data: String,
    },
    /// A task ended that never should.
    #[error("a part of the node ended by itself, which is a defect: {0}")]
    Ended(String),
}

impl ServeError {
    /// The port for the other nodes.
    pub(super) fn peer_port(address: &str, error: io::Error) -> ServeError {
        ServeError::Listen { address: address.to_owned(), whom: "other nodes", flag: "--peer-listen", error }
    }

    /// The exit code of the process.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            ServeError::AdminToken(_)
            | ServeError::PeerKey(_)
            | ServeError::JoinToken(_)
            | ServeError::Certificate { .. }
            | ServeError::Jwks(_)
            | ServeError::Audit { .. } => exit::USAGE,
            ServeError::Join(refusal) => exit_code::of_join(refusal),
            ServeError::Storage(error) => exit_code::of_storage(error),
            ServeError::DataDir(error) => exit_code::of_data_dir(error),
            ServeError::Start(error) => exit_code::of_start(error),
            ServeError::Stopped { reason, .. } => exit_code::of_stop(reason),
            ServeError::Telemetry(_)
            | ServeError::Runtime(_)
            | ServeError::OpenFiles { .. }
            | ServeError::Listen { .. }
            // It can take part once the other nodes are gone.
            | ServeError::RestoredBesideOthers { .. }
            | ServeError::Ended(_) => exit::FAILURE,
        }
    }
}

fn advice(error: &io::Error, flag: &str) -> String {
    if error.kind() == io::ErrorKind::AddrInUse {
        return format!(
            "Another process listens there. If it is not needed, stop it; otherwise choose another address with {flag}"
        );
    }
    format!("If that is not an address of this machine, pass the address to listen at: {flag} 0.0.0.0:PORT")
}

fn start_failed(error: &StartError) -> String {
    match error {
        StartError::Snapshot(cause) if cause.kind() == io::ErrorKind::InvalidData => format!("{error}. {DAMAGE_ADVICE}"),
        StartError::Defects(cause) if cause.kind() == io::ErrorKind::InvalidData => format!("{error}. {DAMAGE_ADVICE}"),
        StartError::Inconsistent(_) => format!("{error}. {DEFECT_ADVICE}"),
        StartError::Snapshot(_)
        | StartError::Defects(_)
        | StartError::Config(_)
        | StartError::Log(_)
        | StartError::Formation(_)
        | StartError::Unsupported(_) => error.to_string(),
    }
}

const STOPS: &str = "The node stops, because it must not acknowledge what it cannot store; the other nodes go on";

/// Advice for a state that contradicts itself.
const DEFECT_ADVICE: &str = "This is a defect in fairhold, or the memory of this machine is failing, and the node stops: it must \
                             not answer from a damaged state. Keep the data directory. If the other nodes run, replace this node \
                             (`fairhold cluster replace N`). If all nodes say this, restore the cluster from a backup, and send \
                             the log of a node to the developers";

fn stop_message(reason: &FatalReason, fault: Option<&Fault>, data: &str) -> String {
    match (reason, fault) {
        (FatalReason::Failed(_), Some(fault)) => format!("{fault}. {STOPS}. {}", advice_on_disk(fault.kind, data)),
        (FatalReason::Failed(what), None) => format!("{what}. {STOPS}. {}", advice_on_disk(FaultKind::Failed, data)),
        (FatalReason::Inconsistent(what), _) => format!("{what}. {DEFECT_ADVICE}"),
        (
            FatalReason::Formation(_)
            | FatalReason::Unsupported(_)
            | FatalReason::LostEntries(_)
            | FatalReason::Removed { .. }
            | FatalReason::Duplicate { .. }
            | FatalReason::Stopped,
            _,
        ) => reason.to_string(),
    }
}

fn advice_on_disk(kind: FaultKind, data: &str) -> String {
    match kind {
        FaultKind::OutOfSpace => format!(
            "Free at least {} MiB on the file system of {data}. If a supervisor restarts the node, it waits until there is \
             space, and then takes part by itself",
            START_ROOM_BYTES >> 20
        ),
        FaultKind::Damage => DAMAGE_ADVICE.to_owned(),
        FaultKind::OpenFiles => {
            "The disk is not the reason: this process, or this machine, has reached its limit on open files and sockets. Raise \
             the limit of this process (`ulimit -n`, LimitNOFILE= of its unit) or of the machine (fs.file-max), or lower \
             --connections-max, then start the node again"
                .to_owned()
        }
        FaultKind::Failed => format!(
            "The write in progress does not count as done. Check the disk of {data} (does the kernel's log, dmesg, show \
             errors?), then start the node again: it reads and verifies all its data"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_a_port_says_what_to_do() {
        let listen = |kind: io::ErrorKind| ServeError::Listen {
            address: "127.0.0.1:7171".to_owned(),
            whom: "clients",
            flag: "--listen",
            error: kind.into(),
        };
        let text = listen(io::ErrorKind::AddrInUse).to_string();
        assert!(
            text.starts_with("cannot listen at 127.0.0.1:7171 for clients: ")
                && text.ends_with("choose another address with --listen"),
            "{text}"
        );
        let text = listen(io::ErrorKind::AddrNotAvailable).to_string();
        assert!(text.ends_with("--listen 0.0.0.0:PORT"), "{text}");
    }

    #[test]
    fn a_key_or_token_file_that_cannot_be_used_is_a_matter_of_the_configuration() {
        let (path, missing) = ("/etc/peer.key".to_owned(), || io::Error::from(io::ErrorKind::NotFound));
        let errors = [
            ServeError::from(PeerKeyError::Unreadable { path: path.clone(), error: missing() }),
            PeerKeyError::Open { path: path.clone() }.into(),
            PeerKeyError::TooLong { path: path.clone() }.into(),
            AdminTokenError::Unreadable { path: path.clone(), error: missing() }.into(),
            AdminTokenError::NoToken { path, fault: "is empty" }.into(),
        ];
        for error in errors {
            assert_eq!(error.exit_code(), exit::USAGE, "{error}");
        }
    }

    #[test]
    fn a_storage_error_appears_once_with_advice() {
        let stopped = |reason, fault| ServeError::Stopped { reason, fault, data: "/data".to_owned() }.to_string();
        let failed = || FatalReason::Failed("storage error".to_owned());
        let fault = |kind| Some(Fault { kind, message: "/data/log/7.log: broke".to_owned() });
        for (kind, advice) in [
            (FaultKind::OutOfSpace, "Free at least 128 MiB on the file system of /data"),
            (FaultKind::Failed, "the disk of /data"),
            (FaultKind::Damage, "Leave the files as they are"),
            (FaultKind::OpenFiles, "The disk is not the reason"),
        ] {
            let text = stopped(failed(), fault(kind));
            assert!(text.starts_with("/data/log/7.log: broke. The node stops") && text.contains(advice), "{text}");
            assert!(!text.contains("storage error"), "two messages: {text}");
        }
        assert!(stopped(failed(), None).starts_with("storage error. The node stops"));
        assert_eq!(stopped(FatalReason::Stopped, fault(FaultKind::OutOfSpace)), "the node was shut down");
    }
}
