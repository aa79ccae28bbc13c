//! What one look alone does not show: syncs in the last minute, progress of joins, lost audit entries.

use crate::alarms::readings::{ClusterReading, SyncReading};
use fairhold_types::NodeId;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Over which time the syncs count.
const SYNC_WINDOW: Duration = Duration::from_secs(60);
/// How often the counts are kept, to be compared with later ones.
const SYNC_KEEP_EVERY: Duration = Duration::from_secs(10);

/// The syncs of about the last minute.
#[derive(Debug, Default)]
pub(crate) struct SyncWindow(VecDeque<(Duration, SyncReading)>);

impl SyncWindow {
    /// The syncs in the window. Counts that began anew, or are about another bound, begin a new window.
    pub(crate) fn look(&mut self, now: Duration, seen: SyncReading) -> SyncReading {
        let SyncWindow(kept) = self;
        if kept.back().is_some_and(|(_, last)| last.bound != seen.bound || last.all > seen.all || last.slow > seen.slow) {
            kept.clear();
        }
        if kept.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= SYNC_KEEP_EVERY) {
            kept.push_back((now, seen));
        }
        // The oldest one that is kept is at least as old as the window, once there is one.
        while kept.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= SYNC_WINDOW) {
            kept.pop_front();
        }
        let (_, before) = kept.front().copied().unwrap_or((now, seen));
        SyncReading { all: seen.all - before.all, slow: seen.slow - before.slow, bound: seen.bound }
    }
}

/// Since when each join has made no progress, as the leader sees it.
#[derive(Debug, Default)]
pub(crate) struct JoinProgress(BTreeMap<NodeId, (Option<u64>, Duration)>);

impl JoinProgress {
    /// Follows the joins. A node that does not lead knows nothing of their progress, and forgets them.
    pub(crate) fn look(&mut self, now: Duration, cluster: &ClusterReading) {
        let JoinProgress(known) = self;
        let joins: &[NodeId] = if cluster.leads() { &cluster.joins } else { &[] };
        known.retain(|id, _| joins.contains(id));
        for id in joins {
            let matched = cluster.members.iter().find(|member| member.id == *id).and_then(|member| member.matched);
            let progress = known.entry(*id).or_insert((matched, now));
            if progress.0 != matched {
                *progress = (matched, now);
            }
        }
    }

    /// The joins without progress for at least this long.
    pub(crate) fn stuck(&self, now: Duration, limit: Duration) -> Vec<NodeId> {
        self.0.iter().filter(|(_, (_, since))| now.saturating_sub(*since) >= limit).map(|(id, _)| *id).collect()
    }
}

/// When the audit log lost its last entry.
#[derive(Debug, Default)]
pub(crate) struct AuditLosses {
    count: u64,
    last: Option<Duration>,
}

impl AuditLosses {
    /// Follows the number of lost entries.
    pub(crate) fn look(&mut self, now: Duration, count: u64) {
        if count > self.count {
            self.last = Some(now);
        }
        self.count = count;
    }

    /// Whether an entry was lost at most this long ago.
    pub(crate) fn is_recent(&self, now: Duration, limit: Duration) -> bool {
        self.last.is_some_and(|last| now.saturating_sub(last) < limit)
    }
}

/// Since when this node leads.
#[derive(Debug, Default)]
pub(crate) struct Leading(Option<Duration>);

impl Leading {
    /// How long it has led.
    pub(crate) fn look(&mut self, now: Duration, leads: bool) -> Duration {
        let since = leads.then(|| self.0.unwrap_or(now));
        self.0 = since;
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }
}
