//! The caller of a request: its principal, its credential, and what the request needs.

use super::refusal::{AccessRefusal, CredentialFault};
use fairhold_access::{Need, Principal, PrincipalKey, token::AccessTokenNumber};
use fairhold_state::access::AccessData;
use fairhold_types::time::WallMillis;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

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

/// The tokens in the administrators' file of this node, for the requests that are open when the file changes. Clones are
/// the same.
#[derive(Debug, Clone, Default)]
pub struct FileTokens(Arc<AtomicU64>);

impl FileTokens {
    /// The tokens were replaced: credentials from before are not valid any more.
    pub fn replace(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// A caller that shows a token of the file. Take it before the token is compared.
    #[must_use]
    pub fn caller(&self) -> Caller {
        let file = Some((self.clone(), self.0.load(Ordering::SeqCst)));
        Caller { file, ..Caller::new(Principal::file_admin(), Credential::File) }
    }
}

/// The caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    pub(super) principal: Principal,
    pub(super) key: PrincipalKey,
    pub(super) credential: Credential,
    /// The file of its token, and how often its tokens had been replaced.
    file: Option<(FileTokens, u64)>,
    /// What the request needs besides the needs of its commands and watches.
    pub(super) needs: Vec<Need<'static>>,
}

impl Caller {
    /// A caller with this credential.
    #[must_use]
    pub fn new(principal: Principal, credential: Credential) -> Caller {
        let key = principal.key();
        Caller { principal, key, credential, file: None, needs: Vec::new() }
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

    /// When its credential expires.
    pub(super) fn expires_at(&self, access: &AccessData) -> Option<WallMillis> {
        match self.credential {
            Credential::Token(number) => access.token(number)?.expires_at,
            Credential::File | Credential::Nothing | Credential::Unread => None,
        }
    }

    /// Whether its credential is valid by this data, at this time.
    pub(super) fn check_credential(&self, access: &AccessData, now: WallMillis) -> Result<(), AccessRefusal> {
        match self.credential {
            Credential::File => match &self.file {
                Some((tokens, replaced)) if tokens.0.load(Ordering::SeqCst) != *replaced => Err(CredentialFault::Revoked.into()),
                Some(_) | None => Ok(()),
            },
            Credential::Nothing => Ok(()),
            Credential::Unread => Err(AccessRefusal::Stale),
            Credential::Token(number) => match access.token(number) {
                Some(token) if token.is_expired(now) => Err(CredentialFault::Expired.into()),
                Some(_) => Ok(()),
                None => Err(CredentialFault::Revoked.into()),
            },
        }
    }
}
