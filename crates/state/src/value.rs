//! A node's value: shared bytes that the codec reads and writes as one piece.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{SeqAccess, Visitor},
};
use std::{fmt, ops::Deref, sync::Arc};

/// The most bytes that a length prefix alone makes the decoder allocate, before it has read the bytes.
const TRUSTED_BYTES: usize = 64 * 1024;

/// Bytes, shared by clones. They are encoded like a list of bytes, but in one piece.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Arc<[u8]>);

impl Value {
    /// An empty value.
    #[must_use]
    pub fn empty() -> Value {
        Value(Arc::from([]))
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value(Arc::from(bytes))
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value(Arc::from(bytes))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.0.len())
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Value, E> {
                Ok(Value::from(bytes))
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Value, E> {
                Ok(Value::from(bytes))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
                let mut bytes = Vec::with_capacity(list.size_hint().unwrap_or(0).min(TRUSTED_BYTES));
                while let Some(byte) = list.next_element()? {
                    bytes.push(byte);
                }
                Ok(Value::from(bytes))
            }
        }

        deserializer.deserialize_byte_buf(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_encoded_like_a_list_of_bytes() {
        let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        let value = Value::from(bytes.clone());
        let written = fairhold_codec::encode(1, &value).unwrap();
        assert_eq!(written, fairhold_codec::encode(1, &bytes).unwrap());
        assert_eq!(fairhold_codec::decode::<Value>(1, &written).unwrap(), value);
        let json = serde_json::to_string(&Value::from(vec![0, 255])).unwrap();
        assert_eq!((json.as_str(), serde_json::from_str::<Value>(&json).unwrap()), ("[0,255]", Value::from(vec![0, 255])));
    }
}
