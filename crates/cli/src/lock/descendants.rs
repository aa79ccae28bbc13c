//! Every process that a command started and that still runs, in any process group or session, and of any user.
//!
//! No process can leave by itself: when its parent ends, it becomes a child of the nearest ancestor that asked for
//! orphans (`PR_SET_CHILD_SUBREAPER`), and both processes of `fairhold lock` do. So every such process is a descendant,
//! and `/proc` shows its parents. A process may fork before it is killed, so the search repeats until it finds nothing
//! new.

use super::group;
use crate::remote::format::terminal_safe;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, pidfd_send_signal, wait},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// The most searches in one call. A process that is left after them is in the kernel and about to end.
const ROUNDS_MAX: usize = 64;
/// The most descendants for which the kernel's lists of children are read. With more, one scan of all of `/proc` is
/// quicker.
const LISTED_MAX: usize = 512;

/// A process, as `/proc/N/stat` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: i32,
    name: String,
    state: char,
    parent: i32,
    group: i32,
    threads: u32,
    /// Its start since boot, in ticks: this tells it from an earlier process with the same number.
    started: u64,
}

impl Process {
    fn read(pid: i32) -> Option<Process> {
        Process::parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    /// The name is in parentheses and may contain any character, so the last closing parenthesis ends it.
    fn parse(stat: &str) -> Option<Process> {
        let (head, rest) = stat.rsplit_once(')')?;
        let (pid, name) = head.split_once(" (")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Process {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it runs. A zombie does not. If only its first thread has ended, a process looks like a zombie but is alive.
    fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }

    /// The numbers of its children, as the kernel lists them for each of its threads. A process that has ended has
    /// none.
    fn children(&self) -> Vec<i32> {
        let folder = format!("/proc/{}/task", self.pid);
        let threads = if self.threads > 1 { numbers(&folder) } else { vec![self.pid] };
        let lists = threads.iter().filter_map(|thread| fs::read_to_string(format!("{folder}/{thread}/children")).ok());
        lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()).collect()
    }

    fn key(&self) -> (i32, u64) {
        (self.pid, self.started)
    }

    /// Signals this process, and never a later process with the same number.
    fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(()) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) if Process::read(self.pid).is_some_and(|now| now.key() == self.key()) => pidfd_send_signal(handle, signal),
            // It is gone.
            Ok(_) | Err(Errno::SRCH) => Ok(()),
            // An old kernel, or no descriptor is left.
            Err(_) => kill_process(pid, signal),
        }
    }
}

/// A process that still runs after it was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Survivor {
    /// The kernel does not let this program stop it.
    Denied { pid: i32, name: String, user: u32 },
    /// It was killed but has not ended: it waits in the kernel.
    Stuck { pid: i32, name: String, state: char },
    /// A process that `/proc` does not show.
    Unseen,
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Survivor::Denied { pid, name, user } => {
                let user = if *user == 0 { "root".to_owned() } else { format!("user {user}") };
                write!(f, "process {pid} ({}) of {user} cannot be stopped: the kernel does not permit it", terminal_safe(name))
            }
            Survivor::Stuck { pid, name, state } => {
                write!(
                    f,
                    "process {pid} ({}) does not end: it was killed, and is in the kernel (state {state})",
                    terminal_safe(name)
                )
            }
            Survivor::Unseen => write!(f, "a process that /proc does not show (hidepid?) cannot be stopped"),
        }
    }
}

/// Describes the first of them, and counts the others.
pub(super) fn describe(left: &[Survivor]) -> String {
    match left {
        [] => "no process is left".to_owned(),
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first}; and {} more", rest.len()),
    }
}

/// The descendants of this process, except those from before the command.
#[derive(Debug)]
pub(super) struct Descendants {
    /// Children of the program that this one replaced (`exec fairhold lock …`).
    inherited: BTreeSet<(i32, u64)>,
}

impl Descendants {
    /// Every process that this one starts from now on, and their descendants.
    pub(super) fn from_now_on() -> Descendants {
        let own = getpid().as_raw_nonzero().get();
        let children = all().into_iter().filter(|process| process.parent == own);
        Descendants { inherited: children.map(|process| process.key()).collect() }
    }

