//! Reads of the access data.

use super::{AccessData, BindingRecord, DisabledUser, RoleRecord, TokenRecord};
use crate::State;
use fairhold_access::{
    Attributes, Principal, PrincipalKey, Rights, RoleName, Subject, UserName,
    token::{AccessTokenNumber, TokenHash},
};
use fairhold_types::{Revision, time::WallMillis};
use std::sync::Arc;

impl State {
    /// The access data.
    #[must_use]
    pub fn access(&self) -> &AccessData {
        &self.access
    }

    /// The access data, to keep.
    #[must_use]
    pub fn shared_access(&self) -> Arc<AccessData> {
        Arc::clone(&self.access)
    }
}

impl AccessData {
    /// Whether rights are enforced.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The newest change of the data. A decision by this data names it in its guard.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The newest narrowing of the rights of all principals.
    #[must_use]
    pub fn narrowed_at(&self) -> Revision {
        self.marks.of_all()
    }

    /// The newest narrowing of the rights of a principal. A command that was decided before it has no effect.
    #[must_use]
    pub fn narrowed_for(&self, principal: PrincipalKey) -> Revision {
        self.marks.of(principal)
    }

    /// The rights of a principal. Its rights change only with `revision`.
    #[must_use]
    pub fn rights(&self, principal: &Principal, attributes: &Attributes) -> Rights {
        let bound = |subject: &Subject| self.roles_of(subject).cloned().collect();
        Rights::compile(principal, attributes, bound, |role| self.role(role).map(|record| record.rules.as_slice()))
    }

    /// All roles by name, without the built-in ones.
    pub fn roles(&self) -> impl Iterator<Item = (&RoleName, &RoleRecord)> {
        self.roles.iter().map(|(name, role)| (name, &**role))
    }

    /// A role that is not built in.
    #[must_use]
    pub fn role(&self, name: &RoleName) -> Option<&RoleRecord> {
        self.roles.get(name).map(|role| &**role)
    }

    /// All bindings, by role and subject.
    pub fn bindings(&self) -> impl Iterator<Item = (&RoleName, &Subject, &BindingRecord)> {
        self.bindings.iter().map(|((role, subject), binding)| (role, subject, &**binding))
    }

    /// The subjects of a role.
    pub fn subjects_of<'a>(&'a self, role: &str) -> impl Iterator<Item = &'a Subject> + use<'a> {
        let name = RoleName::parse(role).ok();
        let first = name.clone().map(|name| (name, Subject::lowest()));
        let of_role = first.map(|first| self.bindings.range(first..)).into_iter().flatten();
        of_role.take_while(move |((bound, _), _)| Some(bound) == name.as_ref()).map(|((_, subject), _)| subject)
    }

    /// The roles that are bound to exactly this subject.
    pub fn roles_of(&self, subject: &Subject) -> impl Iterator<Item = &RoleName> {
        let subject = subject.clone();
        let range = self.index.by_subject.range((subject.clone(), RoleName::lowest())..);
        range.take_while(move |(bound, _)| *bound == subject).map(|(_, role)| role)
    }

    /// The users that are disabled.
    pub fn disabled_users(&self) -> impl Iterator<Item = (&UserName, &DisabledUser)> {
        self.disabled.iter()
    }

    /// Whether a user is disabled.
    #[must_use]
    pub fn is_disabled(&self, user: &UserName) -> bool {
        self.disabled.contains_key(user)
    }

    /// How many tokens were ever created.
    #[must_use]
    pub fn tokens_created(&self) -> u64 {
        self.tokens_created
    }

    /// How many tokens there are.
    #[must_use]
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// The tokens with higher numbers than this one, by number.
    pub fn tokens_after(&self, number: AccessTokenNumber) -> impl Iterator<Item = (AccessTokenNumber, &TokenRecord)> {
        let next = AccessTokenNumber(number.0.saturating_add(1));
        self.tokens.range(next..).map(|(number, token)| (*number, &**token))
    }

    /// A token.
    #[must_use]
    pub fn token(&self, number: AccessTokenNumber) -> Option<&TokenRecord> {
        self.tokens.get(&number).map(Arc::as_ref)
    }

    /// The token with this hash, also if it has expired.
    #[must_use]
    pub fn token_with(&self, hash: &TokenHash) -> Option<(AccessTokenNumber, &TokenRecord)> {
        let number = *self.index.by_hash.get(hash)?;
        self.token(number).map(|token| (number, token))
    }

    /// The tokens of a user.
    pub fn tokens_of(&self, user: &UserName) -> impl Iterator<Item = AccessTokenNumber> + '_ {
        let of_user = (user.clone(), AccessTokenNumber(0))..=(user.clone(), AccessTokenNumber(u64::MAX));
        self.index.of_user.range(of_user).map(|(_, number)| *number)
    }

    /// The tokens that expired before this time, the oldest first. The leader decides which of them to remove.
    pub fn expired_before(&self, time: WallMillis) -> impl Iterator<Item = AccessTokenNumber> + '_ {
        self.index.by_expiry.range(..(time, AccessTokenNumber(0))).map(|(_, number)| *number)
    }

    /// How many bytes it counts in the state's budget.
    pub(crate) fn bytes(&self) -> u64 {
        let of_roles = self.roles.bytes() + self.bindings.bytes();
        let of_tenants = self.tenants.bytes() + self.session_tenants.bytes();
        of_roles + self.disabled.bytes() + self.tokens.bytes() + self.openers.bytes() + of_tenants
    }

    /// How many records a snapshot of it has.
    pub(crate) fn records(&self) -> usize {
        let of_tenants = self.tenants.len() + self.session_tenants.len();
        self.roles.len() + self.bindings.len() + self.disabled.len() + self.tokens.len() + self.openers.len() + of_tenants
    }
}
