//! Rules: verbs on a pattern, as in `acquire,inspect locks:deploy/**`.
//!
//! ```text
//! rule   = verb {"," verb} ["," "priority<=" number] " " target
//! target = "locks:" pattern | "nodes:" pattern | "sessions" | "cluster"
//! ```

use crate::limits::RULE_BYTES_MAX;
use crate::{
    pattern::{BadPattern, Pattern},
    verb::{ResourceKind, Verb, VerbSet},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// What a verb list may have besides verbs.
const PRIORITY: &str = "priority<=";

/// A right: verbs on all names that a pattern covers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    verbs: VerbSet,
    /// The highest priority that an acquire may have.
    priority_max: i32,
    resource: ResourceKind,
    /// Everything, where the things have no names.
    pattern: Pattern,
}

/// Why a text is not a rule, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("character {position}: {reason}")]
pub struct BadRule {
    /// The position of the mistake in characters, from 1.
    pub position: usize,
    /// What is wrong.
    pub reason: String,
}

impl BadRule {
    fn at(text: &str, offset: usize, reason: impl Into<String>) -> BadRule {
        let before = text.char_indices().take_while(|(at, _)| *at < offset).count();
        BadRule { position: before + 1, reason: reason.into() }
    }
}

impl Rule {
    /// A rule with these verbs, which all act on `resource`.
    pub(crate) fn new(verbs: &[Verb], priority_max: i32, resource: ResourceKind) -> Rule {
        debug_assert!(verbs.iter().all(|verb| verb.resource() == resource), "verbs of two kinds");
        Rule { verbs: VerbSet::of(verbs), priority_max, resource, pattern: Pattern::everything() }
    }

    /// Parses a rule. Any attribute may occur in its pattern.
    pub fn parse(text: &str) -> Result<Rule, BadRule> {
        Rule::parse_with(text, |_| true)
    }

    /// Parses a rule, and refuses attributes that no principal has.
    pub fn parse_with(text: &str, is_attribute: impl Fn(&str) -> bool) -> Result<Rule, BadRule> {
        if text.len() > RULE_BYTES_MAX {
            return Err(BadRule::at(text, RULE_BYTES_MAX, format!("a rule has at most {RULE_BYTES_MAX} bytes")));
        }
        let Some((verbs, target)) = text.split_once(' ') else {
            return Err(BadRule::at(text, text.len(), "a rule is verbs, a space and a target, as in `acquire locks:deploy/**`"));
        };
        let start = verbs.len() + 1;
        let (resource, pattern) = parse_target(text, start, target, is_attribute)?;
        let (verbs, priority_max) = parse_verbs(text, verbs, resource)?;
        Ok(Rule { verbs, priority_max, resource, pattern })
    }

    /// Its verbs.
    #[must_use]
    pub fn verbs(&self) -> VerbSet {
        self.verbs
    }

    /// The highest priority that an acquire may have, 0 or more.
    #[must_use]
    pub fn priority_max(&self) -> i32 {
        self.priority_max
    }

    /// What its verbs act on.
    #[must_use]
    pub fn resource(&self) -> ResourceKind {
        self.resource
    }

    /// The names that it covers. It covers everything where the things have no names.
    #[must_use]
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

fn parse_target(
    text: &str,
    start: usize,
    target: &str,
    is_attribute: impl Fn(&str) -> bool,
) -> Result<(ResourceKind, Pattern), BadRule> {
    let (kind, pattern) = target.split_once(':').map_or((target, None), |(kind, pattern)| (kind, Some(pattern)));
    let Some(resource) = ResourceKind::ALL.into_iter().find(|resource| resource.as_str() == kind) else {
        let reason = "a rule is about `locks:…`, `nodes:…`, `sessions` or `cluster`";
        return Err(BadRule::at(text, start, reason));
    };
    let Some(pattern) = pattern else {
        if resource.has_names() {
            let reason = format!("`{kind}` needs a pattern of names: `{kind}:**` for all");
            return Err(BadRule::at(text, start + kind.len(), reason));
        }
        return Ok((resource, Pattern::everything()));
    };
    let start = start + kind.len() + 1;
    if !resource.has_names() {
        return Err(BadRule::at(text, start - 1, format!("`{kind}` has no names, so it takes no pattern")));
    }
    let pattern = Pattern::parse(pattern).map_err(|BadPattern { offset, reason }| BadRule::at(text, start + offset, reason))?;
    if let Some((offset, unknown)) = pattern.attributes().find(|(_, name)| !is_attribute(name)) {
        return Err(BadRule::at(text, start + offset, format!("no principal has the attribute `{{{unknown}}}`")));
    }
    if resource == ResourceKind::Nodes && pattern.first_literal() == Some("locks") {
        return Err(BadRule::at(text, start, "the nodes of locks are named by `locks:…`, with the verb `inspect`"));
    }
    Ok((resource, pattern))
}

fn parse_verbs(text: &str, verbs: &str, resource: ResourceKind) -> Result<(VerbSet, i32), BadRule> {
    let (mut set, mut priority, mut offset) = (VerbSet::default(), None, 0);
    for word in verbs.split(',') {
        let bad = |reason: String| Err(BadRule::at(text, offset, reason));
        if let Some(number) = word.strip_prefix(PRIORITY) {
            match number.parse() {
                Ok(most @ 0..=i32::MAX) if priority.is_none() => priority = Some((most, offset)),
                Ok(0..=i32::MAX) => return bad("a rule has one bound on the priority".to_owned()),
                Ok(_) | Err(_) => return bad(format!("`{word}` needs a whole number from 0 to {}", i32::MAX)),
            }
        } else {
            let Some(verb) = Verb::named(word) else {
                return bad(format!("there is no verb `{}`", word.escape_debug()));
            };
            if verb.resource() != resource {
                return bad(format!("the verb `{verb}` is for `{}`, not for `{}`", verb.resource().as_str(), resource.as_str()));
            }
            set = set.with(verb);
        }
        offset += word.len() + 1;
    }
    if let Some((_, offset)) = priority.filter(|_| !set.allows(Verb::Share)) {
        return Err(BadRule::at(text, offset, "a bound on the priority goes with `acquire` or `share`"));
    }
    Ok((set, priority.map_or(0, |(most, _)| most)))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, verb) in self.verbs.iter().enumerate() {
            write!(f, "{}{verb}", if index > 0 { "," } else { "" })?;
        }
        if self.priority_max > 0 {
            write!(f, ",{PRIORITY}{}", self.priority_max)?;
        }
        write!(f, " {}", self.resource.as_str())?;
        if self.resource.has_names() { write!(f, ":{}", self.pattern) } else { Ok(()) }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Rule, BadRule> {
        Rule::parse(text)
    }
}

