//! Ids and numbers. Ids of sessions and grants are their owner's secrets; numbers are public.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// Why a string is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseIdError(pub &'static str);

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map($name).map_err(|_| ParseIdError("expected a whole number"))
            }
        }
    };
}

counter! {
    /// The position of a change in the history of the cluster: 1 for the first change, then one more for each. It
    /// corresponds to ZooKeeper's zxid and etcd's revision. It is not the Raft log index.
    Revision
}
counter! {
    /// A session's public number: the revision that opened it.
    SessionNumber
}
counter! {
    /// A grant's public number: the revision at which it queued.
    GrantNumber
}
counter! {
    /// A grant's fencing token: the revision at which it was granted. It grows from holder to holder and never goes back.
    FencingToken
}

/// The number of a server, which the operator chose: 1 or more.
pub type NodeId = u64;

impl Revision {
    /// The revision of the next change.
    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

macro_rules! hex128 {
    ($(#[$doc:meta])* $name:ident, $debug:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl $name {
            /// Its text form: 32 hexadecimal digits.
            #[must_use]
            pub fn to_hex(self) -> String {
                format!("{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let show: fn(u128, &mut fmt::Formatter<'_>) -> fmt::Result = $debug;
                show(self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
                    return Err(ParseIdError("expected 32 hexadecimal digits in lower case"));
                }
                u128::from_str_radix(text, 16)
                    .map($name)
                    .map_err(|_| ParseIdError("expected 32 hexadecimal digits in lower case"))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.serialize_str(&self.to_hex())
                } else {
                    serializer.serialize_u128(self.0)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
                } else {
                    u128::deserialize(deserializer).map($name)
                }
            }
        }
    };
}

hex128! {
    /// A session's secret id: 128 random bits. Keep it secret: with it, anyone can control the session. `Debug` does not show it.
    SessionId, |_, f| f.write_str("SessionId(secret)")
}
hex128! {
    /// The random identity of one data directory, made at its first use. A member that returns with another identity has
    /// lost its disk.
    Incarnation, |value, f| write!(f, "Incarnation({value:032x})")
}
hex128! {
    /// The cluster's random identity, made when it formed.
    ClusterId, |value, f| write!(f, "ClusterId({value:032x})")
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A grant's secret id, which is also the idempotency key of its acquire: a ULID or a UUIDv7, as the client wrote it.
/// Both start with their creation time in milliseconds, so ids sort by time. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId {
    value: u128,
    form: IdForm,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum IdForm {
    Ulid,
    Uuid,
}

impl GrantId {
    /// The id of a ULID with these 128 bits.
    #[must_use]
    pub fn from_ulid(value: u128) -> GrantId {
        GrantId { value, form: IdForm::Ulid }
    }
}

impl fmt::Debug for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantId(secret)")
    }
}

/// The id as text. It is a secret, so use it only in answers to its owner.
impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            IdForm::Ulid => ulid::Ulid(self.value).fmt(f),
            IdForm::Uuid => uuid::Uuid::from_u128(self.value).hyphenated().fmt(f),
        }
    }
}

impl FromStr for GrantId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: ParseIdError =
            ParseIdError("expected a ULID (26 characters, like 01ARZ3NDEKTSV4RRFFQ69G5FAV) or a UUIDv7");
        match text.len() {
            26 => {
                let ulid = ulid::Ulid::from_string(text).map_err(|_| EXPECTED)?;
                // A first character above 7 does not fit into 128 bits. The library drops the surplus bits instead of
                // refusing them.
                if text.as_bytes()[0] > b'7' {
                    return Err(EXPECTED);
                }
                Ok(GrantId { value: ulid.0, form: IdForm::Ulid })
            }
            36 => {
                let uuid = uuid::Uuid::try_parse(text).map_err(|_| EXPECTED)?;
                if uuid.get_version_num() != 7 {
                    return Err(EXPECTED);
                }
                Ok(GrantId { value: uuid.as_u128(), form: IdForm::Uuid })
            }
            _ => Err(EXPECTED),
        }
    }
}

impl Serialize for GrantId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            (self.form == IdForm::Uuid, self.value).serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for GrantId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom);
        }
        let (uuid, value) = <(bool, u128)>::deserialize(deserializer)?;
        Ok(GrantId { value, form: if uuid { IdForm::Uuid } else { IdForm::Ulid } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_id_keeps_its_text_form() {
        for text in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "0190163d-8694-739b-aea5-966c26f8ad91"] {
            assert_eq!(text.parse::<GrantId>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn only_a_ulid_or_a_uuidv7_is_accepted() {
        for text in
            ["", "42", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01ARZ3NDEKTSV4RRFFQ69G5FAU!", "f47ac10b-58cc-4372-a567-0e02b2c3d479"]
        {
            assert!(text.parse::<GrantId>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let id: GrantId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        assert_eq!(format!("{id:?} {:?}", SessionId(7)), "GrantId(secret) SessionId(secret)");
    }

    #[test]
    fn a_session_id_is_32_lower_case_hexadecimal_digits() {
        assert_eq!(SessionId(255).to_hex().parse::<SessionId>().unwrap(), SessionId(255));
        assert!("FF".repeat(16).parse::<SessionId>().is_err());
        assert!("+f".repeat(16).parse::<SessionId>().is_err());
    }
}
