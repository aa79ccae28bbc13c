//! Decodes persistent maps. `imbl` itself allocates as many entries as the announced length, before it has read the
//! first: a wrong length would abort the process.

use imbl::OrdMap;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::{fmt, marker::PhantomData};

/// Decodes a map entry by entry, so that memory use is proportional to the bytes present.
pub(crate) fn map<'de, D, K, V>(deserializer: D) -> Result<OrdMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord + Clone,
    V: Deserialize<'de> + Clone,
{
    deserializer.deserialize_map(Entries(PhantomData))
}

struct Entries<K, V>(PhantomData<(K, V)>);

impl<'de, K: Deserialize<'de> + Ord + Clone, V: Deserialize<'de> + Clone> Visitor<'de> for Entries<K, V> {
    type Value = OrdMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<OrdMap<K, V>, A::Error> {
        let mut map = OrdMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}
