//! openraft's state machine over `fairhold_state::State`: applies entries, notifies the observer, writes and installs
//! snapshots.

use crate::{
    base::{
        aliases::{LogId, Members},
        config::ReplicaConfig,
        error::{FatalReason, StartError},
        program::UnsupportedVersion,
        types::{BatchResults, Types},
    },
    machine::{
        defect::{DefectAction, Defects, catch_panic},
        shared::{Progress, Shared},
        snapshot::{SnapshotStore, run_blocking},
        snapshot_writer::{Builder, SnapshotData, SnapshotWriter, state_of},
    },
};
use fairhold_state::{
    State,
    command::{Answer, Applied, Command, Event, Rejection},
};
use fairhold_types::{
    ClusterVersion, NodeId, Revision, SupportedVersions, failpoint, limits,
    planted::{self, Bug},
};
use futures_util::{Stream, StreamExt};
use openraft::{
    AsyncRuntime, EntryPayload, Instant, OptionalSend,
    alias::{SnapshotMetaOf, SnapshotOf},
    storage::{EntryResponder, RaftStateMachine},
};
use std::{
    borrow::Cow,
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::task::yield_now;

/// Steps after which an entry's commands pause, so that readers get the state's lock, and heartbeats and votes get the
/// thread: an entry may have a thousand commands, and each may take this many steps.
const SLICE_STEPS: u64 = limits::COMMAND_STEPS_MAX;

/// Receives every change, on every node, in the same order.
///
/// It is called while the state is locked for writing, so that a caller that registers first and then reads the state
/// misses nothing. It must be quick, and must not read the state through the replica.
pub trait ApplyObserver: Send + Sync + 'static {
    /// A command changed the state and its revision. `state` is the state after the change. Some changes have no event,
    /// such as an id that is remembered or forgotten: `events` is empty then.
    fn applied(&self, state: &State, revision: Revision, events: &[Event]);

    /// A command was refused, and changed nothing.
    fn refused(&self, command: &Command, rejection: &Rejection) {
        let _: (&Command, &Rejection) = (command, rejection);
    }

    /// A snapshot replaced the state. The changes in between are unknown here.
    fn replaced(&self, state: &State);

    /// Extra time to add for the given steps. Only a simulation returns more than zero: no time passes there while the
    /// state machine works.
    fn pace(&self, steps: u64) -> Duration {
        let _: u64 = steps;
        Duration::ZERO
    }
}

/// The state machine as openraft drives it: one call at a time, so its own fields always agree with the state.
pub(crate) struct Machine<RT: AsyncRuntime> {
    /// The state that this machine writes.
    pub(crate) shared: Arc<Shared<RT>>,
    observer: Arc<dyn ApplyObserver>,
    writer: Arc<SnapshotWriter>,
    last_applied: Option<LogId>,
    members: Members,
    /// This node, if it joined a running cluster.
    joined: Option<NodeId>,
    /// The cluster versions that the program supports.
    supports: SupportedVersions,
    /// The work applied since the start.
    work: u64,
    /// Whether the disk had no space for the last due snapshot.
    has_no_room: bool,
}

impl<RT: AsyncRuntime> Machine<RT> {
    /// Starts with the newest snapshot, or with an empty state.
    pub(crate) async fn load(
        snapshots: Arc<dyn SnapshotStore>,
        observer: Arc<dyn ApplyObserver>,
        defects: Defects,
        config: &ReplicaConfig,
    ) -> Result<Machine<RT>, StartError> {
        failpoint!(RaftStartLoad, RT).map_err(StartError::Snapshot)?;
        let writer = SnapshotWriter::new(snapshots);
        let (state, bytes, meta) = match writer.load::<RT>().await.map_err(StartError::Snapshot)? {
            // Without `run_blocking`: nothing else runs yet that this could delay.
            Some(snapshot) => {
                let stored = snapshot.snapshot.stored();
                (state_of(&**stored).map_err(StartError::Snapshot)?, stored.bytes(), snapshot.meta)
            }
            None => (State::default(), 0, SnapshotMetaOf::<Types<RT>>::default()),
        };
        if meta.last_log_id.is_none() && state.cluster().is_some() {
            // Applying a log to it would give this node another state than the others.
            let error = "it is a restored state whose cluster has not formed";
            return Err(StartError::Snapshot(io::Error::other(error)));
        }
        writer.record_start(meta.last_log_id).await;
        let applied = meta.last_log_id.map(|id| id.index);
        let (version, supports) = (state.cluster_version(), config.program.supports);
        if !supports.includes(version) {
            return Err(UnsupportedVersion { version, supports }.into());
        }
        let shared = Shared::new(state, applied, bytes, config.log_kept_bytes, defects);
        observer.replaced(&shared.read());
        let machine = Machine {
            shared: Arc::new(shared),
            observer,
            writer: Arc::new(writer),
            last_applied: meta.last_log_id,
            members: meta.last_membership,
            joined: config.joined.then_some(config.id),
            supports,
            work: 0,
            has_no_room: false,
        };
        machine.look_for_itself();
        Ok(machine)
    }

