//! Values within bounds. A parsed value is within its bounds, so no code checks it again.
//!
//! The errors name the expected value. They do not repeat the given value, which may be a secret.

use crate::{SessionId, dto, duration, limits, text::first_not_plain};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Error as _, SeqAccess, Unexpected, Visitor},
};
use std::{collections::BTreeSet, fmt, marker::PhantomData, time::Duration};

/// The greatest whole number that JSON readers in all languages represent exactly.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// The value is outside its bounds. The message names them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutOfBounds(String);

/// A duration from `MIN` to `MAX` milliseconds. It is read from a string with a unit, or from a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundedDuration<const MIN: u64, const MAX: u64>(Duration);

impl<const MIN: u64, const MAX: u64> BoundedDuration<MIN, MAX> {
    /// The duration.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }

    /// Its whole milliseconds.
    #[must_use]
    pub fn millis(self) -> u64 {
        duration::millis(self.0)
    }
}

impl<const MIN: u64, const MAX: u64> TryFrom<Duration> for BoundedDuration<MIN, MAX> {
    type Error = OutOfBounds;

    fn try_from(given: Duration) -> Result<Self, OutOfBounds> {
        let (min, max) = (Duration::from_millis(MIN), Duration::from_millis(MAX));
        if (min..=max).contains(&given) {
            return Ok(BoundedDuration(given));
        }
        Err(OutOfBounds(format!("expected a duration from {} to {}", duration::format(min), duration::format(max))))
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for BoundedDuration<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&duration::format(self.0))
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for BoundedDuration<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = deserializer.deserialize_any(DurationVisitor)?;
        given.try_into().map_err(D::Error::custom)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with a unit, like 30s, 250ms or 10m (a bare number means seconds)")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        duration::parse(text).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Duration, E> {
        Ok(Duration::from_secs(seconds))
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Duration, E> {
        Duration::try_from_secs_f64(seconds).map_err(|_| E::invalid_value(Unexpected::Float(seconds), &self))
    }
}

macro_rules! bounded_integer {
    ($(#[$about:meta])* $name:ident: $number:ident, $deserialize:ident) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name<const MIN: $number, const MAX: $number>($number);

        impl<const MIN: $number, const MAX: $number> $name<MIN, MAX> {
            /// The number.
            #[must_use]
            pub fn get(self) -> $number {
                self.0
            }
        }

        impl<const MIN: $number, const MAX: $number> TryFrom<$number> for $name<MIN, MAX> {
            type Error = OutOfBounds;

            fn try_from(number: $number) -> Result<Self, OutOfBounds> {
                if (MIN..=MAX).contains(&number) {
                    return Ok($name(number));
                }
                Err(OutOfBounds(format!("expected a whole number from {MIN} to {MAX}")))
            }
        }

        impl<'de, const MIN: $number, const MAX: $number> Deserialize<'de> for $name<MIN, MAX> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct NumberVisitor<const MIN: $number, const MAX: $number>;

                impl<const MIN: $number, const MAX: $number> Visitor<'_> for NumberVisitor<MIN, MAX> {
                    type Value = $name<MIN, MAX>;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "a whole number from {MIN} to {MAX}")
                    }

                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                        let within = <$number>::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number));
                        within.map($name).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
                    }

                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                        let within = <$number>::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number));
                        within.map($name).ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
                    }
                }

                deserializer.$deserialize(NumberVisitor)
            }
        }
    };
}

bounded_integer! {
    /// A whole number from `MIN` to `MAX`.
    BoundedInteger: u64, deserialize_u64
}
bounded_integer! {
    /// A whole number of 32 bits from `MIN` to `MAX`.
    BoundedCount: u32, deserialize_u64
}
bounded_integer! {
    /// A whole number from `MIN` to `MAX`, which may be negative.
    SignedInteger: i32, deserialize_i64
}

/// A string of at most `MAX` bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct BoundedText<const MAX: usize>(String);

impl<const MAX: usize> BoundedText<MAX> {
    /// Its maximum length in bytes.
    pub const BYTES_MAX: usize = MAX;

    /// The string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The string, owned.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl<const MAX: usize> TryFrom<String> for BoundedText<MAX> {
    type Error = OutOfBounds;

