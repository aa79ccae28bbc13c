//! Text for people: the characters allowed in an owner, a name or a reason, and how that text is shown.
//!
//! A control character moves a terminal's cursor or sets its title. An invisible character, or one that changes the text
//! direction, makes a name look like another. A name needs neither.

use std::borrow::Cow;

/// What replaces a secret in a text.
pub const REMOVED: &str = "[removed]";

/// Whether a character may appear in text for people: it is no control character, not invisible, and neither changes the
/// text direction nor ends the line.
#[must_use]
pub fn is_plain(c: char) -> bool {
    let hidden = matches!(c,
        '\u{061c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}');
    !c.is_control() && !hidden
}

/// The first character that is not allowed in text for people.
#[must_use]
pub fn first_not_plain(text: &str) -> Option<char> {
    // Nearly every text is ASCII, where one byte is one character.
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return None;
    }
    text.chars().find(|c| !is_plain(*c))
}

/// Text that is safe to write to a terminal or a log: characters that are not allowed are escaped, as in `\u{1b}`.
#[must_use]
pub fn terminal_safe(text: &str) -> Cow<'_, str> {
    if first_not_plain(text).is_none() {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Text whose URLs have no user and no password: what stands between `//` and the last `@` before the end of the host is
/// replaced.
#[must_use]
pub fn without_userinfo(text: &str) -> Cow<'_, str> {
    if !text.contains('@') {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split("//");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (host, rest) = part.split_at(part.find(ends_host).unwrap_or(part.len()));
        shown.push_str("//");
        match host.rsplit_once('@') {
            Some((_, host)) => shown.extend([REMOVED, "@", host, rest]),
            None => shown.push_str(part),
        }
    }
    Cow::Owned(shown)
}

/// Whether a character ends the host of a URL in a text.
fn ends_host(c: char) -> bool {
    c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '`' | '<' | '>')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_invisible_and_direction_characters_are_escaped() {
        for bad in [
            '\0', '\t', '\n', '\r', '\u{1b}', '\u{1f}', '\u{7f}', '\u{80}', '\u{9b}', '\u{9f}', '\u{61c}', '\u{200b}',
            '\u{200f}', '\u{2028}', '\u{2029}', '\u{202e}', '\u{2060}', '\u{2069}', '\u{feff}',
        ] {
            let text = format!("a{bad}b");
            assert_eq!(first_not_plain(&text), Some(bad));
            let shown = terminal_safe(&text);
            assert!(shown.chars().all(is_plain) && shown.starts_with("a\\") && shown.ends_with('b'), "{shown}");
        }
        for good in
            ["", "ci-7@10.0.0.1", "a\\b\"c'", "Zoë, 東京, \u{1f980}", "a\u{a0}b\u{200a}c\u{2010}\u{202f}\u{205f}\u{2070}\u{fffd}"]
        {
            assert_eq!((terminal_safe(good), first_not_plain(good)), (Cow::Borrowed(good), None));
        }
        assert_eq!(terminal_safe("\u{1b}]0;pwned\u{7}\u{9b}A"), "\\u{1b}]0;pwned\\u{7}\\u{9b}A");
    }

    #[test]
    fn a_url_is_shown_without_its_user_and_password() {
        for (text, shown) in [
            ("http://user:s3cret@c:4318", "http://[removed]@c:4318"),
            ("https://s3cret@c/x y", "https://[removed]@c/x y"),
            ("a http://u:s3c@ret@c, https://u:s3cret@d?q", "a http://[removed]@c, https://[removed]@d?q"),
            ("{\"url\":\"http://u:s3cret@c\"}", "{\"url\":\"http://[removed]@c\"}"),
            ("//u:s3cret@c", "//[removed]@c"),
        ] {
            assert_eq!(without_userinfo(text), shown);
        }
        for good in ["", "http://n1:7171/v1/locks/a@b", "ci@10.0.0.1 at http://n1:7171", "mail@x // y", "\"http://c\" of a@b"] {
            assert_eq!(without_userinfo(good), good);
        }
    }
}
