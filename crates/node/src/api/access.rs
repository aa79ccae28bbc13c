//! The calls on access data.

use fairhold_access::{
    UserName,
    token::{AccessTokenNumber, BearerToken, TokenHash},
};
use fairhold_state::command::AccessChange;
use fairhold_types::{GrantId, time::WallMillis};
use std::time::Duration;

/// Changes the access data. Tokens have a call of their own.
#[derive(Debug, Clone)]
pub struct ChangeAccessCall {
    /// Its idempotency key, if the caller gave one.
    pub key: Option<GrantId>,
    /// The change.
    pub change: AccessChange,
    /// The caller's client and address.
    pub client: String,
    /// How long the server may work on the call.
    pub timeout: Duration,
}

/// Creates a token.
#[derive(Debug, Clone)]
pub struct CreateAccessTokenCall {
    /// Its idempotency key, if the caller gave one.
    pub key: Option<GrantId>,
    /// The user that the token stands for.
    pub user: UserName,
    /// How long it is valid; `None` for ever.
    pub ttl: Option<Duration>,
    /// The hash of a token that the caller made.
    pub hash: Option<TokenHash>,
    /// The caller's client and address.
    pub client: String,
    /// How long the server may work on the call.
    pub timeout: Duration,
}

/// A token that was created.
#[derive(Debug, Clone)]
pub struct CreatedToken {
    /// Its number.
    pub number: AccessTokenNumber,
    /// The token, if the node made it.
    pub token: Option<BearerToken>,
    /// When it expires.
    pub expires_at: Option<WallMillis>,
}
