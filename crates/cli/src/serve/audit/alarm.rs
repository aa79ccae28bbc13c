//! The alarm of the audit log: it begins when entries are lost or the file cannot be written, and ends a while after
//! the last loss. So a disk that is full for an hour, or full now and then, is logged once.

use fairhold_node::{Node, node::Concern};
use openraft_rt_tokio::TokioRuntime;
use std::time::{Duration, Instant};

/// The alarm ends this long after the last loss. Otherwise a disk that is a little too slow would raise it again and
/// again.
const QUIET_FOR: Duration = Duration::from_secs(10);

/// Whether the alarm is on.
#[derive(Debug, Default)]
pub(super) struct AuditAlarm {
    lost: u64,
    /// When something was wrong last, while the alarm is on.
    wrong_at: Option<Instant>,
}

/// What a look at the log changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AlarmChange {
    Nothing,
    Begins(String),
    Ends { lost: u64 },
}

impl AuditAlarm {
    /// Looks at the reason for which the file cannot be written, and at the number of lost entries.
    pub(super) fn look(&mut self, fault: Option<String>, lost: u64, now: Instant) -> AlarmChange {
        let has_lost = lost > self.lost;
        self.lost = lost;
        if fault.is_some() || has_lost {
            let begins = self.wrong_at.replace(now).is_none();
            let reason = fault.unwrap_or_else(|| "the disk is too slow for its entries".to_owned());
            return if begins { AlarmChange::Begins(reason) } else { AlarmChange::Nothing };
        }
        match self.wrong_at {
            Some(wrong_at) if now.saturating_duration_since(wrong_at) >= QUIET_FOR => {
                self.wrong_at = None;
                AlarmChange::Ends { lost }
            }
            Some(_) | None => AlarmChange::Nothing,
        }
    }
}

impl AlarmChange {
    /// Logs it, and sets or removes the warning of the node.
    pub(super) fn report(self, node: &Node<TokioRuntime>) {
        match self {
            AlarmChange::Nothing => {}
            AlarmChange::Begins(reason) => {
                let warning = format!("the audit log cannot be written: {reason}. Its entries are lost when its queue is full");
                tracing::error!("{warning}");
                node.warn(Concern::Audit, Some(warning));
            }
            AlarmChange::Ends { lost } => {
                tracing::info!(lost, "the audit log is written again");
                node.warn(Concern::Audit, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_begins_once_and_ends_once() {
        let (mut alarm, start) = (AuditAlarm::default(), Instant::now());
        let at = |secs| start + Duration::from_secs(secs);
        let full = || Some("/a: No space left on device".to_owned());
        assert_eq!(alarm.look(None, 0, at(0)), AlarmChange::Nothing);
        assert_eq!(alarm.look(full(), 0, at(1)), AlarmChange::Begins("/a: No space left on device".to_owned()));
        assert_eq!(alarm.look(full(), 7, at(2)), AlarmChange::Nothing);
        assert_eq!(alarm.look(None, 7, at(3)), AlarmChange::Nothing, "it is not over before it is quiet for a while");
        assert_eq!(alarm.look(full(), 9, at(8)), AlarmChange::Nothing);
        assert_eq!(alarm.look(None, 9, at(17)), AlarmChange::Nothing);
        assert_eq!(alarm.look(None, 9, at(18)), AlarmChange::Ends { lost: 9 });
        assert_eq!(alarm.look(None, 9, at(19)), AlarmChange::Nothing);
        assert_eq!(alarm.look(None, 10, at(20)), AlarmChange::Begins("the disk is too slow for its entries".to_owned()));
    }
}
