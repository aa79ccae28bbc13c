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
    /// It is none of this cluster's tokens, or one that was revoked; or it is a JWT that no provider has issued like that.
    #[error("the credential is not valid in this cluster: it is mistyped, was revoked, or belongs to another cluster")]
    Unknown,
    /// It was valid when the request began, and was revoked since.
    #[error("the token was revoked")]
    Revoked,
    /// It is the certificate of a user that is disabled.
    #[error("the user of the certificate is disabled")]
    Disabled,
    /// Its time is over.
    #[error("the token or certificate has expired: get a new one, and connect again with a new certificate")]
    Expired,
    /// It is a genuine JWT whose time begins later.
    #[error("the JWT is not valid yet: compare the clocks of its issuer and of this node")]
    NotYetValid,
    /// It is a genuine JWT for another audience.
    #[error("the JWT is for another audience: request one for the audience of this cluster")]
    WrongAudience,
    /// It is a JWT whose signature is not that of its provider's key.
    #[error("the signature of the JWT is not valid: its issuer has other keys in the file of this node")]
    BadSignature,
}

impl CredentialFault {
    /// The word for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CredentialFault::Missing => "missing",
            CredentialFault::Unknown => "unknown",
            CredentialFault::Revoked | CredentialFault::Disabled => "revoked",
            CredentialFault::Expired => "expired",
            CredentialFault::NotYetValid => "not_yet",
            CredentialFault::WrongAudience => "wrong_audience",
            CredentialFault::BadSignature => "bad_signature",
        }
    }
}

impl From<CredentialFault> for AccessRefusal {
    fn from(fault: CredentialFault) -> AccessRefusal {
        AccessRefusal::Unauthenticated(fault)
    }
}
