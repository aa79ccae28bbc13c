//! Work that exceeds the steps of one command. Later commands, `ContinuePendingWork`, do it in pieces.
//!
//! Pending work is part of the state, so all nodes do the same pieces, and a new leader continues where the old one
//! stopped. The leader proposes pieces while any work is pending. The pieces take turns, so that large work does not
//! hold up small work.

use crate::{
    access::EndingSessions,
    record::Revocation,
    service_rank::ServiceRank,
    weighed::{Weigh, Weighed},
    weight::{PENDING_BYTES, len},
};
use fairhold_access::TenantNumber;
use fairhold_types::{GrantNumber, LockName, Path, SessionNumber, limits::PATH_BYTES_MAX};
use serde::{Deserialize, Serialize};
use std::ops::Bound;

/// Unfinished work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pending {
    /// Ends the grants and nodes of an ended session.
    EndSession { session: SessionNumber, how: SessionEnd },
    /// Ends the holders of a lock that an administrator broke.
    Break { lock: LockName, by: String, reason: String },
    /// Asks the holders of a lock after this grant to release it.
    Revoke { lock: LockName, after: GrantNumber, revocation: Revocation },
    /// Ends the waiters after this rank that no longer fit, because the settings of their lock changed.
    ApplyLimit { lock: LockName, after: Option<ServiceRank>, by: String },
    /// Grants waiters of a lock.
    Grant { lock: LockName },
    /// Ends the sessions of a principal, some at a time. A session stays alive until its turn.
    EndSessionsOf(EndingSessions),
    /// Counts what a tenant uses, in the prefix with this index after this name, and in the later prefixes.
    CountTenant { tenant: TenantNumber, prefix: u32, after: Option<Path> },
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SessionEnd {
    /// By its owner.
    Closed,
    /// By the leader's verdict.
    Expired,
    /// By an administrator.
    Ended { by: String, reason: String },
}

/// All pending work, by number.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PendingWork {
    pub(crate) work: Weighed<u64, Pending>,
    /// The number of the newest work.
    pub(crate) next: u64,
    /// The work that had the last turn.
    pub(crate) last: u64,
}

impl Pending {
    pub(crate) fn concerns(&self, of: &LockName) -> bool {
        match self {
            Pending::Break { lock, .. } | Pending::ApplyLimit { lock, .. } | Pending::Revoke { lock, .. } => lock == of,
            Pending::EndSession { .. } | Pending::Grant { .. } | Pending::EndSessionsOf(_) | Pending::CountTenant { .. } => false,
        }
    }
}

impl PendingWork {
    /// The work whose turn is next.
    pub(crate) fn next_in_turn(&self) -> Option<(u64, Pending)> {
        let after = self.work.range((Bound::Excluded(self.last), Bound::Unbounded)).next();
        after.or_else(|| self.work.iter().next()).map(|(number, pending)| (*number, pending.clone()))
    }
}

impl Weigh<u64> for Pending {
    fn weight(&self) -> u64 {
        PENDING_BYTES
            + match self {
                Pending::EndSession { how: SessionEnd::Ended { by, reason }, .. } => len(by) + len(reason),
                Pending::EndSession { how: SessionEnd::Closed | SessionEnd::Expired, .. } => 0,
                Pending::Break { lock, by, reason } => len(lock.as_str()) + len(by) + len(reason),
                Pending::Revoke { lock, revocation, .. } => len(lock.as_str()) + len(&revocation.by) + len(&revocation.reason),
                Pending::ApplyLimit { lock, by, .. } => len(lock.as_str()) + len(by),
                Pending::Grant { lock } => len(lock.as_str()),
                Pending::EndSessionsOf(sessions) => len(&sessions.by) + len(&sessions.reason),
                // The name changes with each piece.
                Pending::CountTenant { .. } => PATH_BYTES_MAX as u64,
            }
    }
}
