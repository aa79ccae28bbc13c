//! The calls on access data.

use fairhold_access::{
    QuotaKind, TenantName, UserName,
    token::{AccessTokenNumber, BearerToken, TokenHash},
};
use fairhold_state::{access::TenantRecord, command::AccessChange, tenant_uses::TenantUse};
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

/// A tenant with its use.
#[derive(Debug, Clone)]
pub struct TenantView {
    /// Its name.
    pub name: TenantName,
    /// The tenant.
    pub record: TenantRecord,
    /// What it uses below its prefixes.
    pub in_names: TenantUse,
    /// The live sessions of its subjects.
    pub sessions: u64,
    /// The access tokens of its subjects.
    pub tokens: u64,
    /// The open waits and watches of its subjects at this node.
    pub open_here: (u64, u64),
    /// Whether its names are still being counted.
    pub counting: bool,
}

impl TenantView {
    /// How much of a quota is used, if that is counted.
    #[must_use]
    pub fn used(&self, kind: QuotaKind) -> Option<u64> {
        match kind {
            QuotaKind::Nodes => Some(self.in_names.nodes),
            QuotaKind::Bytes => Some(self.in_names.bytes),
            QuotaKind::Contenders => Some(self.in_names.contenders),
            QuotaKind::Sessions => Some(self.sessions),
            QuotaKind::Tokens => Some(self.tokens),
            QuotaKind::Waits => Some(self.open_here.0),
            QuotaKind::Watches => Some(self.open_here.1),
            QuotaKind::Waiters | QuotaKind::Requests => None,
        }
    }
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
