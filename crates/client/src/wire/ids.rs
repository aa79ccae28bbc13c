//! Makes ids before the first byte is sent, so that the client can repeat or take back a request whose answer was lost.

use fairhold_types::{GrantId, duration};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// The random bits of a ULID.
const RANDOM_BITS: u32 = 80;

/// Makes ULIDs whose time never goes back, even if the wall clock does: a session refuses ids that are older than the
/// ids that it has forgotten.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    last_millis: AtomicU64,
}

impl Ids {
    pub(crate) fn make(&self) -> GrantId {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.make_at(duration::millis(clock))
    }

    fn make_at(&self, clock_millis: u64) -> GrantId {
        let millis = self.last_millis.fetch_max(clock_millis, Ordering::Relaxed).max(clock_millis);
        let random = rand::random::<u128>() >> (u128::BITS - RANDOM_BITS);
        let millis = u128::from(millis & ((1 << 48) - 1));
        GrantId::from_ulid((millis << RANDOM_BITS) | random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_sort_by_time() {
        let ids = Ids::default();
        let time_of = |id: GrantId| id.to_string()[..10].to_owned();
        let (first, second, third) = (ids.make_at(5_000), ids.make_at(4_000), ids.make_at(6_000));
        assert_ne!(first, second);
        assert_eq!(time_of(first), time_of(second), "the wall clock went back");
        assert!(time_of(second) < time_of(third));
    }
}
