//! Process groups and signals.

use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Signals that wait to be forwarded.
const SIGNALS_MAX: usize = 64;

/// Receives these signals, except ignored ones: a signal that is ignored (by nohup, or by a shell for background jobs)
/// stays ignored, also for the command. Needs a runtime.
pub(super) fn listen(signals: &[Signal]) -> std::io::Result<mpsc::Receiver<Signal>> {
    let (sender, receiver) = mpsc::channel(SIGNALS_MAX);
    let ignored = ignored();
    for wanted in signals.iter().copied().filter(|signal| ignored & (1 << (signal.as_raw() - 1)) == 0) {
        let mut arrivals = signal(SignalKind::from_raw(wanted.as_raw()))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while arrivals.recv().await.is_some() {
                // If the channel is full, the signal is already waiting there.
                sender.try_send(wanted).ok();
            }
        });
    }
    Ok(receiver)
}

/// The mask of ignored signals.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Sends a signal to all of a group. An empty group is not a failure.
pub(super) fn send(group: Pid, signal: Signal) {
    kill_process_group(group, signal).ok();
}
