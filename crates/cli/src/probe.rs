//! A probe of the whole cluster: asks every given endpoint, and every member that one of them lists. It does not trust
//! what one node reports about another: a node is alive if it answers.
//!
//! A node that was down or cut off may list members that were replaced meanwhile. So the probe also asks the members
//! that it learns from members.

mod answer;
mod request;

#[cfg(test)]
pub(crate) use answer::Clock;
pub(crate) use answer::{ClusterDetails, Endpoint, NodeAnswer};

use fairhold_types::{NodeId, dto::Cluster, time::WallMillis};
use futures_util::future::join_all;
use request::Depth;
use reqwest::Client;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The most rounds of requests after the given endpoints, each to the members that the round before has named.
const ROUNDS_MAX: usize = 3;

/// The result of a probe.
#[derive(Debug, Default)]
pub(crate) struct ClusterProbe {
    /// The given endpoints first, then the members that they list.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The peer ports of the members, by address: whether something listens there.
    pub(crate) peers: BTreeMap<String, Result<(), String>>,
    /// What one node reports about the whole cluster.
    pub(crate) details: ClusterDetails,
    /// When the probe began, by this machine's clock.
    pub(crate) begun_at: WallMillis,
}

/// One member, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The node's number.
    pub(crate) id: NodeId,
    /// Its address for clients.
    pub(crate) url: String,
    /// Its address for the other nodes.
    pub(crate) peer: String,
    /// The role that it reports, or why it does not answer.
    pub(crate) role: Result<String, String>,
    /// How many log entries it is behind; only the leader knows.
    pub(crate) lag: Option<u64>,
    /// For how long it has not answered the leader; only the leader knows.
    pub(crate) silent_for: Option<String>,
    /// Its priority, if it is not the default.
    pub(crate) priority: Option<u8>,
    /// Where it runs, for people.
    pub(crate) zone: Option<String>,
}

impl ClusterProbe {
    /// Requests only each node's view of the cluster: cheap enough for once a second.
    pub(crate) async fn brief(client: &Client, urls: &[String]) -> ClusterProbe {
        ClusterProbe::request(client, urls, None).await
    }

    /// Requests everything. No connection to a peer port takes longer than `limit`.
    pub(crate) async fn full(client: &Client, urls: &[String], limit: Duration) -> ClusterProbe {
        ClusterProbe::request(client, urls, Some(limit)).await
    }

    async fn request(client: &Client, urls: &[String], all_within: Option<Duration>) -> ClusterProbe {
        let depth = if all_within.is_some() { Depth::All } else { Depth::Cluster };
        let begun_at = request::now();
        let mut given: Vec<String> = Vec::new();
        for url in urls.iter().map(|url| normalize(url)) {
            if !given.contains(&url) {
                given.push(url);
            }
        }
        let endpoints = request::nodes(client, &given, true, depth).await;
        let mut seen = ClusterProbe { endpoints, begun_at, ..ClusterProbe::default() };
        for _ in 0..ROUNDS_MAX {
            let missing = seen.unasked();
            if missing.is_empty() {
                break;
            }
            seen.endpoints.extend(request::nodes(client, &missing, false, depth).await);
        }
        if let Some(limit) = all_within {
            let peers = seen.members().into_values().map(|(_, peer)| request::peer_port(peer, limit));
            let best = seen.best_urls().into_iter().next();
            let details = async {
                match best {
                    Some(url) => request::details(client, &url).await,
                    None => ClusterDetails::default(),
                }
            };
            let (peers, details) = tokio::join!(join_all(peers), details);
            seen.peers = peers.into_iter().collect();
            seen.details = details;
        }
        seen
    }

    /// The URLs of members that were not asked yet. A node that answered under another host name is not asked again.
    fn unasked(&self) -> Vec<String> {
        let nodes = self.nodes();
        let is_known = |url: &String| self.endpoints.iter().any(|endpoint| endpoint.url == *url);
        let missing = self.members().into_iter().filter(|(id, _)| !nodes.contains_key(id));
        missing.map(|(_, (url, _))| normalize(&url)).filter(|url| !is_known(url)).collect()
    }

    /// The endpoints that answered.
    pub(crate) fn answering(&self) -> impl Iterator<Item = (&Endpoint, &NodeAnswer)> {
        self.endpoints.iter().filter_map(|endpoint| Some((endpoint, endpoint.answer.as_ref().ok()?)))
    }

    /// The cluster of most endpoints, or the first of equals; none if no answering node has formed a cluster.
    pub(crate) fn cluster_id(&self) -> Option<String> {
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
    pub(crate) fn nodes(&self) -> BTreeMap<NodeId, (&Endpoint, &NodeAnswer)> {
        let cluster = self.cluster_id();
        let ours = self.answering().filter(|(_, answer)| answer.cluster.cluster == cluster);
        ours.map(|(endpoint, answer)| (answer.cluster.id, (endpoint, answer))).collect()
    }

    /// The leader: it reports that it leads, and no node that answered is in a later term.
    pub(crate) fn leader(&self) -> Option<(NodeId, &Endpoint, &NodeAnswer)> {
        let newest = self.nodes().values().map(|(_, answer)| answer.cluster.term).max()?;
        let leads = |answer: &NodeAnswer| answer.cluster.role == "leader" && answer.cluster.term == newest;
        self.nodes().into_iter().find(|(_, (_, answer))| leads(answer)).map(|(id, (endpoint, answer))| (id, endpoint, answer))
    }

    /// The URLs of the nodes that answered: the leader first, then the nodes with the newest state.
    pub(crate) fn best_urls(&self) -> Vec<String> {
        let leader = self.leader().map(|(id, _, _)| id);
        let mut nodes: Vec<_> = self.nodes().into_iter().collect();
        nodes.sort_by_key(|(id, (_, answer))| (Some(*id) != leader, Reverse((answer.cluster.term, answer.cluster.revision))));
        nodes.into_iter().map(|(_, (endpoint, _))| endpoint.url.clone()).collect()
    }

    /// Every member, with its own answer, or why there is none.
    pub(crate) fn member_rows(&self) -> Vec<Row> {
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
            Row { id, url, peer, role, lag, silent_for, priority, zone }
        };
        self.members().into_iter().map(row).collect()
    }

    fn failure_of(&self, url: &str) -> String {
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.url == normalize(url));
        let why = endpoint.and_then(|endpoint| endpoint.answer.as_ref().err().cloned());
        why.unwrap_or_else(|| "another node answers there".to_owned())
    }

    /// One sentence: how many nodes answer, which one leads, how many more may fail.
    pub(crate) fn summary(&self) -> String {
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
    pub(crate) fn members(&self) -> BTreeMap<NodeId, (String, String)> {
        let members = self.newest().into_iter().flat_map(|cluster| &cluster.members);
        members.map(|member| (member.id, (member.url.clone(), member.peer.clone()))).collect()
    }

    /// The members that vote, according to that node.
    pub(crate) fn voters(&self) -> BTreeSet<NodeId> {
        let members = self.newest().into_iter().flat_map(|cluster| &cluster.members);
        members.filter(|member| member.role != "learner").map(|member| member.id).collect()
    }
}

/// The majority of this many voters.
pub(crate) fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// Adds the scheme to a URL if it is missing, and removes slashes at the end.
pub(crate) fn normalize(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

#[cfg(test)]
pub(crate) mod nodes_for_tests;
#[cfg(test)]
#[path = "probe/probe_tests.rs"]
mod tests;
