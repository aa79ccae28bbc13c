//! The list of the members, of the joins and of the removed nodes, as this node knows them.

use crate::{
    base::membership::{JoinPhase, JoinRow, MemberRow, MembersView, RemovedRow},
    core::{
        Core,
        status::{MemberStatus, ReplicaStatus},
    },
    leadership::reconciler::{
        plan::{self, View},
        view::{Answered, look},
    },
};
use fairhold_state::membership::{Join, Membership};
use fairhold_types::{NodeId, duration};
use openraft::AsyncRuntime;

/// The members as this node knows them. Only the leader knows how far they are. `from_leader` is `false`.
pub(crate) fn own_view<RT: AsyncRuntime>(core: &Core<RT>) -> MembersView {
    let state = core.shared.read().clone();
    let membership = state.membership();
    let leads = core.leadership().is_some();
    let sight = look(core, membership, false, Answered::Lately, |_, is_close| is_close);
    let status = core.status();
    let is_joint = core.with_metrics(|metrics| metrics.membership_config.membership().get_joint_config().len() > 1);
    let view = leads.then_some(&sight.view);
    let mut removed: Vec<RemovedRow> = membership
        .removed()
        .map(|(id, removed)| RemovedRow { id, revision: removed.revision, by: removed.by.clone(), at: removed.at })
        .collect();
    removed.sort_unstable_by_key(|row| std::cmp::Reverse((row.revision, row.id)));
    MembersView {
        members: status.members.iter().map(|member| member_row(&status, member, membership, view)).collect(),
        joins: membership.joins().map(|(id, join)| join_row(&status, (id, join), &sight.view, view)).collect(),
        removed,
        is_joint,
        from_leader: false,
    }
}

fn member_row(status: &ReplicaStatus, member: &MemberStatus, membership: &Membership, leads: Option<&View>) -> MemberRow {
    let id = member.id;
    let placement = membership.placement(id);
    let removal = membership.removal(id).map(|_| match leads.map(|view| plan::removal(view, id)) {
        Some(Err(why)) => format!("waits: {why}"),
        Some(Ok(_)) => "in progress".to_owned(),
        None => "requested".to_owned(),
    });
    MemberRow {
        id,
        url: member.member.url.clone(),
        peer: member.member.address.clone(),
        voter: member.voter,
        leader: status.leader == Some(id),
        priority: placement.priority,
        zone: placement.zone,
        lag: member.lag,
        silent_ms: member.silent.map(duration::millis),
        removal,
    }
}

fn join_row(status: &ReplicaStatus, (id, join): (NodeId, &Join), view: &View, leads: Option<&View>) -> JoinRow {
    let seen = view.seen(id);
    let phase = if !view.is_member(id) {
        JoinPhase::Pending
    } else if view.voters.contains(&id) || seen.is_close() {
        JoinPhase::Promoting
    } else {
        JoinPhase::CatchingUp
    };
    // Its addresses may have been changed since it was admitted.
    let member = status.members.iter().find(|member| member.id == id).map(|status| &status.member);
    let (url, peer) = member.map_or((&join.url, &join.address), |member| (&member.url, &member.address));
    JoinRow {
        id,
        url: url.clone(),
        peer: peer.clone(),
        role: join.role,
        replaces: join.replaces,
        phase,
        lag: seen.lag,
        waits_for: leads.and_then(|view| plan::join(view, id, *view.joins.get(&id)?).err()),
        requested_at: join.requested_at,
    }
}
