//! Text as a word for a shell, to be copied from the screen.

use fairhold_types::text::{first_not_plain, is_plain};

/// The text as one word for bash and zsh. It has only characters that a terminal shows.
pub(super) fn word(text: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_bare) {
        return text.to_owned();
    }
    if first_not_plain(text).is_none() {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let escaped = |c: char| match c {
        '\\' | '\'' => format!("\\{c}"),
        c if is_plain(c) => c.to_string(),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    format!("$'{}'", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_reads_each_word_as_the_text() {
        for text in [
            "deploy",
            "orders/42",
            "",
            "-rf",
            "a b",
            "it's",
            "$(reboot)",
            "`x`;*?[a]{b,c}~#!\\",
            "東京 🦀",
            "a\u{202e}b'\\$x",
            "a\u{200b}",
        ] {
            let word = word(text);
            assert!(first_not_plain(&word).is_none(), "{word}");
            let shell =
                Command::new("bash").env("LC_ALL", "C.UTF-8").args(["-c", &format!("printf %s {word}")]).output().unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), text, "{word}");
        }
        assert_eq!([word("orders/42"), word("a b"), word("a\u{202e}")], ["orders/42", "'a b'", "$'a\\U0000202e'"]);
    }
}
