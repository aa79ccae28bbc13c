//! Principals: `KIND:NAME`, such as `user:ci`, `file:admin`, `k8s:system:serviceaccount:ci:builder`, or `anonymous`.

use crate::{
    limits::ACCESS_NAME_BYTES_MAX,
    name::{NameError, UserName},
};
use fairhold_types::text::first_not_plain;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::{Arc, LazyLock},
};

/// The principal of a request without credentials.
pub(crate) const ANONYMOUS: &str = "anonymous";
/// The kind of administrators of last resort: a line of a file on the node.
const FILE: &str = "file";
/// The kind of users with tokens or certificates of the cluster.
const USER: &str = "user";
/// The maximum length of a kind, in bytes.
const KIND_BYTES_MAX: usize = 32;

/// The identity that a credential proves.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Arc<str>);

/// Why a text is not a principal or a subject.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPrincipal {
    /// It is neither `anonymous` nor a kind, a colon and a name.
    #[error("it is `anonymous`, or a kind, a colon and a name, as in `user:ci`")]
    NoKind,
    /// The kind has other characters than lower-case letters, digits and `-`, or is too long.
    #[error("the kind before the colon has lower-case letters, digits and -, begins with a letter, and has at most 32 bytes")]
    Kind,
    /// The name is empty.
    #[error("the name after the colon must not be empty")]
    NoName,
    /// The name has too many bytes.
    #[error("a name of {length} bytes is too long: at most {ACCESS_NAME_BYTES_MAX}")]
    TooLong {
        /// How many bytes it has.
        length: usize,
    },
    /// The name has a control or invisible character.
    #[error("the name must not have the character U+{0:04X}")]
    Character(u32),
    /// A `*` is not the whole last part of a subject, behind a colon.
    #[error("a * stands only at the end of a subject, behind a colon, and is no part of a principal")]
    Star,
    /// The name is not one of a user.
    #[error("{0}")]
    User(NameError),
}

impl Principal {
    /// The principal of a request without credentials.
    #[must_use]
    pub fn anonymous() -> Principal {
        // Most requests have this principal while rights are not enforced.
        static SHARED: LazyLock<Principal> = LazyLock::new(|| Principal(Arc::from(ANONYMOUS)));
        SHARED.clone()
    }

    /// The administrator of last resort.
    #[must_use]
    pub fn file_admin() -> Principal {
        Principal(Arc::from("file:admin"))
    }

    /// A user of the cluster.
    #[must_use]
    pub fn user(name: &UserName) -> Principal {
        Principal(Arc::from(format!("{USER}:{name}")))
    }

    /// Parses a principal.
    pub fn parse(text: &str) -> Result<Principal, BadPrincipal> {
        check(text)?;
        if text.contains('*') { Err(BadPrincipal::Star) } else { Ok(Principal(Arc::from(text))) }
    }

    /// The principal as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its kind: `user`, `file`, `anonymous`, or the name of a provider.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// Its name; empty for `anonymous`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, name)| name)
    }

    /// Whether a request had no credentials.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        *self.0 == *ANONYMOUS
    }

    /// Whether it is an administrator by a file on the node, whatever the access data says.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind() == FILE
    }

    /// The first 64 bits of the SHA-256 of its text. Two principals with the same key only cost a second look.
    #[must_use]
    pub fn key(&self) -> PrincipalKey {
        let digest = Sha256::digest(self.0.as_bytes());
        let first = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        PrincipalKey(first)
    }
}

/// Checks the name of a provider, which is the kind of its principals: none of this program's own kinds.
pub fn check_provider(name: &str) -> Result<(), BadPrincipal> {
    check(&format!("{name}:x"))?;
    if [FILE, USER].contains(&name) || name.contains(':') { Err(BadPrincipal::Kind) } else { Ok(()) }
}

/// What stands for a principal where its name would take too much space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PrincipalKey(pub u64);

/// Checks the text of a principal or a subject, except for `*`.
pub(crate) fn check(text: &str) -> Result<(), BadPrincipal> {
    if text == ANONYMOUS {
        return Ok(());
    }
    let (kind, name) = text.split_once(':').ok_or(BadPrincipal::NoKind)?;
    let kind_fits = kind.starts_with(|c: char| c.is_ascii_lowercase())
        && kind.len() <= KIND_BYTES_MAX
        && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !kind_fits || kind == ANONYMOUS {
        return Err(BadPrincipal::Kind);
    }
    if name.is_empty() {
        return Err(BadPrincipal::NoName);
    }
    if name.len() > ACCESS_NAME_BYTES_MAX {
        return Err(BadPrincipal::TooLong { length: name.len() });
    }
    if let Some(character) = first_not_plain(name) {
        return Err(BadPrincipal::Character(u32::from(character)));
    }
    if kind == USER && name != "*" {
        UserName::parse(name).map_err(BadPrincipal::User)?;
    }
    Ok(())
}

/// What is known about a principal besides its name, for `{…}` in patterns: `user`, and what a provider adds.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attributes {
    /// The value of `user`, unless the principal is anonymous.
    user: Option<Principal>,
    /// What the provider adds.
    further: BTreeMap<String, String>,
}

/// The attribute that every principal with a name has: its name.
pub const USER_ATTRIBUTE: &str = "user";

impl Attributes {
    /// The attributes of a principal, with those of its provider. A provider cannot change `user`.
    #[must_use]
    pub fn of(principal: &Principal, further: impl IntoIterator<Item = (String, String)>) -> Attributes {
        let further = further.into_iter().filter(|(name, _)| name != USER_ATTRIBUTE).collect();
        Attributes { user: Some(principal.clone()).filter(|principal| !principal.is_anonymous()), further }
    }

    /// The value of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        if name == USER_ATTRIBUTE {
            return self.user.as_ref().map(Principal::name);
        }
        self.further.get(name).map(String::as_str)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

impl FromStr for Principal {
    type Err = BadPrincipal;

    fn from_str(text: &str) -> Result<Principal, BadPrincipal> {
        Principal::parse(text)
    }
}

impl Serialize for Principal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Principal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Principal, D::Error> {
        Principal::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
