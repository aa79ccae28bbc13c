//! The pure part of scheduled backups: the names of their files, which of them to delete, and when the next one is due.

use fairhold_types::{NodeId, Revision, time::WallMillis};
use std::{collections::BTreeSet, fmt, time::Duration};

/// How every name begins.
const PREFIX: &str = "fairhold-";
/// How every name ends.
const SUFFIX: &str = ".backup";
/// How the name of an incomplete file ends.
const PARTIAL_SUFFIX: &str = ".backup.partial";
/// How many nodes have a moment of their own in each interval. A cluster has fewer voters.
const SHIFTS: u64 = 16;
/// The length of a time in a name, such as `20261127T214500Z`.
const TIME_CHARS: usize = 16;

/// Seconds since 1970, by the wall clock.
pub(super) type WallSeconds = u64;

/// The file of a scheduled backup: `fairhold-NAME-REVISION-TIME.backup`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BackupName {
    /// The revision of its state. It comes first in the order of files: the wall clock may have been wrong, and the
    /// revisions of one cluster only grow.
    pub(super) revision: Revision,
    /// When it was made.
    pub(super) made_at: WallSeconds,
    /// The name of its cluster.
    pub(super) cluster: String,
}

impl fmt::Display for BackupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}-{}{SUFFIX}", self.cluster, self.revision, time_text(self.made_at))
    }
}

impl BackupName {
    /// The name of a file of this cluster, if it has exactly the form of a scheduled backup's name.
    pub(super) fn parse(file: &str, cluster: &str) -> Option<BackupName> {
        let (rest, time) = file.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.rsplit_once('-')?;
        let (name, revision) = rest.rsplit_once('-')?;
        let revision = Revision(revision.parse().ok()?);
        let found = BackupName { made_at: parse_time(time)?, revision, cluster: cluster.to_owned() };
        // A number with a sign or with leading zeros is another form.
        (name == cluster && found.to_string() == file).then_some(found)
    }
}

/// The name of the file that a node writes until its backup is complete. Nodes may share a folder.
pub(super) fn partial_name(cluster: &str, node: NodeId) -> String {
    format!("{PREFIX}{cluster}-node-{node}{PARTIAL_SUFFIX}")
}

/// The files to delete once `verified` is complete: all but the last `keep`. All are backups of one cluster. `verified`
/// itself is never among them, whatever the other names say.
pub(super) fn to_delete(mut found: BTreeSet<BackupName>, verified: &BackupName, keep: usize) -> Vec<BackupName> {
    found.remove(verified);
    let others_kept = keep.saturating_sub(1);
    let count = found.len().saturating_sub(others_kept);
    found.into_iter().take(count).collect()
}

/// When the newest of these backups was made. A time in the future is from a clock that was set back, so it says
/// nothing.
pub(super) fn newest(found: &BTreeSet<BackupName>, now: WallSeconds) -> Option<WallSeconds> {
    found.iter().map(|name| name.made_at).filter(|made_at| *made_at <= now).max()
}

/// When the next backup is due, by the time of the last one. In each interval, a node has a moment that depends on its
/// id. If no backup was made since the last moment, one is due at once.
pub(super) fn next_due(now: WallSeconds, last: Option<WallSeconds>, every: Duration, node: NodeId) -> WallSeconds {
    let every = every.as_secs().max(1);
    let shift = every.saturating_mul(node % SHIFTS) / SHIFTS;
    let since_moment = now.saturating_add(every).saturating_sub(shift) % every;
    let moment = now.saturating_sub(since_moment);
    match last {
        // A time in the future is from a clock that was set back, so it says nothing.
        Some(last) if (moment..=now).contains(&last) => moment.saturating_add(every),
        Some(_) | None => moment,
    }
}

/// A time like `20261127T214500Z`.
fn time_text(seconds: WallSeconds) -> String {
    let text = WallMillis(seconds.saturating_mul(1_000)).to_rfc3339();
    let whole = text.split('.').next().unwrap_or_default();
    whole.chars().filter(|c| !matches!(c, '-' | ':')).chain(['Z']).collect()
}

fn parse_time(text: &str) -> Option<WallSeconds> {
    if text.len() != TIME_CHARS || !text.is_ascii() {
        return None;
    }
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (year, month, day) = (date.get(..4)?, date.get(4..6)?, date.get(6..)?);
    let (hour, minute, second) = (time.get(..2)?, time.get(2..4)?, time.get(4..)?);
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    WallMillis::from_rfc3339(&text).map(|time| time.0 / 1_000)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
