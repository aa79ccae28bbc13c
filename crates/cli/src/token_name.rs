//! A token in the place of a file's name.
//!
//! Options name files with tokens, so that no list of processes and no log has a token. People still pass the token
//! itself by mistake: then no text may repeat it.

use fairhold_access::token::TOKEN_PREFIX;
use std::path::Path;

/// How the tokens of users, join tokens and JWTs begin.
const BEGINNINGS: [&str; 3] = [TOKEN_PREFIX, "fhj1.", "eyJ"];

/// Whether this is a token, and not the name of a file.
pub(crate) fn is_token(file: &Path) -> bool {
    let text = file.as_os_str().as_encoded_bytes();
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_beginning() {
        let is_token = |text: &str| super::is_token(Path::new(text));
        assert!(["fhj1.Af5N", "fht_x", "eyJhbGciOiJFUzI1NiJ9.e30.c2ln"].into_iter().all(is_token));
        assert!(!["join.token", "/etc/fht_x", "./fhj1.x", "next.jwt", ""].into_iter().any(is_token));
    }
}
