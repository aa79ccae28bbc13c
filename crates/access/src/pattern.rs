//! Patterns of names, level by level: `deploy/*/canary`, `app/{user}/**`.
//!
//! A pattern never looks at parts of a level, so `a/**` has nothing to do with `ab`.

use crate::{limits::PATTERN_BYTES_MAX, principal::Attributes};
use fairhold_types::limits::PATH_LEVELS_MAX;
use std::fmt;

/// One level of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PatternLevel {
    /// Exactly this level.
    Literal(Box<str>),
    /// Any one level: `*`.
    Any,
    /// The value of an attribute of the principal: `{user}`.
    Attribute(Box<str>),
}

/// A pattern of names. `**` at the end covers the name before it and everything below that name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    levels: Box<[PatternLevel]>,
    /// Whether it ends with `**`.
    open_end: bool,
}

/// Why a text is not a pattern, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BadPattern {
    /// The offset in bytes from the beginning of the pattern.
    pub offset: usize,
    /// What is wrong.
    pub reason: String,
}

impl Pattern {
    /// Every name.
    #[must_use]
    pub fn everything() -> Pattern {
        Pattern { levels: Box::default(), open_end: true }
    }

    /// Exactly this name. The name is one that was parsed.
    #[must_use]
    pub fn exact(name: &str) -> Pattern {
        Pattern { levels: levels_of(name).map(|level| PatternLevel::Literal(level.into())).collect(), open_end: false }
    }

    /// This name and everything below it. The name is one that was parsed; an empty one is the root.
    #[must_use]
    pub fn from_name(name: &str) -> Pattern {
        Pattern { open_end: true, ..Pattern::exact(name) }
    }

    /// Every name one level below this one. The name is one that was parsed; an empty one is the root.
    #[must_use]
    pub fn children_of(name: &str) -> Pattern {
        let levels = levels_of(name).map(|level| PatternLevel::Literal(level.into()));
        Pattern { levels: levels.chain([PatternLevel::Any]).collect(), open_end: false }
    }

    /// Parses a pattern. Any attribute may occur in it.
    pub fn parse(text: &str) -> Result<Pattern, BadPattern> {
        if text.len() > PATTERN_BYTES_MAX {
            let reason = format!("the pattern has {} bytes: at most {PATTERN_BYTES_MAX}", text.len());
            return Err(BadPattern { offset: PATTERN_BYTES_MAX, reason });
        }
        if text.starts_with('/') {
            return Err(BadPattern { offset: 0, reason: "a pattern begins with its first level, without a /".to_owned() });
        }
        let (mut levels, mut open_end, mut offset) = (Vec::new(), false, 0);
        for (index, level) in text.split('/').enumerate() {
            let number = index + 1;
            let bad = |reason: String| BadPattern { offset, reason };
            if open_end {
                return Err(bad(format!("`**` must be the last level, but level {number} follows it")));
            }
            if number > PATH_LEVELS_MAX {
                return Err(bad(format!("the pattern has more than {PATH_LEVELS_MAX} levels")));
            }
            match level {
                "**" => open_end = true,
                "*" => levels.push(PatternLevel::Any),
                _ => levels.push(parse_level(level, number).map_err(bad)?),
            }
            offset += level.len() + 1;
        }
        Ok(Pattern { levels: levels.into(), open_end })
    }

    /// The attributes that it names, each with its offset in bytes.
    pub fn attributes(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut offset = 0;
        self.levels.iter().filter_map(move |level| {
            let here = offset;
            offset += level.to_string().len() + 1;
            if let PatternLevel::Attribute(name) = level { Some((here, &**name)) } else { None }
        })
    }

