//! How a new cluster begins with the state of a backup.

use crate::{
    backup::Backup,
    revision::{REVISION_MAX, is_set, largest_above, restored_revision},
};
use fairhold_state::{State, restored::NewCluster};
use fairhold_types::{ClusterId, Revision, time::WallMillis};

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
    /// The clock of this machine was not set, or is far behind.
    #[error(
        "the clock of this machine says {now}, and this program was released later: set the clock, because it makes the new \
         tokens larger than the old ones",
        now = now.to_text()
    )]
    NotSet {
        /// The time of this machine.
        now: WallMillis,
    },
    /// The clock is wrong, or the backup was made with a wrong clock.
    #[error(
        "the clock of this machine says {now}, but the backup was made at {made}. If this clock is wrong, set the clock, \
         because it makes the new tokens larger than the old ones. If the clock was wrong when the backup was made, pass \
         --revision-above with the largest fencing token that you know, or {revision} if that is larger",
        now = now.to_text(), made = made.to_text()
    )]
    Clock {
        /// The time of this machine.
        now: WallMillis,
        /// The time in the header.
        made: WallMillis,
        /// The revision of the state in the backup.
        revision: Revision,
    },
    /// The revisions after `above` would soon be too large.
    #[error(
        "--revision-above {above} is too large: in less than 50 years, no backup of the new cluster could be restored any more, \
         because its revision would be larger than {REVISION_MAX}, which JSON cannot hold. The largest number that works is \
         {largest}"
    )]
    Above {
        /// The number that was given.
        above: Revision,
        /// The largest one that is accepted.
        largest: Revision,
    },
    /// The revision would be too large.
    #[error(
        "the new cluster would begin at revision {revision}, which is larger than {REVISION_MAX}, and JSON cannot hold it. The \
         clock of this machine says {now}: if it is wrong, set the clock. If it is right, revision {before} of the backup is too \
         far ahead of its time, {made}: restore a backup from before the revisions went so far ahead, and let every storage \
         that checks fencing tokens forget its largest one",
        now = now.to_text(), made = made.to_text()
    )]
    Revision {
        /// The revision at which it would begin.
        revision: Revision,
        /// The time of this machine.
        now: WallMillis,
        /// The time in the header.
        made: WallMillis,
        /// The revision of the state in the backup.
        before: Revision,
    },
}

/// The state with which the new cluster begins. Without a membership it is not part of any cluster yet.
pub fn restored(backup: Backup, request: &RestoreRequest) -> Result<State, RestoreError> {
    let (before, made) = (backup.state.revision(), backup.header.at);
    if !is_set(request.at) {
        return Err(RestoreError::NotSet { now: request.at });
    }
    // The revisions of the line are known without the clocks, if somebody names one that is large enough.
    if request.at < made && request.above.is_none_or(|above| above < before) {
        return Err(RestoreError::Clock { now: request.at, made, revision: before });
    }
    let largest = largest_above((before, made), request.at);
    if let Some(above) = request.above.filter(|above| *above > largest) {
        return Err(RestoreError::Above { above, largest });
    }
    let revision = restored_revision((before, made), request.at, request.above);
    if revision.0 > REVISION_MAX {
        return Err(RestoreError::Revision { revision, now: request.at, made, before });
    }
    let new = NewCluster { cluster: request.cluster, revision, at: request.at, revoke_tokens: request.revoke_tokens };
    Ok(backup.state.restored(&new))
}
