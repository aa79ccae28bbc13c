//! The scheduled backups of a node: a file in a folder, every so often, and the oldest ones are deleted.
//!
//! A thread for blocking work writes each file, because the folder may be on a mount that no longer answers. The copy of
//! the state does not wait for it: after 30 s for one piece the backup ends.

mod alarm;
mod job;
mod newest;
mod plan;

pub(super) use newest::NewestBackup;

use crate::config::{ServeConfig, backup::BackupConfig};
use alarm::BackupAlarm;
use fairhold_node::{Node, backup::CompleteBackup};
use fairhold_raft::wall_now;
use fairhold_types::{ClusterId, NodeId};
use job::{BackupJob, MadeBackup, OldBackups};
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
    config: BackupConfig,
    /// The data directory of the node.
    data: PathBuf,
    /// The name of the cluster, if it has one.
    cluster_name: Option<String>,
    id: NodeId,
    node: Node<TokioRuntime>,
    /// For the alarms.
    newest: NewestBackup,
}

impl BackupSchedule {
    /// The schedule of a node, if its configuration has one.
    pub(super) fn of(config: &ServeConfig, id: NodeId, node: Node<TokioRuntime>) -> Option<BackupSchedule> {
        let backup = config.backup.clone()?;
        Some(BackupSchedule {
            newest: NewestBackup::new(&backup),
            config: backup,
            data: config.data.clone(),
            cluster_name: config.cluster_name.as_ref().map(ToString::to_string),
            id,
            node,
        })
    }

    /// What the alarms see of its backups.
    pub(super) fn newest(&self) -> NewestBackup {
        self.newest.clone()
    }

    /// Makes backups until the task is aborted.
    pub(super) async fn run(self) {
        let (cluster, cluster_id) = self.cluster().await;
        self.newest.begin(Instant::now());
        let job = BackupJob {
            dir: self.config.dir.clone(),
            data: self.data.clone(),
            cluster,
            cluster_id,
            id: self.id,
            keep: self.config.keep,
            node: self.node.clone(),
            progress: Default::default(),
        };
        let mut alarm = BackupAlarm::default();
        let mut last = self.newest_file(&mut alarm, &job).await;
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

    /// Waits until the cluster has formed. Returns its name in the names of files, which is its own or else its id, and its
    /// id.
    async fn cluster(&self) -> (String, ClusterId) {
        loop {
            if let Some(id) = self.node.cluster_id() {
                return (self.cluster_name.clone().unwrap_or_else(|| id.to_hex()), id);
            }
            sleep(FORMED_CHECK_EVERY).await;
        }
    }

    /// When the newest file in the folder was made, if there is one.
    async fn newest_file(&self, alarm: &mut BackupAlarm, job: &BackupJob) -> Option<WallSeconds> {
        let reader = job.clone();
        let (now, at) = (wall_now().0 / 1_000, Instant::now());
        let found = self.finished(alarm, job, spawn_blocking(move || reader.newest(now))).await;
        let made_at = found.ok().flatten()?;
        self.newest.found(Duration::from_secs(now.saturating_sub(made_at)), at);
        Some(made_at)
    }

    /// Makes one backup. Returns whether it is complete.
    async fn make(&self, alarm: &mut BackupAlarm, job: &BackupJob) -> bool {
        let started_at = Instant::now();
        let (work, runtime) = (job.clone(), Handle::current());
        let done = self.finished(alarm, job, spawn_blocking(move || work.run(&runtime))).await;
        match done.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(MadeBackup { file, bytes, old }) => {
                self.node.record_scheduled_backup(Some(CompleteBackup { at: wall_now(), bytes, took: started_at.elapsed() }));
                self.newest.made(started_at);
                let OldBackups { deleted, others } = old.as_ref().copied().unwrap_or_default();
                tracing::info!(file, bytes, deleted, others, "made a scheduled backup");
                match old {
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
        self.newest.failed(reason);
        alarm.begins(&self.node, reason);
    }
}
