//! How a new cluster begins with the state of a backup.

use crate::backup::Backup;
use fairhold_state::{State, restored::NewCluster};
use fairhold_types::{ClusterId, Revision, time::WallMillis};

/// 2020-01-01T00:00:00Z in milliseconds since 1970.
const EPOCH_MS: u64 = 1_577_836_800_000;
/// The revisions of one second.
const REVISIONS_PER_SECOND: u128 = 1 << 20;
/// A restored revision exceeds that of the backup by at least this much.
const DISTANCE: u64 = 1 << 32;
/// Larger revisions are not exact in JSON.
const REVISION_MAX: u64 = (1 << 53) - 1;

/// What a restored cluster gets anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreRequest {
    /// The id of the new cluster: random, and never used before.
    pub cluster: ClusterId,
    /// The time, by the clock of this machine.
    pub at: WallMillis,
    /// Its first revision is larger than this one.
    pub above: Option<Revision>,
    /// Whether it has no access token.
    pub revoke_tokens: bool,
}

/// Why a backup cannot be restored now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The clock is wrong, or the backup was made with a wrong clock.
    #[error(
        "the clock of this machine says {now}, but the backup was made at {made}: set the clock, because it makes the new tokens \
         larger than the old ones", now = now.to_rfc3339(), made = made.to_rfc3339()
    )]
    Clock {
        /// The time of this machine.
        now: WallMillis,
        /// The time in the header.
        made: WallMillis,
    },
    /// The revision would be too large.
    #[error("the revision {0} would be larger than {REVISION_MAX}, which JSON cannot hold")]
    Revision(u64),
}

/// The revision at which a restored state begins: larger than every revision that the old cluster gave out, and than that
/// of every earlier restore, as long as the clock is not behind.
#[must_use]
pub fn restored_revision(backup: Revision, now: WallMillis, above: Option<Revision>) -> Revision {
    let by_clock = u128::from(now.0.saturating_sub(EPOCH_MS)) * REVISIONS_PER_SECOND / 1000;
    let by_clock = u64::try_from(by_clock).unwrap_or(u64::MAX);
    // With the clock, a restore that is repeated gives no revision twice.
    let above = above.map_or(0, |above| above.0.saturating_add(1).saturating_add(by_clock));
    Revision(backup.0.saturating_add(DISTANCE).max(by_clock).max(above))
}

/// The state with which the new cluster begins. Without a membership it is not part of any cluster yet.
pub fn restored(backup: Backup, request: &RestoreRequest) -> Result<State, RestoreError> {
    let made = backup.header.at;
    if request.at < made {
        return Err(RestoreError::Clock { now: request.at, made });
    }
    let revision = restored_revision(backup.state.revision(), request.at, request.above);
    if revision.0 > REVISION_MAX {
        return Err(RestoreError::Revision(revision.0));
    }
    let new = NewCluster { cluster: request.cluster, revision, at: request.at, revoke_tokens: request.revoke_tokens };
    Ok(backup.state.restored(&new))
}
