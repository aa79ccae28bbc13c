//! Why a JWT is refused.

/// Why a JWT is refused. More than the first two is said only about one that a provider has really issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwtFault {
    /// It is malformed, or of no known issuer, key or algorithm; or its claims are not those that count here.
    #[error("it is not a JWT that counts here")]
    Unknown,
    /// The signature is not that of the key.
    #[error("its signature is not valid")]
    BadSignature,
    /// It has expired.
    #[error("it has expired")]
    Expired,
    /// Its time has not begun.
    #[error("it is not valid yet")]
    NotYetValid,
    /// It is for somebody else.
    #[error("it is for another audience")]
    WrongAudience,
}