    /// Whether it has neither `*` nor attributes. It may end with `**`.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.levels.iter().all(|level| matches!(level, PatternLevel::Literal(_)))
    }

    /// Whether it ends with `**`.
    #[must_use]
    pub fn is_open_ended(&self) -> bool {
        self.open_end
    }

    /// Its first level, if that is a literal.
    pub(crate) fn first_literal(&self) -> Option<&str> {
        if let Some(PatternLevel::Literal(text)) = self.levels.first() { Some(text) } else { None }
    }

    /// The pattern with the values of its attributes as literal levels. A value is never a wildcard, whatever it is. `None`
    /// if a value is missing or is not a valid level: then the pattern covers nothing.
    pub(crate) fn resolve(&self, attributes: &Attributes) -> Option<Pattern> {
        let resolve = |level: &PatternLevel| match level {
            PatternLevel::Attribute(name) => {
                let value = attributes.get(name).filter(|value| is_valid_level(value))?;
                Some(PatternLevel::Literal(value.into()))
            }
            PatternLevel::Literal(_) | PatternLevel::Any => Some(level.clone()),
        };
        let levels: Option<Box<[PatternLevel]>> = self.levels.iter().map(resolve).collect();
        Some(Pattern { levels: levels?, open_end: self.open_end })
    }

    /// Whether it covers this name. An empty name is the root. A pattern with an attribute covers nothing.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut levels = levels_of(name);
        for level in &self.levels {
            let Some(found) = levels.next() else { return false };
            let fits = match level {
                PatternLevel::Literal(text) => **text == *found,
                PatternLevel::Any => true,
                PatternLevel::Attribute(_) => false,
            };
            if !fits {
                return false;
            }
        }
        self.open_end || levels.next().is_none()
    }

    /// Whether it covers every name that the other pattern covers.
    ///
    /// An attribute is contained in `*` and in itself, because both have one value for one principal.
    #[must_use]
    pub fn contains(&self, other: &Pattern) -> bool {
        if other.levels.len() < self.levels.len() {
            return false;
        }
        let covers = |(mine, theirs): (&PatternLevel, &PatternLevel)| match mine {
            PatternLevel::Any => true,
            PatternLevel::Literal(_) | PatternLevel::Attribute(_) => mine == theirs,
        };
        let is_prefix = self.levels.iter().zip(&other.levels).all(covers);
        is_prefix && (self.open_end || (other.levels.len() == self.levels.len() && !other.open_end))
    }
}

/// The levels of a name. The root has none.
fn levels_of(name: &str) -> impl Iterator<Item = &str> {
    (!name.is_empty()).then(|| name.split('/')).into_iter().flatten()
}

/// Whether a text can be a level of a name.
pub(crate) fn is_valid_level(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(|c: char| c == '/' || c.is_control())
}

fn parse_level(level: &str, number: usize) -> Result<PatternLevel, String> {
    if level.is_empty() {
        return Err(format!("level {number} is empty"));
    }
    if let Some(name) = level.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return if is_attribute_name(name) {
            Ok(PatternLevel::Attribute(name.into()))
        } else {
            Err(format!("level {number}, `{level}`, has no name of an attribute: lower-case letters, digits and _"))
        };
    }
    if level.contains('*') {
        return Err(format!("level {number}, `{level}`: a * stands for a whole level, not for a part of one"));
    }
    if level.contains(['{', '}']) {
        return Err(format!("level {number}, `{level}`: an attribute in braces must be a whole level"));
    }
    if !is_valid_level(level) {
        let shown = level.escape_debug();
        return Err(format!(
            "level {number}, `{shown}`, cannot be part of a name: no level is . or .. or has control characters"
        ));
    }
    Ok(PatternLevel::Literal(level.into()))
}

/// Whether a text can be the name of an attribute.
#[must_use]
pub fn is_attribute_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

