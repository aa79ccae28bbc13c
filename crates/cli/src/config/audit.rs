//! The table `[audit]`: the audit log of requests.

use super::error::ConfigError;
use fairhold_http::AuditScope;
use serde::Deserialize;
use std::path::PathBuf;

/// The audit log of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditConfig {
    /// The file. Older ones are beside it.
    pub(crate) file: PathBuf,
    /// Which requests it has.
    pub(crate) scope: AuditScope,
    /// Whether calls that it must have are refused while it cannot be written.
    pub(crate) is_required: bool,
}

/// The table in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct AuditTable {
    file: Option<PathBuf>,
    what: Option<String>,
    required: bool,
}

impl AuditTable {
    /// The configuration, if the table names a file.
    pub(super) fn resolve(self) -> Result<AuditConfig, ConfigError> {
        let file = self.file.filter(|file| !file.as_os_str().is_empty()).ok_or(ConfigError::AuditWithoutFile)?;
        if file.is_dir() {
            return Err(ConfigError::AuditDirectory { file: file.display().to_string() });
        }
        let scope = |text: String| text.parse().map_err(|_| ConfigError::AuditScope { text: text.clone() });
        let scope = self.what.map(scope).transpose()?.unwrap_or_default();
        Ok(AuditConfig { file, scope, is_required: self.required })
    }
}
