//! Ids and keys of requests. Every request that changes something has one, and takes effect once.
//!
//! The object that limits its lifetime stores it: a live grant or session has its own id and the keys that changed it;
//! a session remembers its ended grants; the table of tombstones has all others, for `TOMBSTONE_KEPT_FOR`. A key has one
//! use: with another request it is refused.

use crate::command::WriteKey;
use fairhold_types::{GrantId, limits::GRANT_KEYS_MAX};
use serde::{Deserialize, Serialize};

/// The keys of the requests that changed a grant: the newest `GRANT_KEYS_MAX` by id, and a floor. Most grants have
/// none, and then this is one word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChangeKeys(#[serde(with = "crate::sparse")] Option<Box<KeptKeys>>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct KeptKeys {
    /// Sorted by key.
    keys: Vec<WriteKey>,
    /// The newest key that was dropped from `keys`.
    floor: Option<GrantId>,
}

impl ChangeKeys {
    /// The remembered keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &WriteKey> {
        self.0.iter().flat_map(|kept| &kept.keys)
    }

    pub(crate) fn fingerprint(&self, key: &GrantId) -> Option<[u8; 16]> {
        self.iter().find(|known| known.key == *key).map(|known| known.fingerprint)
    }

    /// Whether a key may have been remembered and dropped.
    pub(crate) fn may_have_dropped(&self, key: &GrantId) -> bool {
        self.0.as_ref().is_some_and(|kept| Some(*key) <= kept.floor)
    }

    /// Remembers one more key. Returns the key that was dropped for it.
    pub(crate) fn remember(&mut self, key: WriteKey) -> Option<WriteKey> {
        let kept = self.0.get_or_insert_default();
        let at = kept.keys.partition_point(|known| known.key < key.key);
        kept.keys.insert(at, key);
        if kept.keys.len() <= GRANT_KEYS_MAX {
            return None;
        }
        let oldest = kept.keys.remove(0);
        kept.floor = kept.floor.max(Some(oldest.key));
        Some(oldest)
    }
}
