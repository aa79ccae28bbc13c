//! Why parameters are refused. A refusal names the parameter and the expected value. It does not repeat the given
//! value, nor a long name that is no parameter's: either may be a secret.

use crate::edge::problem::Problem;
use fairhold_types::limits::NAME_REPEATED_BYTES_MAX;
use serde::de::{self, Expected, Unexpected};
use std::{borrow::Cow, fmt};
use strsim::levenshtein;

/// Two names are similar if at most this many single-character edits turn one into the other.
const SUGGESTION_DISTANCE_MAX: usize = 2;

/// Required parameters of calls, by name.
const REQUIRED: &[(&str, &str)] = &[
    ("grant", "expected the id of the leader's grant"),
    ("id", "expected the grant's id, a ULID or a UUIDv7"),
    ("ids", "expected a list of strings, in a JSON body"),
    ("lock", "expected the lock's name"),
    ("locks", "expected a list of objects, in a JSON body"),
    ("session", "expected the id of the session to own it"),
    ("to", "expected a number, as in {\"to\":2}"),
    ("token", "expected the fencing token to check"),
    ("value", "expected the text to proclaim"),
];

/// Why parameters are refused.
#[derive(Debug)]
pub(super) struct Refusal {
    detail: Cow<'static, str>,
    /// Whether the message already names its parameter, or concerns none.
    is_complete: bool,
}

impl Refusal {
    pub(super) fn complete(detail: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { detail: detail.into(), is_complete: true }
    }

    fn of_value(detail: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { detail: detail.into(), is_complete: false }
    }

    /// The same refusal, with the name of its parameter.
    pub(super) fn of(self, name: &str) -> Refusal {
        if self.is_complete { self } else { Refusal::complete(format!("the parameter \"{name}\": {}", self.detail)) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        Problem::bad_request(refusal.detail)
    }
}

impl de::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Refusal {
        Refusal::of_value(message.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Refusal {
        let expected = expected.to_string();
        Refusal::of_value(match &*expected {
            "a string" => Cow::Borrowed("expected a string"),
            "a boolean" => Cow::Borrowed("expected true or false"),
            expected => Cow::Owned(format!("expected {expected}")),
        })
    }

    fn invalid_value(given: Unexpected<'_>, expected: &dyn Expected) -> Refusal {
        Refusal::invalid_type(given, expected)
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Refusal {
        Refusal::of_value(match known {
            [first @ .., last] if !first.is_empty() => format!("expected {} or {last}", first.join(", ")),
            _ => format!("expected {}", known.concat()),
        })
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Refusal {
        Refusal::complete(unknown(name, known))
    }

    fn missing_field(name: &'static str) -> Refusal {
        let expected = REQUIRED.iter().find(|(known, _)| *known == name).map_or("it is required", |(_, expected)| expected);
        Refusal::of_value(expected).of(name)
    }

    fn duplicate_field(name: &'static str) -> Refusal {
        Refusal::complete(format!("the parameter \"{name}\" is given twice"))
    }
}

/// Says what a parameter should be.
pub(crate) fn expected(name: &str, what: &str) -> Problem {
    Problem::bad_request(format!("the parameter \"{name}\": expected {what}"))
}

fn unknown(name: &str, known: &[&str]) -> String {
    if name.len() > NAME_REPEATED_BYTES_MAX {
        return format!("there is no parameter with a name of {} bytes here", name.len());
    }
    let close = known.iter().map(|other| (levenshtein(name, other), other)).min();
    match close {
        Some((distance, other)) if distance <= SUGGESTION_DISTANCE_MAX && distance < other.len() => {
            format!("there is no parameter \"{name}\" here; did you mean \"{other}\"?")
        }
        Some(_) => format!("there is no parameter \"{name}\" here; the parameters are: {}", known.join(", ")),
        None => format!("there is no parameter \"{name}\" here; this call has no parameters"),
    }
}
