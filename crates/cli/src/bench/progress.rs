//! The progress bar of a run on a terminal.

use super::measure::{LoadPlan, Progress};
use crate::remote::ConnectArgs;
use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// How often the bar is redrawn.
const REDRAW_EVERY: Duration = Duration::from_millis(200);
/// The width of the bar in characters.
const WIDTH: usize = 30;

/// Whether to show progress.
pub(super) fn is_shown(connect: &ConnectArgs) -> bool {
    io::stderr().is_terminal() && !connect.quiet
}

/// Draws the bar until it is dropped.
pub(super) async fn show(plan: &LoadPlan, progress: &Progress, begin: Instant) {
    loop {
        let done = progress.done.load(Relaxed);
        let failed = progress.failed.load(Relaxed);
        let line = line(plan.time, Instant::now().saturating_duration_since(begin), done, failed);
        // A failure to draw does not matter.
        write!(io::stderr(), "\r\x1b[K{line}").ok();
        tokio::time::sleep(REDRAW_EVERY).await;
    }
}

/// Erases the bar.
pub(super) fn erase() {
    write!(io::stderr(), "\r\x1b[K").ok();
}

fn line(time: Duration, passed: Duration, done: u64, failed: u64) -> String {
    if passed.is_zero() {
        return "warming up".to_owned();
    }
    let (time, passed) = (time.as_secs_f64(), passed.as_secs_f64().min(time.as_secs_f64()));
    let full = (0..WIDTH).filter(|place| (*place as f64) < passed / time * WIDTH as f64).count();
    let bar: String = (0..WIDTH).map(|place| if place < full { '#' } else { '.' }).collect();
    let failed = if failed == 0 { String::new() } else { format!("  {failed} failed") };
    format!("[{bar}] {passed:.1} s of {time:.1} s  {:.0}/s{failed}", done as f64 / passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_stays_full() {
        let at = |millis| line(Duration::from_secs(2), Duration::from_millis(millis), 100, 0);
        assert_eq!(at(0), "warming up");
        assert_eq!(at(1_000), format!("[{}{}] 1.0 s of 2.0 s  100/s", "#".repeat(15), ".".repeat(15)));
        assert_eq!(at(9_000), format!("[{}] 2.0 s of 2.0 s  50/s", "#".repeat(30)));
    }
}
