//! The scheduled backups of a node: a file in a folder, every so often, and the oldest ones are deleted.
//!
//! A thread for blocking work writes each file, because the folder may be on a mount that no longer answers. The copy of
//! the state does not wait for it: after 30 s for one piece the backup ends.

mod alarm;
mod job;
mod plan;

use crate::config::backup::BackupConfig;
use alarm::BackupAlarm;
use fairhold_node::{Node, backup::CompleteBackup};
use fairhold_raft::wall_now;
use fairhold_types::NodeId;
use job::{BackupJob, MadeBackup};
use openraft_rt_tokio::TokioRuntime;
use plan::{WallSeconds, next_due};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::{
    runtime::Handle,
    task::{JoinError, JoinHandle, spawn_blocking},
    time::{sleep, timeout},
};

/// How often it looks at the clock, which somebody may set.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How soon a node looks again whether its cluster has formed.
const FORMED_CHECK_EVERY: Duration = Duration::from_millis(500);
/// After a failure it tries again this soon.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// A thread that makes no progress for this long counts as a failure. It may still come back.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// The scheduled backups of one node.
pub(super) struct BackupSchedule {
    pub(super) config: BackupConfig,
    /// The data directory of the node.
    pub(super) data: PathBuf,
    /// The name of the cluster, if it has one.
    pub(super) cluster_name: Option<String>,
    pub(super) id: NodeId,
    pub(super) node: Node<TokioRuntime>,
}

impl BackupSchedule {
    /// Makes backups until the task is aborted.
    pub(super) async fn run(self) {
        let cluster = self.cluster().await;
        let job = BackupJob {
            dir: self.config.dir.clone(),
            data: self.data.clone(),
            cluster,
            id: self.id,
            keep: self.config.keep,
            node: self.node.clone(),
            progress: Default::default(),
        };
        let mut alarm = BackupAlarm::default();
        let reader = job.clone();
        let newest = self.finished(&mut alarm, &job, spawn_blocking(move || reader.newest())).await;
        let mut last: Option<WallSeconds> = newest.ok().flatten();
        let mut retry_at: Option<Instant> = None;
        loop {
            let now = wall_now().0 / 1_000;
            let due = next_due(now, last, self.config.every, self.id);
            let may_retry = retry_at.is_none_or(|at| Instant::now() >= at);
            if now < due || !may_retry {
                sleep(LOOK_EVERY.min(Duration::from_secs(due.saturating_sub(now).max(1)))).await;
                continue;
            }
            let made = self.make(&mut alarm, &job).await;
            retry_at = (!made).then(|| Instant::now() + RETRY_AFTER);
            if made {
                last = Some(now);
            }
        }
    }

    /// Waits until the cluster has formed. Returns its name in the names of files: its own, or else its id.
    async fn cluster(&self) -> String {
        loop {
            if let Some(id) = self.node.cluster_id() {
                return self.cluster_name.clone().unwrap_or_else(|| id.to_hex());
            }
            sleep(FORMED_CHECK_EVERY).await;
        }
    }

    /// Makes one backup. Returns whether it is complete.
    async fn make(&self, alarm: &mut BackupAlarm, job: &BackupJob) -> bool {
        let started_at = Instant::now();
        let (work, runtime) = (job.clone(), Handle::current());
        let done = self.finished(alarm, job, spawn_blocking(move || work.run(&runtime))).await;
        match done.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(MadeBackup { file, bytes, deleted }) => {
                self.node.record_scheduled_backup(Some(CompleteBackup { at: wall_now(), bytes, took: started_at.elapsed() }));
                tracing::info!(file, bytes, deleted = *deleted.as_ref().unwrap_or(&0), "made a scheduled backup");
                match deleted {
                    Ok(_) => alarm.ends(&self.node),
                    Err(error) => alarm.begins(&self.node, &format!("old backups cannot be deleted: {error}")),
                }
                true
            }
            Err(reason) => {
                self.fail(alarm, &reason);
                false
            }
        }
    }

    /// Waits for a thread. If it makes no progress for long, that counts as a failure, and no other one starts meanwhile.
    async fn finished<T>(&self, alarm: &mut BackupAlarm, job: &BackupJob, mut thread: JoinHandle<T>) -> Result<T, JoinError> {
        let mut progress = job.progress();
        let mut is_stuck = false;
        loop {
            if let Ok(done) = timeout(STUCK_AFTER, &mut thread).await {
                return done;
            }
            let now = job.progress();
            if now == progress && !is_stuck {
                is_stuck = true;
                let reason = format!("{} does not answer", self.config.dir.display());
                self.fail(alarm, &reason);
            }
            progress = now;
        }
    }

    fn fail(&self, alarm: &mut BackupAlarm, reason: &str) {
        self.node.record_scheduled_backup(None);
        alarm.begins(&self.node, reason);
    }
}
