//! A map that keeps the total weight of its entries: the one place that counts the tables of the state.
//!
//! The count moves with each entry that comes, goes or changes, and is never made by a walk but in `State::check`. What an entry
//! counts is said by `weight`.

use imbl::OrdMap;
use std::ops::Deref;

/// What counts bytes of the state's budget, in a table with such keys.
pub(crate) trait Weigh<K> {
    /// How many bytes of its entry lie in the key.
    fn key_weight(key: &K) -> u64;

    /// How many bytes the rest of it counts: its place in the table and in the indexes, and what it has.
    fn weight(&self) -> u64;
}

/// An ordered map with the bytes of its entries. It is read as the map that it is, and written by its own methods alone.
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
    /// How many bytes all entries count together.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same, by a walk over all of them.
    pub(crate) fn recounted(&self) -> u64 {
        self.map.iter().map(|(key, value)| V::key_weight(key) + value.weight()).sum()
    }

    /// Adds an entry; the one whose place it takes.
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

    /// An entry, to change what does not count: `State::check` finds out where something else is changed.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    /// An entry of which a part is to weigh so much: the caller makes that true. `part` says what it weighs now.
    pub(crate) fn reweigh(&mut self, key: &K, part: impl FnOnce(&V) -> u64, weight: u64) -> Option<&mut V> {
        let value = self.map.get_mut(key)?;
        self.bytes = self.bytes - part(value) + weight;
        Some(value)
    }

    /// Changes an entry, also in what counts. `part` weighs all of it that `change` can change.
    pub(crate) fn change<T>(&mut self, key: &K, part: impl Fn(&V) -> u64, change: impl FnOnce(&mut V) -> T) -> Option<T> {
        let value = self.map.get_mut(key)?;
        let before = part(value);
        let changed = change(value);
        self.bytes = self.bytes - before + part(value);
        Some(changed)
    }
}
