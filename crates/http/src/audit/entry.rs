//! An entry of the audit log as one line of JSON. It has no values, no secret ids and no tokens.

use super::refusals::{CountedRefusals, RefusedCaller};
use crate::edge::body;
use fairhold_access::token::TOKEN_PREFIX;
use fairhold_node::access::{NameVerdict, TouchedName};
use fairhold_trust::jwt::parts::looks_like_jwt;
use fairhold_types::{Code, time::WallMillis};
use serde::Serialize;

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuditEvent {
    /// A request, from its start to its end.
    Request,
    /// The start of a request that goes on: a stream, or a long wait.
    Start,
    /// The end of such a request.
    End,
    /// Refused requests that have no entries of their own.
    MoreRefusals,
}

/// Whether the request was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuditDecision {
    Allowed,
    /// Its rights do not cover it.
    Denied,
    /// It shows no valid credential.
    Unauthenticated,
    /// Rights are not enforced.
    Unenforced,
    /// It was answered before its caller was known.
    Undecided,
}

/// Why a request ended without an answer, or a stream before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RequestEnd {
    /// The client or its connection went away.
    Disconnected,
    /// The caller lost its right or its credential.
    Revoked,
}

/// An entry. `None` is left out.
#[derive(Debug, Serialize)]
pub(super) struct AuditEntry<'a> {
    pub(super) time: String,
    pub(super) event: AuditEvent,
    /// The id of the request, as in its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<&'a str>,
    /// The path with placeholders; none for a path without a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) route: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) names: Vec<NameEntry<'a>>,
    /// How many names are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) names_omitted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<AuditDecision>,
    /// The status of the answer; none if there was no answer yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<RequestEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<u64>,
    /// How many refusals this entry stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    /// When the first of them was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<String>,
}

/// A name that the request touched.
#[derive(Debug, Serialize)]
pub(super) struct NameEntry<'a> {
    name: &'a str,
    /// The verb that it needs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    verb: Option<&'a str>,
    /// The role that allows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    denied: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The names of a request: the decided ones, and the one in its path. It leaves out a name that looks like a token.
pub(super) fn names<'a>(touched: &'a [TouchedName], in_path: Option<&'a str>) -> Vec<NameEntry<'a>> {
    let decided = touched.iter().map(|TouchedName { name, verb, verdict }| {
        let (role, denied) = match verdict {
            NameVerdict::Allowed(role) => (Some(role.as_str()), false),
            NameVerdict::Denied => (None, true),
            NameVerdict::Undecided => (None, false),
        };
        NameEntry { name, verb: verb.as_deref(), role, denied }
    });
    let only_in_path = in_path.filter(|name| touched.iter().all(|known| known.name != *name));
    let in_path = only_in_path.map(|name| NameEntry { name, verb: None, role: None, denied: false });
    decided.chain(in_path).filter(|entry| !shows_token(entry.name)).collect()
}

/// Whether a text may be somebody's token or JWT, put into the wrong place.
pub(crate) fn shows_token(text: &str) -> bool {
    text.contains(TOKEN_PREFIX) || text.split(|c: char| !is_of_jwt(c)).any(has_jwt)
}

/// Whether a JWT may have this character.
fn is_of_jwt(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Whether three parts in sequence are a JWT.
fn has_jwt(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.windows(3).any(|three| looks_like_jwt(&three.join(".")))
}

/// The entry as a line.
pub(super) fn line(entry: &AuditEntry<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    body::write_json(entry, &mut line);
    line.push(b'\n');
    line
}

/// The line for refusals without entries of their own.
pub(super) fn of_counted(counted: &CountedRefusals, now: WallMillis) -> Vec<u8> {
    let caller = counted.caller.as_ref();
    let known = |text: fn(&RefusedCaller) -> &str| caller.map(text).filter(|text| !text.is_empty());
    line(&AuditEntry {
        time: now.to_rfc3339(),
        event: AuditEvent::MoreRefusals,
        request: None,
        principal: known(|caller| &caller.principal),
        address: known(|caller| &caller.address),
        method: None,
        route: None,
        names: Vec::new(),
        names_omitted: 0,
        decision: None,
        status: None,
        code: None,
        reason: None,
        revision: None,
        count: Some(counted.count),
        since: Some(counted.since.to_rfc3339()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_trust::{jwt_for_tests, jwt_for_tests::TestIssuer};

    #[test]
    fn counted_refusals_name_their_caller_and_their_number() {
        let caller = RefusedCaller { address: "10.0.0.1".to_owned(), principal: "user:ci".to_owned() };
        let counted = CountedRefusals { caller: Some(caller), count: 99_980, since: WallMillis(1_763_700_840_120) };
        let line = String::from_utf8(of_counted(&counted, WallMillis(1_763_700_841_000))).unwrap();
        assert_eq!(
            line,
            "{\"time\":\"2025-11-21T04:54:01.000Z\",\"event\":\"more_refusals\",\"principal\":\"user:ci\",\
             \"address\":\"10.0.0.1\",\"count\":99980,\"since\":\"2025-11-21T04:54:00.120Z\"}\n"
        );
    }

    #[test]
    fn a_name_that_may_be_a_token_is_left_out() {
        let touched = |name: &str| TouchedName { name: name.to_owned(), verb: None, verdict: NameVerdict::Undecided };
        let all = [touched("locks:a"), touched("locks:fht_abc")];
        let shown: Vec<&str> = names(&all, Some("locks:b")).iter().map(|entry| entry.name).collect();
        assert_eq!(shown, ["locks:a", "locks:b"]);
        assert_eq!(names(&all, Some("locks:a")).len(), 1, "a name stands once");
        let jwt = TestIssuer::new("ES256", "1").sign(&jwt_for_tests::claims(WallMillis(1_000_000)));
        for token in ["fht_abc", &jwt, &format!("old.{jwt}"), &format!("{jwt}.v2")] {
            assert!(names(&[], Some(&format!("locks:x/{token}"))).is_empty(), "{token}");
        }
        assert_eq!(names(&[], Some("locks:a.b.c")).len(), 1, "a name with dots is no JWT");
    }
}
