//! How long to wait before the next try: longer each time, and a random part of it, so that many clients spread.

use std::time::Duration;

/// The longest first pause.
const FIRST: Duration = Duration::from_millis(40);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);
/// The longest pause that a server can ask for.
const ASKED_MAX: Duration = Duration::from_secs(30);

/// Full jitter: a pause is anything between nothing and a bound that doubles.
#[derive(Debug)]
pub(crate) struct Backoff {
    bound: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { bound: FIRST }
    }

    /// The next pause; at least what the server asked for, if it did.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let pause = jitter(self.bound, 0.0);
        self.bound = (self.bound * 2).min(LONGEST);
        match asked {
            // Clients that were refused together must not come back together.
            Some(asked) => asked.min(ASKED_MAX) + pause,
            None => pause,
        }
    }
}

/// A random time between `least` parts of one and the whole.
pub(crate) fn jitter(whole: Duration, least: f64) -> Duration {
    whole.mul_f64(least + (1.0 - least) * rand::random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_keep_to_what_the_server_asked_for() {
        let mut backoff = Backoff::new();
        let mut bound = FIRST;
        for _ in 0..12 {
            assert!(backoff.next(None) <= bound);
            bound = (bound * 2).min(LONGEST);
        }
        assert_eq!(bound, LONGEST);
        let asked = Duration::from_secs(3);
        assert!((asked..=asked + LONGEST).contains(&backoff.next(Some(asked))));
        assert!(backoff.next(Some(Duration::from_secs(3_600))) <= ASKED_MAX + LONGEST);
    }
}
