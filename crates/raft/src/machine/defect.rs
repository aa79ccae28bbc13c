//! Commands at which the machine panicked. A node tries such a command once more after a restart, and then leaves it out.
//!
//! A panic in the middle of a command leaves half a change in memory, so the process starts again: from the newest snapshot and
//! the log. Before it goes down, it notes the command's place in the log. At the second panic at the same place it leaves the
//! command out: the command answers `Rejection::Defect` and changes nothing. All nodes have the same state and the same command
//! there, so all of them come to the same end. A panic that does not come again was none of the command's: the machine's memory
//! may be failing.
//!
//! Nothing of this costs anything where nothing panics. `docs/internals/decisions/0025-a-defect-in-a-command.md` says which panics it
//! covers, and why.

use fairhold_metrics::Gauge;
use fairhold_state::command::{Command, LOG_FORMAT};
use parking_lot::{Mutex, MutexGuard};
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

/// Panics at one place in the log after which a command is left out.
const PANICS_MAX: u8 = 2;
/// Defects that are noted. The oldest go first, but none that is met again after a restart: without its note the command would
/// panic once more, its note would take another's place, and so on for ever.
const NOTED_MAX: usize = 64;
/// After so many defects in verdicts of one kind, the leader's clock reaches no more of that kind: each of them is another
/// command, and the next one would panic too.
const VERDICTS_MAX: usize = 3;
/// Bytes of a panic's message that are noted.
const MESSAGE_BYTES_MAX: usize = 512;

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic on this thread, right now, is one of a command: then it is caught, and a panic hook must not end the process.
#[must_use]
pub fn is_caught_here() -> bool {
    CAUGHT.get()
}

/// A command at which the machine panicked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// The log entry.
    pub index: u64,
    /// The command's place in it, from 0.
    pub position: u64,
    /// How often it panicked there, at most 2.
    pub panics: u8,
    /// Whether the second try went well.
    pub passed: bool,
    /// Whether the state was checked since the command was left out.
    pub checked: bool,
    /// What kind of command it is; empty until the second try.
    pub kind: String,
    /// What the command asks for, as a number: the same for the same request. 0 until the second try.
    pub fingerprint: u64,
    /// The panic message.
    pub message: String,
    /// The version of this program in which it panicked.
    pub version: String,
}

impl Defect {
    /// Whether the command is left out.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        self.panics >= PANICS_MAX
    }
}

/// Where a node notes its defects, so that they outlast the process, and how it starts again.
pub trait DefectBook: Send + Sync + 'static {
    /// What was noted last; nothing where nothing ever was.
    fn load(&self) -> io::Result<Vec<Defect>>;

    /// Notes these in place of those before. When it returns, they survive a loss of power.
    fn save(&self, defects: &[Defect]) -> io::Result<()>;

    /// Starts the process again, and does not return; or says why the replica just ends.
    fn start_again(&self) -> io::Error;
}

/// Notes nothing, for replicas that live no longer than their process: a panic ends them.
#[derive(Debug, Clone, Copy)]
pub struct NoDefectBook;

impl DefectBook for NoDefectBook {
    fn load(&self) -> io::Result<Vec<Defect>> {
        Ok(Vec::new())
    }

    fn save(&self, _: &[Defect]) -> io::Result<()> {
        Ok(())
    }

    fn start_again(&self) -> io::Error {
        io::Error::other("a command panicked, and nothing is noted of it")
    }
}

/// The defects that this node knows of.
pub(crate) struct Defects {
    book: Arc<dyn DefectBook>,
    noted: Mutex<Vec<Defect>>,
    /// The last log entry of the snapshot with which the machine began: what comes after it is applied again at each start.
    begins_after: AtomicU64,
    /// How many are left out.
    pub(crate) left_out: Gauge,
}

/// What is to be done at a place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DefectPlace {
    /// The command is to be tried again, or nothing is known of it.
    Suspect,
    /// The command is left out. The state is to be checked, where it was not since.
    LeftOut { fingerprint: u64, checked: bool },
}

impl Defects {
    pub(crate) fn load(book: Arc<dyn DefectBook>) -> io::Result<Defects> {
        let noted = book.load()?;
        let left_out = Gauge::default();
        left_out.set(count(&noted));
        Ok(Defects { book, noted: Mutex::new(noted), begins_after: AtomicU64::new(0), left_out })
    }

    /// The machine begins with a snapshot that ends with this log entry.
    pub(crate) fn begin_after(&self, index: u64) {
        self.begins_after.store(index, Ordering::Relaxed);
    }

    /// All that is noted, oldest first.
    pub(crate) fn noted(&self) -> Vec<Defect> {
        self.locked().clone()
    }

    /// The places in an entry of which something is noted: almost always none.
    pub(crate) fn in_entry(&self, index: u64) -> Vec<u64> {
        self.locked().iter().filter(|defect| defect.index == index && !defect.passed).map(|defect| defect.position).collect()
    }

    /// What is to be done with a command, at a place of which something is noted.
    pub(crate) fn meet(&self, index: u64, position: u64, command: &Command) -> DefectPlace {
        let mut noted = self.locked();
        let Some(defect) = noted.iter_mut().find(|defect| defect.is_at(index, position)) else { return DefectPlace::Suspect };
        if defect.is_left_out() {
            return DefectPlace::LeftOut { fingerprint: defect.fingerprint, checked: defect.checked };
        }
        (defect.kind, defect.fingerprint) = (kind(command), fingerprint(command));
        let (kind, fingerprint) = (&defect.kind, defect.fingerprint);
        let fingerprint = Hex(fingerprint);
        tracing::warn!(index, position, kind, %fingerprint, "retrying a command at which this node panicked");
        DefectPlace::Suspect
    }