/// As text, in every format: a new verb changes no bytes of older rules.
impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rule, D::Error> {
        Rule::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_printed_so_that_it_parses_again() {
        for (text, printed) in [
            ("acquire,inspect locks:deploy/**", "acquire,inspect locks:deploy/**"),
            ("inspect,acquire,acquire locks:a b", "acquire,inspect locks:a b"),
            ("priority<=7,share locks:*", "share,priority<=7 locks:*"),
            ("acquire,priority<=0 locks:a", "acquire locks:a"),
            ("write,read nodes:app/{user}/**", "read,write nodes:app/{user}/**"),
            ("end sessions", "end sessions"),
            ("admin,status cluster", "status,admin cluster"),
        ] {
            let rule = Rule::parse(text).unwrap();
            assert_eq!(rule.to_string(), printed);
            assert_eq!(Rule::parse(printed).unwrap(), rule);
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule);
        }
    }

    #[test]
    fn bad_rules_are_refused_with_the_place() {
        let long = format!("read nodes:{}", "x".repeat(RULE_BYTES_MAX));
        for (text, position, says) in [
            ("", 1, "verbs, a space and a target"),
            ("acquire", 8, "verbs, a space and a target"),
            ("acquire ", 9, "a rule is about"),
            (" locks:a", 1, "no verb ``"),
            ("acquire  locks:a", 9, "a rule is about"),
            ("acquire lock:a", 9, "a rule is about"),
            ("acquire locks", 14, "`locks:**` for all"),
            ("acquire locks:", 15, "level 1 is empty"),
            ("acquire locks:a//b", 17, "level 2 is empty"),
            ("acquire locks:é//b", 17, "level 2 is empty"),
            ("acquire locks:a/**/b", 20, "must be the last level"),
            ("acquire locks:a*", 15, "a * stands for a whole level"),
            ("acquire locks:a/{group}", 17, "no principal has the attribute `{group}`"),
            ("fly locks:a", 1, "no verb `fly`"),
            ("acquire,fly locks:a", 9, "no verb `fly`"),
            ("acquire,,fence locks:a", 9, "no verb ``"),
            ("acquire,read locks:a", 9, "the verb `read` is for `nodes`, not for `locks`"),
            ("acquire cluster", 1, "is for `locks`"),
            ("status cluster:a", 15, "takes no pattern"),
            ("inspect,priority<=3 locks:a", 9, "goes with `acquire` or `share`"),
            ("priority<=3 locks:a", 1, "goes with `acquire` or `share`"),
            ("acquire,priority<=-1 locks:a", 9, "a whole number from 0"),
            ("acquire,priority<=2147483648 locks:a", 9, "a whole number from 0"),
            ("acquire,priority<=1,priority<=2 locks:a", 21, "one bound"),
            ("read nodes:locks/**", 12, "named by `locks:…`"),
            (&long, RULE_BYTES_MAX + 1, "at most"),
        ] {
            let bad = Rule::parse_with(text, |name| name == "user").unwrap_err();
            assert_eq!(bad.position, position, "{text}: {bad}");
            assert!(bad.reason.contains(says), "{text}: {bad}");
        }
        assert!(Rule::parse_with("read nodes:{user}/**", |name| name == "user").is_ok());
    }
}
