//! Subjects: the principals that a role is bound to, or that belong to a tenant.

use crate::principal::{self, BadPrincipal, Principal};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr, sync::Arc};

/// One principal, or all whose text begins as a subject does: `user:ci`, `k8s:system:serviceaccount:ci:*`. The `*` follows a
/// colon, so a subject never ends within a part.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Arc<str>);

impl Subject {
    /// Parses a subject.
    pub fn parse(text: &str) -> Result<Subject, BadPrincipal> {
        principal::check(text)?;
        match text.find('*') {
            None => Ok(Subject(Arc::from(text))),
            Some(star) if star + 1 == text.len() && text[..star].ends_with(':') => Ok(Subject(Arc::from(text))),
            Some(_) => Err(BadPrincipal::Star),
        }
    }

    /// The subject that covers this principal alone.
    #[must_use]
    pub fn exact(principal: &Principal) -> Subject {
        Subject(Arc::from(principal.as_str()))
    }

    /// All subjects that cover this principal: itself, and each of its beginnings up to a colon, with a `*`.
    pub fn all_of(principal: &Principal) -> impl Iterator<Item = Subject> + '_ {
        let text = principal.as_str();
        let open_ended = text.match_indices(':').map(|(colon, _)| Subject(Arc::from(format!("{}*", &text[..=colon]))));
        std::iter::once(Subject::exact(principal)).chain(open_ended)
    }

    /// All subjects that cover everything of this one: itself, and those that end with a `*` behind an earlier colon.
    pub fn all_above(&self) -> impl Iterator<Item = Subject> + '_ {
        let open_ended = self.0.match_indices(':').map(|(colon, _)| Subject(Arc::from(format!("{}*", &self.0[..=colon]))));
        std::iter::once(self.clone()).chain(open_ended)
    }

    /// A bound for ranges: no subject that this one contains comes before it.
    #[must_use]
    pub fn lower_bound(&self) -> Subject {
        self.prefix().map_or_else(|| self.clone(), |prefix| Subject(Arc::from(prefix)))
    }

    /// A bound for ranges: it comes before every subject, and covers no principal.
    #[must_use]
    pub fn lowest() -> Subject {
        Subject(Arc::from(""))
    }

    /// The subject as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text that each of its principals begins with, if there may be several.
    fn prefix(&self) -> Option<&str> {
        self.0.strip_suffix('*')
    }

    /// Whether it covers the principal.
    #[must_use]
    pub fn covers(&self, principal: &Principal) -> bool {
        match self.prefix() {
            Some(prefix) => principal.as_str().len() > prefix.len() && principal.as_str().starts_with(prefix),
            None => *self.0 == *principal.as_str(),
        }
    }

    /// Whether it covers each principal of the other one.
    #[must_use]
    pub fn contains(&self, other: &Subject) -> bool {
        self == other || self.prefix().is_some_and(|prefix| other.0.len() > prefix.len() && other.0.starts_with(prefix))
    }

    /// Whether some principal belongs to both.
    #[must_use]
    pub fn overlaps(&self, other: &Subject) -> bool {
        match (self.prefix(), other.prefix()) {
            (Some(mine), Some(theirs)) => mine.starts_with(theirs) || theirs.starts_with(mine),
            (Some(mine), None) => other.0.starts_with(mine),
            (None, Some(theirs)) => self.0.starts_with(theirs),
            (None, None) => self == other,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

impl FromStr for Subject {
    type Err = BadPrincipal;

    fn from_str(text: &str) -> Result<Subject, BadPrincipal> {
        Subject::parse(text)
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Subject, D::Error> {
        Subject::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> Subject {
        Subject::parse(text).unwrap()
    }

    #[test]
    fn a_subject_covers_by_parts() {
        for (text, principal, covers) in [
            ("user:ci", "user:ci", true),
            ("user:ci", "user:cid", false),
            ("user:*", "user:ci", true),
            ("user:*", "anonymous", false),
            ("anonymous", "anonymous", true),
            ("k8s:system:serviceaccount:ci:*", "k8s:system:serviceaccount:ci:builder", true),
            ("k8s:system:serviceaccount:ci:*", "k8s:system:serviceaccount:cid:builder", false),
            ("k8s:system:*", "k8s:system:serviceaccount:ci:builder", true),
            ("k8s:*", "k9s:system", false),
        ] {
            let principal = Principal::parse(principal).unwrap();
            assert_eq!(subject(text).covers(&principal), covers, "{text} {principal}");
            assert_eq!(Subject::all_of(&principal).any(|one| one == subject(text)), covers, "{text} {principal}");
        }
    }

    #[test]
    fn subjects_overlap_if_a_principal_belongs_to_both() {
        for (one, other, overlap) in [
            ("user:ci", "user:ci", true),
            ("user:ci", "user:*", true),
            ("k8s:a:*", "k8s:a:b:*", true),
            ("k8s:a:*", "k8s:ab:*", false),
            ("user:ci", "user:cd", false),
            ("anonymous", "user:*", false),
        ] {
            assert_eq!(subject(one).overlaps(&subject(other)), overlap, "{one} {other}");
            assert_eq!(subject(other).overlaps(&subject(one)), overlap, "{other} {one}");
            assert_eq!(
                subject(one).contains(&subject(other)) || subject(other).contains(&subject(one)),
                overlap,
                "{one} {other}"
            );
        }
    }

    #[test]
    fn bad_principals_and_subjects_are_refused() {
        let long = format!("k8s:{}", "x".repeat(129));
        for (text, error) in [
            ("", BadPrincipal::NoKind),
            ("ci", BadPrincipal::NoKind),
            ("*", BadPrincipal::NoKind),
            (":ci", BadPrincipal::Kind),
            ("User:ci", BadPrincipal::Kind),
            ("anonymous:ci", BadPrincipal::Kind),
            ("user:", BadPrincipal::NoName),
            ("k8s:a\u{7}", BadPrincipal::Character(7)),
            ("k8s:a\u{202e}", BadPrincipal::Character(0x202e)),
            ("k8s:a*", BadPrincipal::Star),
            ("k8s:*:a", BadPrincipal::Star),
            (&long, BadPrincipal::TooLong { length: 129 }),
        ] {
            assert_eq!(Subject::parse(text), Err(error.clone()), "{text}");
            assert_eq!(Principal::parse(text), Err(error), "{text}");
        }
        assert!(matches!(Subject::parse("user:a b"), Err(BadPrincipal::User(_))));
        assert_eq!(Principal::parse("user:*"), Err(BadPrincipal::Star));
        assert_eq!(Principal::anonymous().name(), "");
        assert_eq!(Principal::parse("k8s:a:b").unwrap().name(), "a:b");
    }

    #[test]
    fn the_key_of_a_principal_never_changes() {
        // printf user:ci | sha256sum
        assert_eq!(Principal::parse("user:ci").unwrap().key().0, 0x5d8c_8105_b65d_f883);
    }
}
