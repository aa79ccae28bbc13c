//! What an operator asks of the members, and what the leader tells about them.

use crate::base::error::list;
use fairhold_state::command::{AccessGuard, ActOrigin, WriteKey};
use fairhold_types::{ClusterVersion, MemberRole, NodeId, Revision, cluster_version::MEMBERSHIP_SINCE, time::WallMillis};
use serde::{Deserialize, Serialize};

/// A change of a member. Only `Set` without `url` and `peer` is a command of the state alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberRequest {
    /// Removes a member, or gives up a join. The cluster's intention to remove it stays until it is gone.
    Remove {
        /// The member, or the node that joins.
        node: NodeId,
        /// The administrator.
        by: String,
    },
    /// Makes a learner a voter.
    Promote {
        /// The learner.
        node: NodeId,
        /// With a key, the change happens at most once.
        key: Option<WriteKey>,
        /// The administrator.
        by: String,
    },
    /// Makes a voter a learner.
    Demote {
        /// The voter.
        node: NodeId,
        /// With a key, the change happens at most once.
        key: Option<WriteKey>,
        /// The administrator.
        by: String,
    },
    /// Changes the facts about a member.
    Set {
        /// The member.
        node: NodeId,
        /// With a key, the change happens at most once.
        key: Option<WriteKey>,
        /// Its new address for clients: `http://host:port`.
        url: Option<String>,
        /// Its new address for peers: `host:port`.
        peer: Option<String>,
        /// Set the address for peers although no node answers there.
        force: bool,
        /// Its new priority, 0 to 100.
        priority: Option<u8>,
        /// Its new zone; empty for none.
        zone: Option<String>,
        /// The administrator.
        by: String,
    },
}

/// A change of a member, with the decision about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberChange {
    /// The change.
    pub request: MemberRequest,
    /// By which access data it was decided. It is needed while rights are enforced.
    pub guard: Option<AccessGuard>,
    /// Where it comes from, for the audit.
    pub origin: Option<ActOrigin>,
}

impl MemberChange {
    /// The same change, for the audit.
    #[must_use]
    pub fn attributed(self, origin: Option<ActOrigin>) -> MemberChange {
        MemberChange { origin, ..self }
    }
}

impl MemberRequest {
    /// The change, decided by this access data.
    #[must_use]
    pub fn decided_by(self, guard: Option<AccessGuard>) -> MemberChange {
        MemberChange { request: self, guard, origin: None }
    }

    /// Whether it changes the address to which clients send their tokens.
    #[must_use]
    pub fn sets_url(&self) -> bool {
        matches!(self, MemberRequest::Set { url: Some(_), .. })
    }

    /// The member that it changes.
    #[must_use]
    pub fn node(&self) -> NodeId {
        match self {
            MemberRequest::Remove { node, .. }
            | MemberRequest::Promote { node, .. }
            | MemberRequest::Demote { node, .. }
            | MemberRequest::Set { node, .. } => *node,
        }
    }
}

/// The members, the nodes that are joining, and those that were removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersView {
    /// The members.
    pub members: Vec<MemberRow>,
    /// The joins that are not complete.
    pub joins: Vec<JoinRow>,
    /// The removed nodes, the last one first.
    pub removed: Vec<RemovedRow>,
    /// Whether the voters are changing: then a majority of the old ones and one of the new ones decide.
    pub is_joint: bool,
    /// Whether the leader answered, and a majority still followed it. Otherwise the answer is what one node knows, which
    /// may be old; `lag` and `silent_ms` are only there if that node takes itself for the leader.
    pub from_leader: bool,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRow {
    /// The member.
    pub id: NodeId,
    /// Its address for clients.
    pub url: String,
    /// Its address for peers.
    pub peer: String,
    /// Whether it votes.
    pub voter: bool,
    /// Whether it leads.
    pub leader: bool,
    /// Its priority: the leadership moves to the voter with the highest one.
    pub priority: u8,
    /// Its zone, a text for people.
    pub zone: Option<String>,
    /// How many entries it is behind the leader.
    pub lag: Option<u64>,
    /// Milliseconds since its last acknowledgement.
    pub silent_ms: Option<u64>,
    /// Why its removal is not complete yet; `None` if no removal was requested.
    pub removal: Option<String>,
}

