//! The calls that change the members of the cluster. The HTTP layer checks the administrator's token; this module logs
//! which client called.

use crate::{
    api::{At, CallError, CreateJoinTokenCall, JoinTokenView, NewJoinToken, ReadOptions},
    calls::write_key::write_key,
    clock::wall_now,
    node::Node,
};
use fairhold_raft::{JoinSecret, JoinToken, MemberRequest, MembersView, MembershipError};
use fairhold_state::{
    State,
    command::{Command, CreateJoinToken, Outcome},
    membership,
};
use fairhold_types::{GrantId, JoinTokenNumber, MemberRole, NodeId, Revision, duration, time::WallMillis};
use openraft_rt::{AsyncRuntime, Instant};
use rand::RngExt;
use std::time::Duration;

impl<RT: AsyncRuntime> Node<RT> {
    /// Creates a join token. With a key, it happens once: a repeated call gets the number without the token.
    pub async fn create_join_token(&self, call: CreateJoinTokenCall) -> Result<At<NewJoinToken>, CallError> {
        let CreateJoinTokenCall { key, role, replaces, ttl, up_to, by, timeout } = call;
        let deadline = RT::Instant::now() + timeout;
        self.check_membership_version(deadline).await?;
        let ttl_ms = ttl.map(duration::millis);
        let key = write_key(key, &("join token", role, replaces, ttl_ms, up_to))?;
        let is_repeated = key.is_some_and(|key| self.0.replica.read(|state| has_token(state, key.key)));
        let role = match replaces {
            Some(node) if !is_repeated => self.role_in_place_of(node, role)?,
            // A repeated call gets what the first one has created.
            Some(_) | None => role.unwrap_or_default(),
        };
        let secret = JoinSecret::new(RT::thread_rng().random());
        let at = wall_now();
        let command = CreateJoinToken {
            key,
            secret_hash: secret.hash(),
            role,
            replaces,
            standing: ttl.is_none(),
            up_to,
            expires_at: ttl_ms.map(|ttl_ms| WallMillis(at.0.saturating_add(ttl_ms))),
            by,
            at,
        };
        let answer = self.propose_until(Command::CreateJoinToken(command.clone()), deadline).await?;
        let (number, repeated) = match answer.result? {
            Outcome::JoinTokenCreated { number, repeated } => (number, repeated),
            outcome @ (Outcome::Nothing
            | Outcome::Done
            | Outcome::SessionOpened { .. }
            | Outcome::Held(_)
            | Outcome::Queued(_)
            | Outcome::Written { .. }
            | Outcome::WrittenBefore { .. }
            | Outcome::Broken { .. }
            | Outcome::Judged { .. }
            | Outcome::Admitted { .. }
            | Outcome::AccessTokenCreated { .. }) => unreachable!("a new join token was answered with {outcome:?}"),
        };
        if !repeated {
            let by = &command.by;
            tracing::info!(token = number.0, %role, replaces, up_to, by, "an administrator created a join token");
        }
        let view = self.view_of_token(number, command, (answer.revision, deadline)).await;
        let token = if repeated { None } else { Some(self.join_token(number, secret, replaces)?.to_string()) };
        Ok(At { value: NewJoinToken { view, token }, revision: answer.revision })
    }

    /// The facts of a token that was just created, with the leader's times. If it is gone again, or this node does not see
    /// it in time, they come from the request.
    async fn view_of_token(
        &self,
        number: JoinTokenNumber,
        command: CreateJoinToken,
        (revision, deadline): (Revision, RT::Instant),
    ) -> JoinTokenView {
        let seen = self.0.replica.wait_for_revision(revision, deadline).await.is_ok();
        let of_state = |state: &State| state.membership().token(number).map(|token| view_of(number, token));
        let view = if seen { self.0.replica.read(of_state) } else { None };
        view.unwrap_or(JoinTokenView {
            number,
            role: command.role,
            replaces: command.replaces,
            standing: command.standing,
            up_to: command.up_to,
            created_at: command.at,
            expires_at: command.expires_at,
            used_by: None,
            by: command.by,
        })
    }

    /// The token as a new node needs it: with the cluster's id, and addresses of members, the best ones first.
    fn join_token(&self, number: JoinTokenNumber, secret: JoinSecret, replaces: Option<NodeId>) -> Result<JoinToken, CallError> {
        let no_leader = || CallError::from(MembershipError::NoLeader);
        let status = self.0.replica.status();
        let cluster = status.cluster.ok_or_else(no_leader)?;
        let mut members = status.members;
        // The leader answers without another node. A member that is to be replaced is probably gone.
        members.sort_by_key(|member| (Some(member.id) != status.leader, Some(member.id) == replaces, !member.voter, member.id));
        let addresses = members.into_iter().map(|member| member.member.address).take(JoinToken::ADDRESSES_MAX).collect();
        Ok(JoinToken { cluster, number, addresses, secret })
    }