    /// Applies one entry's commands. Each gets its own answer, and the observer gets its events before any reader can
    /// see the change.
    async fn apply_batch(&self, index: u64, commands: &[Command]) -> io::Result<BatchResults> {
        let began_at = RT::Instant::now();
        let mut answers = Vec::with_capacity(commands.len());
        let mut suspects = self.shared.defects.in_entry(index);
        let mut retried = Vec::new();
        loop {
            let steps = self.apply_slice(index, &suspects, commands, &mut answers)?;
            let pace = self.observer.pace(steps);
            if !pace.is_zero() {
                RT::sleep(pace).await;
            }
            let Some(next) = commands.get(answers.len()) else { break };
            let position = answers.len() as u64;
            if suspects.contains(&position) {
                match self.shared.defects.decide(index, position, next) {
                    DefectAction::Skip { fingerprint, checked } => {
                        answers.push(self.skip(index, position, fingerprint, checked).await?);
                    }
                    DefectAction::Try => {
                        suspects.retain(|other| *other != position);
                        retried.push(position);
                    }
                }
            }
            yield_now().await;
        }
        retried.into_iter().try_for_each(|position| self.shared.defects.record_passed(index, position))?;
        Ok(BatchResults { answers, took: began_at.elapsed() })
    }

    /// Applies the commands that have no answer yet, until they have taken `SLICE_STEPS` or a command has a recorded
    /// defect. Returns the steps.
    fn apply_slice(&self, index: u64, suspects: &[u64], commands: &[Command], answers: &mut Vec<Answer>) -> io::Result<u64> {
        let mut done = 0;
        let slice = || {
            let mut state = self.shared.write();
            while done < SLICE_STEPS && !suspects.contains(&(answers.len() as u64)) {
                let Some(command) = commands.get(answers.len()) else { break };
                let before = state.revision();
                match catch_panic(|| state.apply(command)) {
                    Ok(Applied { answer, events, steps }) => {
                        // Some changes have no events, for example forgetting an id.
                        if answer.revision != before {
                            self.observer.applied(&state, answer.revision, &events);
                        }
                        if let Err(rejection) = &answer.result {
                            self.observer.refused(command, rejection);
                        }
                        done += steps;
                        answers.push(answer);
                    }
                    Err(panic) => {
                        let error = self.shared.defects.record_panic(index, answers.len() as u64, &*panic);
                        tracing::error!(%error, "this node cannot restart itself, so it stops");
                        // With the state locked, so that no reader sees half a change.
                        resume_unwind(panic)
                    }
                }
            }
        };
        // A panic must stop the node; without this, it would only stop this task. It also poisons the state's lock.
        let applied = catch_unwind(AssertUnwindSafe(slice));
        self.shared.metrics.steps.inc_by(done);
        applied.map_err(|_| io::Error::other(format!("a command panicked in log entry {index}")))?;
        Ok(done)
    }

    /// The answer to a skipped command. Checks once that the state is consistent without it: if it is not, the command
    /// is not the cause, and the node must stop.
    async fn skip(&self, index: u64, position: u64, fingerprint: u64, checked: bool) -> io::Result<Answer> {
        let (state, revision) = {
            let state = self.shared.read();
            ((!checked).then(|| state.clone()), state.revision())
        };
        if let Some(state) = state {
            if let Err(what) = run_blocking(&*self.writer.store, move || state.check()).await? {
                let text = format!("the state before log entry {index} is inconsistent: {what}");
                // Only the first reason is reported.
                let _already_reported = self.shared.failure.set(FatalReason::Inconsistent(text.clone()));
                return Err(io::Error::other(text));
            }
            self.shared.defects.record_checked(index, position)?;
        }
        Ok(Answer { result: Err(Rejection::Defect { fingerprint }), revision })
    }

    /// Publishes the progress. Fails if the cluster has got a version that this program does not support.
    fn advance(&mut self, log_id: LogId) -> io::Result<()> {
        self.last_applied = Some(log_id);
        let (revision, weight, version) = {
            let state = self.shared.read();
            (state.revision(), state.snapshot_weight(), state.cluster_version())
        };
        let log_bytes = self.shared.log_bytes.lock().total();
        self.shared.progress.set(Progress { applied: Some(log_id.index), revision, work: self.work, weight, log_bytes });
        self.check_version(version)
    }

    /// Fails if the program does not support the cluster's version: it would apply later commands in another way than the
    /// other nodes.
    fn check_version(&self, version: ClusterVersion) -> io::Result<()> {
        if self.supports.includes(version) {
            return Ok(());
        }
        let unsupported = UnsupportedVersion { version, supports: self.supports };
        // Only the first reason is reported.
        let _already_reported = self.shared.failure.set(FatalReason::Unsupported(unsupported));
        Err(io::Error::other(unsupported))
    }

