//! The caller of a request: its principal, its credential, and what the request needs.

use super::refusal::{AccessRefusal, CredentialFault};
use fairhold_access::{Need, Principal, PrincipalKey, token::AccessTokenNumber};
use fairhold_state::access::AccessData;
use fairhold_types::time::WallMillis;

/// What a caller showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// A line of this node's file.
    File,
    /// A token of the cluster.
    Token(AccessTokenNumber),
    /// Nothing.
    Nothing,
    /// Something or nothing: rights were not enforced when the request began. As soon as they are, it must be sent again.
    Unread,
}

/// The caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    pub(super) principal: Principal,
    pub(super) key: PrincipalKey,
    pub(super) credential: Credential,
    /// What the request needs besides the needs of its commands and watches.
    pub(super) needs: Vec<Need<'static>>,
}

impl Caller {
    /// A caller with this credential.
    #[must_use]
    pub fn new(principal: Principal, credential: Credential) -> Caller {
        let key = principal.key();
        Caller { principal, key, credential, needs: Vec::new() }
    }

    /// The same, for a request that needs these rights.
    #[must_use]
    pub fn needing(self, needs: Vec<Need<'static>>) -> Caller {
        Caller { needs, ..self }
    }

    /// Its principal.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Its credential.
    #[must_use]
    pub fn credential(&self) -> Credential {
        self.credential
    }

    /// Whether its credential is valid by this data, at this time.
    pub(super) fn check_credential(&self, access: &AccessData, now: WallMillis) -> Result<(), AccessRefusal> {
        match self.credential {
            Credential::File | Credential::Nothing => Ok(()),
            Credential::Unread => Err(AccessRefusal::Stale),
            Credential::Token(number) => match access.token(number) {
                Some(token) if token.is_expired(now) => Err(CredentialFault::Expired.into()),
                Some(_) => Ok(()),
                None => Err(CredentialFault::Revoked.into()),
            },
        }
    }
}
