//! When the machine stalled: a thread that only sleeps got no processor. Then the network, which is this program, and
//! the nodes may have stood still too.

use parking_lot::Mutex;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const TICK: Duration = Duration::from_millis(20);
/// A shorter delay of a tick is normal scheduling.
const LATE: Duration = Duration::from_millis(50);

/// A record of the stalls, until it is dropped.
#[derive(Debug)]
pub(super) struct Stalls(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// When each began, and how long it lasted.
    seen: Mutex<Vec<(Instant, Duration)>>,
    over: AtomicBool,
}

impl Stalls {
    /// Begins to record.
    pub(super) fn record() -> io::Result<Stalls> {
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        thread::Builder::new().name("stalls".to_owned()).spawn(move || for_thread.watch())?;
        Ok(Stalls(shared))
    }

    /// For how long the machine stalled between two times.
    pub(super) fn between(&self, from: Instant, until: Instant) -> Duration {
        sum(&self.0.seen.lock(), from, until)
    }

    /// How many stalls there were since a time, and the longest one.
    pub(super) fn since(&self, from: Instant) -> (usize, Duration) {
        let seen = self.0.seen.lock();
        let since: Vec<Duration> = seen.iter().filter(|(at, _)| *at >= from).map(|(_, late)| *late).collect();
        (since.len(), since.into_iter().max().unwrap_or_default())
    }
}

impl Shared {
    fn watch(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let began = Instant::now();
            thread::park_timeout(TICK);
            let late = began.elapsed().saturating_sub(TICK);
            if late >= LATE {
                self.seen.lock().push((began, late));
            }
        }
    }
}

fn sum(stalls: &[(Instant, Duration)], from: Instant, until: Instant) -> Duration {
    stalls.iter().filter(|(at, late)| *at <= until && *at + *late >= from).map(|(_, late)| *late).sum()
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_that_meet_a_period_count_as_a_whole() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let stalls =
            [(at(0), Duration::from_millis(60)), (at(100), Duration::from_millis(70)), (at(900), Duration::from_millis(80))];
        assert_eq!(sum(&stalls, at(50), at(500)), Duration::from_millis(130));
        assert_eq!(sum(&stalls, at(200), at(800)), Duration::ZERO);
    }
}
