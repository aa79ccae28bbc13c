//! Tenants: how they are put and removed, and how they are found.

use super::{
    AccessData, AccessFault, TenantRecord,
    edit::{AccessEdit, Edited},
    index::count_down,
    marks::RightsMove,
    records::SessionTenant,
    roles::full,
};
use crate::{rejection::Rejection, tenant_uses::PrefixMap};
use fairhold_access::{
    Principal, QuotaKind, Subject, Tenant, TenantName, TenantNumber, TenantPrefix, UserName, limits::TENANTS_MAX,
};
use fairhold_types::{Revision, SessionNumber};
use std::sync::Arc;

impl AccessData {
    /// All tenants by name.
    pub fn tenants(&self) -> impl Iterator<Item = (&TenantName, &TenantRecord)> {
        self.tenants.iter().map(|(name, tenant)| (name, &**tenant))
    }

    /// A tenant.
    #[must_use]
    pub fn tenant(&self, name: &TenantName) -> Option<&TenantRecord> {
        self.tenants.get(name).map(|tenant| &**tenant)
    }

    /// The tenant with this number.
    #[must_use]
    pub fn tenant_numbered(&self, number: TenantNumber) -> Option<(&TenantName, &TenantRecord)> {
        let name = self.index.tenant_names.get(&number)?;
        self.tenants.get(name).map(|tenant| (name, &**tenant))
    }

    /// The tenant that a principal belongs to. Administrators by a file belong to none.
    #[must_use]
    pub fn tenant_of(&self, principal: &Principal) -> Option<TenantNumber> {
        let subjects = &self.index.tenant_subjects;
        if subjects.is_empty() || principal.is_file() {
            return None;
        }
        Subject::all_of(principal).find_map(|subject| subjects.get(&subject).copied())
    }

    /// How many live sessions count for a tenant.
    #[must_use]
    pub fn sessions_of_tenant(&self, tenant: TenantNumber) -> u64 {
        self.index.sessions_of_tenant.get(&tenant).copied().unwrap_or(0)
    }

    /// How many access tokens count for a tenant: those of its users.
    #[must_use]
    pub fn tokens_of_tenant(&self, tenant: &Tenant) -> u64 {
        let of_subject = |subject: &Subject| match subject.as_str().strip_prefix("user:") {
            // No user's name has a colon, so this is the only subject of several users.
            Some("*") => self.tokens.len() as u64,
            Some(user) => self.index.token_counts.get(user).copied().unwrap_or(0),
            None => 0,
        };
        tenant.subjects.iter().map(of_subject).sum()
    }

    pub(crate) fn tenant_prefixes(&self) -> &PrefixMap {
        &self.index.prefixes
    }

    pub(crate) fn prefixes_of(&self, tenant: TenantNumber) -> &[TenantPrefix] {
        self.tenant_numbered(tenant).map_or(&[][..], |(_, record)| record.tenant.prefixes.as_slice())
    }

