//! The pause before the next attempt: longer each time, with jitter, so that many clients spread.

use std::time::Duration;

/// The upper bound of the first pause.
const FIRST: Duration = Duration::from_millis(40);
/// The upper bound of every pause.
const LONGEST: Duration = Duration::from_secs(2);
/// The longest pause that a server can request.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// Full jitter: a pause is random between zero and a bound that doubles.
#[derive(Debug)]
pub(crate) struct Backoff {
    bound: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { bound: FIRST }
    }

    /// The next pause, at least as long as the server requested.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let pause = jitter(self.bound, 0.0);
        self.bound = (self.bound * 2).min(LONGEST);
        match retry_after {
            // Clients that were refused together must not return together.
            Some(retry_after) => retry_after.min(RETRY_AFTER_MAX) + pause,
            None => pause,
        }
    }
}

/// A random time between `least` (a fraction) of the whole and the whole.
pub(crate) fn jitter(whole: Duration, min: f64) -> Duration {
    whole.mul_f64(min + (1.0 - min) * rand::random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_respect_retry_after() {
        let mut backoff = Backoff::new();
        let mut bound = FIRST;
        for _ in 0..12 {
            assert!(backoff.next(None) <= bound);
            bound = (bound * 2).min(LONGEST);
        }
        assert_eq!(bound, LONGEST);
        let retry_after = Duration::from_secs(3);
        assert!((retry_after..=retry_after + LONGEST).contains(&backoff.next(Some(retry_after))));
        assert!(backoff.next(Some(Duration::from_secs(3_600))) <= RETRY_AFTER_MAX + LONGEST);
    }
}