    /// Records whether the state is from after this node became a member.
    fn look_for_itself(&self) {
        if self.joined.is_none_or(|id| self.members.membership().get_node(&id).is_some()) {
            self.shared.has_joined.store(true, Ordering::Release);
        }
    }

    fn builder(&self) -> Builder<RT> {
        Builder {
            state: self.shared.read().clone(),
            last_applied: self.last_applied,
            members: self.members.clone(),
            writer: self.writer.clone(),
            shared: self.shared.clone(),
            made_at: self.shared.progress.get(),
        }
    }
}

impl<RT: AsyncRuntime> RaftStateMachine<Types<RT>> for Machine<RT> {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder<RT>;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Members)> {
        Ok((self.last_applied, self.members.clone()))
    }

    async fn apply<Entries>(&mut self, mut entries: Entries) -> io::Result<()>
    where
        Entries: Stream<Item = io::Result<EntryResponder<Types<RT>>>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            failpoint!(RaftApplyBegin, RT)?;
            let log_id = entry.log_id;
            let answers = match entry.payload {
                EntryPayload::Blank => BatchResults::default(),
                EntryPayload::Normal(batch) => {
                    let commands = with_planted_bugs(batch.commands(), log_id.index, responder.is_none());
                    let written = commands.iter().map(Command::snapshot_weight).sum::<u64>();
                    let before = self.shared.read().snapshot_weight();
                    self.shared.log_bytes.lock().add(log_id.index, commands.iter().map(Command::size).sum::<usize>() as u64);
                    let answers = self.apply_batch(log_id.index, &commands).await?;
                    // Removals count as well: they make the next snapshot smaller.
                    let removed = before.saturating_sub(self.shared.read().snapshot_weight());
                    self.work += written.max(removed);
                    answers
                }
                EntryPayload::Membership(membership) => {
                    failpoint!(RaftMembersApply, RT)?;
                    self.members = Members::new(Some(log_id), membership);
                    self.look_for_itself();
                    BatchResults::default()
                }
            };
            self.advance(log_id)?;
            failpoint!(RaftApplyDone, RT)?;
            if let Some(responder) = responder {
                responder.send(answers);
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, _force: bool) -> Option<Builder<RT>> {
        let builder = self.builder();
        let bytes = builder.state.snapshot_bytes();
        let had_no_room = std::mem::replace(&mut self.has_no_room, !self.writer.store.has_room_for(bytes));
        if self.has_no_room {
            if !had_no_room {
                tracing::warn!(
                    bytes,
                    "the disk has no space for a snapshot, so the log grows. Free space on the file system of the data directory"
                );
            }
            return None;
        }
        Some(builder)
    }

    async fn get_snapshot_builder(&mut self) -> Builder<RT> {
        self.builder()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMetaOf<Types<RT>>, snapshot: SnapshotData) -> io::Result<()> {
        failpoint!(RaftInstallBegin, RT)?;
        let (snapshot, state) = self.writer.installable(snapshot).await?;
        // Stored first: the log that it covers is purged as soon as this returns.
        self.writer.keep::<RT>(meta, &snapshot).await?;
        failpoint!(RaftInstallSaved, RT)?;
        let replaced = {
            let mut current = self.shared.write();
            let replaced = replace_state(&mut current, state);
            self.observer.replaced(&current);
            replaced
        };
        self.shared.metrics.record_snapshot(&self.shared.metrics.snapshots_installed, snapshot.bytes());
        tracing::info!(index = meta.last_log_id.map(|id| id.index), "installed a snapshot from the leader");
        self.members = meta.last_membership.clone();
        self.look_for_itself();
        match meta.last_log_id {
            Some(log_id) => self.advance(log_id)?,
            None => self.last_applied = None,
        }
        self.shared.record_snapshot(self.shared.progress.get(), snapshot.bytes());
        // Freeing a large state takes a while, and nothing needs to wait for it.
        let freed = self.writer.store.run_blocking(Box::new(move || drop(replaced)));
        drop(RT::spawn(async move { drop(freed.await) }));
        failpoint!(RaftInstallDone, RT)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types<RT>, SnapshotData>>> {
        let newest = self.writer.load::<RT>().await?;
        Ok(newest.map(|newest| openraft::Snapshot { meta: newest.meta, snapshot: SnapshotData::Stored(newest.snapshot) }))
    }
}

/// Puts the snapshot's state in place of the current one, and returns the old state.
fn replace_state(current: &mut State, state: State) -> State {
    if planted::has(Bug::SnapshotIgnored) {
        return state;
    }
    std::mem::replace(current, state)
}

/// The unchanged commands, unless a planted bug changes them on the nodes that do not answer their callers.
fn with_planted_bugs(commands: &[Command], index: u64, has_no_caller: bool) -> Cow<'_, [Command]> {
    if planted::has(Bug::LosesAnEntry) && has_no_caller && index.is_multiple_of(16) {
        return Cow::Borrowed(&[]);
    }
    if planted::has(Bug::AppliesOutOfOrder) && has_no_caller {
        return commands.iter().rev().cloned().collect();
    }
    Cow::Borrowed(commands)
}
