//! What a node knows of credentials besides the data of its cluster.

use crate::edge::admin::Admin;
use fairhold_trust::jwt::JwtProviders;

/// The tokens of the administrators' file, and the providers of JWTs. Clones share them.
#[derive(Debug, Clone)]
pub struct Authenticator {
    pub(crate) admin: Admin,
    pub(crate) providers: JwtProviders,
}

impl Authenticator {
    /// Without providers of JWTs.
    #[must_use]
    pub fn new(admin: Admin) -> Authenticator {
        Authenticator { admin, providers: JwtProviders::default() }
    }

    /// The same, with these providers.
    #[must_use]
    pub fn with_providers(self, providers: JwtProviders) -> Authenticator {
        Authenticator { providers, ..self }
    }
}
