//! How join tokens are created and revoked.

use super::{CreateJoinToken, JoinToken, JoinTokenFault, Membership};
use crate::{
    change::{Change, Effect},
    key_use::other_request,
    outcome::Outcome,
    rejection::Rejection,
    write::WriteKey,
};
use fairhold_types::{JoinTokenNumber, limits, time::WallMillis};
use std::sync::Arc;

impl Membership {
    /// The join token that the request with this key created. The key with another request is refused.
    fn token_of_key(&self, key: WriteKey) -> Result<Option<JoinTokenNumber>, Rejection> {
        let found =
            self.tokens().find_map(|(number, token)| token.key.filter(|used| used.key == key.key).map(|used| (number, used)));
        match found {
            Some((_, used)) if used.fingerprint != key.fingerprint => Err(other_request()),
            Some((number, _)) => Ok(Some(number)),
            None => Ok(None),
        }
    }

    fn forget_expired_tokens(&mut self, at: WallMillis) {
        let expired: Vec<JoinTokenNumber> =
            self.tokens().filter(|(_, token)| token.is_expired(at)).map(|(number, _)| number).collect();
        expired.iter().for_each(|number| drop(self.tokens.remove(number)));
    }

    /// If there are too many tokens for one more, forgets the oldest one that admits nobody any more: a node has used
    /// it, and its join is over, so the node does not need it either.
    fn make_room_for_a_token(&mut self) -> Result<(), Rejection> {
        if self.tokens.len() < limits::JOIN_TOKENS_MAX {
            return Ok(());
        }
        let is_spent = |token: &JoinToken| token.used_by.is_some_and(|(node, _)| !self.joins.contains_key(&node));
        let spent = self.tokens().find(|(_, token)| is_spent(token)).map(|(number, _)| number);
        let spent = spent.ok_or(Rejection::JoinTokensFull { max: limits::JOIN_TOKENS_MAX as u64 })?;
        self.tokens.remove(&spent);
        Ok(())
    }
}

impl Change<'_> {
    /// Creates a join token, and forgets those that have expired. Used ones stay, so that a node whose answer was lost
    /// can ask again, unless there are too many. The token keeps the key of its request, so that a repeated request
    /// finds it.
    pub(crate) fn create_join_token(&mut self, request: &CreateJoinToken) -> Result<Effect, Rejection> {
        if let Some(key) = request.key {
            let was_done = self.state.was_written(key)?;
            if let Some(number) = self.state.membership.token_of_key(key)? {
                return Ok(Effect::Unchanged(Outcome::JoinTokenCreated { number, repeated: true }));
            }
            if was_done {
                // The token was revoked since.
                return Err(Rejection::JoinToken(JoinTokenFault::Unknown));
            }
            self.require_tombstone_room()?;
        }
        let mut membership = Membership::clone(&self.state.membership);
        membership.forget_expired_tokens(request.at);
        membership.make_room_for_a_token()?;
        membership.tokens_created += 1;
        let number = JoinTokenNumber(membership.tokens_created);
        membership.tokens.insert(number, new_token(request));
        self.state.membership = Arc::new(membership);
        request.key.into_iter().for_each(|key| self.remember_write(key));
        Ok(Effect::Changed(Outcome::JoinTokenCreated { number, repeated: false }))
    }

    /// Revokes a join token. The nodes that it has admitted stay.
    pub(crate) fn revoke_join_token(&mut self, number: JoinTokenNumber) -> Effect {
        if self.state.membership.token(number).is_none() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        Arc::make_mut(&mut self.state.membership).tokens.remove(&number);
        Effect::Changed(Outcome::Done)
    }
}

fn new_token(request: &CreateJoinToken) -> JoinToken {
    JoinToken {
        role: request.role,
        replaces: request.replaces,
        standing: request.standing,
        up_to: request.up_to,
        expires_at: request.expires_at,
        created_at: request.at,
        by: request.by.clone(),
        secret_hash: request.secret_hash,
        key: request.key,
        used_by: None,
    }
}
