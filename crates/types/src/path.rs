//! Paths of the tree and names of locks. `parse` is the only way to make one, so a value is always valid.

use crate::limits::{LOCK_NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_LEVELS_MAX};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// The tree's folder of locks.
const LOCKS: &str = "/locks";
/// The prefix of the path of every lock.
const BELOW_LOCKS: &str = "/locks/";

/// Why a string is not a path or a lock's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParsePathError {
    /// The path does not begin with a slash.
    #[error("a path begins with /")]
    NoSlash,
    /// The text is empty, has two slashes in a row, or ends with a slash.
    #[error("it has an empty level: it must not be empty, end with / or have two / in a row")]
    EmptyLevel,
    /// A level is `.` or `..`.
    #[error("it has the level . or .., which is not allowed")]
    DotLevel,
    /// The text has a NUL, a line break, or another control character.
    #[error("no control character is allowed")]
    ControlCharacter,
    /// The text has too many bytes.
    #[error("{length} bytes are too long: at most {max}")]
    TooLong {
        /// How many it has.
        length: usize,
        /// How many it may have.
        max: usize,
    },
    /// The text has too many levels.
    #[error("{levels} levels are too deep: at most {max}")]
    TooDeep {
        /// How many it has.
        levels: usize,
        /// How many it may have.
        max: usize,
    },
}

/// An absolute path of the tree, like `/jobs/nightly`; `/` is the root.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Path(Arc<str>);

impl Path {
    /// The root, `/`.
    #[must_use]
    pub fn root() -> Path {
        Path(Arc::from("/"))
    }

    /// The folder of locks, `/locks`.
    #[must_use]
    pub fn locks() -> Path {
        Path(Arc::from(LOCKS))
    }