    /// The living descendants by the kernel's lists of children: quick on a machine with many processes. A list that
    /// changes while it is read may lack an entry. None if the kernel has no such lists, or if they name too many.
    fn listed(&self) -> Option<Vec<Process>> {
        if !Path::new("/proc/thread-self/children").exists() {
            return None;
        }
        let own = Process::read(getpid().as_raw_nonzero().get())?;
        self.below(own, Process::children, Process::read)
    }

    /// The same below one process, by these lists of children and these readings of a process.
    fn below(
        &self,
        own: Process,
        children: impl Fn(&Process) -> Vec<i32>,
        read: impl Fn(i32) -> Option<Process>,
    ) -> Option<Vec<Process>> {
        let mut open = vec![own];
        let mut seen = 0;
        let mut living = Vec::new();
        while let Some(parent) = open.pop() {
            // Between the list and the reading a child may end, and its number pass to a process that is no descendant.
            let found = children(&parent).into_iter().filter_map(&read).filter(|process| process.parent == parent.pid);
            for process in found {
                seen += 1;
                if seen > LISTED_MAX {
                    return None;
                }
                if !self.inherited.contains(&process.key()) {
                    living.push(process.clone());
                    open.push(process);
                }
            }
        }
        living.retain(Process::is_alive);
        Some(living)
    }

    /// The living descendants by a scan of every process of the machine.
    fn living(&self) -> Vec<Process> {
        let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
        for process in all() {
            children.entry(process.parent).or_default().push(process);
        }
        let mut open = vec![getpid().as_raw_nonzero().get()];
        let mut living = Vec::new();
        while let Some(parent) = open.pop() {
            for process in children.remove(&parent).unwrap_or_default() {
                if !self.inherited.contains(&process.key()) {
                    open.push(process.pid);
                    living.push(process);
                }
            }
        }
        living.retain(Process::is_alive);
        living
    }

    /// Signals a process group at once, and each descendant outside it. The end of `fairhold lock` reports what it
    /// cannot reach.
    pub(super) fn signal(&self, of: Pid, signals: &[Signal]) {
        let mut outside = self.listed().unwrap_or_else(|| self.living());
        outside.retain(|process| process.group != of.as_raw_nonzero().get());
        for signal in signals {
            group::send(of, *signal);
            for process in &outside {
                process.signal(*signal).ok();
            }
        }
    }

    /// Signals each of them.
    pub(super) fn signal_each(&self, signal: Signal) {
        for process in self.listed().unwrap_or_else(|| self.living()) {
            process.signal(signal).ok();
        }
    }

    /// Kills all of them, and repeats while it finds new ones. Returns the processes that still exist; some may be
    /// about to end.
    ///
    /// A process that forks and ends within a millisecond is gone before a scan of the whole machine is over. So the
    /// kernel's lists come first, and the scan only confirms that they show nothing new. Before each search `reap`
    /// reaps the children that have ended: without it, a process that forks all the time fills the lists with zombies.
    pub(super) fn kill(&self, mut reap: impl FnMut()) -> Vec<Survivor> {
        let mut outcomes = BTreeMap::new();
        let mut is_to_confirm = false;
        for _ in 0..ROUNDS_MAX {
            reap();
            let listed = if is_to_confirm { None } else { self.listed() };
            let is_whole = listed.is_none();
            let living = listed.unwrap_or_else(|| self.living());
            let mut is_new = false;
            for process in &living {
                outcomes.entry(process.key()).or_insert_with(|| {
                    is_new = true;
                    process.signal(Signal::KILL)
                });
            }
            if is_whole && !is_new {
                return survivors(living, &outcomes);
            }
            is_to_confirm = !is_new;
        }
        survivors(self.living(), &outcomes)
    }

