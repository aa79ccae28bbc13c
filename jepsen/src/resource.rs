//! An external resource, like a database: it refuses a token that is older than the newest one it has seen. Next to it
//! is the same resource without a comparison: writes lost there show that there was something to refuse.

use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

/// The resource that all writers share.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    places: Mutex<HashMap<String, LinkPlace>>,
    lost_without_fence: AtomicU64,
}

#[derive(Debug, Default)]
struct LinkPlace {
    newest: u64,
    value: u64,
    unfenced: u64,
}

impl Resource {
    fn places(&self) -> MutexGuard<'_, HashMap<String, LinkPlace>> {
        // The guarded data is consistent after every statement that can panic.
        self.places.lock()
    }

    /// Reads both values. The resource learns the token.
    pub(crate) fn read(&self, key: &str, token: u64) -> (u64, u64) {
        let mut places = self.places();
        let place = places.entry(key.to_owned()).or_default();
        place.newest = place.newest.max(token);
        (place.value, place.unfenced)
    }

    /// Writes a value. Returns whether the token was accepted. Without a comparison the value is always written:
    /// `unfenced` is the value that the writer had read there.
    pub(crate) fn write(&self, key: &str, token: u64, value: u64, unfenced: u64) -> bool {
        let mut places = self.places();
        let place = places.entry(key.to_owned()).or_default();
        if place.unfenced != unfenced {
            self.lost_without_fence.fetch_add(1, Ordering::Relaxed);
        }
        place.unfenced = unfenced + 1;
        let accepted = token >= place.newest;
        if accepted {
            (place.newest, place.value) = (token, value);
        }
        accepted
    }

    /// How many writes were lost without a comparison.
    pub(crate) fn lost_without_fence(&self) -> u64 {
        self.lost_without_fence.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_token_is_refused_and_overwrites_without_a_comparison() {
        let resource = Resource::default();
        let slept = resource.read("a", 5);
        let newer = resource.read("a", 9);
        assert!(resource.write("a", 9, newer.0 + 1, newer.1));
        assert!(!resource.write("a", 5, slept.0 + 1, slept.1));
        assert_eq!(resource.read("a", 9).0, 1);
        assert_eq!(resource.lost_without_fence(), 1);
    }
}
