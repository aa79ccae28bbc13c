//! Reads and writes a record that most of its owners do not have. An empty one is written for a missing one, so the bytes
//! do not depend on the representation.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<T, S>(record: &Option<Box<T>>, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Serialize + Default,
    S: Serializer,
{
    match record {
        Some(record) => record.serialize(serializer),
        None => T::default().serialize(serializer),
    }
}

pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<Box<T>>, D::Error>
where
    T: Deserialize<'de> + Default + PartialEq,
    D: Deserializer<'de>,
{
    let record = T::deserialize(deserializer)?;
    Ok((record != T::default()).then(|| Box::new(record)))
}
