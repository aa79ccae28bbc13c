//! The cluster's timing profile: a node needs it before it can read the replicated state, so it keeps the profile in a
//! file for its next start.

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

/// Which profile the file should have.
#[derive(Debug, PartialEq, Eq)]
struct TimingRecord {
    /// The profile with which this process runs.
    in_use: Timing,
    /// The profile in the file, if there is one.
    recorded: Option<Timing>,
    /// The profile at the last check. A new cluster has the default for a moment, even if it is to have another one.
    last: Option<Timing>,
}

impl TimingRecord {
    /// The profile to write, given the replicated one. It must be the same at two checks.
    fn due(&mut self, replicated: Timing) -> Option<Timing> {
        let is_settled = self.last.replace(replicated) == Some(replicated);
        // Without a file the node starts with the default, unless its operator passes another profile.
        let is_recorded = match self.recorded {
            Some(recorded) => recorded == replicated,
            None => replicated == Timing::default() && self.in_use == replicated,
        };
        (is_settled && !is_recorded).then_some(replicated)
    }
}

/// Writes the replicated profile to the file whenever it changes.
pub(super) async fn watch(node: Node<TokioRuntime>, replica: Replica<TokioRuntime>, data: PathBuf, in_use: Timing) {
    // After a start, the local state may be older than the file. A node is ready only after it has caught up.
    while node.readiness().await.is_err() {
        sleep(CHECK_EVERY).await;
    }
    let Some(recorded) = read(&data).await else { return };
    let mut record = TimingRecord { in_use, recorded, last: None };
    loop {
        if let Some(timing) = record.due(replica.timing()) {
            match write(&data, timing).await {
                Ok(()) => record.recorded = Some(timing),
                Err(error) => tracing::error!(%error, "cannot keep the timing profile {timing} for the next start"),
            }
            if timing != in_use {
                tracing::warn!(
                    "the timing profile of the cluster is {timing}, but this process runs with {in_use}: restart this node to \
                     use {timing}"
                );
            }
        }
        sleep(CHECK_EVERY).await;
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
        TimingRecord { in_use, recorded, last: None }
    }

    #[test]
    fn a_profile_is_written_once_it_is_the_same_at_two_checks() {
        let mut record = record(Timing::Wan, None);
        assert_eq!(record.due(Timing::Lan), None, "the cluster has just formed");
        assert_eq!(record.due(Timing::Wan), None);
        assert_eq!(record.due(Timing::Wan), Some(Timing::Wan));
        assert_eq!(record.due(Timing::Wan), Some(Timing::Wan), "the write failed");
        record.recorded = Some(Timing::Wan);
        assert_eq!(record.due(Timing::Wan), None);
    }

    #[test]
    fn the_default_profile_needs_no_file() {
        let mut unchanged = record(Timing::Lan, None);
        assert_eq!([Timing::Lan; 3].map(|timing| unchanged.due(timing)), [None; 3]);
        let mut back = record(Timing::Wan, Some(Timing::Wan));
        assert_eq!([Timing::Lan; 2].map(|timing| back.due(timing)), [None, Some(Timing::Lan)]);
        let mut passed = record(Timing::Wan, None);
        assert_eq!([Timing::Lan; 2].map(|timing| passed.due(timing)), [None, Some(Timing::Lan)], "the flag is wrong");
    }
}
