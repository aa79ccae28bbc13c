//! Issuers of JWTs for tests, right and wrong ones.

#![allow(clippy::unwrap_used, reason = "only tests use it")]
#![allow(missing_debug_implementations, reason = "an issuer has a key")]

use crate::jwt::{JwtProviderConfig, JwtProviders};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use fairhold_types::time::WallMillis;
use jsonwebtoken::{Algorithm, EncodingKey, crypto, jwk::Jwk};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// The issuer that `claims` names.
pub const ISSUER: &str = "https://issuer.test";
/// The audience that `claims` names.
pub const AUDIENCE: &str = "fairhold";
/// The bytes before the RSA key in PKCS #8, for 2048 bits.
const RSA_PREFIX: usize = 26;

/// Somebody who signs JWTs with one key.
pub struct TestIssuer {
    algorithm: Algorithm,
    key: EncodingKey,
    kid: String,
    jwk: Value,
}

impl TestIssuer {
    /// An issuer with a new key for this algorithm.
    pub fn new(algorithm: &str, kid: &str) -> TestIssuer {
        let name = algorithm;
        let algorithm: Algorithm = name.parse().unwrap();
        let kind = match name {
            "RS256" | "PS256" => &PKCS_RSA_SHA256,
            "ES256" => &PKCS_ECDSA_P256_SHA256,
            "ES384" => &PKCS_ECDSA_P384_SHA384,
            "EdDSA" => &PKCS_ED25519,
            _ => panic!("{name}"),
        };
        let pair = KeyPair::generate_for(kind).unwrap();
        let (der, public) = (pair.serialized_der(), pair.public_key_raw());
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (key, jwk) = match name {
            "RS256" | "PS256" => {
                let key = EncodingKey::from_rsa_der(&der[RSA_PREFIX..]);
                let jwk = serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap();
                (key, json!({ "kty": "RSA", "n": jwk["n"], "e": jwk["e"] }))
            }
            "EdDSA" => (EncodingKey::from_ed_der(der), json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(public) })),
            _ => {
                let (x, y) = public[1..].split_at(public.len() / 2);
                let crv = if name == "ES256" { "P-256" } else { "P-384" };
                (EncodingKey::from_ec_der(der), json!({ "kty": "EC", "crv": crv, "x": encoded(x), "y": encoded(y) }))
            }
        };
        let mut issuer = TestIssuer { algorithm, key, kid: kid.to_owned(), jwk };
        issuer.jwk["kid"] = kid.into();
        issuer
    }

    /// Its public key.
    pub fn jwk(&self) -> Value {
        self.jwk.clone()
    }

    /// The header of its tokens.
    pub fn header(&self) -> Value {
        json!({ "alg": format!("{:?}", self.algorithm), "kid": self.kid, "typ": "JWT" })
    }

    /// A JWT with these claims.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_text(&self.header().to_string(), &claims.to_string())
    }

    /// The same with this text as the header, and this as the claims.
    pub fn sign_text(&self, header: &str, claims: &str) -> String {
        sign(header, claims, &self.key, self.algorithm)
    }
}

fn sign(header: &str, claims: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = crypto::sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

/// A JWT with a MAC, by this secret.
pub fn with_mac(header: &Value, claims: &Value, secret: &[u8]) -> String {
    sign(&header.to_string(), &claims.to_string(), &EncodingKey::from_secret(secret), Algorithm::HS256)
}

/// The file with the keys of these issuers.
pub fn jwks(issuers: &[&TestIssuer]) -> String {
    let keys: Vec<Value> = issuers.iter().map(|issuer| issuer.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

/// The claims of a token for the subject `ci`, which is valid from now on for 10 minutes.
pub fn claims(now: WallMillis) -> Value {
    let seconds = now.0 / 1_000;
    json!({ "iss": ISSUER, "sub": "ci", "aud": AUDIENCE, "iat": seconds, "nbf": seconds, "exp": seconds + 600 })
}

/// The provider `idp`, whose keys are those of these issuers. The folder gets its file.
pub fn provider(folder: &Path, issuers: &[&TestIssuer]) -> JwtProviders {
    let file = folder.join("jwks.json");
    fs::write(&file, jwks(issuers)).unwrap();
    JwtProviders::load(vec![config(&file)]).unwrap()
}

/// The provider `idp` with this file.
pub fn config(file: &Path) -> JwtProviderConfig {
    JwtProviderConfig {
        name: "idp".to_owned(),
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        jwks: file.to_owned(),
        user_claim: "sub".to_owned(),
        attributes: vec![("team".to_owned(), "/org/team".to_owned())],
    }
}

/// Texts that differ from a token by one character: another one, none, one more, or two exchanged.
pub fn mutations(token: &str) -> Vec<String> {
    const OTHERS: [&str; 8] = ["A", "z", "0", "-", "_", ".", "=", "+"];
    let mut mutations = Vec::new();
    for at in 0..token.len() {
        let (before, after) = (&token[..at], &token[at + 1..]);
        for other in OTHERS {
            mutations.push([before, other, after].concat());
            mutations.push([before, other, &token[at..]].concat());
        }
        mutations.push([before, after].concat());
        mutations.push(token[..at].to_owned());
        if let Some(next) = after.get(..1) {
            mutations.push([before, next, &token[at..=at], &after[1..]].concat());
        }
    }
    mutations.retain(|mutation| mutation != token);
    mutations
}
