//! Takes secrets and ids out of a text, and names if somebody wants that.

use fairhold_types::text::{REMOVED, without_userinfo};
use std::collections::BTreeMap;

/// The beginnings of tokens of users and of join tokens.
const TOKENS: [&str; 2] = ["fht_", "fhj1"];
/// How a JWT begins: the base64 of `{"`.
const JWT: &str = "eyJ";
/// The length of a ULID.
const ULID_LENGTH: usize = 26;
const HEX_ID_LENGTH: usize = 32;
/// The lengths of the parts of a UUID.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];
/// Fields of log lines whose values are names.
const NAMED: [&str; 11] = ["lock", "locks", "owner", "holder", "holders", "path", "name", "principal", "by", "reason", "user"];

/// Replaces names with numbers: a name has one number everywhere.
#[derive(Debug, Default)]
pub(super) struct HiddenNames(BTreeMap<String, usize>);

impl HiddenNames {
    /// The number of a name.
    pub(super) fn number(&mut self, name: &str) -> String {
        let next = self.0.len() + 1;
        let number = *self.0.entry(name.to_owned()).or_insert(next);
        format!("name-{number}")
    }

    /// Replaces the values of fields of log lines, and every known name that stands alone.
    pub(super) fn hide(&mut self, text: &str) -> String {
        let mut hidden = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let line = self.hide_fields(line);
            hidden.push_str(&words(&line, is_between_names, |word| self.0.get(word).map(|number| format!("name-{number}"))));
        }
        hidden
    }

    fn hide_fields(&mut self, line: &str) -> String {
        let mut hidden = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(field) = next_value(rest) {
            hidden.push_str(rest.get(..field).unwrap_or_default());
            let (name, length) = value_at(rest.get(field..).unwrap_or_default());
            if !name.is_empty() {
                hidden.push_str(&self.number(name));
            }
            rest = rest.get(field + length..).unwrap_or_default();
        }
        hidden.push_str(rest);
        hidden
    }
}

/// Where the value of the next field with a name begins.
fn next_value(text: &str) -> Option<usize> {
    text.match_indices('=').find_map(|(at, _)| {
        let before = text.get(..at)?;
        let key = before.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next()?;
        NAMED.contains(&key).then_some(at + 1)
    })
}

/// The value at the beginning of this text without its quotes, and its length with them.
fn value_at(text: &str) -> (&str, usize) {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut is_escaped = false;
        for (at, c) in quoted.char_indices() {
            if c == '"' && !is_escaped {
                return (quoted.get(..at).unwrap_or_default(), at + 2);
            }
            is_escaped = c == '\\' && !is_escaped;
        }
        return (quoted, text.len());
    }
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, ',' | '}' | ')')).unwrap_or(text.len());
    (text.get(..end).unwrap_or_default(), end)
}

/// Removes tokens, the users and passwords of URLs, and the ids of sessions, grants and requests: each of these ids is a ULID, a
/// UUID or 32 hexadecimal digits.
pub(super) fn without_secrets(text: &str) -> String {
    words(
        &without_userinfo(text),
        |c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')),
        |word| is_secret(word.trim_end_matches('.')).then(|| REMOVED.to_owned()),
    )
}

fn is_secret(word: &str) -> bool {
    let is_token = TOKENS.iter().any(|prefix| word.contains(prefix));
    let is_jwt = word.starts_with(JWT) && word.matches('.').count() >= 2;
    is_token || is_jwt || is_ulid(word) || is_uuid(word) || is_hex_id(word)
}

/// The id of a session. Ids of clusters and data directories have the same form, and go as well.
fn is_hex_id(word: &str) -> bool {
    word.len() == HEX_ID_LENGTH && word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_ulid(word: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_alphanumeric() && !matches!(c.to_ascii_uppercase(), 'I' | 'L' | 'O' | 'U');
    word.len() == ULID_LENGTH && word.chars().all(is_digit) && word.starts_with(|c: char| c.is_ascii_digit())
}

fn is_uuid(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == UUID_PARTS && parts.iter().all(|part| part.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Replaces words of a text. `is_between` says which characters part them.
fn words(text: &str, is_between: impl Fn(char) -> bool, replace: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(&is_between).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match replace(word).filter(|_| !word.is_empty()) {
            Some(other) => result.push_str(&other),
            None => result.push_str(word),
        }
        let next = after.find(|c: char| !is_between(c)).unwrap_or(after.len());
        let (between, further) = after.split_at(next);
        result.push_str(between);
        rest = further;
    }
    result
}

/// Whether a character parts names in a sentence.
fn is_between_names(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '`' | '\'' | ',' | ';' | '(' | ')' | '[' | ']' | '{' | '}' | '=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_ids_are_removed_and_everything_else_stays() {
        let uuid = "0190b0f0-7b1e-7cc3-98c4-dc0c0c07398f";
        for secret in ["fht_0123456789abcdef", "fhj1.AAAA.bbbb", "eyJhbGciOi.eyJzdWIi.c2ln", "01J2Z5V8M3N4P5Q6R7S8T9V0WX", uuid] {
            for text in [format!("{{\"id\":\"{secret}\"}}"), format!("of {secret}."), format!("?token={secret}&a=1")] {
                let cleaned = without_secrets(&text);
                assert!(!cleaned.contains(secret) && cleaned.contains(REMOVED), "{cleaned}");
            }
        }
        let log = "ERROR the URL http://user:s3cretPW@collector:4318 of \"https://s3cretPW@x\"\n";
        assert_eq!(without_secrets(log), "ERROR the URL http://[removed]@collector:4318 of \"https://[removed]@x\"\n");
        let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for text in [
            "node 1 at http://n1.example.com:7171 leads; 2026-11-27T21:00:00.123Z\n",
            digest,
            "fairhold_http_requests_total{code=\"200\"} 17\n",
            "",
        ] {
            assert_eq!(without_secrets(text), text);
        }
    }

    #[test]
    fn a_name_has_one_number_everywhere() {
        let mut names = HiddenNames::default();
        assert_eq!(names.number("orders/42"), "name-1");
        let text = "an administrator broke a lock lock=\"orders/42\" by=user:ci reason=\"it \\\"hung\\\"\" revision=7\n\
                    `orders/42` and orders/421, orders/42\n";
        let hidden =
            "an administrator broke a lock lock=name-1 by=name-2 reason=name-3 revision=7\n`name-1` and orders/421, name-1\n";
        assert_eq!(names.hide(text), hidden);
        assert_eq!(names.hide("lock= owner=\"open"), "lock= owner=name-4");
        assert_eq!(names.hide("é=ü lock=ü\n"), "é=name-5 lock=name-5\n");
        names.number("");
        assert_eq!(names.hide(" \"\" a\n"), " \"\" a\n", "a lock without an owner hides nothing");
    }
}