    fn try_from(text: String) -> Result<Self, OutOfBounds> {
        if text.len() <= MAX {
            return Ok(BoundedText(text));
        }
        Err(OutOfBounds(format!("expected a string of at most {MAX} bytes, not {}", text.len())))
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for BoundedText<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

/// A string for people, of at most `MAX` bytes. It has no characters that move a cursor or make it look like another string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PlainText<const MAX: usize>(String);

impl<const MAX: usize> PlainText<MAX> {
    /// The string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The string, owned.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl<const MAX: usize> TryFrom<String> for PlainText<MAX> {
    type Error = OutOfBounds;

    fn try_from(text: String) -> Result<Self, OutOfBounds> {
        let BoundedText(text) = BoundedText::<MAX>::try_from(text)?;
        check_plain(&text)?;
        Ok(PlainText(text))
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for PlainText<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

fn check_plain(text: &str) -> Result<(), OutOfBounds> {
    match first_not_plain(text) {
        None => Ok(()),
        Some(c) => Err(OutOfBounds(format!(
            "expected a string without control characters, and without characters that are invisible or change its direction, \
             not one with U+{:04X}",
            u32::from(c)
        ))),
    }
}

/// Pairs of strings for people, at most `limits::META_PAIRS_MAX` of them with `limits::META_BYTES_MAX` bytes in total.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MetaPairs(dto::Meta);

impl MetaPairs {
    /// The pairs.
    #[must_use]
    pub fn into_inner(self) -> dto::Meta {
        self.0
    }
}

impl TryFrom<dto::Meta> for MetaPairs {
    type Error = OutOfBounds;

    fn try_from(pairs: dto::Meta) -> Result<Self, OutOfBounds> {
        let (max, bytes_max) = (limits::META_PAIRS_MAX, limits::META_BYTES_MAX);
        let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
        if pairs.len() > max || bytes > bytes_max {
            return Err(OutOfBounds(format!("expected at most {max} pairs and {bytes_max} bytes together")));
        }
        pairs.iter().flat_map(|(key, value)| [key, value]).try_for_each(|text| check_plain(text))?;
        Ok(MetaPairs(pairs))
    }
}

impl<'de> Deserialize<'de> for MetaPairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = dto::Meta::deserialize(deserializer);
        let pairs = pairs.map_err(|_| D::Error::custom("expected a JSON object whose values are all strings"))?;
        pairs.try_into().map_err(D::Error::custom)
    }
}

/// An item of a list in a JSON body.
pub trait ListItem {
    /// The JSON type of such items, for messages.
    const KIND: &'static str;
}

impl ListItem for SessionId {
    const KIND: &'static str = "strings";
}

impl<const MAX: usize> ListItem for BoundedText<MAX> {
    const KIND: &'static str = "strings";
}

impl ListItem for dto::Want {
    const KIND: &'static str = "objects";
}

/// A list of at most `MAX` items. It is read from a JSON body only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct BoundedList<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> BoundedList<T, MAX> {
    /// The items, in order.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T: ListItem, const MAX: usize> TryFrom<Vec<T>> for BoundedList<T, MAX> {
    type Error = OutOfBounds;

    fn try_from(items: Vec<T>) -> Result<Self, OutOfBounds> {
        if items.len() <= MAX {
            return Ok(BoundedList(items));
        }
        Err(OutOfBounds(format!("expected a list of at most {MAX} {}, not {}", T::KIND, items.len())))
    }
}

impl<'de, T: ListItem + Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedList<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))?.try_into().map_err(D::Error::custom)
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: ListItem + Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}, in a JSON body", T::KIND)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(items)
    }
}

/// The locks of one request: at least one, and all different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LockList(Vec<dto::Want>);

impl LockList {
    /// The locks, in order.
    #[must_use]
    pub fn into_vec(self) -> Vec<dto::Want> {
        self.0
    }
}

impl TryFrom<Vec<dto::Want>> for LockList {
    type Error = OutOfBounds;

    fn try_from(wants: Vec<dto::Want>) -> Result<Self, OutOfBounds> {
        let BoundedList(wants) = BoundedList::<dto::Want, { limits::LOCKS_PER_ACQUIRE_MAX }>::try_from(wants)?;
        let names: BTreeSet<_> = wants.iter().map(|want| &want.name).collect();
        if names.is_empty() || names.len() != wants.len() {
            let example = r#"[{"name": "orders"}]"#;
            return Err(OutOfBounds(format!("expected a list of different locks, each named once, such as {example}")));
        }
        Ok(LockList(wants))
    }
}

impl<'de> Deserialize<'de> for LockList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))?.try_into().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of<T: serde::de::DeserializeOwned>(json: &str) -> String {
        serde_json::from_str::<T>(json).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_duration_is_a_text_with_a_unit_or_a_number_of_seconds() {
        type Second = BoundedDuration<0, 1_000>;
        for (json, millis) in [(r#""1s""#, 1_000), (r#""250ms""#, 250), ("1", 1_000), ("0.25", 250), (r#""0.25""#, 250)] {
            assert_eq!(serde_json::from_str::<Second>(json).unwrap().millis(), millis, "{json}");
        }
        assert!(error_of::<Second>(r#""2s""#).starts_with("expected a duration from 0s to 1s"));
        for wrong in ["-1", "true", r#""soon""#, "1e300", "[]"] {
            assert!(error_of::<Second>(wrong).contains("expected a duration with a unit, like 30s"), "{wrong}");
        }
        assert_eq!(serde_json::to_string(&Second::try_from(Duration::from_millis(250)).unwrap()).unwrap(), r#""250ms""#);
    }

    #[test]
    fn a_number_is_within_its_bounds() {
        type Count = BoundedCount<1, 10>;
        assert_eq!(serde_json::from_str::<Count>("10").unwrap().get(), 10);
        for wrong in ["0", "11", "-1", "1.5", r#""1""#, "4294967297"] {
            assert!(error_of::<Count>(wrong).contains("expected a whole number from 1 to 10"), "{wrong}");
        }
        type Priority = SignedInteger<{ i32::MIN }, { i32::MAX }>;
        assert_eq!(serde_json::from_str::<Priority>("-7").unwrap().get(), -7);
        assert!(serde_json::from_str::<Priority>("2147483648").is_err());
        type Number = BoundedInteger<0, INTEGER_MAX>;
        assert!(Number::try_from(INTEGER_MAX).is_ok() && Number::try_from(INTEGER_MAX + 1).is_err());
    }

    #[test]
    fn a_list_of_locks_has_no_duplicates_and_a_maximum_length() {
        let want = |name: String| dto::Want { name: crate::LockName::parse(&name).unwrap(), mode: crate::Mode::Exclusive };
        let locks = |count: usize| LockList::try_from((0..count).map(|number| want(number.to_string())).collect::<Vec<_>>());
        let max = limits::LOCKS_PER_ACQUIRE_MAX;
        assert!(locks(1).is_ok() && locks(max).is_ok() && locks(0).is_err() && locks(max + 1).is_err());
        assert!(LockList::try_from(vec![want("a".to_owned()), want("a".to_owned())]).is_err());
    }
}
