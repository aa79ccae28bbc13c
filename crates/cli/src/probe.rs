//! A probe of the whole cluster: asks every given endpoint, and every member that one of them lists, concurrently. It
//! does not trust what one node reports about another: a node is alive if it answers.

use crate::local_http::cause;
use fairhold_types::{
    NodeId,
    dto::{Cluster, Readiness},
    duration,
    time::WallMillis,
};
use futures_util::future::join_all;
use reqwest::Client;
use serde::de::DeserializeOwned;
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{net::TcpStream, time::timeout};

/// The result of a probe.
#[derive(Debug, Default)]
pub(crate) struct ClusterProbe {
    /// The given endpoints first, then the members that they list.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The peer ports of the members, by address: whether something listens there.
    pub(crate) peers: BTreeMap<String, Result<(), String>>,
}

/// The result of one URL.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    /// Whether the user gave it, instead of a node that lists it.
    pub(crate) given: bool,
    /// The node's answer, or why there is none.
    pub(crate) answer: Result<NodeAnswer, String>,
}

/// What a node reports about itself.
#[derive(Debug)]
pub(crate) struct NodeAnswer {
    /// `/v1/cluster`
    pub(crate) cluster: Cluster,
    /// `/readyz?verbose`
    pub(crate) readiness: Option<Readiness>,
    /// Its wall clock, compared with this machine's.
    pub(crate) clock: Option<Clock>,
}

/// The offset of a node's wall clock from this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Milliseconds by which the node's clock is ahead; negative if it is behind.
    pub(crate) offset: i64,
    /// The uncertainty due to the network, in milliseconds either way.
    pub(crate) uncertainty: i64,
}

impl Clock {
    /// The offset of a clock that showed `shown` at some time between `before` and `after`.
    pub(crate) fn between(before: WallMillis, shown: WallMillis, after: WallMillis) -> Clock {
        let millis = |time: WallMillis| i64::try_from(time.0).unwrap_or(i64::MAX);
        let before = millis(before);
        let shown = millis(shown);
        let after = millis(after);
        let uncertainty = (after - before).max(0) / 2 + 1;
        Clock { offset: shown - (before + (after - before) / 2), uncertainty }
    }

    /// The smallest difference that the measurement allows, in milliseconds.
    pub(crate) fn min_difference(self) -> u64 {
        u64::try_from(self.offset.abs() - self.uncertainty).unwrap_or(0)
    }
}

/// What to request from each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Only its view of the cluster.
    Cluster,
    /// Its readiness too, and whether its peer port accepts connections.
    All,
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
}

impl ClusterProbe {
    /// Requests only each node's view of the cluster: cheap enough for once a second.
    pub(crate) async fn brief(urls: &[String], limit: Duration) -> ClusterProbe {
        ClusterProbe::request(urls, limit, Depth::Cluster).await
    }

    /// Requests everything. No request takes longer than `limit`. There are two rounds: the given endpoints, then the
    /// members.
    pub(crate) async fn full(urls: &[String], limit: Duration) -> ClusterProbe {
        ClusterProbe::request(urls, limit, Depth::All).await
    }