    /// Checks a path: it begins with a slash, no level is empty, `.` or `..`, and it is within the limits.
    pub fn parse(text: &str) -> Result<Path, ParsePathError> {
        if text == "/" {
            return Ok(Path::root());
        }
        let levels = text.strip_prefix('/').ok_or(ParsePathError::NoSlash)?;
        check(levels, text.len(), PATH_BYTES_MAX, PATH_LEVELS_MAX)?;
        Ok(Path(Arc::from(text)))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path one level up; the root has none.
    #[must_use]
    pub fn parent(&self) -> Option<Path> {
        self.parent_str().map(|parent| Path(Arc::from(parent)))
    }

    /// The same as text, without a copy.
    #[must_use]
    pub fn parent_str(&self) -> Option<&str> {
        match self.0.rfind('/')? {
            0 if self.0.len() == 1 => None,
            0 => Some("/"),
            slash => Some(&self.0[..slash]),
        }
    }

    /// The last level; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The child of that name. The name must be one level that `parse` accepted or that the state machine made.
    #[must_use]
    pub fn child(&self, name: &str) -> Path {
        debug_assert!(!name.is_empty() && !name.contains('/'), "a child's name is one level: {name}");
        let parent = if self.0.len() == 1 { "" } else { &self.0 };
        Path(join_path(parent, name))
    }

    /// The prefix of every path below this one: `/jobs/` for `/jobs`.
    #[must_use]
    pub fn prefix_below(&self) -> String {
        if self.0.len() == 1 { "/".to_owned() } else { format!("{}/", self.0) }
    }

    /// The lock's name, if the path is below the folder of locks. A contender's path gives a name too, although no such lock
    /// exists.
    #[must_use]
    pub fn lock_name(&self) -> Option<LockName> {
        check_lock_name(self.0.strip_prefix(BELOW_LOCKS)?).ok()?;
        Some(LockName(self.0.clone()))
    }

    /// Whether the path is the folder of locks or below it.
    #[must_use]
    pub fn is_under_locks(&self) -> bool {
        Path::is_text_under_locks(&self.0)
    }

    /// The same for the text of a path.
    #[must_use]
    pub fn is_text_under_locks(path: &str) -> bool {
        path.strip_prefix(LOCKS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A lock's name, like `deploy` or `orders/42`. It has its path in it, so that the path of a name, and the name in a path,
/// cost no copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Checks a name: no level is empty, `.` or `..`, no control characters, and it is within the limits.
    pub fn parse(text: &str) -> Result<LockName, ParsePathError> {
        check_lock_name(text)?;
        Ok(LockName(join_path(LOCKS, text)))
    }

    /// The name in the text of a lock's path.
    #[must_use]
    pub fn in_path(path: &str) -> Option<&str> {
        path.strip_prefix(BELOW_LOCKS)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0[BELOW_LOCKS.len()..]
    }

    /// The lock's path in the tree: `/locks/{name}`.
    #[must_use]
    pub fn path(&self) -> Path {
        Path(self.0.clone())
    }

    /// Whether a level of the name has the form of a contender's node, `<session number>-lock-<ten digits>`. No lock may have
    /// such a name: it would be a contender's node, or below one.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.as_str().as_bytes().split(|byte| *byte == b'/').any(is_contender_name)
    }
}

/// Whether a level of a name has the form of a contender's node: `<session number>-lock-<ten digits>`.
#[must_use]
pub fn is_contender_name(level: &[u8]) -> bool {
    // Most names fail at their first byte.
    level.first().is_some_and(u8::is_ascii_digit)
        && level.split_last_chunk::<10>().is_some_and(|(rest, sequence)| {
            let session = rest.strip_suffix(b"-lock-").unwrap_or_default();
            !session.is_empty() && session.iter().chain(sequence).all(u8::is_ascii_digit)
        })
}

fn join_path(parent: &str, rest: &str) -> Arc<str> {
    let mut path = String::with_capacity(parent.len() + 1 + rest.len());
    path.push_str(parent);
    path.push('/');
    path.push_str(rest);
    Arc::from(path)
}

/// A name sorts like its text, so any text can bound a range of names.
impl std::borrow::Borrow<str> for LockName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// Like its text, which can stand for it in a table.
impl Hash for LockName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Serialize for LockName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

fn check_lock_name(text: &str) -> Result<(), ParsePathError> {
    check(text, text.len(), LOCK_NAME_BYTES_MAX, PATH_LEVELS_MAX - 2)
}

fn check(levels: &str, length: usize, bytes_max: usize, levels_max: usize) -> Result<(), ParsePathError> {
    if length > bytes_max {
        return Err(ParsePathError::TooLong { length, max: bytes_max });
    }
    // One pass over the bytes: it runs for each name in each request and each command. A level begins after a slash.
    let (bytes, mut start, mut count) = (levels.as_bytes(), 0, 1);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            // U+0080 to U+009F are control characters too. In UTF-8 they are C2 80 to C2 9F, and no other character begins so.
            0..=0x1f | 0x7f => return Err(ParsePathError::ControlCharacter),
            0x80..=0x9f if at > 0 && bytes[at - 1] == 0xc2 => return Err(ParsePathError::ControlCharacter),
            b'/' => {
                refuse_level(&bytes[start..at])?;
                start = at + 1;
                count += 1;
            }
            _ => {}
        }
    }
    refuse_level(&bytes[start..])?;
    if count > levels_max {
        return Err(ParsePathError::TooDeep { levels: count, max: levels_max });
    }
    Ok(())
}

#[inline]
fn refuse_level(level: &[u8]) -> Result<(), ParsePathError> {
    match level {
        b"" => Err(ParsePathError::EmptyLevel),
        b"." | b".." => Err(ParsePathError::DotLevel),
        _ => Ok(()),
    }
}

macro_rules! text_of {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(TextVisitor($name::parse))
            }
        }
    };
}

/// Reads a text where it is, without a copy.
struct TextVisitor<T>(fn(&str) -> Result<T, ParsePathError>);

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

impl std::borrow::Borrow<str> for Path {
    fn borrow(&self) -> &str {
        &self.0
    }
}

