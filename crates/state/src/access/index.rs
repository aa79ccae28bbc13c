//! Caches of the access data, for lookups by something else than the key of a table.

use super::{RoleRecord, TenantRecord, TokenRecord};
use crate::tenant_uses::PrefixMap;
use fairhold_access::{
    PrincipalKey, RoleName, Subject, TenantName, TenantNumber, UserName,
    token::{AccessTokenNumber, TokenHash},
};
use fairhold_types::{SessionNumber, time::WallMillis};
use imbl::{OrdMap, OrdSet};

/// Everything that is derived from the tables. A snapshot does not contain it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AccessIndex {
    /// The roles of each subject.
    pub(super) by_subject: OrdSet<(Subject, RoleName)>,
    /// The roles, without the built-in ones, that allow to change the access data.
    pub(super) administering: OrdSet<RoleName>,
    pub(super) by_hash: OrdMap<TokenHash, AccessTokenNumber>,
    /// The tokens of each user.
    pub(super) of_user: OrdSet<(UserName, AccessTokenNumber)>,
    /// The tokens that expire.
    pub(super) by_expiry: OrdSet<(WallMillis, AccessTokenNumber)>,
    /// The sessions that each principal opened.
    pub(super) opened_by: OrdSet<(PrincipalKey, SessionNumber)>,
    /// How many tokens each user has, if any.
    pub(super) token_counts: OrdMap<UserName, u64>,
    pub(super) tenant_names: OrdMap<TenantNumber, TenantName>,
    pub(super) tenant_subjects: OrdMap<Subject, TenantNumber>,
    pub(super) prefixes: PrefixMap,
    /// How many live sessions count for each tenant, if any. A tenant that was removed keeps its number.
    pub(super) sessions_of_tenant: OrdMap<TenantNumber, u64>,
}

impl AccessIndex {
    pub(super) fn add_token(&mut self, number: AccessTokenNumber, token: &TokenRecord) {
        self.by_hash.insert(token.hash, number);
        self.of_user.insert((token.user.clone(), number));
        *self.token_counts.entry(token.user.clone()).or_insert(0) += 1;
        if let Some(expires_at) = token.expires_at {
            self.by_expiry.insert((expires_at, number));
        }
    }

    pub(super) fn remove_token(&mut self, number: AccessTokenNumber, token: &TokenRecord) {
        self.by_hash.remove(&token.hash);
        self.of_user.remove(&(token.user.clone(), number));
        count_down(&mut self.token_counts, &token.user);
        if let Some(expires_at) = token.expires_at {
            self.by_expiry.remove(&(expires_at, number));
        }
    }

    pub(super) fn add_tenant(&mut self, name: &TenantName, record: &TenantRecord) {
        self.tenant_names.insert(record.number, name.clone());
        self.prefixes.insert(record.number, &record.tenant.prefixes);
        for subject in &record.tenant.subjects {
            self.tenant_subjects.insert(subject.clone(), record.number);
        }
    }

    pub(super) fn remove_tenant(&mut self, record: &TenantRecord) {
        self.tenant_names.remove(&record.number);
        self.prefixes.remove(&record.tenant.prefixes);
        for subject in &record.tenant.subjects {
            self.tenant_subjects.remove(subject);
        }
    }

    /// A tenant with a subject that overlaps this one.
    pub(super) fn overlapping_subject(&self, subject: &Subject) -> Option<TenantNumber> {
        let above = subject.all_above().find_map(|above| self.tenant_subjects.get(&above));
        let mut from = self.tenant_subjects.range(subject.lower_bound()..);
        let below = || from.next().filter(|(other, _)| subject.contains(other)).map(|(_, tenant)| tenant);
        above.or_else(below).copied()
    }

    pub(super) fn set_role(&mut self, name: &RoleName, role: &RoleRecord) {
        if role.administers() {
            self.administering.insert(name.clone());
        } else {
            self.administering.remove(name);
        }
    }
}

/// Subtracts one from a count. A count of 0 has no entry.
pub(super) fn count_down<K: Ord + Clone>(counts: &mut OrdMap<K, u64>, key: &K) {
    let fewer = counts.get(key).map_or(0, |count| count - 1);
    if fewer == 0 {
        counts.remove(key);
    } else {
        counts.insert(key.clone(), fewer);
    }
}
