//! Commands at which the state machine panicked. A node restarts and retries such a command once. After a second panic,
//! it skips the command.
//!
//! A panic in the middle of a command leaves half a change in memory, so the process restarts from the newest snapshot
//! and the log. Before it ends, it records the command's position in the log. After the second panic at the same
//! position it skips the command: the command answers `Rejection::Defect` and changes nothing. All nodes have the same
//! state and the same command at that position, so all of them reach the same decision. A panic that does not recur was
//! not the command's fault: the machine's memory may be failing.
//!
//! Without a panic, this costs nothing. `docs/internals/decisions/0025-a-defect-in-a-command.md` says
//! which panics it covers, and why.

use fairhold_metrics::Gauge;
use fairhold_state::command::{Command, LOG_FORMAT};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    any::Any,
    cell::Cell,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The number of panics at one position in the log after which the node skips the command.
const PANICS_MAX: u8 = 2;
/// Maximum number of recorded defects. The node drops the oldest ones first, but keeps every command that a restart
/// applies again. Without its record, such a command would panic again, and its new record would replace another one.
const RECORDED_MAX: usize = 64;
/// After this many defects in verdicts of one kind, the leader's clock proposes no more of that kind. Each verdict is a
/// different command, so the next one would panic too.
const VERDICTS_MAX: usize = 3;
/// Maximum recorded bytes of a panic message.
const MESSAGE_BYTES_MAX: usize = 512;

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

thread_local! {
    static CATCHES_PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is running a command. A panic is then caught, so a panic hook must not end the process.
#[must_use]
pub fn is_caught_here() -> bool {
    CATCHES_PANICS.get()
}

/// A command at which the state machine panicked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// The log entry.
    pub index: u64,
    /// The command's position in the entry, from 0.
    pub position: u64,
    /// The number of panics there, at most 2.
    pub panics: u8,
    /// Whether the retry succeeded.
    pub passed: bool,
    /// Whether the state was checked after the command was skipped.
    pub checked: bool,
    /// The kind of the command; empty until the retry.
    pub kind: String,
    /// A hash of the request: equal for equal requests. 0 until the retry.
    pub fingerprint: u64,
    /// The panic message.
    pub message: String,
    /// The version of this program in which it panicked.
    pub version: String,
}

impl Defect {
    /// Whether the command is skipped.
    #[must_use]
    pub fn is_skipped(&self) -> bool {
        self.panics >= PANICS_MAX
    }

    fn is_at(&self, index: u64, position: u64) -> bool {
        self.index == index && self.position == position
    }
}

/// Stores a node's defects durably, and restarts the process.
pub trait DefectStore: Send + Sync + 'static {
    /// The recorded defects; empty if there are none.
    fn load(&self) -> io::Result<Vec<Defect>>;

    /// Replaces the recorded defects. Once it returns, they survive a power loss.
    fn save(&self, defects: &[Defect]) -> io::Result<()>;

    /// Restarts the process. Returns only if that fails: the replica then ends with this error.
    fn restart_process(&self) -> io::Error;
}

/// Records nothing: a panic ends the replica. For replicas that do not outlive their process.
#[derive(Debug, Clone, Copy)]
pub struct NoDefectStore;

impl DefectStore for NoDefectStore {
    fn load(&self) -> io::Result<Vec<Defect>> {
        Ok(Vec::new())
    }

    fn save(&self, _: &[Defect]) -> io::Result<()> {
        Ok(())
    }

    fn restart_process(&self) -> io::Error {
        io::Error::other("a command panicked, and this replica records no defects")
    }
}

/// The defects that this node knows.
pub(crate) struct Defects {
    store: Arc<dyn DefectStore>,
    recorded: Mutex<Vec<Defect>>,
    /// The last log entry of the snapshot with which the state machine started. Later entries are applied again at each
    /// start.
    snapshot_index: AtomicU64,
    /// The number of skipped commands.
    pub(crate) skipped: Gauge,
}

/// What to do with the command at a position in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DefectAction {
    /// Apply the command, for the first time or again.
    Try,
    /// Skip the command. If `checked` is false, check the state.
    Skip { fingerprint: u64, checked: bool },
}

impl Defects {
    pub(crate) fn load(store: Arc<dyn DefectStore>) -> io::Result<Defects> {
        let recorded = store.load()?;
        let skipped = Gauge::default();
        skipped.set(count(&recorded));
        Ok(Defects { store, recorded: Mutex::new(recorded), snapshot_index: AtomicU64::new(0), skipped })
    }

