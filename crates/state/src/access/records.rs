//! The records of roles, bindings, disabled users and tokens, and how many bytes they count in the state's budget.

use crate::{weighed::Weigh, weight::len};
use fairhold_access::{
    Principal, PrincipalKey, RoleName, Subject, Tenant, TenantName, TenantNumber, UserName,
    rule::Rule,
    token::{AccessTokenNumber, TokenHash},
    verb::Verb,
};
use fairhold_types::{Revision, SessionNumber, time::WallMillis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A role, without its name.
const ROLE_BYTES: u64 = 400;
/// A rule, without its text. A rule in memory has its levels as separate texts.
const RULE_BYTES: u64 = 250;
/// A binding, without its names.
const BINDING_BYTES: u64 = 400;
/// A disabled user, without its name.
const DISABLED_USER_BYTES: u64 = 250;
/// A token, without its names.
const TOKEN_BYTES: u64 = 500;

/// A tenant, without its name, its prefixes and its subjects.
const TENANT_BYTES: u64 = 600;
/// A prefix or a subject of a tenant, without its text. It is in an index, too.
const TENANT_PART_BYTES: u64 = 200;
/// The tenant of a session, in both tables.
const SESSION_TENANT_BYTES: u64 = 80;

/// A role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRecord {
    /// Its rules. Their order means nothing.
    pub rules: Vec<Rule>,
    /// When it was last changed.
    pub revision: Revision,
    /// The principal that changed it last.
    pub by: Principal,
    /// The time of that change, by the clock of the node that received the request.
    pub at: WallMillis,
}

impl RoleRecord {
    /// Whether it allows to change the access data.
    pub(crate) fn administers(&self) -> bool {
        self.rules.iter().any(|rule| rule.verbs().allows(Verb::Admin))
    }
}

/// A binding of a role to a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingRecord {
    /// The principal that made it.
    pub by: Principal,
    /// When it was made.
    pub at: WallMillis,
}

/// A user that is disabled: it has no tokens, and its certificates do not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisabledUser {
    /// The principal that disabled it.
    pub by: Principal,
    /// When it was disabled.
    pub at: WallMillis,
}

/// A bearer token. Its secret is not stored, only the hash of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// The SHA-256 of the token.
    pub hash: TokenHash,
    /// The user that it stands for.
    pub user: UserName,
    /// The principal that created it.
    pub by: Principal,
    /// When it was created.
    pub created_at: WallMillis,
    /// When it expires; `None` for never. Nodes judge it by their clocks.
    pub expires_at: Option<WallMillis>,
}

impl TokenRecord {
    /// Whether its time is over.
    #[must_use]
    pub fn is_expired(&self, now: WallMillis) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRecord {
    /// Its number, for as long as it exists.
    pub number: TenantNumber,
    /// Its subjects, its prefixes and its quotas.
    pub tenant: Tenant,
    /// When it was last changed.
    pub revision: Revision,
    /// The principal that changed it last.
    pub by: Principal,
    /// The time of that change, by the clock of the node that received the request.
    pub at: WallMillis,
}

/// The bytes of the subjects and prefixes of a tenant, as the state counts them.
pub(crate) fn tenant_weight(tenant: &Tenant) -> u64 {
    let of_prefixes: u64 = tenant.prefixes.iter().map(|prefix| TENANT_PART_BYTES + 2 * len(prefix.base().as_str())).sum();
    let of_subjects: u64 = tenant.subjects.iter().map(|subject| TENANT_PART_BYTES + 2 * len(subject.as_str())).sum();
    of_prefixes + of_subjects
}

/// The bytes of rules, as the state counts them.
pub(crate) fn rules_weight(rules: &[Rule]) -> u64 {
    rules.iter().map(|rule| RULE_BYTES + len(&rule.to_string())).sum()
}

impl Weigh<RoleName> for Arc<RoleRecord> {
    fn key_weight(name: &RoleName) -> u64 {
        len(name.as_str())
    }

    fn weight(&self) -> u64 {
        ROLE_BYTES + len(self.by.as_str()) + rules_weight(&self.rules)
    }
}

impl Weigh<(RoleName, Subject)> for Arc<BindingRecord> {
    fn key_weight((role, subject): &(RoleName, Subject)) -> u64 {
        len(role.as_str()) + len(subject.as_str())
    }

    fn weight(&self) -> u64 {
        BINDING_BYTES + len(self.by.as_str())
    }
}

impl Weigh<UserName> for DisabledUser {
    fn key_weight(name: &UserName) -> u64 {
        len(name.as_str())
    }

    fn weight(&self) -> u64 {
        DISABLED_USER_BYTES + len(self.by.as_str())
    }
}

impl Weigh<AccessTokenNumber> for Arc<TokenRecord> {
    fn weight(&self) -> u64 {
        TOKEN_BYTES + len(self.user.as_str()) + len(self.by.as_str())
    }
}

impl Weigh<TenantName> for Arc<TenantRecord> {
    fn key_weight(name: &TenantName) -> u64 {
        2 * len(name.as_str())
    }

    fn weight(&self) -> u64 {
        TENANT_BYTES + len(self.by.as_str()) + tenant_weight(&self.tenant)
    }
}

/// The tenant that a session counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SessionTenant(pub(super) TenantNumber);

impl Weigh<SessionNumber> for SessionTenant {
    fn weight(&self) -> u64 {
        SESSION_TENANT_BYTES
    }
}

/// The opener of a session, in both tables.
const OPENER_BYTES: u64 = 120;

/// The principal that opened a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Opener(pub(super) PrincipalKey);

impl Weigh<SessionNumber> for Opener {
    fn weight(&self) -> u64 {
        OPENER_BYTES
    }
}

/// The sessions of one principal that shall end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndingSessions {
    pub(crate) principal: PrincipalKey,
    /// Later sessions stay.
    pub(crate) through: SessionNumber,
    /// The administrator's client.
    pub(crate) by: String,
    pub(crate) reason: String,
}
