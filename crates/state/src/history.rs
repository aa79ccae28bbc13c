//! The history of each lock: who held it, from when to when, and how that ended. It is for people, and bounded for each
//! lock and over all.
//!
//! A grant that changes its mode leaves one entry for each mode, so that a query for an earlier time returns the mode
//! and the token of that time. Only grants that held are recorded: withdrawn waiters would displace the entries that
//! readers need. Entries expire only by the leader's verdict (`Command::ForgetHistory`). Wall times are for people; no
//! rule reads them. A lock's history outlives its node.

use crate::{
    record::Moment,
    weight::{HISTORY_BYTES, len},
};
use fairhold_types::{FencingToken, GrantNumber, HoldingEnd, LockName, Mode, Revision, SessionNumber, time::WallMillis};
use serde::{Deserialize, Serialize};

/// One holding period in one mode, without its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The lock.
    pub lock: LockName,
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// The mode in this period.
    pub mode: Mode,
    /// The number of permits.
    pub permits: u32,
    /// Its fencing token.
    pub token: FencingToken,
    /// When it queued.
    pub queued_at: WallMillis,
    /// When it was granted, or changed to this mode.
    pub from: Moment,
}

/// The end of a holding period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// When it ended. A lock delay comes after it.
    pub to: Moment,
    /// How it ended.
    pub how: HoldingEnd,
    /// The administrator's client that ended it; empty if none did.
    pub by: String,
    /// The administrator's reason; may be empty.
    pub reason: String,
}

/// A finished holding period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PastHolding {
    pub(crate) holding: Holding,
    pub(crate) ending: Ending,
}

/// The position of an entry in a lock's history, which lists current holders first and then the newest end first. It
/// stays valid when the entry is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryKey {
    /// When it ended; the greatest revision for a current holder.
    pub ended: Revision,
    /// The grant.
    pub number: GrantNumber,
}

impl HistoryKey {
    /// After every entry.
    pub(crate) const END: HistoryKey = HistoryKey { ended: Revision(u64::MAX), number: GrantNumber(u64::MAX) };
}

impl PastHolding {
    pub(crate) fn key(&self) -> HistoryKey {
        HistoryKey { ended: self.ending.to.revision, number: self.holding.number }
    }

    /// The bytes that the entry counts.
    pub(crate) fn weight(&self) -> u64 {
        HISTORY_BYTES + len(self.holding.lock.as_str()) + len(&self.holding.owner) + who_ended_weight(self)
    }
}

/// The weight of the fields that are set after the entry was added: who ended it, and why.
pub(crate) fn who_ended_weight(past: &PastHolding) -> u64 {
    len(&past.ending.by) + len(&past.ending.reason)
}
