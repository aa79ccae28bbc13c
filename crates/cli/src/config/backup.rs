//! The table `[backup]`: the scheduled backups of a node.

use super::{error::ConfigError, faults::Faults};
use fairhold_types::{
    duration,
    limits::{BACKUP_EVERY_DEFAULT, BACKUP_EVERY_MAX, BACKUP_EVERY_MIN, BACKUPS_KEPT_DEFAULT},
};
use serde::Deserialize;
use std::{
    path::{self, Path, PathBuf},
    time::Duration,
};

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

impl BackupConfig {
    /// Refuses a folder in the data directory: what destroys the one destroys the other. Nothing looks at the folder, which
    /// may be on a mount that does not answer.
    pub(super) fn check_outside(&self, data: &Path) -> Result<(), ConfigError> {
        let absolute = |path: &Path| path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if absolute(&self.dir).starts_with(absolute(data)) {
            return Err(ConfigError::BackupInData { dir: self.dir.display().to_string() });
        }
        Ok(())
    }
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
    /// The configuration, if the table names a folder, or every reason against it. Only the schedule looks at the folder: a
    /// mount that is missing or does not answer must not keep a node from starting.
    pub(super) fn resolve(self) -> Result<BackupConfig, ConfigError> {
        let mut faults = Faults::default();
        let dir = self.dir.filter(|dir| !dir.as_os_str().is_empty()).ok_or(ConfigError::BackupWithoutDir);
        let (dir, every, keep) = (faults.keep(dir), faults.keep(every(self.every)), faults.keep(keep(self.keep)));
        let config = dir.zip(every).zip(keep).map(|((dir, every), keep)| BackupConfig { dir, every, keep });
        faults.into_result(config)
    }
}

fn every(text: Option<String>) -> Result<Duration, ConfigError> {
    let parse = |text: String| duration::parse(&text).map_err(|_| ConfigError::Duration { key: "backup.every", text });
    let every = text.map(parse).transpose()?.unwrap_or(BACKUP_EVERY_DEFAULT);
    if !(BACKUP_EVERY_MIN..=BACKUP_EVERY_MAX).contains(&every) {
        return Err(ConfigError::BackupEvery { given: duration::format(every) });
    }
    Ok(every)
}

fn keep(count: Option<u32>) -> Result<usize, ConfigError> {
    let keep = count.map_or(BACKUPS_KEPT_DEFAULT, |keep| usize::try_from(keep).unwrap_or(usize::MAX));
    if keep == 0 { Err(ConfigError::BackupKeep) } else { Ok(keep) }
}
