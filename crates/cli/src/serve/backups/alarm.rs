//! The alarm of scheduled backups: it begins with the first failure, which is logged, and ends with the next complete
//! backup.

use fairhold_node::{Node, node::Concern};
use openraft_rt_tokio::TokioRuntime;

/// Whether the alarm is on.
#[derive(Debug, Default)]
pub(super) struct BackupAlarm {
    is_on: bool,
}

impl BackupAlarm {
    /// A failure. Only the first one is logged.
    pub(super) fn begins(&mut self, node: &Node<TokioRuntime>, reason: &str) {
        let warning = format!("the scheduled backups fail: {reason}");
        if self.begin() {
            tracing::error!("{warning}. The node serves, and tries again every minute");
        } else {
            tracing::debug!("{warning}");
        }
        node.warn(Concern::Backup, Some(warning));
    }

    /// A complete backup.
    pub(super) fn ends(&mut self, node: &Node<TokioRuntime>) {
        if self.end() {
            tracing::info!("the scheduled backups succeed again");
            node.warn(Concern::Backup, None);
        }
    }

    /// Returns whether it was off.
    fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_on, true)
    }

    /// Returns whether it was on.
    fn end(&mut self) -> bool {
        std::mem::take(&mut self.is_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_many_failures_begins_an_alarm() {
        let mut alarm = BackupAlarm::default();
        assert!(!alarm.end());
        assert_eq!([alarm.begin(), alarm.begin(), alarm.begin()], [true, false, false]);
        assert_eq!([alarm.end(), alarm.end(), alarm.begin()], [true, false, true]);
    }
}
