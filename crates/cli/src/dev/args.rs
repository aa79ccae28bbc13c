//! The options of `dev`.

use clap::value_parser;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fairhold dev                            three nodes on ports 7171 to 7173
  fairhold dev --nodes 5 --dir ./data --demo
  fairhold dev --secure                   with TLS and access rights; prints what to export")]
pub(crate) struct DevArgs {
    /// Start this many nodes, 1 to 5
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u16).range(1..=5))]
    pub(crate) nodes: u16,

    /// Keep the nodes' data in this directory [default: a temporary directory, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Use this client port for the first node; the others follow, and peer ports are 100 higher
    #[arg(long, value_name = "PORT", default_value_t = 7171, value_parser = value_parser!(u16).range(1..))]
    pub(crate) port: u16,

    /// Give every node the administrators' token in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// Use TLS and enforce access rights: make certificates and tokens in the data directory
    #[arg(long)]
    pub(crate) secure: bool,

    /// Run a few clients that queue for locks, and show them live
    #[arg(long)]
    pub(crate) demo: bool,

    /// Let the nodes serve the files of the dashboard from this directory, for its developers
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) ui_dir: Option<PathBuf>,

    /// Do not restart nodes that have died [default: restart them after 2 s]
    #[arg(long)]
    pub(crate) no_restart: bool,
}