text_of!(Path);
text_of!(LockName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_into_their_parts() {
        let path = Path::parse("/jobs/nightly").unwrap();
        assert_eq!((path.parent(), path.name()), (Some(Path::parse("/jobs").unwrap()), "nightly"));
        assert_eq!(Path::parse("/jobs").unwrap().parent(), Some(Path::root()));
        assert_eq!(Path::root().parent(), None);
        assert_eq!(Path::root().child("jobs").child("nightly"), path);
    }

    #[test]
    fn bad_paths_are_refused_with_the_reason() {
        for (text, error) in [
            ("", ParsePathError::NoSlash),
            ("jobs", ParsePathError::NoSlash),
            ("//", ParsePathError::EmptyLevel),
            ("/jobs/", ParsePathError::EmptyLevel),
            ("/jobs//x", ParsePathError::EmptyLevel),
            ("/jobs/../x", ParsePathError::DotLevel),
            ("/jobs/.", ParsePathError::DotLevel),
            ("/jobs/a\0b", ParsePathError::ControlCharacter),
            ("/jobs/a\u{85}b", ParsePathError::ControlCharacter),
        ] {
            assert_eq!(Path::parse(text), Err(error), "{text}");
        }
    }

    /// Compares every text of up to five of these characters with a plain implementation of the rules.
    #[test]
    fn a_name_is_refused_only_for_a_control_character_or_an_empty_or_dot_level() {
        let mut texts = vec![String::new()];
        for _ in 0..5 {
            let characters = ['/', '.', 'a', '\n', '\u{7f}', '\u{80}', '\u{9f}', '\u{a0}', '\u{10a0}'];
            let longer = texts.iter().flat_map(|text| characters.map(|one| format!("{text}{one}"))).collect::<Vec<_>>();
            for text in texts {
                let control = text.chars().any(char::is_control);
                let level = text.split('/').any(|level| matches!(level, "" | "." | ".."));
                assert_eq!(LockName::parse(&text).is_err(), control || level, "{text:?}");
            }
            texts = longer;
        }
    }

    #[test]
    fn the_limits_are_checked_under_at_and_over_the_bound() {
        let name = |length: usize| "x".repeat(length);
        assert!(LockName::parse(&name(511)).is_ok() && LockName::parse(&name(512)).is_ok());
        assert_eq!(LockName::parse(&name(513)), Err(ParsePathError::TooLong { length: 513, max: 512 }));
        let path = |length: usize| format!("/{}", name(length - 1));
        assert!(Path::parse(&path(1_023)).is_ok() && Path::parse(&path(1_024)).is_ok());
        assert_eq!(Path::parse(&path(1_025)), Err(ParsePathError::TooLong { length: 1_025, max: 1_024 }));
        assert!(Path::parse(&"/x".repeat(31)).is_ok() && Path::parse(&"/x".repeat(32)).is_ok());
        assert_eq!(Path::parse(&"/x".repeat(33)), Err(ParsePathError::TooDeep { levels: 33, max: 32 }));
    }

    #[test]
    fn a_name_with_a_level_like_a_contenders_node_is_reserved() {
        for (name, reserved) in [
            ("2-lock-0000000000", true),
            ("orders/2-lock-0000000000", true),
            ("2-lock-0000000000/x", true),
            ("2-lock-000000000", false),
            ("2-lock-00000000000", false),
            ("x-lock-0000000000", false),
            ("-lock-0000000000", false),
            ("2-lock-000000000x", false),
            ("2-lock-2-lock-0000000000", false),
            ("2lock-0000000000", false),
            ("0000000000", false),
        ] {
            assert_eq!(LockName::parse(name).unwrap().is_reserved(), reserved, "{name}");
        }
    }

    #[test]
    fn a_lock_and_a_lock_below_its_name_are_independent() {
        let (orders, order) = (LockName::parse("orders").unwrap(), LockName::parse("orders/42").unwrap());
        assert_eq!(order.path().parent(), Some(orders.path()));
        assert!(order.path().is_under_locks() && !Path::parse("/locksmith").unwrap().is_under_locks());
    }

    #[test]
    fn the_name_in_a_path_is_the_name_that_was_parsed() {
        let name = LockName::parse("orders/42").unwrap();
        assert_eq!((name.as_str(), name.path().as_str()), ("orders/42", "/locks/orders/42"));
        assert_eq!(name.path().lock_name(), Some(name.clone()));
        assert_eq!((Path::locks().lock_name(), Path::parse("/locksmith/x").unwrap().lock_name()), (None, None));
        let too_long = Path::parse(&format!("/locks/{}", "x".repeat(LOCK_NAME_BYTES_MAX + 1))).unwrap();
        assert_eq!(too_long.lock_name(), None);
        assert_eq!((name.to_string(), format!("{name:?}")), ("orders/42".to_owned(), "\"orders/42\"".to_owned()));
        let set = std::collections::HashSet::from([name]);
        assert!(set.contains("orders/42") && !set.contains("/locks/orders/42"));
    }
}
