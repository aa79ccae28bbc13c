//! The cluster's timing profile: a node needs it before it can read the replicated state, so it keeps the profile in a
//! file for its next start.
//!
//! A new cluster gets the profile with which its nodes were started. The leader that names the cluster sets it, but that
//! leader may be gone first, and at version 1 there is nothing to set. So whichever node leads sets it later. The file is
//! what shows that a profile was set before: until then, no node writes one.

use fairhold_node::Node;
use fairhold_raft::Replica;
use fairhold_storage::timing_file;
use fairhold_types::Timing;
use openraft_rt_tokio::TokioRuntime;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{task::spawn_blocking, time::sleep};

/// How often the node checks the replicated profile.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// At this many checks, a node gives a new cluster its own profile if it leads: time for a few elections. Then the cluster
/// keeps the default, because a node that was started with another profile by mistake may lead much later.
const FIRST_CHECKS: u32 = 60;
/// Time limit for giving it.
const FIRST_LIMIT: Duration = Duration::from_secs(10);

/// What to do about the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// If this node leads, to give the cluster the profile with which this process runs.
    SetFirst,
    /// To write this profile to the file.
    Write(Timing),
}

/// Which profile the cluster and the file should have.
#[derive(Debug, PartialEq, Eq)]
struct TimingRecord {
    /// The profile with which this process runs.
    in_use: Timing,
    /// The profile in the file, if there is one.
    recorded: Option<Timing>,
    /// The profile at the last check. A new cluster has the default for a moment, even if it is to have another one.
    last: Option<Timing>,
    /// At how many further checks the cluster may still get its first profile from this node.
    first_checks: u32,
}

impl TimingRecord {
    /// What to do, given the replicated profile: `None` before the cluster version that has profiles. A profile to write
    /// must be the same at two checks.
    fn due(&mut self, replicated: Option<Timing>) -> Option<Due> {
        let Some(replicated) = replicated else {
            // Nobody can have set one. When the upgrade is finalized, the cluster gets that of its nodes.
            (self.last, self.first_checks) = (None, FIRST_CHECKS);
            return None;
        };
        let has_other = self.recorded.is_none() && self.in_use != Timing::default();
        if has_other && replicated == Timing::default() && self.first_checks > 0 {
            self.first_checks -= 1;
            return Some(Due::SetFirst);
        }
        // One was set. From now on, the default is what an administrator chose.
        self.first_checks = 0;
        let is_settled = self.last.replace(replicated) == Some(replicated);
        // Without a file the node starts with the default, unless its operator passes another profile.
        let is_recorded = match self.recorded {
            Some(recorded) => recorded == replicated,
            None => replicated == Timing::default() && self.in_use == replicated,
        };
        (is_settled && !is_recorded).then_some(Due::Write(replicated))
    }
}

/// Writes the replicated profile to the file whenever it changes. `forms`: this is a node of a new cluster.
pub(super) async fn watch(node: Node<TokioRuntime>, replica: Replica<TokioRuntime>, data: PathBuf, in_use: Timing, forms: bool) {
    // After a start, the local state may be older than the file. A node is ready only after it has caught up.
    while node.readiness().await.is_err() {
        sleep(CHECK_EVERY).await;
    }
    let Some(recorded) = read(&data).await else { return };
    let first_checks = if forms { FIRST_CHECKS } else { 0 };
    let mut record = TimingRecord { in_use, recorded, last: None, first_checks };
    loop {
        let replicated = replica.check_membership_version().is_ok().then(|| replica.timing());
        match record.due(replicated) {
            Some(Due::SetFirst) => {
                if let Err(error) = node.set_first_timing(in_use, FIRST_LIMIT).await {
                    // The next check tries again.
                    tracing::debug!(%error, "the cluster does not have the timing profile {in_use} yet");
                }
            }
            Some(Due::Write(timing)) => match write(&data, timing).await {
                Ok(()) => {
                    record.recorded = Some(timing);
                    warn_of_restart(timing, in_use);
                }
                Err(error) => tracing::error!(%error, "cannot keep the timing profile {timing} for the next start"),
            },
            None => {}
        }
        sleep(CHECK_EVERY).await;
    }
}

fn warn_of_restart(timing: Timing, in_use: Timing) {
    if timing != in_use {
        tracing::warn!(
            "the timing profile of the cluster is {timing}, but this process runs with {in_use}: restart this node to use \
             {timing}"
        );
    }
}

