//! The members of the cluster, join tokens and settings: what administrators change while the cluster runs.

use crate::{
    error::Error,
    views::cluster::{Cluster, get},
    wire::{
        call::Call,
        reply::{Reply, leader_of},
    },
};
use fairhold_types::{
    JoinTokenNumber, NodeId, Timing,
    call::{CreateJoinToken, SetMember},
    dto,
};
use reqwest::Method;
use serde::Serialize;
use serde_json::json;

/// How often the client creates another join token, if the answer that had the token was lost.
const TOKENS_LOST_MAX: usize = 3;
/// Where the round trips are.
const TIMING: &str = "/v1/cluster/timing";

impl Cluster {
    /// For administrators: creates a join token, with which a new node joins the cluster. The token is a secret.
    ///
    /// The server shows a token only once. If that answer is lost, the client revokes the token and creates another
    /// one.
    ///
    /// # Errors
    /// [`Error::Refused`] if the options exclude each other, if there is no member to replace (`not_found`) or it is
    /// being replaced (`change_in_progress`), if the role is not that of the member to replace (`bad_request`), if the
    /// cluster's version is too low (`needs_upgrade`), or if the [`auth_token`](crate::ClientBuilder::auth_token) is
    /// not the administrators'; [`Error::Busy`] if there are too many join tokens; [`Error::OutcomeUnknown`] if no
    /// answer came within the client's timeout.
    pub async fn create_join_token(&self, token: &CreateJoinToken) -> Result<dto::CreatedJoinToken, Error> {
        let mut lost = 0;
        loop {
            let created: dto::CreatedJoinToken = self.change(Method::POST, "/v1/cluster/join-tokens", token).await?.json()?;
            if created.token.is_some() || lost == TOKENS_LOST_MAX {
                return Ok(created);
            }
            lost += 1;
            self.revoke_join_token(created.number).await?;
        }
    }

    /// Lists the join tokens, without their secrets.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no answer came within the client's timeout.
    pub async fn join_tokens(&self) -> Result<Vec<dto::JoinToken>, Error> {
        let tokens: dto::JoinTokens = self.client.send(&get("/v1/cluster/join-tokens")).await?.json()?;
        Ok(tokens.tokens)
    }

    /// For administrators: revokes a join token. If there is no such token, nothing changes.
    ///
    /// # Errors
    /// [`Error::Refused`] if the [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators';
    /// [`Error::OutcomeUnknown`] if no answer came within the client's timeout: then it is safe to repeat the call.
    pub async fn revoke_join_token(&self, number: JoinTokenNumber) -> Result<(), Error> {
        self.client.send(&Call::new(Method::DELETE, format!("/v1/cluster/join-tokens/{number}"))).await?.done()
    }

    /// Reads the members, the joins and removals under way, and the removed nodes, as the leader knows them. It also
    /// works without a quorum.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no server answered within the client's timeout.
    pub async fn members(&self) -> Result<dto::Members, Error> {
        self.client.send(&get("/v1/cluster/members")).await?.json()
    }

    /// For administrators: removes a member, or gives up a join. If it was removed before, nothing changes.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such member (`not_found`), if fewer than a majority of the other voters would
    /// be healthy (`would_lose_quorum`), if it is being replaced or all other voters are being removed
    /// (`change_in_progress`), or if the [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators'.
    /// [`Error::OutcomeUnknown`] or [`Error::Unavailable`] if no answer came within the client's timeout: then it is
    /// safe to repeat the call.
    pub async fn remove_member(&self, id: NodeId) -> Result<(), Error> {
        self.client.send(&Call::new(Method::DELETE, format!("/v1/cluster/members/{id}"))).await?.done()
    }

    /// For administrators: changes the addresses, the priority, the zone or the vote of a member. Fields of `None` stay
    /// as they are.
    ///
    /// ```no_run
    /// # use fairhold_client::types::call::{MemberPriority, SetMember};
    /// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
    /// let priority = MemberPriority::try_from(80).ok();
    /// client.cluster().set_member(2, &SetMember { priority, ..SetMember::default() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such member (`not_found`), if another node or a copy of it answers at its new
    /// address (`wrong_node`), if it is behind or does not answer (`not_caught_up`), if too few voters would be healthy
    /// (`would_lose_quorum`), if another change is under way (`change_in_progress`), or if the
    /// [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators'. [`Error::OutcomeUnknown`] if no
    /// answer came within the client's timeout.
    pub async fn set_member(&self, id: NodeId, change: &SetMember) -> Result<dto::Members, Error> {
        self.change(Method::PATCH, &format!("/v1/cluster/members/{id}"), change).await?.json()
    }

    /// Reads the settings of the cluster.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no answer came within the client's timeout.
    pub async fn settings(&self) -> Result<dto::Settings, Error> {
        self.client.send(&get("/v1/cluster/settings")).await?.json()
    }

    /// For administrators: sets the timing profile. Every node uses it after its next start.
    ///
    /// # Errors
    /// [`Error::Refused`] if the cluster's version is too low (`needs_upgrade`), if the round trips between the voters are
    /// too long for the profile (`timing_too_fast`), or if the
    /// [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators'; [`Error::OutcomeUnknown`] if no
    /// answer came within the client's timeout.
    pub async fn set_timing(&self, timing: Timing) -> Result<dto::Settings, Error> {
        self.change(Method::PATCH, "/v1/cluster/settings", &json!({ "timing": timing })).await?.json()
    }

    /// Reads the timing profile, the round trips between the leader and the members, and the profile that suits them.
    /// If the leader does not answer, the round trips are missing.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no server answered within the client's timeout.
    pub async fn timing(&self) -> Result<dto::ClusterTiming, Error> {
        let reply = self.client.send(&get(TIMING)).await?;
        let timing: dto::ClusterTiming = reply.json()?;
        match leader_of(&reply.headers) {
            Some(leader) if !timing.from_leader => Ok(self.of(leader, TIMING).await.unwrap_or(timing)),
            Some(_) | None => Ok(timing),
        }
    }

    /// Sends a change with a key of its own, so that it happens once.
    async fn change(&self, method: Method, path: &str, body: &impl Serialize) -> Result<Reply, Error> {
        let body = serde_json::to_value(body).map_err(|error| Error::Invalid(error.to_string()))?;
        self.client.send(&Call::new(method, path.to_owned()).key(self.client.inner().ids.make()).json(&body)).await
    }
}
