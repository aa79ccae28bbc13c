//! The options of `doctor`.

use crate::remote::TlsArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 nothing failed (there may be warnings), 1 something failed, 69 nothing answered.

Example:
  fairhold doctor -e http://n1:7171,http://n2:7171,http://n3:7171
  fairhold doctor -e http://n1:7171 --bundle fairhold.tar --config /etc/fairhold/fairhold.toml")]
pub(crate) struct DoctorArgs {
    /// Check the cluster of the node at this URL; pass all nodes to learn more about unreachable ones
    #[arg(
        short,
        long,
        value_name = "URL",
        env = "FAIRHOLD_ENDPOINT",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7171"
    )]
    pub(crate) endpoint: Vec<String>,

    /// Wait at most this long for each node
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = fairhold_types::duration::parse)]
    pub(crate) timeout: std::time::Duration,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,

    /// Read the token of a user or of administrators from this file
    #[arg(long, value_name = "FILE", env = "FAIRHOLD_AUTH_TOKEN_FILE")]
    pub(crate) auth_token_file: Option<std::path::PathBuf>,

    /// Also compare the states of all nodes, which must be the same
    ///
    /// Each node reads its whole state for this, up to six times.
    #[arg(long)]
    pub(crate) digest: bool,

    /// Also write what was seen into this tar archive, for support
    ///
    /// It has the findings, what each node answers about itself, its metrics, and the log of the unit on this machine.
    /// It has no values, tokens, or ids of sessions and grants. Read it before you send it.
    #[arg(long, value_name = "FILE.tar")]
    pub(crate) bundle: Option<std::path::PathBuf>,

    /// Add the configuration of a node from this file to the archive
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub(crate) config: Option<std::path::PathBuf>,

    /// Take the log in the archive from this systemd unit
    #[arg(long, value_name = "UNIT", default_value = "fairhold")]
    pub(crate) unit: String,

    /// Replace names of locks, owners and users in the archive with numbers
    #[arg(long, requires = "bundle")]
    pub(crate) hide_names: bool,

    /// Print in this format
    #[arg(short, long, value_enum, default_value_t = DoctorOutput::Table)]
    pub(crate) output: DoctorOutput,
}

/// The output formats of `doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DoctorOutput {
    /// Lines for people
    Table,
    /// One JSON object
    Json,
}
