//! Join tokens: one line of text that lets a node join a cluster.
//!
//! A token has everything that a new node needs: which cluster, where its members are, and a secret. The replicated
//! state has only a hash of the secret, so neither a snapshot nor a backup lets anybody join.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairhold_types::{ClusterId, JoinTokenNumber};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{fmt, str::FromStr};

/// What every token begins with. The digit is the version of the text.
const PREFIX: &str = "fhj1.";
/// The version of the encoded token.
const TOKEN_FORMAT: u8 = 1;
/// Maximum length of a token's text. Five addresses of the maximum length need about 2,100 characters.
const TEXT_BYTES_MAX: usize = 4_096;

/// The secret of a join token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinSecret([u8; 32]);

impl JoinSecret {
    /// A secret with these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> JoinSecret {
        JoinSecret(bytes)
    }

    /// A new secret, from the machine's random numbers.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a secret must not come from a seed; no rule depends on its value")]
    pub fn random() -> JoinSecret {
        JoinSecret(rand::random())
    }

    /// Its SHA-256, which the state keeps instead of the secret.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl fmt::Debug for JoinSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinSecret(hidden)")
    }
}

/// A join token. Its text is the secret part of the cluster's configuration: it lets one node join, or with a standing
/// token any number of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its number in the cluster.
    pub number: JoinTokenNumber,
    /// Addresses of members for peers, at most `JoinToken::ADDRESSES_MAX`: `host:port`.
    pub addresses: Vec<String>,
    /// The secret.
    pub secret: JoinSecret,
}

impl JoinToken {
    /// Maximum number of addresses in a token.
    pub const ADDRESSES_MAX: usize = 5;
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only a token of more than 64 MiB cannot be encoded.
        let bytes = fairhold_codec::encode(TOKEN_FORMAT, self).map_err(|_| fmt::Error)?;
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// Why a text is no join token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseJoinTokenError {
    /// There is no text.
    #[error("it is empty: copy the join token again")]
    Empty,
    /// It does not begin like one.
    #[error("it is not a join token, which begins with {PREFIX}: copy the file that `fairhold cluster invite` or `replace` made")]
    Other,
    /// It begins like one, and is not whole.
    #[error("the join token is damaged: copy it again, whole and on one line")]
    Damaged,
}

impl FromStr for JoinToken {
    type Err = ParseJoinTokenError;

    /// Ignores white space around the token, such as the end of a file's line.
    fn from_str(text: &str) -> Result<JoinToken, ParseJoinTokenError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ParseJoinTokenError::Empty);
        }
        let encoded = text.strip_prefix(PREFIX).ok_or(ParseJoinTokenError::Other)?;
        if text.len() > TEXT_BYTES_MAX {
            return Err(ParseJoinTokenError::Damaged);
        }
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| ParseJoinTokenError::Damaged)?;
        let token: JoinToken = fairhold_codec::decode(TOKEN_FORMAT, &bytes).map_err(|_| ParseJoinTokenError::Damaged)?;
        let has_addresses = (1..=JoinToken::ADDRESSES_MAX).contains(&token.addresses.len());
        has_addresses.then_some(token).ok_or(ParseJoinTokenError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> JoinToken {
        JoinToken {
            cluster: ClusterId(7 << 100),
            number: JoinTokenNumber(12),
            addresses: vec!["n1.example:7271".to_owned(), "10.0.0.2:7271".to_owned()],
            secret: JoinSecret::new([42; 32]),
        }
    }

    #[test]
    fn a_token_is_one_line_and_comes_back_from_its_text() {
        let text = token().to_string();
        assert!(text.starts_with("fhj1."), "{text}");
        assert!(text[5..].chars().all(|char| char.is_ascii_alphanumeric() || char == '-' || char == '_'), "{text}");
        assert_eq!(text.parse(), Ok(token()));
        assert_eq!(format!("  {text}\n").parse(), Ok(token()), "a file's line ends");
        let long = JoinToken { addresses: vec!["a".repeat(300); JoinToken::ADDRESSES_MAX], ..token() };
        assert_eq!(long.to_string().parse(), Ok(long));
    }

    #[test]
    fn every_cut_and_every_changed_character_is_found() {
        let text = token().to_string();
        for end in 0..text.len() {
            let expected = match end {
                0 => ParseJoinTokenError::Empty,
                1..=4 => ParseJoinTokenError::Other,
                _ => ParseJoinTokenError::Damaged,
            };
            assert_eq!(text[..end].parse::<JoinToken>(), Err(expected), "cut at {end}");
        }
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'x' { b'y' } else { b'x' };
            let changed = String::from_utf8(changed).unwrap();
            let expected = if at < PREFIX.len() { ParseJoinTokenError::Other } else { ParseJoinTokenError::Damaged };
            assert_eq!(changed.parse::<JoinToken>(), Err(expected), "changed at {at}: {changed}");
        }
        let broken = format!("{}\n{}", &text[..20], &text[20..]);
        assert_eq!(broken.parse::<JoinToken>(), Err(ParseJoinTokenError::Damaged), "on two lines");
        assert_eq!("fhj2.AAAA".parse::<JoinToken>(), Err(ParseJoinTokenError::Other), "of another format");
        for wrong in ["fhj1.", &"fhj1.A".repeat(10_000)] {
            assert_eq!(wrong.parse::<JoinToken>(), Err(ParseJoinTokenError::Damaged));
        }
        for count in [0, JoinToken::ADDRESSES_MAX + 1] {
            let wrong = JoinToken { addresses: vec!["n:1".to_owned(); count], ..token() };
            assert_eq!(wrong.to_string().parse::<JoinToken>(), Err(ParseJoinTokenError::Damaged), "{count} addresses");
        }
    }

    #[test]
    fn a_secret_is_random_and_hidden_and_known_by_its_hash() {
        let secret = JoinSecret::random();
        assert_ne!(secret, JoinSecret::random());
        assert_eq!(secret.hash(), secret.clone().hash());
        assert_ne!(secret.hash(), JoinSecret::new([0; 32]).hash());
        let shown = format!("{:?}", JoinToken { secret: JoinSecret::new([42; 32]), ..token() });
        assert!(shown.contains("JoinSecret(hidden)") && !shown.contains("42"), "{shown}");
    }
}
