//! The access data in a snapshot: a head with the counts, and an item for each record.

use super::{
    AccessData, BindingRecord, DisabledUser, RoleRecord, TenantRecord, TokenRecord,
    marks::Marks,
    records::{Opener, SessionTenant},
};
use crate::weighed::Weigh;
use fairhold_access::{RoleName, Subject, TenantName, UserName, token::AccessTokenNumber};
use fairhold_types::{Revision, SessionNumber};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An item of a snapshot. Snapshots encode variants by position: add at the end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum SavedAccess {
    /// Comes first.
    Head(AccessHead),
    Role(RoleName, Arc<RoleRecord>),
    Binding(RoleName, Subject, Arc<BindingRecord>),
    DisabledUser(UserName, DisabledUser),
    Token(AccessTokenNumber, Arc<TokenRecord>),
    Opener(SessionNumber, Opener),
    Tenant(TenantName, Arc<TenantRecord>),
    SessionTenant(SessionNumber, SessionTenant),
}

/// What is not in a table, and how many records follow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AccessHead {
    on: bool,
    revision: Revision,
    marks: Marks,
    tokens_created: u64,
    records: u64,
}

impl SavedAccess {
    /// About its encoded size: what it counts in the state's budget.
    pub(crate) fn size(&self) -> u64 {
        match self {
            SavedAccess::Head(head) => head.marks.len() as u64 * 16,
            SavedAccess::Role(_, role) => role.weight(),
            SavedAccess::Binding(_, _, binding) => binding.weight(),
            SavedAccess::DisabledUser(_, user) => user.weight(),
            SavedAccess::Token(_, token) => token.weight(),
            SavedAccess::Opener(_, opener) => opener.weight(),
            SavedAccess::Tenant(_, tenant) => tenant.weight(),
            SavedAccess::SessionTenant(_, tenant) => tenant.weight(),
        }
    }
}

impl AccessData {
    /// The items of a snapshot. There are none if access data was never changed, and no session has an opener.
    pub(crate) fn saved(&self) -> impl Iterator<Item = SavedAccess> + '_ {
        let AccessData { on, revision, marks, tokens_created, .. } = self;
        let is_empty = self.records() == 0 && *revision == Revision(0);
        let records = self.records() as u64;
        let head = AccessHead { on: *on, revision: *revision, marks: marks.clone(), tokens_created: *tokens_created, records };
        let head = (!is_empty).then_some(SavedAccess::Head(head));
        let roles = self.roles.iter().map(|(name, role)| SavedAccess::Role(name.clone(), Arc::clone(role)));
        let bindings = self
            .bindings
            .iter()
            .map(|((role, subject), binding)| SavedAccess::Binding(role.clone(), subject.clone(), Arc::clone(binding)));
        let users = self.disabled.iter().map(|(name, user)| SavedAccess::DisabledUser(name.clone(), user.clone()));
        let tokens = self.tokens.iter().map(|(number, token)| SavedAccess::Token(*number, Arc::clone(token)));
        let openers = self.openers.iter().map(|(session, opener)| SavedAccess::Opener(*session, *opener));
        let tenants = self.tenants.iter().map(|(name, tenant)| SavedAccess::Tenant(name.clone(), Arc::clone(tenant)));
        let of_sessions = self.session_tenants.iter().map(|(session, tenant)| SavedAccess::SessionTenant(*session, *tenant));
        let items = head.into_iter().chain(roles).chain(bindings).chain(users).chain(tokens).chain(openers);
        items.chain(tenants).chain(of_sessions)
    }

    /// Adds an item, with its entries in the caches. Returns how many records shall follow a head.
    pub(crate) fn restore(&mut self, saved: SavedAccess) -> Option<u64> {
        match saved {
            SavedAccess::Head(head) => {
                (self.on, self.revision, self.tokens_created) = (head.on, head.revision, head.tokens_created);
                self.marks = head.marks;
                return Some(head.records);
            }
            SavedAccess::Role(name, role) => {
                self.index.set_role(&name, &role);
                self.roles.insert(name, role);
            }
            SavedAccess::Binding(role, subject, binding) => {
                self.index.by_subject.insert((subject.clone(), role.clone()));
                self.bindings.insert((role, subject), binding);
            }
            SavedAccess::DisabledUser(name, user) => drop(self.disabled.insert(name, user)),
            SavedAccess::Token(number, token) => {
                self.index.add_token(number, &token);
                self.tokens.insert(number, token);
            }
            SavedAccess::Opener(session, Opener(principal)) => self.add_opener(session, principal),
            SavedAccess::Tenant(name, tenant) => {
                self.index.add_tenant(&name, &tenant);
                self.tenants.insert(name, tenant);
            }
            SavedAccess::SessionTenant(session, SessionTenant(tenant)) => self.add_session_of_tenant(session, tenant),
        }
        None
    }
}
