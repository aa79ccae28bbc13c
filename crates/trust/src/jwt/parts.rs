//! The three parts of a JWT, decoded, and nothing of them proved.

use super::fault::JwtFault;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use fairhold_types::limits::JWT_BYTES_MAX;
use jsonwebtoken::Algorithm;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

/// The characters of a header. Ours need some 100; some issuers add their certificates, which do not count.
const HEADER_CHARS_MAX: usize = JWT_BYTES_MAX / 2;

/// The algorithms that count. None of them is a MAC: a provider's public key could be used to make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JwtAlgorithm {
    Rs256,
    Ps256,
    Es256,
    Es384,
    EdDsa,
}

impl JwtAlgorithm {
    /// The algorithm of this name, as headers and keys have it.
    pub(crate) fn named(name: &str) -> Option<JwtAlgorithm> {
        match name {
            "RS256" => Some(JwtAlgorithm::Rs256),
            "PS256" => Some(JwtAlgorithm::Ps256),
            "ES256" => Some(JwtAlgorithm::Es256),
            "ES384" => Some(JwtAlgorithm::Es384),
            "EdDSA" => Some(JwtAlgorithm::EdDsa),
            _ => None,
        }
    }

    /// The same, as jsonwebtoken names it.
    pub(crate) fn of_library(self) -> Algorithm {
        match self {
            JwtAlgorithm::Rs256 => Algorithm::RS256,
            JwtAlgorithm::Ps256 => Algorithm::PS256,
            JwtAlgorithm::Es256 => Algorithm::ES256,
            JwtAlgorithm::Es384 => Algorithm::ES384,
            JwtAlgorithm::EdDsa => Algorithm::EdDSA,
        }
    }
}

/// What counts of a header. Keys and URLs in it (`jwk`, `jku`, `x5c`, `x5u`) are not read: a token does not say who vouches
/// for it. A member that is given twice is an error.
#[derive(Deserialize)]
struct JwtHeader {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood. There is none that we know.
    crit: Option<IgnoredAny>,
}

/// A JWT whose parts are well formed.
pub(super) struct JwtParts<'a> {
    pub(super) algorithm: JwtAlgorithm,
    /// The key that it names.
    pub(super) kid: Option<String>,
    pub(super) claims: Value,
    /// What is signed: the header and the claims, as they were sent.
    pub(super) message: &'a str,
    pub(super) signature: &'a str,
}

impl JwtParts<'_> {
    /// Takes a JWT apart. The caller limits its length.
    pub(super) fn parse(token: &str) -> Result<JwtParts<'_>, JwtFault> {
        let (message, signature) = token.rsplit_once('.').ok_or(JwtFault::Unknown)?;
        // A further dot would be in the claims, and no base64.
        let (header, claims) = message.split_once('.').ok_or(JwtFault::Unknown)?;
        let header = header_of(header).filter(|header| header.crit.is_none()).ok_or(JwtFault::Unknown)?;
        let algorithm = JwtAlgorithm::named(&header.alg).ok_or(JwtFault::Unknown)?;
        let claims = decoded(claims).and_then(|json| serde_json::from_slice(&json).ok()).ok_or(JwtFault::Unknown)?;
        Ok(JwtParts { algorithm, kid: header.kid, claims, message, signature })
    }
}

/// Whether a text looks like a JWT: it has three parts, and the first part is a header. No URL should have such a text,
/// because it is a secret.
#[must_use]
pub fn looks_like_jwt(text: &str) -> bool {
    let mut parts = text.split('.');
    let header = parts.next().unwrap_or_default();
    parts.count() == 2 && header_of(header).is_some()
}

fn header_of(text: &str) -> Option<JwtHeader> {
    if text.len() > HEADER_CHARS_MAX { None } else { serde_json::from_slice(&decoded(text)?).ok() }
}

/// Base64 in its one valid form: without padding, and with zeros in the bits that are left over.
fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
