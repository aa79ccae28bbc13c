//! Why a caller is refused.

use fairhold_access::Denied;

/// Why a caller is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusal {
    /// It shows no valid credential.
    #[error("{0}")]
    Unauthenticated(CredentialFault),
    /// Its rights do not cover the request.
    #[error("{0}")]
    Denied(Denied),
    /// Rights were changed again and again while the request was decided.
    #[error("access rights were changed again and again while the request was decided: send it again")]
    Stale,
}

/// What is wrong with a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialFault {
    /// There is none.
    #[error("this cluster enforces access rights, and the request has no credential: send \"Authorization: Bearer TOKEN\"")]
    Missing,
    /// It is none of this cluster's tokens, or one that was revoked.
    #[error("the credential is not valid in this cluster: it is mistyped, was revoked, or belongs to another cluster")]
    Unknown,
    /// It was valid when the request began, and was revoked since.
    #[error("the token was revoked")]
    Revoked,
    /// Its time is over.
    #[error("the token has expired: create a new one")]
    Expired,
}

impl CredentialFault {
    /// The word for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CredentialFault::Missing => "missing",
            CredentialFault::Unknown => "unknown",
            CredentialFault::Revoked => "revoked",
            CredentialFault::Expired => "expired",
        }
    }
}

impl From<CredentialFault> for AccessRefusal {
    fn from(fault: CredentialFault) -> AccessRefusal {
        AccessRefusal::Unauthenticated(fault)
    }
}
