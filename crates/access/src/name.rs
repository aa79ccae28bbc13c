//! The names of roles, users and tenants.

use crate::limits::ACCESS_NAME_BYTES_MAX;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr, sync::Arc};

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has no characters.
    #[error("a name must not be empty")]
    Empty,
    /// It has too many bytes.
    #[error("a name of {length} bytes is too long: at most {ACCESS_NAME_BYTES_MAX}")]
    TooLong {
        /// How many bytes it has.
        length: usize,
    },
    /// A character is not allowed, or not as the first one.
    #[error("character {position} of the name is {found:?}: use letters, digits and {allowed}, first a letter or digit")]
    Character {
        /// Its position, from 1.
        position: usize,
        /// The character.
        found: char,
        /// The allowed characters besides ASCII letters and digits.
        allowed: &'static str,
    },
}

fn check(text: &str, further: &'static str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > ACCESS_NAME_BYTES_MAX {
        return Err(NameError::TooLong { length: text.len() });
    }
    let allowed = |(index, c): (usize, char)| c.is_ascii_alphanumeric() || (index > 0 && further.contains(c));
    match text.chars().enumerate().find(|at| !allowed(*at)) {
        Some((index, found)) => Err(NameError::Character { position: index + 1, found, allowed: further }),
        None => Ok(()),
    }
}

macro_rules! access_name {
    ($(#[$doc:meta])* $name:ident, $further:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a name.
            pub fn parse(text: &str) -> Result<$name, NameError> {
                check(text, $further)?;
                Ok($name(Arc::from(text)))
            }

            /// A bound for ranges: it comes before every name, and is none itself.
            #[must_use]
            pub fn lowest() -> $name {
                $name(Arc::from(""))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<$name, NameError> {
                $name::parse(text)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                $name::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

access_name! {
    /// The name of a role.
    RoleName, "._-"
}
access_name! {
    /// The name of a user, as in `user:ci`. It is a valid level of a name, so `{user}` can stand for it.
    UserName, "._@-"
}
access_name! {
    /// The name of a tenant.
    TenantName, "._-"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for good in ["a", "ci-7", "A.b_c-9", &"x".repeat(128)] {
            assert_eq!(RoleName::parse(good).unwrap().as_str(), good);
        }
        assert_eq!(UserName::parse("ann@example.org").unwrap().to_string(), "ann@example.org");
        let character = |position, found| NameError::Character { position, found, allowed: "._-" };
        for (bad, error) in [
            ("", NameError::Empty),
            ("-a", character(1, '-')),
            ("a/b", character(2, '/')),
            ("a:b", character(2, ':')),
            ("ab*", character(3, '*')),
            ("é", character(1, 'é')),
            ("ann@example.org", character(4, '@')),
            (&"x".repeat(129), NameError::TooLong { length: 129 }),
        ] {
            assert_eq!(RoleName::parse(bad), Err(error), "{bad}");
        }
    }
}
