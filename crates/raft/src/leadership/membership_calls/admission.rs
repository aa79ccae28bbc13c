//! Whether the leader admits a node that joins, and which member it replaces.

use crate::{
    base::{
        peer::{JoinRefusal, JoinRequest, Joined},
        program::UnsupportedVersion,
        types::Member,
        wall_clock::wall_now,
    },
    core::{Core, Leadership, status::silent_for},
    leadership::{
        membership_calls::ready::{allows_membership, leading, turn},
        reconciler::{
            plan::View,
            view::{Answered, Sight, look},
        },
    },
    queues::Queues,
};
use fairhold_state::{
    command::{AdmitNode, Command, JoinTokenFault, Outcome, Rejection},
    membership::{JoinToken, Membership},
};
use fairhold_types::{
    ClusterId, MemberRole, NodeId,
    call::{NodeUrl, PeerAddress},
    failpoint,
    limits::{LEARNERS_MAX, VOTERS_MAX},
    time::WallMillis,
};
use openraft::AsyncRuntime;
use std::{collections::BTreeMap, time::Duration};

/// How long a member must be silent before a node with a standing join token and the same address replaces it.
const REPLACE_AFTER: Duration = Duration::from_secs(60);

/// What the leader knows when a node wants to join.
struct Admission<'a> {
    view: &'a View,
    /// The members, with the addresses that this node uses.
    nodes: BTreeMap<NodeId, Member>,
    membership: &'a Membership,
    /// How long each member has been silent, as far as this leader can know.
    silent: BTreeMap<NodeId, Duration>,
    at: WallMillis,
}

/// Admits a node if this node leads. A node that was admitted before gets the same answer.
pub(crate) async fn serve<RT: AsyncRuntime>(
    core: &Core<RT>,
    queues: &Queues,
    request: JoinRequest,
    deadline: RT::Instant,
) -> Result<Joined, JoinRefusal> {
    let leadership = leading(core, queues, deadline).await.ok_or(JoinRefusal::NoLeader)?;
    // The limits count what was admitted before, so the next decision waits until this one is applied.
    let turn = turn(core, deadline).await.map_err(|_| JoinRefusal::NoLeader)?;
    let admitted = serve_alone(core, queues, leadership, request, deadline).await;
    drop(turn);
    admitted
}

async fn serve_alone<RT: AsyncRuntime>(
    core: &Core<RT>,
    queues: &Queues,
    leadership: Leadership,
    request: JoinRequest,
    deadline: RT::Instant,
) -> Result<Joined, JoinRefusal> {
    let state = core.shared.read().clone();
    let version = state.cluster_version();
    let cluster = state.cluster().ok_or(JoinRefusal::NoLeader)?;
    if !allows_membership(version) {
        return Err(JoinRefusal::NeedsUpgrade { version });
    }
    if !request.supports.includes(version) {
        return Err(UnsupportedVersion { version, supports: request.supports }.into());
    }
    let request = with_plain_addresses(request)?;
    let membership = state.membership();
    let sight = look(core, membership, false, Answered::Lately, |_, is_close| is_close);
    let admission = Admission {
        view: &sight.view,
        nodes: sight.nodes.iter().map(|(id, member)| (*id, core.addresses.of(*id, member))).collect(),
        membership,
        silent: silent(core, leadership, &sight),
        at: wall_now(),
    };
    // Only a node with the secret learns anything, not even which data directories are known.
    let token = admission.token(&request)?;
    if let Some((id, _)) = admission.nodes.iter().find(|(_, member)| member.incarnation == request.incarnation) {
        let voter = sight.view.voters.contains(id) || membership.join(*id).is_some_and(|join| join.role == MemberRole::Voter);
        let role = if voter { MemberRole::Voter } else { MemberRole::Learner };
        return Ok(admission.joined(cluster, *id, role));
    }
    let replaces = admission.replaces(token, &request)?;
    if failpoint!(RaftJoinAdmit, RT).is_err() {
        return Err(JoinRefusal::NoLeader);
    }
    let command = Command::AdmitNode(AdmitNode {
        token: request.token,
        secret_hash: request.secret.hash(),
        incarnation: request.incarnation,
        url: request.url,
        address: request.address,
        replaces,
        ids_through: sight.ids_through(),
        at: admission.at,
    });
    let (id, role) = admit::<RT>(queues, command, deadline).await?;
    core.reconcile.notify_one();
    tracing::info!(node = id, %role, ?replaces, "node {id} was admitted with join token {}", request.token);
    Ok(admission.joined(cluster, id, role))
}

