//! The alarms of a node: what is wrong now, as far as the node sees it itself.
//!
//! An alarm is never stored. It is raised while its cause is seen, and gone when the cause is: nobody has to switch it
//! off, and none survives a restart.

mod name;
pub mod readings;
mod rules;
mod trackers;

pub use name::AlarmName;

use fairhold_types::{
    dto::{Alarm, AlarmSeverity},
    time::WallMillis,
};
use readings::NodeReading;
use rules::{Objection, RuleInput, judge};
use std::{collections::BTreeMap, time::Duration};
use trackers::{AuditLosses, JoinProgress, Leading, SyncWindow};

/// A join without progress for this long is stuck.
const JOIN_STUCK_AFTER: Duration = Duration::from_secs(600);
/// The alarm about lost entries of the audit log is gone this long after the last one.
const AUDIT_GONE_AFTER: Duration = Duration::from_secs(3_600);

/// The alarms of a node, from look to look.
#[derive(Debug, Default)]
pub struct AlarmBoard {
    states: BTreeMap<AlarmName, AlarmState>,
    syncs: SyncWindow,
    joins: JoinProgress,
    audit: AuditLosses,
    leading: Leading,
}

#[derive(Debug, Default)]
struct AlarmState {
    raised: Option<RaisedAlarm>,
    /// Since when its condition says otherwise, on the monotonic clock.
    differs_since: Option<Duration>,
}

#[derive(Debug)]
struct RaisedAlarm {
    since: WallMillis,
    objection: Objection,
}

/// An alarm that was raised, or is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmChange {
    /// Which one.
    pub name: AlarmName,
    /// What was seen, if it was raised.
    pub raised: Option<String>,
}

impl AlarmBoard {
    /// Judges what the node sees now, and returns what has changed. The cost is bounded by the number of members.
    pub fn look(&mut self, reading: &NodeReading) -> Vec<AlarmChange> {
        let NodeReading { now, wall, machine, cluster } = reading;
        self.joins.look(*now, cluster);
        self.audit.look(*now, machine.audit.as_ref().map_or(0, |audit| audit.entries_lost));
        let input = RuleInput {
            machine,
            cluster,
            syncs: machine.syncs.map(|syncs| self.syncs.look(*now, syncs)),
            stuck: self.joins.stuck(*now, JOIN_STUCK_AFTER),
            has_lost_audit: self.audit.is_recent(*now, AUDIT_GONE_AFTER),
            led_for: self.leading.look(*now, cluster.leads()),
        };
        let changes = AlarmName::ALL.into_iter().filter_map(|name| {
            let state = self.states.entry(name).or_default();
            let objection = judge(name, &input, state.raised.is_some());
            let after = if state.raised.is_some() { name.gone_after() } else { name.raised_after(cluster.timing) };
            let is_raised = state.raised.is_some();
            state.look(objection, after, (*now, *wall));
            let raised = state.raised.as_ref().map(|raised| raised.objection.seen.clone());
            (is_raised != raised.is_some()).then_some(AlarmChange { name, raised })
        });
        changes.collect()
    }

    /// The alarms that are raised: the critical ones first.
    #[must_use]
    pub fn raised(&self) -> Vec<Alarm> {
        let alarm = |(name, state): (&AlarmName, &AlarmState)| {
            let RaisedAlarm { since, objection } = state.raised.as_ref()?;
            let Objection { severity, seen, advice } = objection.clone();
            Some(Alarm { alarm: name.as_str().to_owned(), severity, since: since.to_rfc3339(), seen, advice })
        };
        let mut alarms: Vec<Alarm> = self.states.iter().filter_map(alarm).collect();
        alarms.sort_by_key(|alarm| alarm.severity != AlarmSeverity::Critical);
        alarms
    }

    /// Whether an alarm is raised.
    #[must_use]
    pub fn is_raised(&self, name: AlarmName) -> bool {
        self.states.get(&name).is_some_and(|state| state.raised.is_some())
    }
}

impl AlarmState {
    /// Follows what the rule says. A change counts after it has lasted for `after`.
    fn look(&mut self, objection: Option<Objection>, after: Duration, (now, wall): (Duration, WallMillis)) {
        match (&mut self.raised, objection) {
            (Some(raised), Some(objection)) => {
                // What is seen may have changed.
                raised.objection = objection;
                self.differs_since = None;
            }
            (None, None) => self.differs_since = None,
            (raised, objection) => {
                let since = *self.differs_since.get_or_insert(now);
                if now.saturating_sub(since) >= after {
                    *raised = objection.map(|objection| RaisedAlarm { since: wall, objection });
                    self.differs_since = None;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "alarms_tests.rs"]
mod tests;
