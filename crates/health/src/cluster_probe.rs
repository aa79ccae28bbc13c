//! The result of a probe of the whole cluster. It does not trust what one node reports about another: a node is
//! alive if it answers.

use crate::answer::{ClusterDetails, NodeDigest, ProbedEndpoint, ProbedNode, Unanswered};
use fairhold_types::{NodeId, dto::Cluster, time::WallMillis};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// The result of a probe.
#[derive(Debug, Default)]
pub struct ClusterProbe {
    /// The given endpoints first, then the members that they list.
    pub endpoints: Vec<ProbedEndpoint>,
    /// The peer ports of the members, by address: whether something listens there.
    pub peers: BTreeMap<String, Result<(), String>>,
    /// What one node reports about the whole cluster.
    pub details: ClusterDetails,
    /// The digests of the states of the nodes, if they were asked for. A node may have several, of one moment each.
    pub digests: Option<Vec<NodeDigest>>,
    /// When the probe began, by this machine's clock.
    pub begun_at: WallMillis,
}

/// One member, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedMember {
    /// The node's number.
    pub id: NodeId,
    /// Its address for clients.
    pub url: String,
    /// Its address for the other nodes.
    pub peer: String,
    /// The role that it reports, or why it does not answer.
    pub role: Result<String, String>,
    /// How many log entries it is behind; only the leader knows.
    pub lag: Option<u64>,
    /// For how long it has not answered the leader; only the leader knows.
    pub silent_for: Option<String>,
    /// Its priority, if it is not the default.
    pub priority: Option<u8>,
    /// Where it runs, for people.
    pub zone: Option<String>,
}

impl ClusterProbe {
    /// The URLs of members that were not asked yet. A node that answered under another host name is not asked again.
    #[must_use]
    pub fn unasked(&self) -> Vec<String> {
        let nodes = self.nodes();
        let is_known = |url: &String| self.endpoints.iter().any(|endpoint| endpoint.url == *url);
        let missing = self.members().into_iter().filter(|(id, _)| !nodes.contains_key(id));
        missing.map(|(_, (url, _))| normalized_url(&url)).filter(|url| !is_known(url)).collect()
    }

    /// The endpoints that answered.
    pub fn answering(&self) -> impl Iterator<Item = (&ProbedEndpoint, &ProbedNode)> {
        self.endpoints.iter().filter_map(|endpoint| Some((endpoint, endpoint.answer.as_ref().ok()?)))
    }

    /// The cluster of most endpoints, or the first of equals; none if no answering node has formed a cluster.
    #[must_use]
    pub fn cluster_id(&self) -> Option<String> {
        let mut counts: Vec<(&String, usize)> = Vec::new();
        for id in self.answering().filter_map(|(_, answer)| answer.cluster.cluster.as_ref()) {
            match counts.iter_mut().find(|(known, _)| *known == id) {
                Some((_, count)) => *count += 1,
                None => counts.push((id, 1)),
            }
        }
        let max = counts.iter().map(|(_, count)| *count).max()?;
        counts.iter().find(|(_, count)| *count == max).map(|(id, _)| (*id).clone())
    }

    /// The nodes of that cluster that answered, by number.
    #[must_use]
    pub fn nodes(&self) -> BTreeMap<NodeId, (&ProbedEndpoint, &ProbedNode)> {
        let cluster = self.cluster_id();
        let ours = self.answering().filter(|(_, answer)| answer.cluster.cluster == cluster);
        ours.map(|(endpoint, answer)| (answer.cluster.id, (endpoint, answer))).collect()
    }

    /// The leader: it reports that it leads, and no node that answered is in a later term.
    #[must_use]
    pub fn leader(&self) -> Option<(NodeId, &ProbedEndpoint, &ProbedNode)> {
        let newest = self.nodes().values().map(|(_, answer)| answer.cluster.term).max()?;
        let leads = |answer: &ProbedNode| answer.cluster.role == "leader" && answer.cluster.term == newest;
        self.nodes().into_iter().find(|(_, (_, answer))| leads(answer)).map(|(id, (endpoint, answer))| (id, endpoint, answer))
    }

