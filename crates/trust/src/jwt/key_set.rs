//! The public keys of a provider, from a JWKS file (RFC 7517).

use super::parts::JwtAlgorithm;
use crate::{certificate::RSA_BITS_MIN, files::FileError};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::DecodingKey;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The most keys of a provider.
const KEYS_MAX: usize = 64;
/// The largest RSA key, in bits.
const RSA_BITS_MAX: usize = 8_192;

/// Why a file of keys cannot be used. Each text names the file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is not a set of keys.
    #[error("{} is no set of keys: it needs the JSON of a JWKS, {{\"keys\":[…]}} ({error})", path.display())]
    NotJwks {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// A key is damaged or too weak.
    #[error("key {position} in {} {fault}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Which one, from 1.
        position: usize,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// It has no key with which JWTs can be verified.
    #[error("{} has no key for signatures by RS256, PS256, ES256, ES384 or EdDSA", path.display())]
    NoUsableKey {
        /// The file.
        path: PathBuf,
    },
    /// It has too many keys.
    #[error("{} has more than {KEYS_MAX} keys", path.display())]
    TooManyKeys {
        /// The file.
        path: PathBuf,
    },
}

/// A key as the file has it. Other members do not count.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

/// A key, and the algorithms that it is for.
pub(super) struct VerifyingKey {
    kid: Option<String>,
    algorithms: Vec<JwtAlgorithm>,
    pub(super) key: DecodingKey,
}

/// The keys of a provider.
pub struct KeySet {
    keys: Vec<VerifyingKey>,
    /// The SHA-256 of the file.
    pub(crate) digest: [u8; 32],
}

impl KeySet {
    /// Reads the content of a file. Keys of other kinds, for encryption or for other algorithms are left out.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<KeySet, JwksError> {
        #[derive(Deserialize)]
        struct Jwks {
            keys: Vec<Value>,
        }
        let not_jwks = |error| JwksError::NotJwks { path: path.to_owned(), error };
        let given = serde_json::from_slice::<Jwks>(bytes).map_err(not_jwks)?.keys;
        if given.len() > KEYS_MAX {
            return Err(JwksError::TooManyKeys { path: path.to_owned() });
        }
        let mut keys: Vec<VerifyingKey> = Vec::new();
        let mut nameless = None;
        for (given, position) in given.into_iter().zip(1..) {
            let wrong = |fault| JwksError::Key { path: path.to_owned(), position, fault };
            let Some(key) = verifying_key(given).map_err(wrong)? else { continue };
            match &key.kid {
                None => nameless = Some(position),
                Some(kid) if keys.iter().any(|other| other.kid.as_ref() == Some(kid)) => {
                    return Err(wrong("has the kid of another key: each needs its own"));
                }
                Some(_) => {}
            }
            keys.push(key);
        }
        if let Some(position) = nameless.filter(|_| keys.len() > 1) {
            let fault = "has no kid: where there are several keys, each needs its own";
            return Err(JwksError::Key { path: path.to_owned(), position, fault });
        }
        if keys.is_empty() {
            return Err(JwksError::NoUsableKey { path: path.to_owned() });
        }
        Ok(KeySet { keys, digest: Sha256::digest(bytes).into() })
    }

    /// The key for a JWT with this header. A JWT need not name the only key; where there are several, it must.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: JwtAlgorithm) -> Option<&VerifyingKey> {
        let is_named = |key: &&VerifyingKey| match (&key.kid, kid) {
            (Some(own), Some(named)) => own == named,
            (None, _) | (_, None) => self.keys.len() == 1,
        };
        self.keys.iter().find(is_named).filter(|key| key.algorithms.contains(&algorithm))
    }

    /// How many keys there are.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kids: Vec<&str> = self.keys.iter().filter_map(|key| key.kid.as_deref()).collect();
        f.debug_struct("KeySet").field("kids", &kids).finish_non_exhaustive()
    }
}

/// The key, unless it is for something else.
fn verifying_key(given: Value) -> Result<Option<VerifyingKey>, &'static str> {
    if given.get("d").is_some() {
        return Err(
            "is a private key: put public keys alone into the file, and replace this one, because others may have read it",
        );
    }
    let jwk: Jwk = serde_json::from_value(given).map_err(|_| "is no JWK: it needs kty, and its members are texts")?;
    let is_for_signatures = jwk.r#use.as_deref().is_none_or(|purpose| purpose == "sig")
        && jwk.key_ops.as_ref().is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
    let (algorithms, key) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        _ if !is_for_signatures => return Ok(None),
        ("RSA", _) => (&[JwtAlgorithm::Rs256, JwtAlgorithm::Ps256][..], rsa(member(&jwk.n)?, member(&jwk.e)?)?),
        ("EC", Some("P-256")) => (&[JwtAlgorithm::Es256][..], ec(member(&jwk.x)?, member(&jwk.y)?, 32)?),
        ("EC", Some("P-384")) => (&[JwtAlgorithm::Es384][..], ec(member(&jwk.x)?, member(&jwk.y)?, 48)?),
        ("OKP", Some("Ed25519")) => (&[JwtAlgorithm::EdDsa][..], ed25519(member(&jwk.x)?)?),
        _ => return Ok(None),
    };
    let named = jwk.alg.as_deref().map(JwtAlgorithm::named);
    let fits = |algorithm: &JwtAlgorithm| named.is_none_or(|named| named == Some(*algorithm));
    let algorithms: Vec<JwtAlgorithm> = algorithms.iter().copied().filter(fits).collect();
    Ok((!algorithms.is_empty()).then_some(VerifyingKey { kid: jwk.kid, algorithms, key }))
}

fn member(given: &Option<String>) -> Result<&str, &'static str> {
    given.as_deref().ok_or("lacks a member that its kty needs")
}

fn rsa(n: &str, e: &str) -> Result<DecodingKey, &'static str> {
    let modulus: Vec<u8> = bytes(n)?.into_iter().skip_while(|byte| *byte == 0).collect();
    let bits = modulus.first().map_or(0, |first| modulus.len() * 8 - first.leading_zeros() as usize);
    if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        return Err("is RSA with fewer than 2048 or more than 8192 bits");
    }
    Ok(DecodingKey::from_rsa_raw_components(&modulus, &bytes(e)?))
}

fn ec(x: &str, y: &str, length: usize) -> Result<DecodingKey, &'static str> {
    let (x_bytes, y_bytes) = (bytes(x)?, bytes(y)?);
    if x_bytes.len() != length || y_bytes.len() != length {
        return Err("has coordinates of another length than its curve");
    }
    DecodingKey::from_ec_components(x, y).map_err(|_| "is not a point of its curve")
}

fn ed25519(x: &str) -> Result<DecodingKey, &'static str> {
    if bytes(x)?.len() != 32 {
        return Err("has another length than an Ed25519 key");
    }
    DecodingKey::from_ed_components(x).map_err(|_| "is not an Ed25519 key")
}

fn bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| "has a member that is not base64url")
}
