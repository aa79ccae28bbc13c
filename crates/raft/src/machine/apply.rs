//! openraft's state machine over `fairhold_state::State`: applies entries, tells the audience, makes and takes snapshots.

use tokio::task::yield_now;

use crate::{
    base::{
        aliases::{LogId, Members},
        types::{Batch, BatchResults, Types},
    },
    machine::{
        defect::{DefectPlace, Defects, caught},
        shared::{Progress, Shared},
        snapshot::{SnapshotStore, aside},
        snapshot_writer::{Builder, SnapshotData, SnapshotWriter, state_of},
    },
};
use fairhold_state::{
    State,
    command::{Answer, Applied, Command, Event, Rejection},
};
use fairhold_types::{
    Revision, failpoint, limits,
    planted::{self, Bug},
};
use futures_util::{Stream, StreamExt};
use openraft::{
    AsyncRuntime, EntryPayload, OptionalSend,
    alias::{SnapshotMetaOf, SnapshotOf},
    storage::{EntryResponder, RaftStateMachine},
};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};

/// Steps of an entry's commands after which the state is free for readers, and the thread for heartbeats and votes, before the
/// next command: an entry may have a thousand commands, and each may have so many steps.
const SLICE_STEPS: u64 = limits::PIECE_STEPS;

/// Hears of every change, on every node, in the same order.
///
/// It is called while the state is locked for writing, so that who registers and then reads the state misses nothing: it must
/// be quick, and must not read the state through the replica.
pub trait ApplyObserver: Send + Sync + 'static {
    /// A command changed something, and the revision with it. `state` is already the state after it. No event tells of some
    /// changes, such as an id that is remembered or forgotten: `events` is empty then.
    fn applied(&self, state: &State, revision: Revision, events: &[Event]);

    /// A snapshot took the place of the state: what happened in between is not known here.
    fn replaced(&self, state: &State);

    /// How much time so many steps take besides the time that passes. Only a simulation, in which no time passes while the
    /// machine works, says more than none.
    fn pace(&self, steps: u64) -> Duration {
        let _: u64 = steps;
        Duration::ZERO
    }
}

/// The machine as openraft drives it: one call at a time, so its own fields always agree with the state.
pub(crate) struct Machine<RT: AsyncRuntime> {
    shared: Arc<Shared<RT>>,
    audience: Arc<dyn ApplyObserver>,
    keeper: Arc<SnapshotWriter>,
    last_applied: Option<LogId>,
    members: Members,
    /// What was applied since the start.
    work: u64,
    /// Whether the last snapshot that was due found no room.
    has_no_room: bool,
}

impl<RT: AsyncRuntime> Machine<RT> {
    /// Begins with the newest snapshot, or with nothing.
    pub(crate) async fn load(
        snapshots: Arc<dyn SnapshotStore>,
        audience: Arc<dyn ApplyObserver>,
        defects: Defects,
        log_kept_bytes: u64,
    ) -> io::Result<Machine<RT>> {
        failpoint!(RaftStartLoad, RT)?;
        let keeper = SnapshotWriter { store: snapshots, newest: tokio::sync::Mutex::new(None) };
        let (state, bytes, meta) = match keeper.load::<RT>().await? {
            // Here, and not aside: nothing else is to be done yet to which this would have to give way.
            Some(snapshot) => (state_of(&*snapshot.snapshot)?, snapshot.snapshot.bytes(), snapshot.meta),
            None => (State::default(), 0, SnapshotMetaOf::<Types<RT>>::default()),
        };
        *keeper.newest.lock().await = meta.last_log_id;
        let applied = meta.last_log_id.map(|id| id.index);
        let shared = Shared::new(state, applied, bytes, log_kept_bytes, defects);
        audience.replaced(&shared.read());
        Ok(Machine {
            shared: Arc::new(shared),
            audience,
            keeper: Arc::new(keeper),
            last_applied: meta.last_log_id,
            members: meta.last_membership,
            work: 0,
            has_no_room: false,
        })
    }

    /// The state that this machine writes.
    pub(crate) fn shared(&self) -> Arc<Shared<RT>> {
        self.shared.clone()
    }

    /// Applies one entry's commands. Each gets its own answer, and its events are told before anybody can read the state.
    async fn apply_batch(&self, index: u64, batch: Batch) -> io::Result<BatchResults> {
        let mut answers = Vec::with_capacity(batch.0.len());
        let (mut noted, mut tried) = (self.shared.defects.in_entry(index), Vec::new());
        let mut commands = batch.0.into_iter();
        loop {
            let steps = self.apply_slice(index, &noted, &mut commands, &mut answers)?;
            let pace = self.audience.pace(steps);
            if !pace.is_zero() {
                RT::sleep(pace).await;
            }
            let Some(next) = commands.as_slice().first() else { break };
            let position = answers.len() as u64;
            if noted.contains(&position) {
                match self.shared.defects.meet(index, position, next) {
                    DefectPlace::LeftOut { fingerprint, checked } => {
                        commands.next();
                        answers.push(self.leave_out(index, position, fingerprint, checked).await?);
                    }
                    DefectPlace::Suspect => {
                        noted.retain(|other| *other != position);
                        tried.push(position);
                    }
                }
            }
            yield_now().await;
        }
        tried.into_iter().try_for_each(|position| self.shared.defects.note_passed(index, position))?;
        Ok(BatchResults(answers))
    }

