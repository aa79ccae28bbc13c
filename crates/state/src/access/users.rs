//! How users are disabled and enabled.

use super::{
    DisabledUser,
    edit::{AccessEdit, Edited},
    marks::RightsMove,
    roles::full,
};
use fairhold_access::{Principal, UserName, limits::DISABLED_USERS_MAX, token::AccessTokenNumber};

impl AccessEdit<'_> {
    /// Disables a user and revokes its tokens, or enables it again. The tokens stay revoked.
    pub(super) fn set_user(&mut self, user: &UserName, disabled: bool, end_sessions: bool) -> Edited {
        let is_disabled = self.access.disabled.contains_key(user);
        self.ends_sessions_of = end_sessions.then(|| user.clone());
        if disabled == is_disabled {
            return Ok(None);
        }
        if !disabled {
            self.access.disabled.remove(user);
            return Ok(Some(RightsMove::Wider));
        }
        if self.access.disabled.len() >= DISABLED_USERS_MAX {
            return Err(full("disabled users", DISABLED_USERS_MAX));
        }
        let tokens: Vec<AccessTokenNumber> = self.access.tokens_of(user).collect();
        tokens.iter().for_each(|number| drop(self.access.remove_token(*number)));
        self.steps += 2 * tokens.len() as u64;
        let record = DisabledUser { by: self.request.requester.principal.clone(), at: self.request.at };
        self.access.disabled.insert(user.clone(), record);
        Ok(Some(RightsMove::NarrowerFor(Principal::user(user).key())))
    }
}
