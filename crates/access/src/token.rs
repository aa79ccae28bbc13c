//! Bearer tokens: `fht_`, 256 random bits in base64url, and 6 characters of checksum.
//!
//! The checksum lets scanners find tokens in texts, and refuses a mistyped token without a look-up. The cluster stores only
//! the SHA-256 of a token. No slow hash is needed, because nobody can guess 256 random bits.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The beginning of every token.
pub const TOKEN_PREFIX: &str = "fht_";
/// The characters of 256 bits in base64url.
const SECRET_CHARS: usize = 43;
/// The characters of the checksum.
const CHECKSUM_CHARS: usize = 6;
/// The length of a token.
pub const TOKEN_BYTES: usize = TOKEN_PREFIX.len() + SECRET_CHARS + CHECKSUM_CHARS;

/// A token: with it, anyone is its user. `Debug` does not show it, and nothing writes it but `expose`.
#[derive(Clone)]
pub struct BearerToken([u8; 32]);

/// Why a text is not a token. It says nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// It does not begin with `fht_`.
    #[error("a token begins with {TOKEN_PREFIX}")]
    Prefix,
    /// It has another length.
    #[error("a token has {TOKEN_BYTES} characters")]
    Length,
    /// It has other characters than base64url.
    #[error("a token has letters, digits, - and _ only")]
    Characters,
    /// The checksum does not fit: a character is wrong.
    #[error("the token has a wrong character: its checksum does not fit")]
    Checksum,
}

impl BearerToken {
    /// The token of 256 random bits.
    #[must_use]
    pub fn from_random(bits: [u8; 32]) -> BearerToken {
        BearerToken(bits)
    }

    /// Parses a token, and verifies its checksum.
    pub fn parse(text: &str) -> Result<BearerToken, BadToken> {
        let rest = text.strip_prefix(TOKEN_PREFIX).ok_or(BadToken::Prefix)?;
        if text.len() != TOKEN_BYTES {
            return Err(BadToken::Length);
        }
        let (secret, sum) = rest.split_at_checked(SECRET_CHARS).ok_or(BadToken::Characters)?;
        let is_character = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !rest.bytes().all(is_character) {
            return Err(BadToken::Characters);
        }
        // The checksum is a function of the rest: no secret is compared.
        if sum != checksum(secret) {
            return Err(BadToken::Checksum);
        }
        let bytes = URL_SAFE_NO_PAD.decode(secret).map_err(|_| BadToken::Checksum)?;
        bytes.try_into().map(BearerToken).map_err(|_| BadToken::Length)
    }

    /// The token as text, to be shown once.
    #[must_use]
    pub fn expose(&self) -> String {
        let secret = URL_SAFE_NO_PAD.encode(self.0);
        let sum = checksum(&secret);
        format!("{TOKEN_PREFIX}{secret}{sum}")
    }

    /// What the cluster stores: the SHA-256 of the token's text.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of_text(&self.expose())
    }
}

/// The first 36 bits of the SHA-256 of all characters before them, in base64url.
fn checksum(secret: &str) -> String {
    let digest = Sha256::new().chain_update(TOKEN_PREFIX).chain_update(secret).finalize();
    // Six bytes are eight characters.
    let mut sum = URL_SAFE_NO_PAD.encode(&digest[..6]);
    sum.truncate(CHECKSUM_CHARS);
    sum
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(secret)")
    }
}

/// The public number of a token of the cluster. No number is given twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccessTokenNumber(pub u64);

impl fmt::Display for AccessTokenNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The SHA-256 of a token's text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// The hash of a text, whether it is a token or not.
    #[must_use]
    pub fn of_text(text: &str) -> TokenHash {
        TokenHash(Sha256::digest(text.as_bytes()).into())
    }

    /// 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses 64 hexadecimal digits in lower case.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<TokenHash> {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.bytes().all(digit) {
            return None;
        }
        let mut hash = [0; 32];
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(TokenHash(hash))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({})", self.to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BITS: [u8; 32] = *b"a secret of exactly 32 bytes....";

    #[test]
    fn the_text_of_a_token_never_changes() {
        let token = BearerToken::from_random(BITS);
        assert_eq!(token.expose(), "fht_YSBzZWNyZXQgb2YgZXhhY3RseSAzMiBieXRlcy4uLi4CUArfW");
        // printf %s fht_… | sha256sum
        assert_eq!(token.hash().to_hex(), "90b9f254d9630f4ebaead03bc7fdaf375e2fb80b6114ae5bbe4505dbfe373afe");
        assert_eq!(TokenHash::from_hex(&token.hash().to_hex()), Some(token.hash()));
        assert_eq!(BearerToken::parse(&token.expose()).unwrap().hash(), token.hash());
    }

    #[test]
    fn debug_output_shows_no_part_of_a_token() {
        assert_eq!(format!("{:?}", BearerToken::from_random(BITS)), "BearerToken(secret)");
    }

    #[test]
    fn a_token_that_is_one_character_off_is_refused() {
        let text = BearerToken::from_random(BITS).expose();
        for index in TOKEN_PREFIX.len()..text.len() {
            for other in ['A', 'b', '7', '_', '-'] {
                let mut wrong: Vec<char> = text.chars().collect();
                if std::mem::replace(&mut wrong[index], other) == other {
                    continue;
                }
                let wrong: String = wrong.into_iter().collect();
                assert_eq!(BearerToken::parse(&wrong).unwrap_err(), BadToken::Checksum, "{index}");
            }
        }
    }

    #[test]
    fn bad_tokens_are_refused() {
        let text = BearerToken::from_random(BITS).expose();
        let with = |from: &str, to: &str| text.replacen(from, to, 1);
        for (bad, error) in [
            (String::new(), BadToken::Prefix),
            (with("fht_", "FHT_"), BadToken::Prefix),
            (format!(" {text}"), BadToken::Prefix),
            (format!("{text} "), BadToken::Length),
            (text[..text.len() - 1].to_owned(), BadToken::Length),
            ("fht_".repeat(1_000), BadToken::Length),
            (format!("fht_{}é", &text[4..text.len() - 2]), BadToken::Characters),
            (format!("fht_{}/x", &text[4..text.len() - 2]), BadToken::Characters),
            (format!("fht_{}é{}", &text[4..46], &text[48..]), BadToken::Characters),
        ] {
            assert_eq!(BearerToken::parse(&bad).unwrap_err(), error, "{bad}");
        }
        for bad in ["", "0", &"0".repeat(63), &"0".repeat(65), &"G".repeat(64), &"A".repeat(64)] {
            assert_eq!(TokenHash::from_hex(bad), None, "{bad}");
        }
    }
}
