//! The settings and the addresses of a member.

use crate::{
    base::{
        membership::MembershipError,
        peer::{PeerError, Refusal, Target},
        types::Member,
    },
    leadership::{
        membership_calls::{
            changes::require_health,
            member_request::{Request, require_member},
        },
        reconciler::view::Sight,
    },
};
use fairhold_state::command::{Command, NotedAct, SetMember};
use fairhold_types::{
    NodeId,
    call::{NodeUrl, PeerAddress},
};
use openraft::{AsyncRuntime, ChangeMembers, Instant};
use std::{collections::BTreeMap, time::Duration};

/// Time limit for the greeting at a new address, with the timing profile of one data centre.
const GREETING_LIMIT: Duration = Duration::from_secs(2);
/// Pause between two greetings.
const GREETING_PAUSE: Duration = Duration::from_millis(200);

impl<RT: AsyncRuntime> Request<'_, RT> {
    pub(super) async fn set(
        &self,
        settings: SetMember,
        url: Option<String>,
        peer: Option<String>,
        force: bool,
    ) -> Result<(), MembershipError> {
        let SetMember { key, node, .. } = settings;
        let has_more = settings.priority.is_some() || settings.zone.is_some();
        let url = url.map(|url| url.parse().map(NodeUrl::into_string).map_err(bad_address(&url))).transpose()?;
        let peer = peer.map(|peer| peer.parse().map(PeerAddress::into_string).map_err(bad_address(&peer))).transpose()?;
        let command = Command::SetMember(settings);
        command.validate().map_err(|rejection| MembershipError::BadRequest(rejection.to_string()))?;
        if self.was_done(key)? {
            return Ok(());
        }
        let sight = self.sight();
        let member = require_member(&sight, node)?;
        if url.is_some() || peer.is_some() {
            self.check_unused(&sight, node, url.as_deref(), peer.as_deref())?;
            let answers = match &peer {
                Some(peer) => self.answers_at(node, member, peer, force).await?,
                None => true,
            };
            let changed = self.change_members(node, |sight| {
                let known = require_member(sight, node)?;
                if !answers {
                    require_health(sight.view.health_without(node))?;
                }
                let mut member = known.clone();
                member.url = url.clone().unwrap_or(member.url);
                member.address = peer.clone().unwrap_or(member.address);
                Ok((member != *known).then(|| ChangeMembers::SetNodes(BTreeMap::from([(node, member)]))))
            });
            let changed = changed.await;
            let is_changed = changed.is_ok();
            self.noted(key, NotedAct::SetAddress { node, url: url.clone(), peer: peer.clone() }, changed)
                .await
                .map_err(|error| if is_changed { unfinished(node) } else { error })?;
            tracing::info!(node, ?url, ?peer, "node {node} has another address");
            // "Nothing happened" would be wrong now.
            let done = if has_more { self.propose(command).await } else { self.propose_bare(command).await };
            if matches!(done, Err(MembershipError::AccessChanged { .. })) {
                return Err(unfinished(node));
            }
            return done;
        }
        self.propose(command).await
    }

    /// Fails if another member, or a node that joins, has one of these addresses.
    fn check_unused(&self, sight: &Sight, node: NodeId, url: Option<&str>, peer: Option<&str>) -> Result<(), MembershipError> {
        let state = self.core.shared.read().clone();
        let joins = state.membership().joins().map(|(id, join)| (id, join.url.clone(), join.address.clone()));
        let members = sight.nodes.iter().map(|(id, member)| {
            let Member { url, address, .. } = self.core.addresses.of(*id, member);
            (*id, url, address)
        });
        for (other, other_url, other_peer) in members.chain(joins).filter(|(other, ..)| *other != node) {
            let pairs = [(url, other_url), (peer, other_peer)];
            if let Some((_, address)) = pairs.into_iter().find(|(ours, theirs)| *ours == Some(theirs.as_str())) {
                return Err(MembershipError::AddressInUse { address, node: other });
            }
        }
        Ok(())
    }

    /// Greets a member at its new address, until it answers or the deadline is near: it may be starting. No other
    /// node may answer there. `false` only with `force`, if nobody answers.
    async fn answers_at(&self, node: NodeId, member: &Member, peer: &str, force: bool) -> Result<bool, MembershipError> {
        let target = Target { id: node, address: peer.to_owned(), incarnation: Some(member.incarnation) };
        let limit = GREETING_LIMIT * self.core.time_scale;
        loop {
            let found = match RT::timeout(limit, self.core.links.peer.greet(&target)).await {
                Ok(Ok(found)) if (found.id, found.incarnation) == (node, member.incarnation) => return Ok(true),
                Ok(Ok(introduction)) => Some(introduction.id),
                Ok(Err(PeerError::Refused(refusal))) => found_by(&refusal),
                Ok(Err(PeerError::Unreachable(_) | PeerError::Lost(_))) | Err(_) if force => return Ok(false),
                Ok(Err(PeerError::Unreachable(_) | PeerError::Lost(_))) | Err(_) => {
                    if RT::Instant::now() + GREETING_PAUSE + limit >= self.deadline {
                        return Err(MembershipError::NotAnswering { address: peer.to_owned() });
                    }
                    RT::sleep(GREETING_PAUSE).await;
                    continue;
                }
            };
            return Err(MembershipError::WrongNode { address: peer.to_owned(), found });
        }
    }
}

/// The address was changed, but not all of it is recorded.
fn unfinished(node: NodeId) -> MembershipError {
    MembershipError::Unfinished { what: format!("the change of node {node}") }
}

fn bad_address<E: std::fmt::Display>(text: &str) -> impl FnOnce(E) -> MembershipError {
    let text = text.to_owned();
    move |error| MembershipError::BadRequest(format!("the address {text:?} is not usable: {error}"))
}

/// The node that answered a greeting with a refusal, if the refusal tells.
fn found_by(refusal: &Refusal) -> Option<NodeId> {
    match refusal {
        Refusal::Identity { found, .. } => Some(*found),
        Refusal::Incarnation { id, .. }
        | Refusal::NotAMember { id }
        | Refusal::Removed { id, .. }
        | Refusal::Duplicate { id } => Some(*id),
        Refusal::LostEntries(lost) => Some(lost.node),
        Refusal::Version { .. } | Refusal::Cluster { .. } | Refusal::Starting | Refusal::Key(_) => None,
    }
}