/// Checks the addresses of a node, and brings them into their one form.
fn with_plain_addresses(request: JoinRequest) -> Result<JoinRequest, JoinRefusal> {
    let url = request.url.parse::<NodeUrl>().map_err(|error| bad_address(&request.url, &error))?.into_string();
    let address = request.address.parse::<PeerAddress>().map_err(|error| bad_address(&request.address, &error))?.into_string();
    Ok(JoinRequest { url, address, ..request })
}

/// Whether a node that wants to join has one of these addresses.
fn is_at(request: &JoinRequest, url: &str, address: &str) -> bool {
    is_same_address(&request.url, url) || is_same_address(&request.address, address)
}

/// The letters of a host name have no case.
fn is_same_address(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

fn bad_address(text: &str, error: &dyn std::error::Error) -> JoinRefusal {
    JoinRefusal::BadRequest(format!("the address {text:?} of the new node is not usable: {error}"))
}

async fn admit<RT: AsyncRuntime>(
    queues: &Queues,
    command: Command,
    deadline: RT::Instant,
) -> Result<(NodeId, MemberRole), JoinRefusal> {
    // If its outcome is unknown, the node tries again and gets the same id.
    let submitted = queues.proposals.submit(command, true).map_err(|_| JoinRefusal::NoLeader)?;
    let answer = submitted.outcome::<RT>(deadline).await.map_err(|_| JoinRefusal::NoLeader)?;
    match answer.result {
        Ok(Outcome::Admitted { node, role, .. }) => Ok((node, role)),
        Ok(other) => Err(JoinRefusal::BadRequest(format!("the cluster gave no id, but {other:?}"))),
        Err(Rejection::JoinToken(fault)) => Err(fault.into()),
        Err(Rejection::JoinsFull { max }) => Err(JoinRefusal::TooManyJoins { max }),
        Err(rejection) => Err(JoinRefusal::BadRequest(rejection.to_string())),
    }
}

/// How long each member has been silent. A new leader has heard nothing from a silent member, so its own time counts.
fn silent<RT: AsyncRuntime>(core: &Core<RT>, leadership: Leadership, sight: &Sight) -> BTreeMap<NodeId, Duration> {
    let led_for = core.links.round_trips.led_for(leadership.0);
    let of = |metrics: &_, id: NodeId| {
        if id == core.id { Duration::ZERO } else { silent_for::<RT>(metrics, id).unwrap_or(led_for) }
    };
    core.with_metrics(|metrics| sight.nodes.keys().map(|id| (*id, of(metrics, *id))).collect())
}

impl Admission<'_> {
    fn joined(&self, cluster: ClusterId, id: NodeId, role: MemberRole) -> Joined {
        let member = |(id, member): (&NodeId, &Member)| (*id, member.url.clone(), member.address.clone());
        Joined { id, cluster, role, members: self.nodes.iter().map(member).collect(), timing: self.membership.timing() }
    }

    /// The token that a new node shows. A used or expired one is remembered for a while, so that a node whose answer
    /// was lost can ask again. Once it is forgotten, it is unknown also for a member: its data directory has its id, so
    /// it needs no answer any more.
    fn token(&self, request: &JoinRequest) -> Result<&JoinToken, JoinRefusal> {
        let token = self.membership.token(request.token).filter(|token| token.secret_hash == request.secret.hash());
        token.ok_or(JoinRefusal::Token(JoinTokenFault::Unknown))
    }

    /// The member that a new node replaces, if any.
    fn replaces(&self, token: &JoinToken, request: &JoinRequest) -> Result<Option<NodeId>, JoinRefusal> {
        // It was admitted before, and gets the same answer.
        if let Some((_, join)) = self.membership.join_of(request.incarnation) {
            return Ok(join.replaces);
        }
        match token.used_by {
            Some((_, incarnation)) if incarnation == request.incarnation => return Ok(token.replaces),
            Some((node, _)) => return Err(JoinTokenFault::Used { node }.into()),
            None if token.is_expired(self.at) => return Err(JoinTokenFault::Expired.into()),
            None => {}
        }
        let replaces = if token.standing { self.replaced_by_standing(token, request)? } else { self.replaced_by_token(token)? };
        if let Some(old) = replaces {
            self.check_role(token.role, old)?;
        }
        self.check_addresses(request, replaces)?;
        self.check_room(token.role, replaces)?;
        Ok(replaces)
    }

    fn replaced_by_token(&self, token: &JoinToken) -> Result<Option<NodeId>, JoinRefusal> {
        match token.replaces {
            Some(old) if !self.view.is_member(old) => Err(JoinTokenFault::NoReplacement.into()),
            replaces => Ok(replaces),
        }
    }

    /// A standing token replaces the member with the same address: also one that lost its data directory before its join
    /// was over. Otherwise it may add voters up to a number.
    fn replaced_by_standing(&self, token: &JoinToken, request: &JoinRequest) -> Result<Option<NodeId>, JoinRefusal> {
        let same = self.nodes.iter().find(|(_, member)| is_at(request, &member.url, &member.address));
        match same {
            Some((old, _)) => {
                self.check_replaceable(*old, request)?;
                Ok(Some(*old))
            }
            None if token.up_to.is_some_and(|up_to| self.view.voters_to_be() < usize::from(up_to)) => Ok(None),
            None => Err(JoinTokenFault::NoReplacement.into()),
        }
    }

    /// Whether a standing token may replace this member, by the node with this request.
    fn check_replaceable(&self, node: NodeId, request: &JoinRequest) -> Result<(), JoinRefusal> {
        let unreplaceable = |why: String| Err(JoinRefusal::Unreplaceable { node, why });
        let silent = self.silent.get(&node).copied().unwrap_or_default();
        if silent <= REPLACE_AFTER {
            let seconds = REPLACE_AFTER.as_secs();
            return unreplaceable(format!("it has not been silent for {seconds} seconds"));
        }
        if let Some((new, join)) = self.membership.joins().find(|(_, join)| join.replaces.is_some()) {
            let old = join.replaces.unwrap_or_default();
            // If this machine was node `new`, it continues only with the data directory of that node.
            let way_out = if is_at(request, &join.url, &join.address) {
                format!(": if node {new} has lost its data directory, give up its join with `fairhold cluster remove {new}`")
            } else {
                String::new()
            };
            return unreplaceable(format!("node {new} is replacing node {old}{way_out}"));
        }
        let mut others = self.view.voters.iter().filter(|voter| **voter != node);
        match others.find(|voter| !self.view.seen(**voter).healthy) {
            Some(voter) => unreplaceable(format!("node {voter} does not answer the leader either")),
            None => Ok(()),
        }
    }

    /// A node takes the role of the member that it replaces, so that the number of voters stays the same. That role may have
    /// changed since the token was created. A node that joins has the role that it will get.
    fn check_role(&self, role: MemberRole, old: NodeId) -> Result<(), JoinRefusal> {
        let of_member = || if self.view.voters.contains(&old) { MemberRole::Voter } else { MemberRole::Learner };
        let own = self.membership.join(old).map_or_else(of_member, |join| join.role);
        if role == own {
            return Ok(());
        }
        let why = format!(
            "it is a {own}, and the join token is for a {role}: create another one with `fairhold cluster replace {old}`, or \
             change the role of node {old}"
        );
        Err(JoinRefusal::Unreplaceable { node: old, why })
    }

    fn check_addresses(&self, request: &JoinRequest, replaces: Option<NodeId>) -> Result<(), JoinRefusal> {
        let members = self.nodes.iter().map(|(id, member)| (*id, member.url.as_str(), member.address.as_str()));
        let joins = self.membership.joins().map(|(id, join)| (id, join.url.as_str(), join.address.as_str()));
        for (node, url, address) in members.chain(joins).filter(|(node, ..)| Some(*node) != replaces) {
            let used = [(url, &request.url), (address, &request.address)]
                .into_iter()
                .find(|(theirs, ours)| is_same_address(theirs, ours));
            if let Some((_, address)) = used {
                return Err(JoinRefusal::AddressInUse { address: address.clone(), node });
            }
        }
        Ok(())
    }

    fn check_room(&self, role: MemberRole, replaces: Option<NodeId>) -> Result<(), JoinRefusal> {
        let (now, replaced, max) = match role {
            MemberRole::Voter => (self.view.voters_to_be(), &self.view.voters, VOTERS_MAX),
            MemberRole::Learner => (self.view.learners_to_be(), &self.view.learners, LEARNERS_MAX),
        };
        let joins_as_one = |old| self.membership.join(old).is_some_and(|join| join.role == role);
        let is_exchange = replaces.is_some_and(|old| replaced.contains(&old) || joins_as_one(old));
        if is_exchange || now < usize::from(max) { Ok(()) } else { Err(JoinRefusal::TooManyMembers { max: u64::from(max) }) }
    }
}

#[cfg(test)]
mod tests;
