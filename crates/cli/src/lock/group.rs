//! Process groups and signals.

use rustix::process::{Pid, Signal, getpid, kill_process_group};
use std::fs;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Signals that wait to be passed on.
const SIGNALS_MAX: usize = 64;

/// Those signals of this list that are not ignored, as they come. What is ignored (by nohup, by a shell for what it starts in the
/// background) stays so, for the command too. Needs a runtime.
pub(super) fn listen(signals: &[Signal]) -> std::io::Result<mpsc::Receiver<Signal>> {
    let (tell, told) = mpsc::channel(SIGNALS_MAX);
    let ignored = ignored();
    for wanted in signals.iter().copied().filter(|signal| ignored & (1 << (signal.as_raw() - 1)) == 0) {
        let mut arrivals = signal(SignalKind::from_raw(wanted.as_raw()))?;
        let tell = tell.clone();
        tokio::spawn(async move {
            while arrivals.recv().await.is_some() {
                // The same signal many times over is the same as once.
                tell.try_send(wanted).ok();
            }
        });
    }
    Ok(told)
}

/// The mask of ignored signals.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Sends a signal to all of a group; that nobody is left in it is no failure.
pub(super) fn send(group: Pid, signal: Signal) {
    kill_process_group(group, signal).ok();
}

/// Whether a living process other than this one is in the group. Zombies do nothing any more.
pub(super) fn has_others(group: Pid) -> bool {
    let own = getpid();
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let others = numbers.filter(|number| *number != own.as_raw_nonzero().get());
    others.into_iter().any(|number| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        is_alive_in(&stat, group.as_raw_nonzero().get())
    })
}

/// From `/proc/N/stat`: behind the name, which may hold anything, stand the state, the parent and the group.
fn is_alive_in(stat: &str, group: i32) -> bool {
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let fields: Vec<&str> = rest.split_whitespace().take(3).collect();
    let [state, _, of] = fields[..] else { return false };
    !matches!(state, "Z" | "X") && of.parse() == Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_group_whatever_its_name_is() {
        assert!(is_alive_in("12 (a) Z 1 9 () S 1 77 77 0", 77));
        assert!(!is_alive_in("12 (sh) Z 1 77 77 0", 77) && !is_alive_in("12 (sh) S 77 12 77 0", 77) && !is_alive_in("", 77));
    }
}