    /// Sets the last log entry of the snapshot with which the state machine started.
    pub(crate) fn set_snapshot_index(&self, index: u64) {
        self.snapshot_index.store(index, Ordering::Relaxed);
    }

    /// All recorded defects, oldest first.
    pub(crate) fn recorded(&self) -> Vec<Defect> {
        self.recorded.lock().clone()
    }

    /// The positions in an entry that have a recorded defect: almost always none.
    pub(crate) fn in_entry(&self, index: u64) -> Vec<u64> {
        self.recorded
            .lock()
            .iter()
            .filter(|defect| defect.index == index && !defect.passed)
            .map(|defect| defect.position)
            .collect()
    }

    /// What to do with the command at a position that has a recorded defect.
    pub(crate) fn decide(&self, index: u64, position: u64, command: &Command) -> DefectAction {
        let mut recorded = self.recorded.lock();
        let Some(defect) = recorded.iter_mut().find(|defect| defect.is_at(index, position)) else { return DefectAction::Try };
        if defect.is_skipped() {
            return DefectAction::Skip { fingerprint: defect.fingerprint, checked: defect.checked };
        }
        defect.kind = kind(command);
        defect.fingerprint = fingerprint(command);
        let kind = &defect.kind;
        let fingerprint = format!("{:016x}", defect.fingerprint);
        tracing::warn!(index, position, kind, %fingerprint, "retrying a command that made this node panic");
        DefectAction::Try
    }

    /// Records that the retry succeeded.
    pub(crate) fn record_passed(&self, index: u64, position: u64) -> io::Result<()> {
        tracing::error!(
            index,
            position,
            "a command panicked once, but not when it was retried: the memory of this machine may be failing. Test it, and \
             compare this node's state with that of the others (fairhold doctor)"
        );
        self.update(index, position, |defect| defect.passed = true)
    }

    /// Records that the state is consistent without the command.
    pub(crate) fn record_checked(&self, index: u64, position: u64) -> io::Result<()> {
        self.update(index, position, |defect| defect.checked = true)
    }

    /// Records a panic and restarts the process, because half a change is in memory. Returns only if the restart fails.
    pub(crate) fn record_panic(&self, index: u64, position: u64, panic: &(dyn Any + Send)) -> io::Error {
        let message = message(panic);
        let saved = {
            let mut recorded = self.recorded.lock();
            match recorded.iter_mut().find(|defect| defect.is_at(index, position)) {
                Some(defect) => {
                    // An earlier retry succeeded, as on the other nodes, so the count starts again.
                    defect.panics = if defect.passed { 1 } else { PANICS_MAX.min(defect.panics + 1) };
                    defect.passed = false;
                    defect.message = message.clone();
                    defect.version = VERSION.to_owned();
                }
                None => recorded.push(Defect {
                    index,
                    position,
                    panics: 1,
                    passed: false,
                    checked: false,
                    kind: String::new(),
                    fingerprint: 0,
                    message: message.clone(),
                    version: VERSION.to_owned(),
                }),
            }
            let snapshot_index = self.snapshot_index.load(Ordering::Relaxed);
            let mut surplus = recorded.len().saturating_sub(RECORDED_MAX);
            recorded.retain(|defect| {
                let is_dropped = surplus > 0 && (defect.passed || defect.index <= snapshot_index);
                surplus -= usize::from(is_dropped);
                !is_dropped
            });
            self.store.save(&recorded)
        };
        tracing::error!(index, position, message, "a defect in fairhold: a command panicked. This node restarts");
        match saved {
            Ok(()) => self.store.restart_process(),
            // Without the record, every restart would panic at the same position.
            Err(error) => {
                io::Error::new(error.kind(), format!("a command panicked ({message}), which cannot be recorded: {error}"))
            }
        }
    }

    /// Whether any command was ever skipped.
    pub(crate) fn has_skipped(&self) -> bool {
        self.skipped.get() > 0
    }

