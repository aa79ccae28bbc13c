//! Caches of the access data, for lookups by something else than the key of a table.

use super::{RoleRecord, TokenRecord};
use fairhold_access::{
    PrincipalKey, RoleName, Subject, UserName,
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
}

impl AccessIndex {
    pub(super) fn add_token(&mut self, number: AccessTokenNumber, token: &TokenRecord) {
        self.by_hash.insert(token.hash, number);
        self.of_user.insert((token.user.clone(), number));
        if let Some(expires_at) = token.expires_at {
            self.by_expiry.insert((expires_at, number));
        }
    }

    pub(super) fn remove_token(&mut self, number: AccessTokenNumber, token: &TokenRecord) {
        self.by_hash.remove(&token.hash);
        self.of_user.remove(&(token.user.clone(), number));
        if let Some(expires_at) = token.expires_at {
            self.by_expiry.remove(&(expires_at, number));
        }
    }

    pub(super) fn set_role(&mut self, name: &RoleName, role: &RoleRecord) {
        if role.administers() {
            self.administering.insert(name.clone());
        } else {
            self.administering.remove(name);
        }
    }
}
