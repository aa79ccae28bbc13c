//! The calls on access rights.

use super::{
    bounded::{BoundedDuration, BoundedList, BoundedText},
    bounds::{PageLimit, PositiveNumber, is_default},
    read::Consistency,
};
use crate::limits::{ACCESS_CHECK_BYTES_MAX, ACCESS_RULE_BYTES_MAX, ACCESS_RULES_MAX, ACCESS_TOKEN_TTL_MAX, PRINCIPAL_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// A rule of a role: verbs, and what they act on.
pub type RuleText = BoundedText<ACCESS_RULE_BYTES_MAX>;
/// A principal or a user, as text.
pub type PrincipalText = BoundedText<PRINCIPAL_BYTES_MAX>;
/// How long an access token is valid.
pub type AccessTokenTtl = BoundedDuration<1_000, { ACCESS_TOKEN_TTL_MAX.as_secs() * 1_000 }>;

/// A read of the access data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadAccess {
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `POST /v1/access/check`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckAccess {
    /// Whose rights to check: `user:ci`. The default is the caller.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "user:ci")))]
    #[serde(default, rename = "as", skip_serializing_if = "is_default")]
    pub principal: Option<PrincipalText>,
    /// The verb, as in a rule.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "acquire")))]
    pub verb: BoundedText<32>,
    /// What it acts on, as in a rule: `locks:orders/42`, `nodes:app/**`, `sessions` or `cluster`.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "locks:orders/42")))]
    pub on: BoundedText<ACCESS_CHECK_BYTES_MAX>,
}

/// `PUT /v1/access/roles/{name}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PutRole {
    /// All its rules. Each is verbs, a space and a target: `acquire,inspect locks:deploy/**`.
    pub rules: BoundedList<RuleText, ACCESS_RULES_MAX>,
}

/// `DELETE /v1/access/roles/{name}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeleteRole {
    /// Remove its bindings too. Otherwise a role with bindings stays.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,
}

/// `PUT /v1/access/users/{name}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetUser {
    /// Whether the user is disabled from now on. Disabling revokes its tokens. They stay revoked when it is enabled.
    pub disabled: bool,
    /// End the sessions that it opened, with everything that they own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_sessions: bool,
}

/// `POST /v1/access/tokens`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateAccessToken {
    /// The user that the token stands for. It need not exist.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "ci")))]
    pub user: PrincipalText,
    /// How long it is valid. Without it, it never expires.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "7776000s")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub ttl: Option<AccessTokenTtl>,
    /// The SHA-256 of a token that you made, as 64 hexadecimal digits. Then no server ever has the token. Without it, the
    /// server makes the token and shows it once.
    #[cfg_attr(
        feature = "schema",
        schemars(extend(
            "pattern" = "^[0-9a-f]{64}$",
            "example" = "90b9f254d9630f4ebaead03bc7fdaf375e2fb80b6114ae5bbe4505dbfe373afe"
        ))
    )]
    #[serde(default, skip_serializing_if = "is_default")]
    pub hash: Option<BoundedText<64>>,
}

/// `GET /v1/access/tokens`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListAccessTokens {
    /// The number of tokens on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 7)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<PositiveNumber>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `DELETE /v1/access/tokens/{number}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeAccessToken {
    /// End the sessions that its user opened, with everything that they own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_sessions: bool,
}
