//! Verifies JWTs. The public keys of each provider are in a file.
//!
//! The node dials nobody to verify a token: it neither asks the provider nor fetches keys. What a token says about its own
//! key (`jwk`, `jku`, `x5c`, `x5u`) is not read. At most one signature is verified for each token.
//!
//! The parts are decoded and the signature verified before any claim counts, except the issuer, which chooses the keys.

mod claims;
pub mod fault;
pub mod key_set;
pub mod live_keys;
pub mod parts;

use arc_swap::ArcSwap;
use fairhold_types::{limits::JWT_BYTES_MAX, time::WallMillis};
use fault::JwtFault;
use key_set::JwksError;
use live_keys::LiveKeySet;
use parts::JwtParts;
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};

/// The longest value of an attribute, in bytes. A longer one is left out.
const ATTRIBUTE_BYTES_MAX: usize = 512;

/// A provider of JWTs, as the operator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtProviderConfig {
    /// The name, which is the kind of its principals.
    pub name: String,
    /// The issuer that its tokens name, exactly.
    pub issuer: String,
    /// The audience that its tokens must name.
    pub audience: String,
    /// The file with its public keys.
    pub jwks: PathBuf,
    /// The claim with the name of the caller.
    pub user_claim: String,
    /// Further attributes of the caller, each with the JSON pointer to it in the claims.
    pub attributes: Vec<(String, String)>,
}

/// The identity that a JWT proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedJwt {
    /// The name of its provider.
    pub provider: String,
    /// The name of the caller at this provider.
    pub subject: String,
    /// What the provider says about the caller.
    pub attributes: Vec<(String, String)>,
    /// When the token expires.
    pub expires_at: WallMillis,
}

/// A provider, with its keys.
#[derive(Debug)]
struct JwtProvider {
    config: JwtProviderConfig,
    keys: Arc<LiveKeySet>,
}

/// The providers whose JWTs count at this node. Clones share them, also after a change.
#[derive(Debug, Clone, Default)]
pub struct JwtProviders(Arc<ArcSwap<Vec<JwtProvider>>>);

impl JwtProviders {
    /// Loads the keys of all providers. Their issuers differ.
    pub fn load(configs: Vec<JwtProviderConfig>) -> Result<JwtProviders, JwksError> {
        let load = |config: JwtProviderConfig| {
            let keys = LiveKeySet::load(&config.name, &config.jwks)?;
            Ok(JwtProvider { config, keys })
        };
        configs
            .into_iter()
            .map(load)
            .collect::<Result<Vec<_>, _>>()
            .map(|providers| JwtProviders(Arc::new(ArcSwap::from_pointee(providers))))
    }

    /// Takes over the providers of the other one. Those that it has now do not count any more.
    pub fn replace(&self, with: &JwtProviders) {
        self.0.store(with.0.load_full());
    }

    /// The keys of each provider.
    #[must_use]
    pub fn key_sets(&self) -> Vec<Arc<LiveKeySet>> {
        self.0.load().iter().map(|provider| Arc::clone(&provider.keys)).collect()
    }

    /// Whether a provider gives its callers this attribute.
    #[must_use]
    pub fn have_attribute(&self, name: &str) -> bool {
        self.0.load().iter().any(|provider| provider.config.attributes.iter().any(|(own, _)| own == name))
    }

    /// Verifies a token.
    pub fn verify(&self, token: &str, now: WallMillis) -> Result<VerifiedJwt, JwtFault> {
        let providers = self.0.load();
        if providers.is_empty() || token.len() > JWT_BYTES_MAX {
            return Err(JwtFault::Unknown);
        }
        let parts = JwtParts::parse(token)?;
        let issuer = claims::issuer(&parts.claims).ok_or(JwtFault::Unknown)?;
        let provider = providers.iter().find(|provider| provider.config.issuer == issuer).ok_or(JwtFault::Unknown)?;
        provider.verify_signature(&parts)?;
        let expires_at = claims::check(&parts.claims, &provider.config.audience, now)?;
        let subject = claims::text(&parts.claims, &provider.config.user_claim).ok_or(JwtFault::Unknown)?;
        Ok(VerifiedJwt {
            provider: provider.config.name.clone(),
            subject: subject.to_owned(),
            attributes: provider.attributes(&parts.claims),
            expires_at,
        })
    }
}

impl JwtProvider {
    fn verify_signature(&self, parts: &JwtParts<'_>) -> Result<(), JwtFault> {
        let keys = self.keys.current();
        let key = keys.find(parts.kid.as_deref(), parts.algorithm).ok_or(JwtFault::Unknown)?;
        let verified =
            jsonwebtoken::crypto::verify(parts.signature, parts.message.as_bytes(), &key.key, parts.algorithm.of_library());
        match verified {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(JwtFault::BadSignature),
        }
    }

    fn attributes(&self, claims: &Value) -> Vec<(String, String)> {
        let value = |pointer: &str| claims.pointer(pointer)?.as_str().filter(|value| value.len() <= ATTRIBUTE_BYTES_MAX);
        let attributes = self.config.attributes.iter();
        attributes.filter_map(|(name, pointer)| Some((name.clone(), value(pointer)?.to_owned()))).collect()
    }
}
