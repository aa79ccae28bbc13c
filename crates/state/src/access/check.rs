//! The invariants of the access data.

use super::AccessData;
use crate::{State, check::ensure};
use fairhold_access::{
    Subject,
    limits::{
        BINDINGS_MAX, DISABLED_USERS_MAX, MARKS_MAX, ROLES_MAX, RULES_PER_ROLE_MAX, TENANTS_MAX, TOKENS_MAX, TOKENS_PER_USER_MAX,
    },
    role,
};
use fairhold_types::Revision;
use std::collections::BTreeMap;

impl State {
    /// Checks every invariant. The error says what is wrong.
    pub(crate) fn check_access(&self) -> Result<(), String> {
        let access = &self.access;
        access.check_caches()?;
        access.check_limits()?;
        access.check_records()?;
        let newest = access.marks.newest();
        ensure(access.revision <= self.revision, || "the access data is newer than the state".to_owned())?;
        ensure(newest <= access.revision, || "rights were narrowed at a later revision than that of the data".to_owned())?;
        let gone = access.session_tenants.keys().find(|session| !self.sessions.contains_key(*session));
        gone.map_or(Ok(()), |session| Err(format!("session {session} counts for a tenant, but has ended")))?;
        let ended = access.openers.keys().find(|session| !self.sessions.contains_key(*session));
        ended.map_or(Ok(()), |session| Err(format!("the opener of session {session} is known, but the session has ended")))
    }
}

impl AccessData {
    fn check_caches(&self) -> Result<(), String> {
        let mut rebuilt = AccessData::default();
        for saved in self.saved() {
            rebuilt.restore(saved);
        }
        ensure(rebuilt == *self, || "a cache of the access data differs from its tables".to_owned())?;
        for (what, counted, found) in [
            ("roles", self.roles.bytes(), self.roles.recounted()),
            ("bindings", self.bindings.bytes(), self.bindings.recounted()),
            ("disabled users", self.disabled.bytes(), self.disabled.recounted()),
            ("tokens", self.tokens.bytes(), self.tokens.recounted()),
            ("openers", self.openers.bytes(), self.openers.recounted()),
            ("tenants", self.tenants.bytes(), self.tenants.recounted()),
            ("tenants of sessions", self.session_tenants.bytes(), self.session_tenants.recounted()),
        ] {
            ensure(counted == found, || format!("the {what} count {counted} bytes, but a walk finds {found}"))?;
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), String> {
        for (what, count, max) in [
            ("roles", self.roles.len(), ROLES_MAX),
            ("bindings", self.bindings.len(), BINDINGS_MAX),
            ("disabled users", self.disabled.len(), DISABLED_USERS_MAX),
            ("tokens", self.tokens.len(), TOKENS_MAX),
            ("marks", self.marks.len(), MARKS_MAX),
            ("tenants", self.tenants.len(), TENANTS_MAX),
        ] {
            ensure(count <= max, || format!("there are {count} {what}"))?;
        }
        let large = self.roles().find(|(_, role)| role.rules.len() > RULES_PER_ROLE_MAX);
        large.map_or(Ok(()), |(name, role)| Err(format!("role {name} has {} rules", role.rules.len())))
    }

    fn check_tenants(&self) -> Result<(), String> {
        let (mut prefixes, mut subjects) = (0, 0);
        for (name, record) in self.tenants() {
            ensure(record.number.0 <= record.revision.0, || format!("tenant {name} was changed before it was created"))?;
            ensure(record.tenant == record.tenant.normalized(), || format!("tenant {name} has something twice"))?;
            prefixes += record.tenant.prefixes.len();
            subjects += record.tenant.subjects.len();
        }
        ensure(self.index.prefixes.is_disjoint(prefixes), || "a name belongs to two tenants".to_owned())?;
        let above = |subject: &Subject| {
            subject.all_above().skip(1).any(|above| above != *subject && self.index.tenant_subjects.contains_key(&above))
        };
        let is_disjoint = self.index.tenant_subjects.len() == subjects && !self.index.tenant_subjects.keys().any(above);
        ensure(is_disjoint, || "a principal belongs to two tenants".to_owned())
    }

    fn check_records(&self) -> Result<(), String> {
        for (name, role) in self.roles() {
            ensure(role::built_in(name.as_str()).is_none(), || format!("the built-in role {name} was changed"))?;
            let at = role.revision;
            ensure(Revision(0) < at && at <= self.revision, || format!("role {name} was changed at revision {at}"))?;
        }
        for (role, subject, _) in self.bindings() {
            let exists = role::built_in(role.as_str()).is_some() || self.roles.contains_key(role);
            ensure(exists, || format!("{subject} has the role {role}, which does not exist"))?;
        }
        self.check_tenants()?;
        for (number, token) in self.tokens.iter() {
            let user = &token.user;
            ensure(1 <= number.0 && number.0 <= self.tokens_created, || format!("token {number} was never created"))?;
            ensure(!self.disabled.contains_key(user), || format!("user {user} is disabled but has token {number}"))?;
            let (found, _) = self.token_with(&token.hash).ok_or_else(|| format!("token {number} cannot be found"))?;
            ensure(found == *number, || format!("tokens {number} and {found} have the same hash"))?;
        }
        let users = self.index.of_user.iter().map(|(user, _)| user);
        let mut counts = BTreeMap::new();
        users.for_each(|user| *counts.entry(user).or_insert(0_usize) += 1);
        let crowded = counts.iter().find(|(_, count)| **count > TOKENS_PER_USER_MAX);
        crowded.map_or(Ok(()), |(user, count)| Err(format!("user {user} has {count} tokens")))
    }
}
