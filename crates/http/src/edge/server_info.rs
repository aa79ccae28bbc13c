//! What the server says of itself.

use fairhold_types::dto::Host;

/// What the server says of itself.
#[derive(Debug, Clone, Copy)]
pub struct ServerInfo {
    /// The program's version.
    pub version: &'static str,
    /// Looks at the machine; it is called for each `/readyz?verbose`.
    pub host: fn() -> Host,
}