    /// Applies the next commands until they took `SLICE_STEPS`, or until a command with a noted defect comes. Returns the steps.
    fn apply_slice(
        &self,
        index: u64,
        noted: &[u64],
        commands: &mut std::vec::IntoIter<Command>,
        answers: &mut Vec<Answer>,
    ) -> io::Result<u64> {
        let mut done = 0;
        let slice = || {
            let mut state = self.shared.write();
            while done < SLICE_STEPS && !noted.contains(&(answers.len() as u64)) {
                let Some(command) = commands.next() else { break };
                let before = state.revision();
                match caught(|| state.apply(command)) {
                    Ok(Applied { answer, events, steps }) => {
                        // Some changes have no events, such as what is forgotten.
                        if answer.revision != before {
                            self.audience.applied(&state, answer.revision, &events);
                        }
                        done += steps;
                        answers.push(answer);
                    }
                    Err(panic) => {
                        let error = self.shared.defects.give_up(index, answers.len() as u64, &*panic);
                        tracing::error!(%error, "this node cannot restart by itself: it ends");
                        // With the state locked, so that nobody can read half a change.
                        resume_unwind(panic)
                    }
                }
            }
        };
        // A panic must stop the node; left alone, it would only stop this task. It poisons the state's lock on its way.
        let applied = catch_unwind(AssertUnwindSafe(slice));
        self.shared.metrics.steps.inc_by(done);
        applied.map_err(|_| io::Error::other(format!("a command panicked in log entry {index}")))?;
        Ok(done)
    }

    /// The answer of a command that is left out. Once, it is looked whether the state is sound without it: where it is not, the
    /// command was not to blame, and the node must not go on.
    async fn leave_out(&self, index: u64, position: u64, fingerprint: u64, checked: bool) -> io::Result<Answer> {
        let (state, revision) = {
            let state = self.shared.read();
            ((!checked).then(|| state.clone()), state.revision())
        };
        if let Some(state) = state {
            if let Err(what) = aside(&*self.keeper.store, move || state.check()).await? {
                let text = format!("the state before log entry {index} contradicts itself: {what}");
                // The first reason is the one that is told.
                let _is_told_already = self.shared.broken.set(text.clone());
                return Err(io::Error::other(text));
            }
            self.shared.defects.note_checked(index, position)?;
        }
        Ok(Answer { result: Err(Rejection::Defect { fingerprint }), revision })
    }

    fn advance(&mut self, log_id: LogId) {
        self.last_applied = Some(log_id);
        let (revision, weight) = {
            let state = self.shared.read();
            (state.revision(), state.snapshot_weight())
        };
        let log_bytes = self.shared.log_bytes().total();
        self.shared.publish(Progress { applied: Some(log_id.index), revision, work: self.work, weight, log_bytes });
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
                EntryPayload::Blank => BatchResults(Vec::new()),
                EntryPayload::Normal(_) if planted::has(Bug::LosesAnEntry) && responder.is_none() && log_id.index % 16 == 0 => {
                    BatchResults(Vec::new())
                }
                EntryPayload::Normal(mut batch) => {
                    if planted::has(Bug::AppliesOutOfOrder) && responder.is_none() {
                        batch.0.reverse();
                    }
                    let written = batch.0.iter().map(Command::snapshot_weight).sum::<u64>();
                    let before = self.shared.read().snapshot_weight();
                    self.shared.log_bytes().note(log_id.index, batch.0.iter().map(Command::size).sum::<usize>() as u64);
                    let answers = self.apply_batch(log_id.index, batch).await?;
                    // What is removed counts as well: a snapshot without it is smaller.
                    let removed = before.saturating_sub(self.shared.read().snapshot_weight());
                    self.work += written.max(removed);
                    answers
                }
                EntryPayload::Membership(membership) => {
                    failpoint!(RaftMembersApply, RT)?;
                    self.members = Members::new(Some(log_id), membership);
                    BatchResults(Vec::new())
                }
            };
            self.advance(log_id);
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
        let had_none = std::mem::replace(&mut self.has_no_room, !self.keeper.store.has_room_for(bytes));
        if self.has_no_room {
            if !had_none {
                tracing::warn!(bytes, "the disk has no space for a snapshot: the log grows until there is space");
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
        let snapshot = self.keeper.stored(snapshot).await?;
        let state = self.keeper.state(&snapshot).await?;
        // Kept first: the log behind it is purged as soon as this returns.
        self.keeper.keep::<RT>(meta, &snapshot).await?;
        failpoint!(RaftInstallSaved, RT)?;
        let replaced = {
            let mut current = self.shared.write();
            let replaced = if planted::has(Bug::SnapshotIgnored) { state } else { std::mem::replace(&mut *current, state) };
            self.audience.replaced(&current);
            replaced
        };
        self.shared.metrics.note_snapshot(&self.shared.metrics.snapshots_installed, snapshot.bytes());
        tracing::info!(index = meta.last_log_id.map(|id| id.index), "installed a snapshot from the leader");
        self.members = meta.last_membership.clone();
        match meta.last_log_id {
            Some(log_id) => self.advance(log_id),
            None => self.last_applied = None,
        }
        self.shared.note_snapshot(self.shared.now(), snapshot.bytes());
        // Freeing a large state takes a while, for which nobody has to wait.
        let freed = self.keeper.store.aside(Box::new(move || drop(replaced)));
        drop(RT::spawn(async move { drop(freed.await) }));
        failpoint!(RaftInstallDone, RT)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types<RT>, SnapshotData>>> {
        let newest = self.keeper.load::<RT>().await?;
        Ok(newest.map(|newest| openraft::Snapshot { meta: newest.meta, snapshot: SnapshotData::Stored(newest.snapshot) }))
    }
}

impl<RT: AsyncRuntime> Machine<RT> {
    fn builder(&self) -> Builder<RT> {
        Builder {
            state: self.shared.read().clone(),
            last_applied: self.last_applied,
            members: self.members.clone(),
            keeper: self.keeper.clone(),
            shared: self.shared.clone(),
            made_at: self.shared.now(),
        }
    }
}
