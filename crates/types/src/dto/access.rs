//! The JSON bodies about access rights.

use crate::Revision;
use serde::{Deserialize, Serialize};

/// Whether rights are enforced, and how much access data there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AccessStatus {
    /// `on` if rights are enforced, otherwise `off`.
    pub mode: String,
    /// The newest change of the access data.
    pub revision: Revision,
    /// The newest change that took rights away from anybody.
    pub narrowed_at: Revision,
    /// How many roles there are besides the built-in ones.
    pub roles: u64,
    /// How many bindings.
    pub bindings: u64,
    /// How many tokens, including expired ones of the last day.
    pub tokens: u64,
    /// How many users are disabled.
    pub disabled_users: u64,
    /// How many tenants.
    pub tenants: u64,
}

/// Whether rights are enforced, after a change of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AccessMode {
    /// `on` if rights are enforced, otherwise `off`.
    pub mode: String,
    /// The newest change of the access data.
    pub revision: Revision,
}

/// The caller, as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct WhoAmI {
    /// Its principal: `user:ci`, `k8s:SUBJECT`, `file:admin` or `anonymous`.
    pub principal: String,
    /// What it showed: `token`, `certificate`, `jwt`, `file` or `none`.
    pub kind: String,
    /// When what it showed expires; missing if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
    /// Its roles.
    pub roles: Vec<String>,
    /// Its tenant; missing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// Whether a principal may do something, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AccessCheck {
    /// Whether its rights allow it. While rights are not enforced, everything is allowed nevertheless.
    pub allowed: bool,
    /// The rule that allows it, or why none does.
    pub because: String,
}

/// A role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RoleEntry {
    /// Its name.
    pub name: String,
    /// Its rules.
    pub rules: Vec<String>,
    /// Whether every cluster has it. Such a role cannot be changed.
    pub built_in: bool,
    /// Its last change, also as `ETag`; 0 if it is built in.
    pub revision: Revision,
    /// The principal that changed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// All roles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RoleList {
    /// The built-in ones, then the others by name.
    pub roles: Vec<RoleEntry>,
}

/// A role that a subject has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct BindingEntry {
    /// The role.
    pub role: String,
    /// A principal, or all whose text begins alike: `user:ci`, `user:*`.
    pub subject: String,
    /// The principal that bound it.
    pub by: String,
    /// When it was bound.
    pub at: String,
}

/// All bindings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct BindingList {
    /// The bindings, by role and subject.
    pub bindings: Vec<BindingEntry>,
}

/// A user that is disabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct UserEntry {
    /// Its name.
    pub name: String,
    /// Whether it is disabled.
    pub disabled: bool,
    /// The principal that disabled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// The users that are disabled. Users need not be created, so there is no list of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct UserList {
    /// The users, by name.
    pub users: Vec<UserEntry>,
}

/// An access token that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct CreatedAccessToken {
    /// Its public number, to list and revoke it.
    pub number: u64,
    /// The token, if the server made it. It is a secret, and is shown only this once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// When it expires; missing if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// An access token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AccessTokenEntry {
    /// Its public number.
    pub number: u64,
    /// The user that it stands for.
    pub user: String,
    /// The principal that created it.
    pub by: String,
    /// When it was created.
    pub created_at: String,
    /// When it expires; missing if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}
