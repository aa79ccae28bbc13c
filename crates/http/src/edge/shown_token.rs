//! The token that a connection has shown last. The next request mostly shows it again: then it is not hashed again.

use fairhold_access::token::{BearerToken, TOKEN_BYTES, TokenHash};
use parking_lot::Mutex;
use std::{fmt, sync::Arc};
use subtle::ConstantTimeEq;

/// The last well-formed token of a connection, with its hash. Clones are the same. `Debug` does not show it.
#[derive(Clone, Default)]
pub(crate) struct ShownToken(Arc<Mutex<Option<HashedToken>>>);

struct HashedToken {
    text: [u8; TOKEN_BYTES],
    hash: TokenHash,
}

impl ShownToken {
    /// The hash of a token. `None` if the text is no token: an administrator may register the hash of any text, also of one
    /// that somebody can guess.
    pub(crate) fn hash_of(&self, shown: &str) -> Option<TokenHash> {
        let text: [u8; TOKEN_BYTES] = shown.as_bytes().try_into().ok()?;
        let mut last = self.0.lock();
        // A proxy sends the requests of many clients over one connection: nobody may find a token by the time that this takes.
        if let Some(last) = last.as_ref().filter(|last| bool::from(last.text.as_slice().ct_eq(text.as_slice()))) {
            return Some(last.hash);
        }
        BearerToken::parse(shown).ok()?;
        let hash = TokenHash::of_text(shown);
        *last = Some(HashedToken { text, hash });
        Some(hash)
    }
}

impl fmt::Debug for ShownToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShownToken(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_token_of_each_request_whatever_the_last_one_showed() {
        let tokens = [1, 2].map(|byte| BearerToken::from_random([byte; 32]));
        let [first, second] = tokens.each_ref().map(BearerToken::expose);
        let shown = ShownToken::default();
        let of_request = shown.clone();
        for (text, token) in [(&first, &tokens[0]), (&first, &tokens[0]), (&second, &tokens[1]), (&first, &tokens[0])] {
            assert_eq!(of_request.hash_of(text), Some(token.hash()));
        }
        let mut mistyped = first.clone();
        mistyped.replace_range(10..11, if &first[10..11] == "a" { "b" } else { "a" });
        for wrong in ["", "fht_", &first[..first.len() - 1], &format!("{first}a"), &mistyped, "é"] {
            assert_eq!(of_request.hash_of(wrong), None, "{wrong}");
            assert_eq!(shown.hash_of(&first), Some(tokens[0].hash()), "{wrong}");
        }
        assert!(!format!("{shown:?}").contains(&first));
    }
}