/// A join that is not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRow {
    /// The id that the cluster gave the node.
    pub id: NodeId,
    /// Its address for clients.
    pub url: String,
    /// Its address for peers.
    pub peer: String,
    /// The role that it gets.
    pub role: MemberRole,
    /// The member that it replaces.
    pub replaces: Option<NodeId>,
    /// How far it is.
    pub phase: JoinPhase,
    /// How many entries it is behind the leader.
    pub lag: Option<u64>,
    /// Why it does not go on.
    pub waits_for: Option<String>,
    /// When the node was admitted.
    pub requested_at: WallMillis,
}

/// How far a join is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinPhase {
    /// The node has its id, and is no member yet.
    Pending,
    /// It is a learner, and receives the log.
    CatchingUp,
    /// It has caught up, and becomes a voter.
    Promoting,
}

/// A removed node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedRow {
    /// The node. Its id is never used again.
    pub id: NodeId,
    /// The revision at which it was removed.
    pub revision: Revision,
    /// The administrator, or the node that replaced it.
    pub by: String,
    /// When it was removed.
    pub at: WallMillis,
}

/// Why a member was not changed. Except for `Unfinished`, nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum MembershipError {
    /// The cluster's version is too old.
    #[error(
        "the cluster has version {version}, and members can only be changed from version {} on: if a node runs an older program, \
         restart it with the newest one, then finalize the upgrade",
        MEMBERSHIP_SINCE
    )]
    NeedsUpgrade {
        /// The cluster's version.
        version: ClusterVersion,
    },
    /// No such member.
    #[error("node {node} is not a member of the cluster: the members are {}", list(members))]
    NotMember {
        /// The requested node.
        node: NodeId,
        /// The members.
        members: Vec<NodeId>,
    },
    /// Too few of the remaining voters answer the leader.
    #[error("{}", would_lose_quorum_text(*voters, *healthy, *needed))]
    WouldLoseQuorum {
        /// The number of voters after the change.
        voters: u64,
        /// How many of them answer the leader.
        healthy: u64,
        /// How many must.
        needed: u64,
    },
    /// A cluster without voters can do nothing.
    #[error("node {node} is the last voter: let another node join first")]
    LastVoter {
        /// The requested node.
        node: NodeId,
    },
    /// Members change one at a time.
    #[error("another change of the members is in progress: {what}. Try again when it is complete")]
    ChangeInProgress {
        /// The other change.
        what: String,
    },
    /// Another node answers at the new address.
    #[error("{}", wrong_node_text(address, *found))]
    WrongNode {
        /// The new address.
        address: String,
        /// The node that answers there, if it is known. `None` also stands for a node with the member's own number, but
        /// another data directory or another cluster.
        found: Option<NodeId>,
    },
    /// No node answers at the new address.
    #[error("no node answers at {address}: start the node there first, or pass --force (by HTTP: force)")]
    NotAnswering {
        /// The new address.
        address: String,
    },
    /// The learner lacks log entries, or does not answer.
    #[error("{}", not_caught_up_text(*node, *lag))]
    NotCaughtUp {
        /// The learner.
        node: NodeId,
        /// How many entries it is behind; `None` if it does not answer.
        lag: Option<u64>,
    },
    /// The cluster has as many as it can have.
    #[error("the cluster already has {max} {what}, with the nodes that are joining, which is the maximum: remove one first")]
    TooMany {
        /// What there are too many of.
        what: String,
        /// The maximum.
        max: u64,
    },
    /// Another member has this address.
    #[error("{address} is the address of node {node}: give each node an address of its own")]
    AddressInUse {
        /// The address.
        address: String,
        /// The member that has it.
        node: NodeId,
    },
    /// No leader is known or reachable. The change may have begun: repeat it with the same idempotency key.
    #[error("there is no known leader: a majority of the nodes must be able to reach each other")]
    NoLeader,
    /// The change has begun, and continues.
    #[error("not complete yet: {what}. It continues; the list of members shows the progress")]
    Unfinished {
        /// What is not complete.
        what: String,
    },
    /// The idempotency key was already used with another request.
    #[error("the idempotency key was already used with another request")]
    OtherRequest,
    /// The cluster cannot remember more idempotency keys.
    #[error("too many idempotency keys are remembered: try again in a minute")]
    TooManyKeys,
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// Rights were narrowed after the request was decided.
    #[error("access rights were changed while the request was on its way: it must be decided again")]
    AccessChanged {
        /// The leader's revision at that moment: by then the narrowing was applied.
        revision: Revision,
    },
    /// The process at the new address is not the one that answers the leader: one of them runs with a copy of the data
    /// directory.
    #[error(
        "node {node} has two processes: one answers at {address}, and another one at its present address {present}. One of \
         them runs with a copy of its data directory: stop the one that is to go. If you have just stopped it, try again in a \
         few seconds"
    )]
    TwoProcesses {
        /// The member.
        node: NodeId,
        /// The new address.
        address: String,
        /// Its present address.
        present: String,
    },
}