    /// The join tokens that are not over, by their numbers.
    pub async fn join_tokens(&self, read: ReadOptions) -> Result<At<Vec<JoinTokenView>>, CallError> {
        let now = wall_now();
        self.read(read, |state| {
            let tokens = state.membership().tokens().filter(|(_, token)| !token.is_expired(now));
            tokens.map(|(number, token)| view_of(number, token)).collect()
        })
        .await
    }

    /// Revokes a join token: no further node can join with it. A repeated call or an unknown number succeeds too.
    pub async fn revoke_join_token(&self, number: JoinTokenNumber, by: &str, timeout: Duration) -> Result<Revision, CallError> {
        let deadline = RT::Instant::now() + timeout;
        self.check_membership_version(deadline).await?;
        let answer = self.propose_until(Command::RevokeJoinToken { number, at: wall_now() }, deadline).await?;
        answer.result?;
        tracing::info!(token = number.0, revision = answer.revision.0, by, "an administrator revoked a join token");
        Ok(answer.revision)
    }

    /// The members and the changes under way, as the leader knows them. If the leader does not answer within the
    /// timeout, as this node knows them.
    pub async fn members(&self, timeout: Duration) -> MembersView {
        self.0.replica.members_view(RT::Instant::now() + timeout).await
    }

    /// Changes a member, from any node. With a key, it happens once; a removal is safe to repeat without one.
    pub async fn change_member(&self, key: Option<GrantId>, request: MemberRequest, timeout: Duration) -> Result<(), CallError> {
        let request = with_key(request, key)?;
        let removes_this_node = matches!(&request, MemberRequest::Remove { node, .. } if *node == self.0.replica.id());
        let deadline = RT::Instant::now() + timeout;
        self.change_member_decided(request, deadline).await?;
        if removes_this_node {
            // It is no member any more, and reads nothing.
            return Ok(());
        }
        // The answer must not name an older revision than that of the change.
        self.0.replica.read_barrier(deadline).await.map_err(|_| MembershipError::NoLeader)?;
        Ok(())
    }

    /// Refuses if the cluster's version is too low for changes of members, after a read that everyone has seen.
    pub(crate) async fn check_membership_version(&self, deadline: RT::Instant) -> Result<(), CallError> {
        self.0.replica.read_barrier(deadline).await?;
        Ok(self.0.replica.check_membership_version()?)
    }

    /// The role of a node that replaces a member: the member's own, so that the number of voters stays the same. Refuses
    /// another `role`, and a member that is joining, or is about to be removed or replaced.
    fn role_in_place_of(&self, node: NodeId, role: Option<MemberRole>) -> Result<MemberRole, MembershipError> {
        let members = self.0.replica.status().members;
        let Some(member) = members.iter().find(|member| member.id == node) else {
            return Err(MembershipError::NotMember { node, members: members.iter().map(|member| member.id).collect() });
        };
        let change = self.0.replica.read(|state| {
            let membership = state.membership();
            let replaced = membership.replacement_of(node).map(|(by, _)| format!("node {by} replaces node {node}"));
            let joins = || membership.join(node).map(|_| format!("node {node} is joining"));
            replaced.or_else(joins).or_else(|| membership.removal(node).map(|_| format!("node {node} is being removed")))
        });
        if let Some(what) = change {
            return Err(MembershipError::ChangeInProgress { what });
        }
        let own = if member.voter { MemberRole::Voter } else { MemberRole::Learner };
        match role {
            Some(role) if role != own => Err(MembershipError::BadRequest(format!(
                "node {node} is a {own}, so the node that replaces it cannot be a {role}: leave the role out"
            ))),
            Some(_) | None => Ok(own),
        }
    }
}

/// The same request with the caller's key. The administrator's client is no part of what the key stands for.
fn with_key(request: MemberRequest, key: Option<GrantId>) -> Result<MemberRequest, CallError> {
    Ok(match request {
        MemberRequest::Remove { node, by } => MemberRequest::Remove { node, by },
        MemberRequest::Promote { node, by, .. } => MemberRequest::Promote { node, key: write_key(key, &("promote", node))?, by },
        MemberRequest::Demote { node, by, .. } => MemberRequest::Demote { node, key: write_key(key, &("demote", node))?, by },
        MemberRequest::Set { node, key: _, url, peer, force, priority, zone, by } => {
            let key = write_key(key, &("member", node, &url, &peer, force, priority, &zone))?;
            MemberRequest::Set { node, key, url, peer, force, priority, zone, by }
        }
    })
}

/// Whether the state has a token that was created with this key.
fn has_token(state: &State, key: GrantId) -> bool {
    state.membership().tokens().any(|(_, token)| token.key.is_some_and(|used| used.key == key))
}

fn view_of(number: JoinTokenNumber, token: &membership::JoinToken) -> JoinTokenView {
    JoinTokenView {
        number,
        role: token.role,
        replaces: token.replaces,
        standing: token.standing,
        up_to: token.up_to,
        created_at: token.created_at,
        expires_at: token.expires_at,
        used_by: token.used_by.map(|(node, _)| node),
        by: token.by.clone(),
    }
}
