//! The calls that change the access data. The HTTP layer authenticates the caller; the machine keeps the data consistent.

use crate::{
    api::{At, CallError, ChangeAccessCall, CreateAccessTokenCall, CreatedToken},
    calls::write_key::write_key,
    clock::wall_now,
    node::Node,
};
use fairhold_access::{Principal, token::BearerToken};
use fairhold_state::command::{AccessChange, AccessRequester, Answer, ChangeAccess, Command, Outcome};
use fairhold_types::{Revision, duration, time::WallMillis};
use openraft_rt::{AsyncRuntime, Instant};
use rand::RngExt;

impl<RT: AsyncRuntime> Node<RT> {
    /// Changes the access data. After the answer, this node decides by the new data. With a key, it happens once.
    pub async fn change_access(&self, call: ChangeAccessCall) -> Result<Revision, CallError> {
        let ChangeAccessCall { key, change, client, timeout } = call;
        let deadline = RT::Instant::now() + timeout;
        let key = write_key(key, &("access", &change))?;
        let command = ChangeAccess { key, change: change.clone(), requester: self.requester(client), at: wall_now() };
        let answer = self.propose_until(Command::ChangeAccess(command), deadline).await?;
        let revision = answer.revision;
        answer.result?;
        let by = self.requester_name();
        tracing::info!(revision = revision.0, by, what = name_of(&change), "an administrator changed the access data");
        self.0.replica.wait_for_revision(revision, deadline).await?;
        // Sessions end in pieces.
        Ok(self.wait_until_settled(revision, deadline, |state| !state.has_pending()).await)
    }

    /// Creates a token. Without a hash from the caller, this node makes the token, and its answer is the only one that has
    /// it.
    pub async fn create_access_token(&self, call: CreateAccessTokenCall) -> Result<At<CreatedToken>, CallError> {
        let CreateAccessTokenCall { key, user, ttl, hash, client, timeout } = call;
        let deadline = RT::Instant::now() + timeout;
        let ttl_ms = ttl.map(duration::millis);
        let key = write_key(key, &("access token", &user, ttl_ms, hash))?;
        let made = hash.is_none().then(|| BearerToken::from_random(RT::thread_rng().random()));
        let hash = made.as_ref().map_or(hash, |token| Some(token.hash()));
        let Some(hash) = hash else { unreachable!("a token is made if there is no hash") };
        let at = wall_now();
        let expires_at = ttl_ms.map(|ttl_ms| WallMillis(at.0.saturating_add(ttl_ms)));
        let change = AccessChange::CreateToken { hash, user: user.clone(), expires_at };
        let command = ChangeAccess { key, change, requester: self.requester(client), at };
        let Answer { result, revision, .. } = self.propose_until(Command::ChangeAccess(command), deadline).await?;
        let (number, repeated) = match result? {
            Outcome::AccessTokenCreated { number, repeated } => (number, repeated),
            outcome @ (Outcome::Nothing
            | Outcome::Done
            | Outcome::SessionOpened { .. }
            | Outcome::Held(_)
            | Outcome::Queued(_)
            | Outcome::Written { .. }
            | Outcome::WrittenBefore { .. }
            | Outcome::Broken { .. }
            | Outcome::Judged { .. }
            | Outcome::JoinTokenCreated { .. }
            | Outcome::Admitted { .. }) => unreachable!("a new token was answered with {outcome:?}"),
        };
        if !repeated {
            let (user, by) = (user.as_str(), self.requester_name());
            tracing::info!(token = number.0, user, revision = revision.0, by, "an administrator created a token");
        }
        self.0.replica.wait_for_revision(revision, deadline).await?;
        let expires_at = self.access().token(number).map_or(expires_at, |token| token.expires_at);
        Ok(At { value: CreatedToken { number, token: made, expires_at }, revision })
    }

    fn requester(&self, client: String) -> AccessRequester {
        let principal = self.caller().map_or_else(Principal::anonymous, |caller| caller.principal().clone());
        AccessRequester { principal, client }
    }

    fn requester_name(&self) -> &str {
        self.caller().map_or("", |caller| caller.principal().as_str())
    }
}

/// The change in a word, for the log. Names and rules are in the access data.
fn name_of(change: &AccessChange) -> &'static str {
    match change {
        AccessChange::PutRole { .. } => "a role was put",
        AccessChange::DeleteRole { .. } => "a role was removed",
        AccessChange::Bind { .. } => "a role was bound",
        AccessChange::Unbind { .. } => "a role was unbound",
        AccessChange::SetUser { disabled: true, .. } => "a user was disabled",
        AccessChange::SetUser { disabled: false, .. } => "a user was enabled",
        AccessChange::CreateToken { .. } => "a token was created",
        AccessChange::RevokeToken { .. } => "a token was revoked",
        AccessChange::Enable => "rights are enforced",
        AccessChange::Disable => "rights are not enforced any more",
        AccessChange::PutTenant { .. } => "a tenant was put",
        AccessChange::DeleteTenant { .. } => "a tenant was removed",
    }
}
