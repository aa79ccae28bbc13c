//! How tokens are created, revoked and removed once they have expired.

use super::{
    AccessData, AccessFault, ChangeAccess, TokenRecord,
    edit::{AccessEdit, Edited},
    marks::RightsMove,
    roles::full,
};
use crate::{
    change::{Change, Effect},
    command::Outcome,
    rejection::Rejection,
};
use fairhold_access::{
    Principal, UserName,
    limits::{TOKENS_MAX, TOKENS_PER_USER_MAX},
    token::{AccessTokenNumber, TokenHash},
};
use fairhold_types::{Revision, cluster_version::ACCESS_SINCE, time::WallMillis};
use std::{collections::BTreeSet, sync::Arc};

impl AccessData {
    pub(super) fn remove_token(&mut self, number: AccessTokenNumber) -> Option<Arc<TokenRecord>> {
        let token = self.tokens.remove(&number)?;
        self.index.remove_token(number, &token);
        Some(token)
    }

    /// Removes all tokens, and returns how many. No command of this cluster was decided by them.
    pub(crate) fn forget_tokens(&mut self, revision: Revision) -> usize {
        let numbers: Vec<AccessTokenNumber> = self.tokens.keys().copied().collect();
        for number in &numbers {
            self.remove_token(*number);
        }
        if !numbers.is_empty() {
            self.revision = revision;
        }
        numbers.len()
    }
}

impl Change<'_> {
    /// Creates a token. A repeated request with the same secret finds the token of the first one.
    pub(super) fn create_token(
        &mut self,
        request: &ChangeAccess,
        (hash, user, expires_at): (TokenHash, &UserName, Option<WallMillis>),
        was_done: bool,
    ) -> Result<Effect, Rejection> {
        let access = &self.state.access;
        let issued = access.index.by_hash.get(&hash).copied();
        if let Some(number) = issued.filter(|_| was_done) {
            return Ok(Effect::Unchanged(Outcome::AccessTokenCreated { number, repeated: true }));
        }
        let fault = if issued.is_some() || was_done {
            Some(AccessFault::AlreadyIssued)
        } else if access.is_disabled(user) {
            Some(AccessFault::UserDisabled)
        } else if access.tokens.len() >= TOKENS_MAX {
            Some(full("tokens", TOKENS_MAX))
        } else if access.tokens_of(user).take(TOKENS_PER_USER_MAX).count() >= TOKENS_PER_USER_MAX {
            Some(full("tokens of the user", TOKENS_PER_USER_MAX))
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(Rejection::Access(fault));
        }
        access.require_quota_of_token(user)?;
        let mut edit = self.begin_edit(request);
        edit.access.tokens_created += 1;
        let number = AccessTokenNumber(edit.access.tokens_created);
        let by = request.requester.principal.clone();
        let token = TokenRecord { hash, user: user.clone(), by, created_at: request.at, expires_at };
        edit.access.index.add_token(number, &token);
        edit.access.tokens.insert(number, Arc::new(token));
        self.commit(edit, RightsMove::Wider);
        self.end_setting(true, request.key);
        Ok(Effect::Changed(Outcome::AccessTokenCreated { number, repeated: false }))
    }

    /// The leader's verdict: these tokens expired long enough ago. A token that never expires stays.
    pub(crate) fn expire_tokens(&mut self, numbers: &[AccessTokenNumber]) -> Result<Effect, Rejection> {
        self.state.require_version(ACCESS_SINCE)?;
        let mut access = AccessData::clone(&self.state.access);
        let mut users = BTreeSet::new();
        for number in numbers {
            if access.token(*number).is_some_and(|token| token.expires_at.is_some()) {
                users.extend(access.remove_token(*number).map(|token| token.user.clone()));
            }
        }
        self.add_uncounted_steps(3 * numbers.len() as u64);
        let outcome = Outcome::Judged { objects: numbers.len() as u64 };
        if users.is_empty() {
            return Ok(Effect::Unchanged(outcome));
        }
        access.revision = self.revision;
        // A node whose clock is late may still accept the token.
        for user in users {
            access.marks.shift(RightsMove::NarrowerFor(Principal::user(&user).key()), self.revision);
        }
        self.state.access = Arc::new(access);
        Ok(Effect::Changed(outcome))
    }
}

impl AccessEdit<'_> {
    /// Revokes a token. A repeated request does nothing, unless it is to end sessions: whose, is not known any more.
    pub(super) fn revoke_token(&mut self, number: AccessTokenNumber, end_sessions: bool) -> Edited {
        if number.0 == 0 || number.0 > self.access.tokens_created {
            return Err(AccessFault::NoToken);
        }
        let Some(token) = self.access.remove_token(number) else {
            return if end_sessions { Err(AccessFault::TokenGone) } else { Ok(None) };
        };
        self.ends_sessions_of = end_sessions.then(|| token.user.clone());
        Ok(Some(RightsMove::NarrowerFor(Principal::user(&token.user).key())))
    }
}
