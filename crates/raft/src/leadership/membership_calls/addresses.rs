//! The settings and the addresses of a member.

use crate::{
    background::set_addresses,
    base::{
        membership::MembershipError,
        peer::{PeerError, Refusal, Target},
        types::Member,
    },
    core::status::silent_for,
    leadership::{
        membership_calls::{
            changes::require_health,
            member_request::{Request, departure, in_progress, require_member},
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
        if url.is_none() && peer.is_none() {
            return self.propose(command).await;
        }
        self.check_unused(&sight, node, url.as_deref(), peer.as_deref())?;
        let known_process = self.may_move(&sight, node, member, peer.as_deref(), force).await?;
        // A node that joins may change its address: with a wrong one, its join could never complete.
        let changed = self.change_members(node, departure, |sight| {
            let known = require_member(sight, node)?;
            if !known_process {
                require_health(sight.view.health_without(node))?;
            }
            let present = self.present(node, known);
            let member = Member {
                url: url.clone().unwrap_or(present.url),
                address: peer.clone().unwrap_or(present.address),
                incarnation: known.incarnation,
            };
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
        // The list of members shows the new address at once.
        set_addresses::look(self.core);
        if matches!(done, Err(MembershipError::AccessChanged { .. })) {
            return Err(unfinished(node));
        }
        done
    }

    /// A member with the addresses that count now. This node may not have noticed yet that the cluster has set them.
    fn present(&self, node: NodeId, member: &Member) -> Member {
        let is_set = self.core.shared.read().membership().has_set_address(node);
        if is_set { member.clone() } else { self.core.addresses.of(node, member) }
    }

    /// Checks whether a member may have this address for peers; by default, its present one. Returns whether the leader
    /// will reach the same process there as now.
    async fn may_move(
        &self,
        sight: &Sight,
        node: NodeId,
        member: &Member,
        peer: Option<&str>,
        force: bool,
    ) -> Result<bool, MembershipError> {
        let present = self.present(node, member);
        let peer = peer.unwrap_or(&present.address);
        // From now on, the address in the membership counts on every node. Some may have another one in their
        // configuration.
        if peer == present.address && peer == member.address {
            return Ok(true);
        }
        if let Some(other) = departure(sight, node) {
            return Err(in_progress(other));
        }
        // A leader that greets itself does not learn whether the others reach it. So another node leads and greets it.
        // A leader that is the only voter greets itself: no other node can lead.
        if node == self.core.id && sight.view.voters.iter().any(|voter| *voter != node) {
            let sight = self.sight_of_the_answering(node).await;
            return Err(self.hand_over(&sight, "its own address for peers changes").await);
        }
        self.reaches_known_process(node, &present, peer, force).await
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
            // The letters of a host name have no case.
            let is_same = |ours: Option<&str>, theirs: &str| ours.is_some_and(|ours| ours.eq_ignore_ascii_case(theirs));
            if let Some((_, address)) = pairs.into_iter().find(|(ours, theirs)| is_same(*ours, theirs)) {
                return Err(MembershipError::AddressInUse { address, node: other });
            }
        }
        Ok(())
    }

    /// Greets a member at its new address, until it answers or the deadline is near: it may be starting. No other node
    /// may answer there, and no copy of the member while the member itself answers at its present address. With
    /// `force`, the new address may be silent. Returns whether the process at the new address is the one that this leader
    /// reaches now. Otherwise the change may lose the member, because a copy may have answered.
    async fn reaches_known_process(
        &self,
        node: NodeId,
        present: &Member,
        peer: &str,
        force: bool,
    ) -> Result<bool, MembershipError> {
        let limit = GREETING_LIMIT * self.core.time_scale;
        loop {
            let refused = match self.greet(node, present, peer).await {
                Greeted::Other(found) => return Err(MembershipError::WrongNode { address: peer.to_owned(), found }),
                Greeted::Nobody if force => return Ok(false),
                Greeted::Nobody => MembershipError::NotAnswering { address: peer.to_owned() },
                Greeted::Member { boot } if boot != 0 && self.core.processes.of(node) == Some(boot) => return Ok(true),
                Greeted::Member { boot } => {
                    let address = peer.to_owned();
                    let two = MembershipError::TwoProcesses { node, address, present: present.address.clone() };
                    match self.greet(node, present, &present.address).await {
                        Greeted::Member { boot: other } if other != boot => return Err(two),
                        // The process before may have answered until a moment ago.
                        Greeted::Member { .. } | Greeted::Other(_) | Greeted::Nobody if self.answered_lately(node) => two,
                        Greeted::Member { .. } | Greeted::Other(_) | Greeted::Nobody => return Ok(false),
                    }
                }
            };
            if RT::Instant::now() + GREETING_PAUSE + limit >= self.deadline {
                return Err(refused);
            }
            RT::sleep(GREETING_PAUSE).await;
        }
    }

    /// Greets a member at an address, once.
    async fn greet(&self, node: NodeId, member: &Member, address: &str) -> Greeted {
        let target = Target { id: node, address: address.to_owned(), incarnation: Some(member.incarnation) };
        let until = (RT::Instant::now() + GREETING_LIMIT * self.core.time_scale).min(self.deadline);
        match RT::timeout_at(until, self.core.links.peer.greet(&target)).await {
            Ok(Ok(found)) if (found.id, found.incarnation) == (node, member.incarnation) => Greeted::Member { boot: found.boot },
            Ok(Ok(introduction)) => another(node, Some(introduction.id)),
            Ok(Err(PeerError::Refused(refusal))) => another(node, found_by(&refusal)),
            Ok(Err(PeerError::Unreachable(_) | PeerError::Lost(_))) | Err(_) => Greeted::Nobody,
        }
    }

    /// Whether a member has answered this leader within the last lease.
    fn answered_lately(&self, node: NodeId) -> bool {
        let silent = self.core.with_metrics(|metrics| silent_for(metrics, node));
        silent.is_some_and(|silent| silent <= self.core.lease)
    }
}

/// The node that answers a greeting.
enum Greeted {
    /// The member, by the process with this boot number.
    Member {
        boot: u64,
    },
    /// Another node, if it is known. One with the number of the member has another data directory, or is of another
    /// cluster: to name it would tell nothing.
    Other(Option<NodeId>),
    Nobody,
}

/// Not the member with this number, although it may have the same.
fn another(node: NodeId, found: Option<NodeId>) -> Greeted {
    Greeted::Other(found.filter(|found| *found != node))
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
