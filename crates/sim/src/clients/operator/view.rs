//! What the operator sees, and how it waits.

use crate::{
    client::{ClientReply, ClientRequest, SimClient},
    facts::Fact,
};
use fairhold_types::NodeId;
use http::Method;
use rand::RngExt;
use serde_json::Value;

/// An operator shrinks a cluster of this many voters.
pub(super) const VOTERS_MAX: usize = 5;
/// With fewer voters, no disk is destroyed.
pub(super) const SPARE_VOTERS: usize = 3;
/// How often the operator tries one thing. A leader may be missing until all faults have healed.
pub(super) const TRIES: u32 = 400;
/// The pause between two looks.
const LOOK_MS: u64 = 600;

/// The members, as the leader knows them.
pub(super) struct MembersSeen {
    pub(super) voters: Vec<NodeId>,
    pub(super) learners: Vec<NodeId>,
    pub(super) leader: Option<NodeId>,
    pub(super) joins: Vec<NodeId>,
    pub(super) removed: Vec<NodeId>,
    /// Whether a change is in progress.
    is_busy: bool,
}

impl MembersSeen {
    pub(super) fn is_member(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.learners.contains(&node)
    }

    /// A member whose machine never runs again.
    pub(super) fn members_off_for_ever(&self, client: &SimClient) -> Option<NodeId> {
        self.voters.iter().chain(&self.learners).copied().find(|node| client.world.is_retired(*node))
    }
}

/// Asks any node for the members as the leader knows them.
pub(super) async fn look(client: &mut SimClient) -> Option<MembersSeen> {
    // The leader answers from its own state: no barrier precedes this read.
    let reply = client.call_once(&ClientRequest::new(Method::GET, "/v1/cluster/members").local()).await?;
    if reply.json["from_leader"] != true {
        return None;
    }
    let ids = |rows: &Value, is_wanted: &dyn Fn(&str) -> bool| -> Vec<NodeId> {
        let rows = rows.as_array().into_iter().flatten();
        rows.filter(|row| is_wanted(row["role"].as_str().unwrap_or_default())).filter_map(|row| row["id"].as_u64()).collect()
    };
    let members = &reply.json["members"];
    let joins = ids(&reply.json["joins"], &|_| true);
    let removing = members.as_array().into_iter().flatten().any(|row| row["removal"].is_string());
    Some(MembersSeen {
        voters: ids(members, &|role| role != "learner"),
        learners: ids(members, &|role| role == "learner"),
        leader: ids(members, &|role| role == "leader").first().copied(),
        is_busy: removing || !joins.is_empty() || reply.json["joint"] == true,
        joins,
        removed: ids(&reply.json["removed"], &|_| true),
    })
}

/// Waits until no change is in progress, and returns the members.
pub(super) async fn settled(client: &mut SimClient) -> Option<MembersSeen> {
    until(client, |seen| !seen.is_busy && !seen.voters.is_empty()).await
}

/// Waits until the members satisfy a condition.
pub(super) async fn until(client: &mut SimClient, holds: impl Fn(&MembersSeen) -> bool) -> Option<MembersSeen> {
    for _ in 0..TRIES {
        if let Some(seen) = look(client).await.filter(|seen| holds(seen)) {
            return Some(seen);
        }
        client.idle(LOOK_MS).await;
    }
    None
}

/// Calls any node once. No second copy arrives later: it could take away a voter when nobody expects it.
pub(super) async fn call(client: &mut SimClient, request: &ClientRequest) -> Option<ClientReply> {
    let ids = client.world.ids();
    let to = ids[client.rng.random_range(0..ids.len())];
    client.call_once_at(to, request).await
}

/// Announces that the operator wants a member to leave.
pub(super) fn ask_to_leave(client: &SimClient, node: NodeId) {
    client.world.oracle.observe(&Fact::AskedToLeave { node });
}