    async fn request(urls: &[String], limit: Duration, depth: Depth) -> ClusterProbe {
        let client = crate::local_http::http_client(limit);
        let mut known: Vec<String> = Vec::new();
        for url in urls.iter().map(|url| normalize(url)) {
            if !known.contains(&url) {
                known.push(url);
            }
        }
        let mut seen = ClusterProbe { endpoints: request_all(&client, &known, true, depth).await, peers: BTreeMap::new() };
        let answered: Vec<(Option<String>, NodeId)> =
            seen.answering().map(|(_, answer)| (answer.cluster.cluster.clone(), answer.cluster.id)).collect();
        // Does not ask a node again that answered under another host name.
        let missing = seen.members().into_iter().filter(|(id, _)| !answered.contains(&(seen.cluster_id(), *id)));
        let missing: Vec<String> = missing.map(|(_, (url, _))| normalize(&url)).filter(|url| !known.contains(url)).collect();
        let peers = seen.members().into_values().map(|(_, peer)| peer);
        let peers: Vec<String> = if depth == Depth::All { peers.collect() } else { Vec::new() };
        let (more, peers) = tokio::join!(
            request_all(&client, &missing, false, depth),
            join_all(peers.into_iter().map(|peer| check_port(peer, limit)))
        );
        seen.endpoints.extend(more);
        seen.peers = peers.into_iter().collect();
        seen
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
            Row { id, url, peer, role, lag, silent_for }
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
        let members = self.members().len();
        let answering = self.nodes().len();
        let spare = answering.saturating_sub(members / 2 + 1);
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

    /// The members as listed by the node with the newest state: URL for clients, address for nodes.
    pub(crate) fn members(&self) -> BTreeMap<NodeId, (String, String)> {
        let nodes = self.nodes();
        let newest = nodes.values().max_by_key(|(_, answer)| (answer.cluster.term, answer.cluster.revision));
        let members = newest.into_iter().flat_map(|(_, answer)| &answer.cluster.members);
        members.map(|member| (member.id, (member.url.clone(), member.peer.clone()))).collect()
    }
}

/// Adds the scheme to a URL if it is missing, and removes slashes at the end.
fn normalize(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

async fn request_all(client: &Client, urls: &[String], given: bool, depth: Depth) -> Vec<Endpoint> {
    join_all(
        urls.iter().map(|url| async move { Endpoint { url: url.clone(), given, answer: request(client, url, depth).await } }),
    )
    .await
}

async fn request(client: &Client, url: &str, depth: Depth) -> Result<NodeAnswer, String> {
    let cluster: Cluster = get(client, format!("{url}/v1/cluster")).await?;
    if depth == Depth::Cluster {
        return Ok(NodeAnswer { cluster, readiness: None, clock: None });
    }
    // The connection is open now, so the times around this request cover one round trip and the readiness check.
    let before = now();
    let started = Instant::now();
    let readiness: Option<Readiness> = get(client, format!("{url}/readyz?verbose")).await.ok();
    let after = WallMillis(before.0.saturating_add(duration::millis(started.elapsed())));
    let shown = readiness.as_ref().and_then(|readiness| WallMillis::from_rfc3339(readiness.host.time.as_deref()?));
    Ok(NodeAnswer { cluster, clock: shown.map(|shown| Clock::between(before, shown, after)), readiness })
}

/// A JSON body, whatever the status: a node that is not ready answers with one too.
async fn get<T: DeserializeOwned>(client: &Client, url: String) -> Result<T, String> {
    let answer = client.get(url).send().await.map_err(|error| cause(&error))?;
    let status = answer.status();
    answer.json().await.map_err(|_| format!("it answers with status {status}, but not like a fairhold node"))
}

/// Whether a member's peer port accepts connections. Sends nothing.
async fn check_port(address: String, limit: Duration) -> (String, Result<(), String>) {
    let connected = match timeout(limit, TcpStream::connect(&address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    };
    (address, connected)
}

fn now() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(duration::millis(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_delay_does_not_count_as_a_clock_difference() {
        let at = WallMillis;
        let same = Clock::between(at(1_000), at(1_300), at(1_400));
        assert_eq!((same, same.min_difference()), (Clock { offset: 100, uncertainty: 201 }, 0));
        assert_eq!(Clock::between(at(1_000), at(9_000), at(1_400)).min_difference(), 7_599);
        assert_eq!(Clock::between(at(9_000), at(1_000), at(9_000)).min_difference(), 7_999);
    }

    #[test]
    fn a_url_may_omit_the_scheme() {
        for url in ["http://a:7171", "http://a:7171/", "a:7171", " a:7171"] {
            assert_eq!(normalize(url), "http://a:7171", "{url}");
        }
    }
}
