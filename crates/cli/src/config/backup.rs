//! The table `[backup]`: the scheduled backups of a node.

use super::error::ConfigError;
use fairhold_types::{
    duration,
    limits::{BACKUP_EVERY_DEFAULT, BACKUP_EVERY_MAX, BACKUP_EVERY_MIN, BACKUPS_KEPT_DEFAULT},
};
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};

/// The scheduled backups of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackupConfig {
    /// The folder of the files.
    pub(crate) dir: PathBuf,
    /// How often the node makes one.
    pub(crate) every: Duration,
    /// How many files it keeps; at least 1.
    pub(crate) keep: usize,
}

/// The table in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct BackupTable {
    dir: Option<PathBuf>,
    every: Option<String>,
    keep: Option<u32>,
}

impl BackupTable {
    /// The configuration, if the table names a folder. Only the schedule looks at the folder: a mount that is missing or does
    /// not answer must not keep a node from starting.
    pub(super) fn resolve(self) -> Result<BackupConfig, ConfigError> {
        let dir = self.dir.filter(|dir| !dir.as_os_str().is_empty()).ok_or(ConfigError::BackupWithoutDir)?;
        let parse =
            |text: String| duration::parse(&text).map_err(|_| ConfigError::Duration { key: "backup.every", text: text.clone() });
        let every = self.every.map(parse).transpose()?.unwrap_or(BACKUP_EVERY_DEFAULT);
        if !(BACKUP_EVERY_MIN..=BACKUP_EVERY_MAX).contains(&every) {
            return Err(ConfigError::BackupEvery { given: duration::format(every) });
        }
        let keep = self.keep.map_or(BACKUPS_KEPT_DEFAULT, |keep| usize::try_from(keep).unwrap_or(usize::MAX));
        if keep == 0 {
            return Err(ConfigError::BackupKeep);
        }
        Ok(BackupConfig { dir, every, keep })
    }
}