fn would_lose_quorum_text(voters: u64, healthy: u64, needed: u64) -> String {
    let need = match (voters, needed) {
        (1, _) => "1 voter and need it".to_owned(),
        (2, 2) => "2 voters and need both".to_owned(),
        _ => format!("{voters} voters and need {needed} of them"),
    };
    let answer = match (voters, healthy) {
        (1, _) => "it does not answer".to_owned(),
        (_, 0) => "none answers".to_owned(),
        (_, 1) => "only 1 answers".to_owned(),
        _ => format!("only {healthy} answer"),
    };
    format!(
        "after this change the cluster would have {need}, but {answer}: first repair or replace the other voters that do not \
         answer"
    )
}

fn wrong_node_text(address: &str, found: Option<NodeId>) -> String {
    match found {
        Some(found) => format!("node {found} answers at {address}: use the address of the member that you change"),
        None => format!(
            "the member that you change does not answer at {address}, but another node, perhaps with the same number. It has \
             another data directory, belongs to another cluster, or refuses this node: use the address at which the member runs \
             with its own data directory. If that directory is lost, replace the member: `fairhold cluster replace N`"
        ),
    }
}

fn not_caught_up_text(node: NodeId, lag: Option<u64>) -> String {
    match lag {
        Some(lag) => format!("node {node} is {lag} log entries behind the leader: try again when it has caught up"),
        None => format!("node {node} does not answer the leader: start it, and try again when it has caught up"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_voters_that_do_not_answer_are_counted_in_words_that_fit() {
        let text = |voters, healthy, needed| MembershipError::WouldLoseQuorum { voters, healthy, needed }.to_string();
        assert!(
            text(1, 0, 1).starts_with("after this change the cluster would have 1 voter and need it, but it does not answer: ")
        );
        assert!(text(2, 1, 2).contains("would have 2 voters and need both, but only 1 answers: "));
        assert!(text(2, 0, 2).contains("would have 2 voters and need both, but none answers: "));
        assert!(text(4, 2, 3).contains("would have 4 voters and need 3 of them, but only 2 answer: "));
    }

    #[test]
    fn an_address_where_nobody_answers_is_set_with_an_option_that_exists() {
        let text = MembershipError::NotAnswering { address: "c:7271".to_owned() }.to_string();
        assert!(text.ends_with("start the node there first, or pass --force (by HTTP: force)"), "{text}");
    }

    #[test]
    fn a_member_that_answers_with_another_data_directory_is_not_called_another_member() {
        let text = |found| MembershipError::WrongNode { address: "n2:2".to_owned(), found }.to_string();
        assert_eq!(text(Some(3)), "node 3 answers at n2:2: use the address of the member that you change");
        assert!(text(None).contains("It has another data directory, belongs to another cluster"), "{}", text(None));
    }
}