    /// The same when the supervisor is gone: reaps the processes that have ended and have no other parent. Reports a
    /// child that still runs but that `/proc` does not show.
    pub(super) fn kill_and_reap(&self) -> Vec<Survivor> {
        let left = self.kill(|| {
            has_children();
        });
        let is_unseen = left.is_empty() && has_children() && self.inherited.is_empty();
        if is_unseen { vec![Survivor::Unseen] } else { left }
    }
}

/// The processes that are still there, and the outcome of the attempt to kill them.
fn survivors(living: Vec<Process>, outcomes: &BTreeMap<(i32, u64), rustix::io::Result<()>>) -> Vec<Survivor> {
    let left = |process: Process| match outcomes.get(&process.key()) {
        Some(Err(Errno::PERM)) => {
            let user = fs::metadata(format!("/proc/{}", process.pid)).map_or(0, |process| process.uid());
            Survivor::Denied { pid: process.pid, name: process.name, user }
        }
        Some(Ok(()) | Err(_)) | None => Survivor::Stuck { pid: process.pid, name: process.name, state: process.state },
    };
    living.into_iter().map(left).collect()
}

/// The group of a process; none if the group is in another PID namespace, and so has no number in this one.
pub(super) fn group_of(pid: Pid) -> Option<Pid> {
    Pid::from_raw(Process::read(pid.as_raw_nonzero().get())?.group)
}

/// Every process that `/proc` shows.
fn all() -> Vec<Process> {
    numbers("/proc").into_iter().filter_map(Process::read).collect()
}

/// The entries of a folder with a number as a name: processes, threads.
fn numbers(folder: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Reaps the children that have ended. Returns whether any child still runs, even if `/proc` does not show it.
pub(super) fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Fails without `/proc`, or with the `/proc` of another PID namespace: then no process can be found or started.
pub(super) fn check() -> io::Result<()> {
    let shown = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
    if shown != Some(getpid().as_raw_nonzero().get()) {
        return Err(io::Error::other("/proc is missing, or belongs to another PID namespace"));
    }
    fs::File::open("/proc/self/exe").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "12 (a) Z 1 9 ()) S 7 77 78 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 3 0 4711 1 1 1";

    #[test]
    fn a_process_is_parsed_whatever_its_name_is() {
        let process = Process::parse(STAT).unwrap();
        assert_eq!((process.pid, process.name.as_str(), process.state), (12, "a) Z 1 9 ()", 'S'));
        assert_eq!((process.parent, process.group, process.threads, process.started), (7, 77, 3, 4_711));
        for wrong in ["", "12 (a", "12 (a) S", "x (a) S 7 77 78 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 3 0 4711"] {
            assert_eq!(Process::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Process::read(getpid().as_raw_nonzero().get()).unwrap().pid, getpid().as_raw_nonzero().get());
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_alive() {
        let process = Process::parse(STAT).unwrap();
        let zombie = Process { state: 'Z', threads: 1, ..process.clone() };
        assert!(process.is_alive() && !zombie.is_alive());
        assert!(Process { threads: 2, ..zombie }.is_alive());
    }

    #[test]
    fn a_process_that_reuses_the_pid_of_an_ended_child_is_not_a_descendant() {
        let process = |pid, parent| Process { pid, parent, threads: 1, ..Process::parse(STAT).unwrap() };
        let children = |process: &Process| if process.pid == 20 { vec![21, 22, 23] } else { Vec::new() };
        // 22 has ended since the list was read, and is now a child of another process; 23 is gone.
        let read = |pid| [process(21, 20), process(22, 1)].into_iter().find(|process| process.pid == pid);
        let none = Descendants { inherited: BTreeSet::new() };
        let found = none.below(process(20, 10), children, read).unwrap();
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [21]);
    }

    #[test]
    fn remaining_processes_are_named_in_text_that_is_safe_for_a_terminal() {
        let denied = Survivor::Denied { pid: 7, name: "su\u{1b}[2J".to_owned(), user: 0 };
        assert!(denied.to_string().starts_with("process 7 (su\\u{1b}[2J) of root cannot be stopped"), "{denied}");
        assert!(describe(&[denied, Survivor::Unseen, Survivor::Unseen]).ends_with("; and 2 more"));
    }
}
