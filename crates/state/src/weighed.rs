//! A map that maintains the total weight of its entries. It counts all tables of the state.
//!
//! The total is updated with each entry that is added, removed or changed. Only `State::check` recounts it by a walk.
//! `weight` defines the weights.

use imbl::OrdMap;
use std::{borrow::Borrow, ops::Deref};

/// An entry's value that has a weight in bytes of the state's budget, in a table with keys `K`.
pub(crate) trait Weigh<K> {
    /// The bytes that the key of its entry counts: none, unless it grows with a text.
    fn key_weight(_: &K) -> u64 {
        0
    }

    /// The bytes that the rest of the entry counts: its slots in the table and the indexes, and its contents.
    fn weight(&self) -> u64;
}

/// An ordered map with the total weight of its entries. It dereferences to the map for reads; only its own methods
/// write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weighed<K: Ord, V> {
    map: OrdMap<K, V>,
    bytes: u64,
}

impl<K: Ord, V> Default for Weighed<K, V> {
    fn default() -> Self {
        Weighed { map: OrdMap::new(), bytes: 0 }
    }
}

impl<K: Ord, V> Deref for Weighed<K, V> {
    type Target = OrdMap<K, V>;

    fn deref(&self) -> &OrdMap<K, V> {
        &self.map
    }
}

impl<K: Ord + Clone, V: Weigh<K> + Clone> Weighed<K, V> {
    /// The total weight of all entries in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same weight, recomputed by a walk over all entries.
    pub(crate) fn recounted(&self) -> u64 {
        self.map.iter().map(|(key, value)| V::key_weight(key) + value.weight()).sum()
    }

    /// Adds an entry. Returns the value that it replaced.
    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let of_key = V::key_weight(&key);
        self.bytes += of_key + value.weight();
        let displaced = self.map.insert(key, value)?;
        self.bytes -= of_key + displaced.weight();
        Some(displaced)
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.map.remove(key)?;
        self.bytes -= V::key_weight(key) + removed.weight();
        Some(removed)
    }

    /// An entry, to change fields that do not count. `State::check` detects other changes.
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.map.get_mut(key)
    }

    /// An entry in which one part will have a new weight; the caller must make that true. `part` returns the current
    /// weight of that part.
    pub(crate) fn reweigh(&mut self, key: &K, part: impl FnOnce(&V) -> u64, weight: u64) -> Option<&mut V> {
        let value = self.map.get_mut(key)?;
        self.bytes = self.bytes - part(value) + weight;
        Some(value)
    }

    /// Changes an entry, including fields that count. `part` weighs everything that `change` can change.
    pub(crate) fn change<T>(&mut self, key: &K, part: impl Fn(&V) -> u64, change: impl FnOnce(&mut V) -> T) -> Option<T> {
        let value = self.map.get_mut(key)?;
        let before = part(value);
        let changed = change(value);
        self.bytes = self.bytes - before + part(value);
        Some(changed)
    }
}