impl fmt::Display for PatternLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternLevel::Literal(text) => f.write_str(text),
            PatternLevel::Any => f.write_str("*"),
            PatternLevel::Attribute(name) => write!(f, "{{{name}}}"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, level) in self.levels.iter().enumerate() {
            write!(f, "{}{level}", if index > 0 { "/" } else { "" })?;
        }
        match (self.open_end, self.levels.is_empty()) {
            (true, true) => f.write_str("**"),
            (true, false) => f.write_str("/**"),
            (false, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::Principal;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn a_pattern_is_printed_as_it_was_written() {
        for text in ["a", "**", "*", "a/**", "*/b/**", "app/{user}/x", "a b/é", "{name_space1}/**", "a.b/..c"] {
            assert_eq!(pattern(text).to_string(), text);
        }
    }

    #[test]
    fn bad_patterns_are_refused_with_the_place() {
        let long = "x".repeat(PATTERN_BYTES_MAX + 1);
        let deep = vec!["x"; PATH_LEVELS_MAX + 1].join("/");
        for (text, offset, says) in [
            ("", 0, "level 1 is empty"),
            ("/a", 0, "without a /"),
            ("a//b", 2, "level 2 is empty"),
            ("a/", 2, "level 2 is empty"),
            ("a/**/b", 5, "must be the last level, but level 3"),
            ("a/b*", 2, "`b*`: a * stands for a whole level"),
            ("a/***", 2, "a * stands for a whole level"),
            ("{user", 0, "must be a whole level"),
            ("a/{user}x", 2, "must be a whole level"),
            ("a/{}", 2, "no name of an attribute"),
            ("a/{User}", 2, "no name of an attribute"),
            ("a/..", 2, "`..`, cannot be part of a name"),
            ("./a", 0, "`.`, cannot be part of a name"),
            ("ab/c\u{7}", 3, "`c\\u{7}`, cannot be part of a name"),
            (&long, PATTERN_BYTES_MAX, "1025 bytes"),
            (&deep, 64, "more than 32 levels"),
        ] {
            let bad = Pattern::parse(text).unwrap_err();
            assert_eq!(bad.offset, offset, "{text}: {bad}");
            assert!(bad.reason.contains(says), "{text}: {bad}");
        }
        assert!(Pattern::parse(&vec!["x"; PATH_LEVELS_MAX].join("/")).is_ok());
        assert!(Pattern::parse(&"x".repeat(PATTERN_BYTES_MAX)).is_ok());
    }

    #[test]
    fn a_pattern_covers_by_levels() {
        for (text, name, covers) in [
            ("a/**", "a", true),
            ("a/**", "a/b/c", true),
            ("a/**", "ab", false),
            ("a/**", "", false),
            ("**", "", true),
            ("**", "x/y", true),
            ("*", "x", true),
            ("*", "", false),
            ("*", "x/y", false),
            ("a/*", "a", false),
            ("a/*/c", "a/b/c", true),
            ("a/*/c/**", "a/b/c", true),
            ("a/b", "a/b/c", false),
        ] {
            assert_eq!(pattern(text).matches(name), covers, "{text} {name}");
        }
    }

    #[test]
    fn containment_is_by_levels() {
        for (outer, inner, contains) in [
            ("**", "**", true),
            ("**", "a/*/{user}/**", true),
            ("a/**", "a", true),
            ("a/**", "a/**", true),
            ("a/**", "*/**", false),
            ("a/*", "a/b", true),
            ("a/*", "a/{user}", true),
            ("a/{user}", "a/{user}", true),
            ("a/{user}", "a/*", false),
            ("a/{user}", "a/{group}", false),
            ("a/*", "a/*/**", false),
            ("a/*", "a/**", false),
            ("a/*/**", "a/**", false),
            ("a/**", "ab/**", false),
            ("a", "a/**", false),
        ] {
            assert_eq!(pattern(outer).contains(&pattern(inner)), contains, "{outer} {inner}");
        }
    }

    /// A principal cannot choose its name so that it covers more.
    #[test]
    fn the_value_of_an_attribute_is_never_a_wildcard() {
        let of = |value: &str| {
            let attributes = Attributes::of(&Principal::anonymous(), [("team".to_owned(), value.to_owned())]);
            pattern("home/{team}/**").resolve(&attributes)
        };
        let star = of("*").unwrap();
        assert!(star.matches("home/*/x") && !star.matches("home/ann/x"));
        assert!(!of("**").unwrap().matches("home/ann/x"));
        for bad in ["", ".", "..", "a/b", "a\0"] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
        let ann = Attributes::of(&Principal::parse("user:ann").unwrap(), []);
        assert_eq!(pattern("{group}").resolve(&ann), None);
    }
}
