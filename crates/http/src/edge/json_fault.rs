//! What is wrong with a body that is no JSON of its type. The text does not repeat a value, nor a long name: either may be
//! a secret that stands in the wrong place.

use fairhold_types::limits::NAME_REPEATED_BYTES_MAX;
use serde_json::error::Category;

/// What serde writes between a given value and what was expected instead.
const EXPECTED: &str = ", expected ";

/// Says what is wrong, and where.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match error.classify() {
        // These messages have no part of the body.
        Category::Io | Category::Syntax | Category::Eof => text,
        Category::Data => without_given(&text),
    }
}

fn without_given(text: &str) -> String {
    // What was expected is a text of this program, and has no such part: the last one ends what was given.
    let after_given = |kind: &str| text.strip_prefix(kind)?.rsplit_once(EXPECTED);
    for kind in ["invalid type: ", "invalid value: ", "invalid length "] {
        if let Some((_, expected)) = after_given(kind) {
            return format!("expected {expected}");
        }
    }
    for kind in ["unknown field", "unknown variant"] {
        let Some(rest) = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix(" `")) else { continue };
        for middle in ["expected ", "there are no "] {
            if let Some((name, known)) = rest.rsplit_once(&format!("`, {middle}"))
                && name.len() > NAME_REPEATED_BYTES_MAX
            {
                return format!("{kind}: {middle}{known}");
            }
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "no value of it is made")]
    struct Body {
        count: Option<u64>,
        kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Exclusive,
        Shared,
    }

    const TOKEN: &str = "fht_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAabcdef";

    fn fault(body: &str) -> String {
        describe(&serde_json::from_str::<Body>(body).unwrap_err())
    }

    #[test]
    fn no_value_and_no_long_name_is_repeated() {
        for (body, says) in [
            (format!("{{\"count\":\"{TOKEN}\"}}"), "expected u64 at line 1 column"),
            (format!("{{\"count\":\"a, expected {TOKEN}\"}}"), "expected u64 at line 1 column"),
            (format!("\"{TOKEN}\""), "expected struct Body at line 1 column"),
            (format!("{{\"{TOKEN}\":1}}"), "unknown field: expected `count` or `kind` at line 1 column"),
            (format!("{{\"{TOKEN}`, expected `a\":1}}"), "unknown field: expected `count` or `kind` at line 1 column"),
            (format!("{{\"kind\":\"{TOKEN}\"}}"), "unknown variant: expected `exclusive` or `shared` at line 1 column"),
            (format!("{{\"count\":{TOKEN}}}"), "expected ident at line 1 column"),
            (format!("{{\"{TOKEN}"), "EOF while parsing a string at line 1 column"),
        ] {
            let fault = fault(&body);
            assert!(fault.starts_with(says) && !fault.contains("AAAA"), "{body}: {fault}");
        }
    }

    #[test]
    fn a_short_name_is_repeated() {
        assert!(fault(r#"{"cuont":1}"#).starts_with("unknown field `cuont`, expected `count` or `kind` at line 1"));
        assert!(fault(r#"{"kind":"share"}"#).starts_with("unknown variant `share`, expected `exclusive` or `shared`"));
        assert!(fault(r#"{"count":-1}"#).starts_with("expected u64 at line 1"));
    }
}
