//! Facts about this server and its machine.

use fairhold_types::dto::Host;

/// Facts about this server and its machine.
#[derive(Debug, Clone, Copy)]
pub struct ServerInfo {
    /// The program's version.
    pub version: &'static str,
    /// Checks the machine. Called for each `/readyz?verbose`.
    pub host: fn() -> Host,
    /// What its ports leave unprotected where other machines can reach them. Called for each `/v1/cluster`.
    pub insecure: fn() -> Vec<String>,
}
