//! Runs the tests with each mutant, and stops at the first test that fails.

use crate::{
    compile::{Compiled, Program},
    plan::Plan,
    plant::VARIABLE,
};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// If a test program uses this many times its processor time without a mutant, it counts as endless. Wall-clock time
/// would also count other programs.
const CPU_PER_RUN: u32 = 5;
const CPU_MIN: Duration = Duration::from_secs(20);
/// If it waits this many times longer, it waits for an event that never happens.
const WAIT_PER_RUN: u32 = 20;
const WAIT_MIN: Duration = Duration::from_secs(120);
/// The address space of a test program, in bytes: a mutant may allocate without end.
const MEMORY_MAX: &str = "--as=12884901888";

/// The time limits of a test program.
#[derive(Debug)]
struct Patience {
    cpu: Duration,
    wait: Duration,
}

/// The number of that signal, on every Unix.
const SIGKILL: i32 = 9;

const LONG: Duration = Duration::from_secs(3_600);

/// Whether a test noticed a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MutantVerdict {
    /// The test that failed, or another failure.
    Killed(String),
    /// All tests passed.
    Survived,
}

/// Judges these mutants. Reports each verdict as it arrives.
///
/// # Errors
/// The tests fail without a mutant, or cannot be started.
pub(crate) fn all(
    compiled: &Compiled,
    plan: &Plan,
    numbers: &[usize],
    jobs: usize,
    tell: impl Fn(usize, &MutantVerdict) + Sync,
) -> Result<Vec<(usize, MutantVerdict)>, String> {
    let mut timed = Vec::new();
    for program in &compiled.programs {
        let begun = Instant::now();
        if let Some(by) = run(program, 0, &Patience { cpu: LONG, wait: LONG })? {
            return Err(format!("without a mutant, {by} fails"));
        }
        timed.push((begun.elapsed(), program));
    }
    if timed.is_empty() {
        return Err(format!("{}: there are no test programs", plan.name));
    }
    // The quickest programs come first.
    timed.sort_by_key(|(took, _)| *took);
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<(), String> {
        while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
            let verdict = one(&timed, *number)?;
            tell(*number, &verdict);
            verdicts.lock().push((*number, verdict));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())));
        joined.collect::<Result<Vec<()>, String>>()
    })?;
    let mut verdicts = verdicts.into_inner();
    verdicts.sort_by_key(|(number, _)| *number);
    Ok(verdicts)
}

fn one(timed: &[(Duration, &Program)], number: usize) -> Result<MutantVerdict, String> {
    for (took, program) in timed {
        let patience = Patience { cpu: (*took * CPU_PER_RUN).max(CPU_MIN), wait: (*took * WAIT_PER_RUN).max(WAIT_MIN) };
        if let Some(by) = run(program, number + 1, &patience)? {
            return Ok(MutantVerdict::Killed(by));
        }
    }
    Ok(MutantVerdict::Survived)
}

/// Runs a test program with the mutant of this number. Returns the failure, if there is one.
fn run(program: &Program, number: usize, patience: &Patience) -> Result<Option<String>, String> {
    let mut command = Command::new("prlimit");
    command
        .arg(MEMORY_MAX)
        .arg(format!("--cpu={}", patience.cpu.as_secs()))
        .arg(&program.path)
        .arg("--test-threads=1")
        .current_dir(&program.folder);
    // Its child processes end with it.
    command.process_group(0);
    command.env(VARIABLE, number.to_string()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("prlimit (package util-linux): {error}"))?;
    let failed = follow(&mut child, patience.wait);
    if failed.is_some() {
        // It may have exited already.
        kill_process_group(Pid::from_child(&child), Signal::KILL).ok();
    }
    let status = child.wait().map_err(|error| format!("{}: {error}", program.name))?;
    Ok(match failed {
        Some(what) => Some(format!("{}: {what}", program.name)),
        None if status.success() => None,
        // Only the limit on processor time kills it with this signal.
        None if status.signal() == Some(SIGKILL) => {
            Some(format!("{}: does not end within {:.0?} of processor time", program.name, patience.cpu))
        }
        None => Some(format!("{}: {status}", program.name)),
    })
}

/// Reads its output until a test fails, the time is over, or it ends.
fn follow(child: &mut Child, wait: Duration) -> Option<String> {
    let output = child.stdout.take()?;
    let (send, lines) = mpsc::channel();
    // It ends with the output.
    thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).all(|line| send.send(line).is_ok()));
    let end = Instant::now() + wait;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some(test) = failure(&line) {
                    return Some(test.to_owned());
                }
            }
            Err(RecvTimeoutError::Timeout) => return Some(format!("does not end within {wait:.0?}")),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// The name of the test that a line reports as failed.
fn failure(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn script(text: &str) -> Program {
        let path = std::env::temp_dir().join(format!("fairhold-mutants-{}-{:x}", std::process::id(), text.len()));
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        Program { name: "x/y".to_owned(), path, folder: PathBuf::from("/") }
    }

    fn outcome(text: &str, number: usize, wait: Duration) -> Option<String> {
        let program = script(text);
        let outcome = run(&program, number, &Patience { cpu: LONG, wait }).unwrap();
        std::fs::remove_file(&program.path).unwrap();
        outcome
    }

    #[test]
    fn a_failed_test_is_named_and_a_crash_and_an_endless_test_count_as_failures() {
        let long = Duration::from_secs(60);
        assert_eq!(outcome("echo 'test a::b ... ok'", 0, long), None);
        let fails = "echo \"test a::m$FAIRHOLD_MUTANT ... FAILED\"; exec sleep 600";
        assert_eq!(outcome(fails, 7, long).unwrap(), "x/y: a::m7");
        assert_eq!(
            outcome("kill -SEGV $$", 0, long).unwrap(),
            "x/y: signal: 11 (SIGSEGV) (core dumped)".replace(" (core dumped)", "")
        );
        assert_eq!(outcome("exec sleep 600 #", 0, Duration::from_millis(50)).unwrap(), "x/y: does not end within 50ms");
    }
}
