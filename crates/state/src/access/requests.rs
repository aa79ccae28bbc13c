//! The request to change the access data, as the fields of a command. `command` exports it.

use crate::{
    access::records::{rules_weight, tenant_weight},
    budget::BudgetShare,
    rejection::Rejection,
    write::WriteKey,
};
use fairhold_access::{
    Principal, RoleName, Subject, Tenant, TenantName, UserName,
    limits::{RULES_PER_ROLE_MAX, TENANT_PREFIXES_MAX, TENANT_SUBJECTS_MAX},
    rule::Rule,
    token::{AccessTokenNumber, TokenHash},
};
use fairhold_types::{Revision, limits::OWNER_BYTES_MAX, text::first_not_plain, time::WallMillis};
use serde::{Deserialize, Serialize};

/// The bytes of quotas in the log.
const QUOTA_BYTES: usize = 100;

/// Changes the access data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeAccess {
    /// The caller's key, if it gave one: a late repetition must not undo a newer request.
    pub key: Option<WriteKey>,
    /// The change.
    pub change: AccessChange,
    /// The requester.
    pub requester: AccessRequester,
    /// When the request was received.
    pub at: WallMillis,
}

/// The requester of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRequester {
    /// Its identity.
    pub principal: Principal,
    /// Its client and address, such as `curl@127.0.0.1`.
    pub client: String,
}

/// A change of the access data. The log encodes variants by position: add at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessChange {
    /// Creates a role, or replaces its rules.
    PutRole {
        /// Its name.
        role: RoleName,
        /// All its rules.
        rules: Vec<Rule>,
        /// If given, the role must have been changed last at this revision; 0 if it must not exist.
        expected: Option<Revision>,
    },
    /// Removes a role.
    DeleteRole {
        /// Its name.
        role: RoleName,
        /// Whether its bindings are removed too. Otherwise a role with bindings stays.
        force: bool,
        /// If given, the role must have been changed last at this revision.
        expected: Option<Revision>,
    },
    /// Gives a role to a subject.
    Bind {
        /// The role, which must exist.
        role: RoleName,
        /// The subject.
        subject: Subject,
    },
    /// Takes a role from a subject.
    Unbind {
        /// The role.
        role: RoleName,
        /// The subject.
        subject: Subject,
    },
    /// Disables a user and revokes its tokens, or enables it again.
    SetUser {
        /// The user, which need not be known.
        user: UserName,
        /// Whether it is disabled from now on.
        disabled: bool,
        /// Whether the sessions that it opened end.
        end_sessions: bool,
    },
    /// Creates a token.
    CreateToken {
        /// The SHA-256 of the token.
        hash: TokenHash,
        /// The user that it stands for.
        user: UserName,
        /// When it expires; `None` for never.
        expires_at: Option<WallMillis>,
    },
    /// Revokes a token.
    RevokeToken {
        /// Its number.
        number: AccessTokenNumber,
        /// Whether the sessions that its user opened end.
        end_sessions: bool,
    },
    /// Begins to enforce rights.
    Enable,
    /// Stops to enforce rights. Only an administrator by a file may do it.
    Disable,
    /// Creates a tenant, or replaces everything of it.
    PutTenant {
        /// Its name.
        name: TenantName,
        /// Its subjects, its prefixes and its quotas. In a box, so that commands stay small: each is moved several times.
        tenant: Box<Tenant>,
        /// If given, the tenant must have been changed last at this revision; 0 if it must not exist.
        expected: Option<Revision>,
    },
    /// Removes a tenant. What it has stays.
    DeleteTenant {
        /// Its name.
        name: TenantName,
        /// If given, the tenant must have been changed last at this revision.
        expected: Option<Revision>,
    },
}

impl ChangeAccess {
    /// Refuses a request that exceeds the limits.
    pub(crate) fn validate(&self) -> Result<(), Rejection> {
        let refused = |what: &str| Err(Rejection::Unsupported { what: what.to_owned() });
        if let AccessChange::PutRole { rules, .. } = &self.change
            && !(1..=RULES_PER_ROLE_MAX).contains(&rules.len())
        {
            return refused("a role with no rules or with so many");
        }
        if let AccessChange::PutTenant { tenant, .. } = &self.change
            && (tenant.prefixes.len() > TENANT_PREFIXES_MAX || tenant.subjects.len() > TENANT_SUBJECTS_MAX)
        {
            return refused("a tenant with so many prefixes or subjects");
        }
        if self.requester.client.len() > OWNER_BYTES_MAX || first_not_plain(&self.requester.client).is_some() {
            return refused("a client with such a name");
        }
        Ok(())
    }

    /// An upper bound of the bytes of its texts in the log, without a part for each entry of a list.
    pub(crate) fn text_bytes(&self) -> usize {
        let of_change = match &self.change {
            AccessChange::PutRole { role, rules, .. } => {
                role.as_str().len() + rules.iter().map(|rule| rule.to_string().len()).sum::<usize>()
            }
            AccessChange::DeleteRole { role, .. } => role.as_str().len(),
            AccessChange::Bind { role, subject } | AccessChange::Unbind { role, subject } => {
                role.as_str().len() + subject.as_str().len()
            }
            AccessChange::SetUser { user, .. } | AccessChange::CreateToken { user, .. } => user.as_str().len(),
            AccessChange::RevokeToken { .. } | AccessChange::Enable | AccessChange::Disable => 0,
            AccessChange::PutTenant { name, tenant, .. } => QUOTA_BYTES + name.as_str().len() + text_bytes_of(tenant),
            AccessChange::DeleteTenant { name, .. } => name.as_str().len(),
        };
        of_change + self.requester.principal.as_str().len() + self.requester.client.len()
    }

    /// How many entries its lists have.
    pub(crate) fn entries(&self) -> usize {
        if let AccessChange::PutTenant { tenant, .. } = &self.change {
            return tenant.prefixes.len() + tenant.subjects.len();
        }
        self.rules().len()
    }

    fn rules(&self) -> &[Rule] {
        if let AccessChange::PutRole { rules, .. } = &self.change { rules } else { &[] }
    }

    /// How much of the budget it may fill. Rights can be taken away even if the state is full.
    pub(crate) fn budget_share(&self) -> BudgetShare {
        match self.change {
            AccessChange::PutRole { .. }
            | AccessChange::Bind { .. }
            | AccessChange::CreateToken { .. }
            | AccessChange::PutTenant { .. } => BudgetShare::Created,
            AccessChange::DeleteRole { .. }
            | AccessChange::Unbind { .. }
            | AccessChange::SetUser { .. }
            | AccessChange::RevokeToken { .. }
            | AccessChange::Enable
            | AccessChange::Disable
            | AccessChange::DeleteTenant { .. } => BudgetShare::Always,
        }
    }

    /// An upper bound of the bytes that its lists can add to the state.
    pub(crate) fn growth_of_lists(&self) -> u64 {
        if let AccessChange::PutTenant { tenant, .. } = &self.change {
            return tenant_weight(tenant);
        }
        rules_weight(self.rules())
    }
}

fn text_bytes_of(tenant: &Tenant) -> usize {
    let prefixes: usize = tenant.prefixes.iter().map(|prefix| prefix.to_string().len()).sum();
    prefixes + tenant.subjects.iter().map(|subject| subject.as_str().len()).sum::<usize>()
}
