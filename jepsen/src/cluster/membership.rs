//! Changes of the members: which machines have a node, how a new node joins, and how the cluster answers an operator.

use super::{ChaosCluster, Origin};
use crate::{
    history::Outcome,
    http::{Reply, Request},
    new_key,
};
use serde_json::Value;
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    time::{Duration, Instant},
};

/// The time limit of one request of an operator.
const WORK: Duration = Duration::from_secs(5);
/// The pause before an operator tries again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

impl ChaosCluster {
    /// The machines whose node is a member, or is about to join.
    pub(crate) fn machines(&self) -> Vec<usize> {
        self.nodes.iter().filter(|node| node.takes_part).map(|node| node.id).collect()
    }

    /// Whether this machine's node is a member, or is about to join.
    pub(crate) fn takes_part(&self, id: usize) -> bool {
        self.nodes[id - 1].takes_part
    }

    /// A machine without a node.
    pub(crate) fn spare(&self) -> Option<usize> {
        self.nodes.iter().find(|node| !node.takes_part).map(|node| node.id)
    }

    /// From its next start on, the machine has a node with an empty directory that joins by this token.
    pub(crate) fn will_join(&mut self, id: usize, token: &str) -> Result<(), String> {
        let file = self.peer_key_file.with_file_name(format!("token-{}", new_key()));
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(&file);
        let written = opened.and_then(|mut file| file.write_all(token.as_bytes()));
        written.map_err(|error| format!("{}: {error}", file.display()))?;
        self.remove_data(id)?;
        let node = &mut self.nodes[id - 1];
        node.origin = Origin::Token(file);
        node.takes_part = true;
        // Clients may hear of it before it serves.
        self.http.set_serving(self.machines());
        Ok(())
    }

    /// The node of this machine is a member now: its directory is enough for its next start.
    pub(crate) fn has_joined(&mut self, id: usize) {
        self.nodes[id - 1].origin = Origin::Directory;
    }

    /// Whether this machine's node joins, and is perhaps no member yet.
    pub(crate) fn is_joining(&self, id: usize) -> bool {
        matches!(self.nodes[id - 1].origin, Origin::Token(_))
    }

    /// The machine has no node any more.
    pub(crate) fn has_left(&mut self, id: usize) -> Result<(), String> {
        self.nodes[id - 1].takes_part = false;
        self.http.set_serving(self.machines());
        self.remove_data(id)
    }

    fn remove_data(&self, id: usize) -> Result<(), String> {
        let data = &self.nodes[id - 1].data;
        match fs::remove_dir_all(data) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(format!("{}: {error}", data.display())),
        }
    }

    /// The id in the cluster of the node on this machine, as it reports itself.
    pub(crate) async fn member_id(&self, id: usize) -> Option<u64> {
        let request = Request::get("/v1/cluster").within(Duration::from_secs(1), Duration::ZERO);
        self.http.ask(id, &request).await.json["id"].as_u64()
    }

    /// Asks one node after the other until one accepts. Otherwise returns the last refusal.
    pub(crate) async fn ask_until_accepted(&self, request: &Request, within: Duration) -> Result<Reply, String> {
        let request = request.clone().within(WORK, Duration::ZERO);
        let started = Instant::now();
        loop {
            let mut last = String::new();
            for id in self.http.serving() {
                let reply = self.http.ask(id, &request).await;
                if reply.outcome == Outcome::Ok {
                    return Ok(reply);
                }
                last = format!("{} {}", reply.error.unwrap_or_default(), reply.text);
            }
            if started.elapsed() > within {
                return Err(last);
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Waits until no change of the members is under way. Returns the ids of the members.
    pub(crate) async fn settled(&self, within: Duration) -> Result<Vec<u64>, String> {
        let started = Instant::now();
        loop {
            let seen = self.ask_until_accepted(&Request::get("/v1/cluster/members"), within).await?.json;
            if is_settled(&seen) {
                return Ok(list(&seen, "members").filter_map(|member| member["id"].as_u64()).collect());
            }
            if started.elapsed() > within {
                return Err(format!("a change of the members is not done after {within:?}: {seen}"));
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

fn list<'a>(members: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    members[name].as_array().into_iter().flatten()
}

/// Whether the leader says that no node joins, none is to be removed, and one set of voters decides.
fn is_settled(members: &Value) -> bool {
    members["from_leader"] == true
        && members["joint"] == false
        && list(members, "joins").next().is_none()
        && list(members, "members").all(|member| member["removal"].is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cluster_is_settled_once_the_leader_knows_of_no_change() {
        let settled = json!({"members": [{"id": 1}], "joins": [], "removed": [], "joint": false, "from_leader": true});
        assert!(is_settled(&settled));
        let with = |field: &str, value: Value| {
            let mut other = settled.clone();
            other[field] = value;
            is_settled(&other)
        };
        assert!(!with("from_leader", json!(false)) && !with("joint", json!(true)) && !with("joins", json!([{"id": 4}])));
        assert!(!with("members", json!([{"id": 1, "removal": "waits: node 2 is silent"}])));
        assert!(!is_settled(&Value::Null), "an answer without a list");
    }
}