    /// The fingerprint of the command if this node expects it to panic. The leader does not propose such a command:
    /// otherwise each retry by a client would bring down all nodes.
    pub(crate) fn refuses(&self, command: &Command) -> Option<u64> {
        if !self.has_skipped() {
            return None;
        }
        let recorded = self.recorded.lock();
        let kind = kind(command);
        let is_candidate = |defect: &&Defect| defect.is_skipped() && defect.version == VERSION && defect.kind == kind;
        // Computing a fingerprint takes time proportional to the command.
        recorded.iter().find(is_candidate)?;
        let fingerprint = fingerprint(command);
        let (identical, similar): (Vec<_>, Vec<_>) =
            recorded.iter().filter(is_candidate).partition(|defect| defect.fingerprint == fingerprint);
        let too_many = is_verdict(command) && similar.len() >= VERDICTS_MAX;
        (!identical.is_empty() || too_many).then_some(fingerprint)
    }

    /// Updates and saves a record. `update` must not change its number of panics, so the number of skipped commands
    /// stays the same.
    fn update(&self, index: u64, position: u64, update: impl FnOnce(&mut Defect)) -> io::Result<()> {
        let mut recorded = self.recorded.lock();
        if let Some(defect) = recorded.iter_mut().find(|defect| defect.is_at(index, position)) {
            update(defect);
        }
        self.store.save(&recorded)
    }
}

/// Runs work on a command, and catches its panic.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    CATCHES_PANICS.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    CATCHES_PANICS.set(false);
    result
}

fn count(recorded: &[Defect]) -> i64 {
    i64::try_from(recorded.iter().filter(|defect| defect.is_skipped()).count()).unwrap_or(i64::MAX)
}

/// The name of the command's variant.
fn kind(command: &Command) -> String {
    let mut word = FirstWord(String::new());
    // `FirstWord` stops the formatting with an error after the first word: a command can be long.
    fmt::write(&mut word, format_args!("{command:?}")).ok();
    word.0
}

/// A writer that keeps the first word.
struct FirstWord(String);

impl fmt::Write for FirstWord {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let word = text.split(|char: char| !char.is_ascii_alphanumeric()).next().unwrap_or_default();
        self.0.push_str(word);
        if word.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The first bytes of a hash over the command without its time, which differs at each attempt.
fn fingerprint(command: &Command) -> u64 {
    // A command from the log can always be encoded.
    let bytes = fairhold_codec::encode(LOG_FORMAT, &command.clone().without_time()).unwrap_or_default();
    Sha256::digest(&bytes).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Whether the leader's clock, not a client, makes this command, and a different one each time.
fn is_verdict(command: &Command) -> bool {
    match command {
        Command::EndCooling { .. }
        | Command::EndHolds { .. }
        | Command::Forget { .. }
        | Command::ForgetHistory { .. }
        | Command::ForgetLocks { .. }
        | Command::Sweep { .. }
        | Command::ExpireTokens { .. }
        | Command::ContinuePendingWork { .. } => true,
        Command::Guarded(guarded) => is_verdict(guarded.command()),
        Command::Attributed(attributed) => is_verdict(attributed.command()),
        Command::ForTenant(of) => is_verdict(of.command()),
        Command::FormCluster { .. }
        | Command::RaiseClusterVersion { .. }
        | Command::FormClusterAt { .. }
        | Command::OpenSession(_)
        | Command::CloseSession { .. }
        | Command::ExpireSession { .. }
        | Command::Acquire(_)
        | Command::Withdraw { .. }
        | Command::Abandon { .. }
        | Command::Release { .. }
        | Command::SetGrantTimeout { .. }
        | Command::Transact(_)
        | Command::Break(_)
        | Command::EndSession { .. }
        | Command::Downgrade { .. }
        | Command::Upgrade { .. }
        | Command::EndUpgrade { .. }
        | Command::Proclaim(_)
        | Command::SetLock(_)
        | Command::Revoke(_)
        | Command::RecordKey { .. }
        | Command::RecordCapacity { .. }
        | Command::CreateJoinToken(_)
        | Command::RevokeJoinToken { .. }
        | Command::AdmitNode(_)
        | Command::SettleJoin { .. }
        | Command::RequestRemoval(_)
        | Command::RecordRemoval { .. }
        | Command::SetMember(_)
        | Command::SetTiming { .. }
        | Command::NoteAct(_)
        | Command::ChangeAccess(_) => false,
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic without a message");
    let end = text.floor_char_boundary(MESSAGE_BYTES_MAX.min(text.len()));
    text[..end].to_owned()
}

#[cfg(test)]
mod tests;