    /// Refuses what would exceed a quota of a tenant. What adds nothing passes.
    pub(crate) fn require_below(&self, tenant: TenantNumber, kind: QuotaKind, used: u64, added: u64) -> Result<(), Rejection> {
        let Some((name, record)) = self.tenant_numbered(tenant) else { return Ok(()) };
        match record.tenant.quota.limit(kind) {
            Some(limit) if added > 0 && used.saturating_add(added) > limit => {
                Err(Rejection::QuotaExceeded { tenant: name.clone(), quota: kind, limit, used })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses another token of a user if its tenant has as many as it may.
    pub(super) fn require_quota_of_token(&self, user: &UserName) -> Result<(), Rejection> {
        let Some(number) = self.tenant_of(&Principal::user(user)) else { return Ok(()) };
        let used = self.tenant_numbered(number).map_or(0, |(_, record)| self.tokens_of_tenant(&record.tenant));
        self.require_below(number, QuotaKind::Tokens, used, 1)
    }

    /// Refuses another session of a tenant that has as many as it may.
    pub(crate) fn require_quota_of_session(&self, tenant: TenantNumber) -> Result<(), Rejection> {
        self.require_below(tenant, QuotaKind::Sessions, self.sessions_of_tenant(tenant), 1)
    }

    /// Remembers for which tenant a session counts, until the session ends.
    pub(super) fn add_session_of_tenant(&mut self, session: SessionNumber, tenant: TenantNumber) {
        self.session_tenants.insert(session, SessionTenant(tenant));
        *self.index.sessions_of_tenant.entry(tenant).or_insert(0) += 1;
    }

    pub(super) fn remove_session_of_tenant(&mut self, session: SessionNumber) {
        if let Some(SessionTenant(tenant)) = self.session_tenants.remove(&session) {
            count_down(&mut self.index.sessions_of_tenant, &tenant);
        }
    }

    /// A tenant that has a prefix or a subject in common with this one, and what it is.
    fn overlap(&self, tenant: &Tenant) -> Option<(TenantNumber, String)> {
        let prefix = |prefix: &TenantPrefix| Some((self.index.prefixes.overlapping(prefix)?, prefix.to_string()));
        let subject = |subject: &Subject| Some((self.index.overlapping_subject(subject)?, subject.to_string()));
        tenant.prefixes.iter().find_map(prefix).or_else(|| tenant.subjects.iter().find_map(subject))
    }
}

impl AccessEdit<'_> {
    /// Creates a tenant, or replaces everything of it. A lower quota takes nothing away.
    pub(super) fn put_tenant(&mut self, name: &TenantName, tenant: &Tenant, expected: Option<Revision>) -> Edited {
        let known = self.known_tenant(name, expected)?;
        let tenant = tenant.normalized();
        self.steps += (tenant.prefixes.len() + tenant.subjects.len()) as u64;
        if known.as_ref().is_some_and(|known| known.tenant == tenant) {
            return Ok(None);
        }
        if known.is_none() && self.access.tenants.len() >= TENANTS_MAX {
            return Err(full("tenants", TENANTS_MAX));
        }
        let number = known.as_ref().map_or(TenantNumber(self.revision.0), |known| known.number);
        // Its own names do not count as those of another tenant.
        if let Some(known) = &known {
            self.access.index.remove_tenant(known);
        }
        if let Some((other, on)) = self.access.overlap(&tenant) {
            let tenant = self.access.index.tenant_names.get(&other).cloned().unwrap_or_else(TenantName::lowest);
            return Err(AccessFault::TenantOverlaps { tenant, on });
        }
        if known.as_ref().is_none_or(|known| known.tenant.prefixes != tenant.prefixes) {
            self.recounts = Some(number);
        }
        let by = self.request.requester.principal.clone();
        let record = TenantRecord { number, tenant, revision: self.revision, by, at: self.request.at };
        self.access.index.add_tenant(name, &record);
        self.access.tenants.insert(name.clone(), Arc::new(record));
        Ok(Some(RightsMove::Wider))
    }

    /// Removes a tenant. What it has stays, and counts for nobody.
    pub(super) fn delete_tenant(&mut self, name: &TenantName, expected: Option<Revision>) -> Edited {
        let Some(known) = self.known_tenant(name, expected)? else { return Ok(None) };
        self.steps += (known.tenant.prefixes.len() + known.tenant.subjects.len()) as u64;
        self.access.index.remove_tenant(&known);
        self.access.tenants.remove(name);
        self.recounts = Some(known.number);
        Ok(Some(RightsMove::Wider))
    }

    fn known_tenant(&self, name: &TenantName, expected: Option<Revision>) -> Result<Option<Arc<TenantRecord>>, AccessFault> {
        let known = self.access.tenants.get(name);
        let current = known.map_or(Revision(0), |tenant| tenant.revision);
        if expected.is_some_and(|expected| expected != current) {
            return Err(AccessFault::TenantChanged { current });
        }
        Ok(known.cloned())
    }
}