    /// The second try went well.
    pub(crate) fn note_passed(&self, index: u64, position: u64) -> io::Result<()> {
        tracing::error!(
            index,
            position,
            "a command panicked once but not when it was retried: the memory of this machine may be failing. Test it, and \
             compare this node's state with the others' (fairhold doctor)"
        );
        self.change(index, position, |defect| defect.passed = true)
    }

    /// The state is sound without the command.
    pub(crate) fn note_checked(&self, index: u64, position: u64) -> io::Result<()> {
        self.change(index, position, |defect| defect.checked = true)
    }

    /// Notes a panic, and starts the process again: half a change is in memory. Returns only where it cannot.
    pub(crate) fn give_up(&self, index: u64, position: u64, panic: &(dyn Any + Send)) -> io::Error {
        let message = message(panic);
        let saved = {
            let mut noted = self.locked();
            match noted.iter_mut().find(|defect| defect.is_at(index, position)) {
                Some(defect) => {
                    // Once it went well here, as on the other nodes: it counts from the beginning.
                    defect.panics = if defect.passed { 1 } else { PANICS_MAX.min(defect.panics + 1) };
                    defect.passed = false;
                    (defect.message, defect.version) = (message.clone(), VERSION.to_owned());
                }
                None => noted.push(Defect {
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
            let begins_after = self.begins_after.load(Ordering::Relaxed);
            let mut surplus = noted.len().saturating_sub(NOTED_MAX);
            noted.retain(|defect| {
                let goes = surplus > 0 && (defect.passed || defect.index <= begins_after);
                surplus -= usize::from(goes);
                !goes
            });
            self.book.save(&noted)
        };
        tracing::error!(index, position, message, "a defect in fairhold: a command panicked. This node restarts");
        match saved {
            Ok(()) => self.book.start_again(),
            // Without the note it would panic at the same place for ever.
            Err(error) => io::Error::new(error.kind(), format!("a command panicked ({message}), which cannot be noted: {error}")),
        }
    }

    /// Whether any command was ever left out.
    pub(crate) fn has_left_out(&self) -> bool {
        self.left_out.get() > 0
    }

    /// The fingerprint of a command that would panic, as far as is known. The leader does not propose it again: a client that
    /// repeats its request must not send all nodes down with each try.
    pub(crate) fn refuses(&self, command: &Command) -> Option<u64> {
        if !self.has_left_out() {
            return None;
        }
        let (noted, kind) = (self.locked(), kind(command));
        let ours = |defect: &&Defect| defect.is_left_out() && defect.version == VERSION && defect.kind == kind;
        // A fingerprint costs as much as the command is long.
        noted.iter().find(ours)?;
        let fingerprint = fingerprint(command);
        let (same, alike): (Vec<_>, Vec<_>) = noted.iter().filter(ours).partition(|defect| defect.fingerprint == fingerprint);
        let too_many = is_verdict(command) && alike.len() >= VERDICTS_MAX;
        (!same.is_empty() || too_many).then_some(fingerprint)
    }

    /// Changes what is noted beside the number of panics: how many commands are left out does not change by that.
    fn change(&self, index: u64, position: u64, change: impl FnOnce(&mut Defect)) -> io::Result<()> {
        let mut noted = self.locked();
        if let Some(defect) = noted.iter_mut().find(|defect| defect.is_at(index, position)) {
            change(defect);
        }
        self.book.save(&noted)
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Defect>> {
        self.noted.lock()
    }
}

impl Defect {
    fn is_at(&self, index: u64, position: u64) -> bool {
        self.index == index && self.position == position
    }
}

/// Does something with a command, and catches its panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    CAUGHT.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(false);
    done
}

/// A fingerprint as people see it.
pub(crate) struct Hex(pub(crate) u64);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

fn count(noted: &[Defect]) -> i64 {
    i64::try_from(noted.iter().filter(|defect| defect.is_left_out()).count()).unwrap_or(i64::MAX)
}

/// The command's variant, as the code names it.
fn kind(command: &Command) -> String {
    let mut word = FirstWord(String::new());
    // It ends with an error where the word ends: a command can be long.
    fmt::write(&mut word, format_args!("{command:?}")).ok();
    word.0
}

/// Takes the first word that is written to it, and no more.
struct FirstWord(String);

impl fmt::Write for FirstWord {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let word = text.split(|char: char| !char.is_ascii_alphanumeric()).next().unwrap_or_default();
        self.0.push_str(word);
        if word.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The first bytes of a hash over the command but for its time, which is another at each try.
fn fingerprint(command: &Command) -> u64 {
    // What was in the log can be encoded.
    let bytes = fairhold_codec::encode(LOG_FORMAT, &command.clone().without_time()).unwrap_or_default();
    Sha256::digest(&bytes).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Whether a command comes from the leader's clock and not from a client, and is another one each time.
fn is_verdict(command: &Command) -> bool {
    match command {
        Command::EndCooling { .. }
        | Command::EndHolds { .. }
        | Command::Forget { .. }
        | Command::ForgetHistory { .. }
        | Command::ForgetLocks { .. }
        | Command::Sweep { .. }
        | Command::Continue { .. } => true,
        Command::FormCluster { .. }
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
        | Command::NoteKey { .. }
        | Command::NoteCapacity { .. } => false,
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic without a text");
    let end = text.floor_char_boundary(MESSAGE_BYTES_MAX.min(text.len()));
    text[..end].to_owned()
}

#[cfg(test)]
mod tests;