    /// The URLs of the nodes that answered: the leader first, then the nodes with the newest state.
    #[must_use]
    pub fn best_urls(&self) -> Vec<String> {
        let leader = self.leader().map(|(id, _, _)| id);
        let mut nodes: Vec<_> = self.nodes().into_iter().collect();
        nodes.sort_by_key(|(id, (_, answer))| (Some(*id) != leader, Reverse((answer.cluster.term, answer.cluster.revision))));
        nodes.into_iter().map(|(_, (endpoint, _))| endpoint.url.clone()).collect()
    }

    /// Every member, with its own answer, or why there is none.
    #[must_use]
    pub fn member_rows(&self) -> Vec<ProbedMember> {
        let nodes = self.nodes();
        let leader = self.leader();
        let listed = self.newest().map_or(&[][..], |cluster| &cluster.members);
        let known_to_leader = leader.map_or(&[][..], |(_, _, answer)| &answer.cluster.members);
        let row = |(id, (url, peer)): (NodeId, (String, String))| {
            let member = known_to_leader.iter().find(|member| member.id == id);
            let role = match nodes.get(&id) {
                Some((_, answer)) if answer.cluster.role == "leader" && leader.is_none_or(|(leader, ..)| leader != id) => {
                    Ok("old leader".to_owned())
                }
                Some((_, answer)) => Ok(answer.cluster.role.clone()),
                None => Err(self.failure_of(&url)),
            };
            let lag = member.and_then(|one| one.lag);
            let silent_for = member.and_then(|one| one.silent_for.clone());
            let known = listed.iter().find(|member| member.id == id);
            let priority = known.and_then(|one| one.priority);
            let zone = known.and_then(|one| one.zone.clone());
            ProbedMember { id, url, peer, role, lag, silent_for, priority, zone }
        };
        self.members().into_iter().map(row).collect()
    }

    fn failure_of(&self, url: &str) -> String {
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.url == normalized_url(url));
        let why = endpoint.and_then(|endpoint| endpoint.answer.as_ref().err());
        why.map_or("another node answers there", Unanswered::reason).to_owned()
    }

    /// One sentence: how many nodes answer, which one leads, how many more may fail.
    #[must_use]
    pub fn summary(&self) -> String {
        let nodes = self.nodes();
        let listed = self.members();
        let members = listed.len();
        let answering = listed.keys().filter(|id| nodes.contains_key(id)).count();
        let voters = self.voters();
        let spare = voters.iter().filter(|id| nodes.contains_key(id)).count().saturating_sub(majority(voters.len()));
        match self.leader() {
            Some((id, _, answer)) => {
                format!(
                    "{answering} of {members} nodes answer, node {id} leads in term {}, {spare} more may fail",
                    answer.cluster.term
                )
            }
            None => format!("{answering} of {members} nodes answer, none of them leads"),
        }
    }

    /// The view of the leader; without one, of the node with the newest state.
    fn newest(&self) -> Option<&Cluster> {
        let leader = self.leader().map(|(_, _, answer)| &answer.cluster);
        let newest = || {
            let views = self.nodes().into_values().map(|(_, answer)| &answer.cluster);
            views.max_by_key(|cluster| (cluster.term, cluster.last_log_index, cluster.revision))
        };
        leader.or_else(newest)
    }

    /// The members as listed by that node: URL for clients, address for nodes.
    #[must_use]
    pub fn members(&self) -> BTreeMap<NodeId, (String, String)> {
        let members = self.newest().into_iter().flat_map(|cluster| &cluster.members);
        members.map(|member| (member.id, (member.url.clone(), member.peer.clone()))).collect()
    }

    /// The members that vote, according to that node.
    #[must_use]
    pub fn voters(&self) -> BTreeSet<NodeId> {
        let members = self.newest().into_iter().flat_map(|cluster| &cluster.members);
        members.filter(|member| member.role != "learner").map(|member| member.id).collect()
    }
}

/// The majority of this many voters.
#[must_use]
pub fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// Adds the scheme to a URL if it is missing, and removes slashes at the end.
#[must_use]
pub fn normalized_url(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}
