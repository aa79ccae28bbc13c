//! The texts of an entry: short, and without tokens.
//!
//! An actor chooses most of these texts, so it must not be able to hide them. An entry leaves out only the words that may
//! be tokens, and the hash of the whole text stands for what is missing. A reader who finds the text elsewhere, such as in
//! a role or in the history of a lock, can compare the hash. The hash does not help to find a token, because nobody can
//! guess one.

use fairhold_access::token::TOKEN_PREFIX;
use fairhold_types::limits::AUDIT_TEXT_BYTES_MAX;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// A word with one of these may be a token, a join token or a JWT.
const SECRET_STARTS: [&str; 3] = [TOKEN_PREFIX, "fhj1.", "eyJ"];
/// What an entry has in place of such a word.
const LEFT_OUT: &str = "(left out: it may be a token)";

/// The text as an entry has it: `AUDIT_TEXT_BYTES_MAX` bytes at most. If anything is missing, the hash of the whole text is
/// at the end.
pub(super) fn fitting(text: String) -> String {
    let mut shown = without_tokens(&text);
    if shown == text && text.len() <= AUDIT_TEXT_BYTES_MAX {
        return text;
    }
    let mut hash = String::from(" (SHA-256 of the whole text: ");
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    for byte in digest {
        // Writing into a string cannot fail.
        write!(hash, "{byte:02x}").ok();
    }
    hash.push(')');
    let room = AUDIT_TEXT_BYTES_MAX.saturating_sub(hash.len());
    if shown.len() > room {
        let room = room.saturating_sub('…'.len_utf8());
        let end = (0..=room).rev().find(|end| shown.is_char_boundary(*end)).unwrap_or_default();
        shown.truncate(end);
        shown.push('…');
    }
    shown + &hash
}

/// The text without the words that may be tokens. What follows after `AUDIT_TEXT_BYTES_MAX` bytes is not searched, because
/// it is cut: the work stays small, whatever the text is.
fn without_tokens(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(start) = secret_start(rest, AUDIT_TEXT_BYTES_MAX.saturating_sub(shown.len())) {
        let (before, word) = rest.split_at(start);
        shown.push_str(before);
        shown.push_str(LEFT_OUT);
        rest = word.split_at(word.find(ends_word).unwrap_or(word.len())).1;
    }
    shown.push_str(rest);
    shown
}

/// The position of the first word that may be a token, if it begins in the first `searched` bytes or just after them.
fn secret_start(text: &str, searched: usize) -> Option<usize> {
    let mut positions = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= searched);
    positions.find(|at| {
        let rest = text.split_at(*at).1;
        SECRET_STARTS.iter().any(|start| rest.starts_with(*start))
    })
}

/// Whether no token has this character.
fn ends_word(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '\'' | '`' | ',' | ';' | '/' | '|' | ')' | ']' | '}' | '>')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(text: &str) -> String {
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        digest.iter().fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"))
    }

    fn fitted(text: &str) -> String {
        fitting(text.to_owned())
    }

    /// The hash is that of `printf '%s' 'locks:eyJx' | sha256sum`.
    #[test]
    fn an_actor_cannot_hide_what_it_did_behind_a_word_that_may_be_a_token() {
        let hash = "c256162d67322a7d08d25011c3b732951e84df997f8fef4d173c00b32dd3907c";
        assert_eq!(fitted("locks:eyJx"), format!("locks:(left out: it may be a token) (SHA-256 of the whole text: {hash})"));
        let rules = fitted("read nodes:eyJ/** | admin cluster");
        assert!(rules.starts_with("read nodes:(left out: it may be a token)/** | admin cluster (SHA-256"), "{rules}");
        for text in ["", "locks:orders/42", &"x".repeat(AUDIT_TEXT_BYTES_MAX)] {
            assert_eq!(fitted(text), text);
        }
    }

    #[test]
    fn nothing_of_a_token_is_shown() {
        let jwt = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJjaSJ9.c2lnbmF0dXJl-_x";
        for token in [format!("{TOKEN_PREFIX}AbC-_19"), "fhj1.AbC-_19.Xyz".to_owned(), jwt.to_owned()] {
            for (before, after) in [("", ""), ("with ", " by ann"), ("token=\"", "\", or"), ("é", "/é"), ("token:", ",x")] {
                let text = format!("{before}{token}{after}");
                let expected = format!("{before}{LEFT_OUT}{after} (SHA-256 of the whole text: {})", hash_of(&text));
                assert_eq!(fitted(&text), expected);
            }
        }
    }

    #[test]
    fn what_is_cut_is_not_searched() {
        for (before, found) in [(0, true), (AUDIT_TEXT_BYTES_MAX, true), (AUDIT_TEXT_BYTES_MAX + 1, false)] {
            let text = format!("{}eyJx", "x".repeat(before));
            assert_eq!(without_tokens(&text).contains(LEFT_OUT), found, "{before}");
        }
        let many = "eyJ ".repeat(20_000);
        assert!(without_tokens(&many).matches(LEFT_OUT).count() <= AUDIT_TEXT_BYTES_MAX / LEFT_OUT.len() + 1);
    }

    /// A long first rule cannot hide the next one from a reader who has the role.
    #[test]
    fn a_cut_text_has_the_hash_of_all() {
        let long = format!("read nodes:{} | admin cluster", "é".repeat(295));
        let shown = fitted(&long);
        assert!(shown.starts_with("read nodes:éé") && !shown.contains("admin"), "{shown}");
        assert!(shown.ends_with(&format!("é… (SHA-256 of the whole text: {})", hash_of(&long))), "{shown}");
        for text in [long, "eyJ ".repeat(20_000), "eyJ".repeat(20_000), "/fht_x".repeat(99)] {
            let shown = fitted(&text);
            assert!(shown.len() <= AUDIT_TEXT_BYTES_MAX && shown.contains(&hash_of(&text)), "{shown}");
            assert!(!shown.contains("eyJ") && !shown.contains(TOKEN_PREFIX), "{shown}");
        }
    }
}