/// The profile in the file; `None` if it cannot be read.
async fn read(data: &Path) -> Option<Option<Timing>> {
    let path = data.to_owned();
    match spawn_blocking(move || timing_file::read(&path)).await {
        Ok(Ok(recorded)) => Some(recorded),
        Ok(Err(error)) => {
            tracing::error!(%error, "cannot read the timing profile");
            None
        }
        Err(error) => {
            tracing::error!(%error, "cannot read the timing profile");
            None
        }
    }
}

async fn write(data: &Path, timing: Timing) -> io::Result<()> {
    let path = data.to_owned();
    spawn_blocking(move || timing_file::write(&path, timing)).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(in_use: Timing, recorded: Option<Timing>) -> TimingRecord {
        TimingRecord { in_use, recorded, last: None, first_checks: 0 }
    }

    fn of_new_cluster(in_use: Timing) -> TimingRecord {
        TimingRecord { first_checks: FIRST_CHECKS, ..record(in_use, None) }
    }

    fn all(record: &mut TimingRecord, replicated: &[Option<Timing>]) -> Vec<Option<Due>> {
        replicated.iter().map(|timing| record.due(*timing)).collect()
    }

    const LAN: Option<Timing> = Some(Timing::Lan);
    const WAN: Option<Timing> = Some(Timing::Wan);

    #[test]
    fn a_new_cluster_gets_the_profile_of_its_nodes_from_any_leader_until_it_has_one() {
        let mut record = of_new_cluster(Timing::Wan);
        assert_eq!(all(&mut record, &[LAN; 3]), [Some(Due::SetFirst); 3], "the first leader is gone");
        assert_eq!(all(&mut record, &[WAN; 2]), [None, Some(Due::Write(Timing::Wan))]);
        record.recorded = Some(Timing::Wan);
        assert_eq!(all(&mut record, &[LAN; 2]), [None, Some(Due::Write(Timing::Lan))], "an administrator set the default");
    }

    #[test]
    fn a_profile_that_was_set_is_not_set_again_even_if_it_could_not_be_written() {
        let mut record = of_new_cluster(Timing::Wan);
        assert_eq!(all(&mut record, &[WAN, WAN, LAN]), [None, Some(Due::Write(Timing::Wan)), None], "the write failed");
        assert_eq!(record.due(LAN), Some(Due::Write(Timing::Lan)));
    }

    #[test]
    fn nothing_is_written_before_the_version_with_profiles_and_then_the_nodes_set_theirs() {
        let mut record = record(Timing::Wan, None);
        assert_eq!(all(&mut record, &[None; 4]), [None; 4], "the default is nobody's choice");
        assert_eq!(all(&mut record, &[LAN, WAN, WAN]), [Some(Due::SetFirst), None, Some(Due::Write(Timing::Wan))]);
    }

    #[test]
    fn a_node_sets_nothing_in_a_cluster_that_it_knew_before_or_that_kept_the_default() {
        let mut started_again = record(Timing::Wan, None);
        assert_eq!(all(&mut started_again, &[LAN; 2]), [None, Some(Due::Write(Timing::Lan))]);
        let mut alone_with_it = of_new_cluster(Timing::Wan);
        let first = usize::try_from(FIRST_CHECKS).unwrap();
        assert_eq!(all(&mut alone_with_it, &vec![LAN; first]), vec![Some(Due::SetFirst); first]);
        assert_eq!(all(&mut alone_with_it, &[LAN; 2]), [None, Some(Due::Write(Timing::Lan))]);
        assert_eq!(all(&mut of_new_cluster(Timing::Lan), &[LAN; 3]), [None; 3]);
    }

    #[test]
    fn a_profile_is_written_once_it_is_the_same_at_two_checks() {
        let mut record = record(Timing::Wan, None);
        assert_eq!(record.due(LAN), None, "the cluster has just formed");
        assert_eq!(record.due(WAN), None);
        assert_eq!(record.due(WAN), Some(Due::Write(Timing::Wan)));
        assert_eq!(record.due(WAN), Some(Due::Write(Timing::Wan)), "the write failed");
        record.recorded = Some(Timing::Wan);
        assert_eq!(record.due(WAN), None);
    }

    #[test]
    fn the_default_profile_needs_no_file() {
        let mut unchanged = record(Timing::Lan, None);
        assert_eq!(all(&mut unchanged, &[LAN; 3]), [None; 3]);
        let mut back = record(Timing::Wan, Some(Timing::Wan));
        assert_eq!(all(&mut back, &[LAN; 2]), [None, Some(Due::Write(Timing::Lan))]);
    }
}
