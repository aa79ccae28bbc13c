//! The options of `dev`.

use clap::value_parser;
use std::path::PathBuf;

/// What `dev` was told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fairhold dev                            three nodes, on the ports 7171 to 7173
  fairhold dev --nodes 5 --dir ./data --demo")]
pub(crate) struct DevArgs {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u16).range(1..=5))]
    pub(crate) nodes: u16,

    /// Keep the nodes' data here [default: a temporary directory, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// The first node's port for clients; the other nodes use the following ports, and the peer ports are 100 higher
    #[arg(long, value_name = "PORT", default_value_t = 7171, value_parser = value_parser!(u16).range(1..))]
    pub(crate) port: u16,

    /// The file with the administrators' token, for every node
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// Let a few clients queue for locks, and show them live
    #[arg(long)]
    pub(crate) demo: bool,

    /// Do not restart a node that died [default: restart it after 2 s]
    #[arg(long)]
    pub(crate) no_restart: bool,
}
