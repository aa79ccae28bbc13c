//! How a test changes the members of a cluster, and waits until a change is done. It acts as an administrator: by the
//! API, and by join tokens.

use crate::{
    client::{Answer, Call, Client, new_key, whole},
    harness::{Cluster, Origin, eventually},
};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a change of the members may take on a busy machine.
pub(crate) const CHANGED_WITHIN: Duration = Duration::from_secs(60);
/// The exit code of a node whose data directory cannot take part any more: a restart does not help.
pub(crate) const CANNOT_TAKE_PART: i32 = 3;
/// The leader certainly knows by then that a node does not answer.
const SILENT_MS: u64 = 2_000;

/// Creates a join token with these properties.
pub(crate) async fn create_token(client: &Client, wish: &Value) -> Answer {
    client.send(&Call::post("/v1/cluster/join-tokens").json(wish)).await.expect_status(201)
}

/// The members, and the changes that are under way.
pub(crate) async fn view(client: &Client) -> Value {
    client.send(&Call::get("/v1/cluster/members")).await.expect_status(200).json
}

/// The rows of one list of such a view.
pub(crate) fn rows<'a>(view: &'a Value, list: &str) -> &'a [Value] {
    view[list].as_array().unwrap_or_else(|| panic!("no {list}: {view}"))
}

/// The ids in one list of such a view.
pub(crate) fn ids(view: &Value, list: &str) -> Vec<usize> {
    rows(view, list).iter().map(|row| usize::try_from(whole(row, "id")).expect("a small id")).collect()
}

/// The call that changes a member.
pub(crate) fn patch(id: usize, change: &Value) -> Call {
    Call::patch(&format!("/v1/cluster/members/{id}")).key(&new_key()).json(change)
}

/// The call that removes a member.
pub(crate) fn delete(id: usize) -> Call {
    Call::delete(&format!("/v1/cluster/members/{id}"))
}

/// Waits until no change of the members is under way, and returns the view of the leader.
pub(crate) async fn settled(client: &Client) -> Value {
    eventually("no change of the members is under way", CHANGED_WITHIN, || async {
        let view = view(client).await;
        let is_done = view["from_leader"] == true && view["joint"] == false && rows(&view, "joins").is_empty();
        (is_done && rows(&view, "members").iter().all(|member| member["removal"].is_null())).then_some(view)
    })
    .await
}

/// Waits until the leader sees that a member does not answer.
pub(crate) async fn silent(client: &Client, id: usize) {
    eventually(&format!("node {id} is silent"), CHANGED_WITHIN, || async {
        let view = view(client).await;
        let member = rows(&view, "members").iter().find(|member| member["id"] == id)?;
        let silent: u64 = member["silent_for"].as_str()?.strip_suffix("ms")?.parse().ok()?;
        (silent >= SILENT_MS).then_some(())
    })
    .await;
}

/// Asserts that these nodes have the same state, once they are at one revision.
pub(crate) async fn assert_same_state(client: &Client, nodes: &[usize]) {
    let digests = eventually("the nodes have the same revision", Duration::from_secs(90), || async {
        let mut all = Vec::new();
        for node in nodes {
            let answer = client.send_to(*node, &Call::get("/v1/cluster?digest")).await.expect("the node runs").expect_status(200);
            all.push((answer.number("digest_revision"), answer.string("digest").to_owned()));
        }
        all.iter().all(|(revision, _)| *revision == all[0].0).then_some(all)
    })
    .await;
    assert!(digests.iter().all(|each| *each == digests[0]), "{digests:?}");
}

/// The newest term that a node of the cluster knows.
pub(crate) async fn term(client: &Client) -> u64 {
    client.send(&Call::get("/v1/cluster")).await.expect_status(200).number("term")
}

impl Cluster {
    /// The indexes of the members with a process.
    pub(crate) fn running_members(&self) -> Vec<usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.is_member() && node.runs()).map(|(index, _)| index).collect()
    }

    /// The index of a running member that does not lead.
    pub(crate) async fn follower(&self) -> usize {
        let leader = self.leader().await;
        self.running_members().into_iter().find(|index| *index != leader).expect("a member that does not lead")
    }

    /// Starts a node with this token, at these addresses or at free ones. Returns its index.
    pub(crate) fn start_joining(&mut self, token: &str, addresses: Option<(String, String)>) -> usize {
        let index = self.add_node(token, addresses);
        self.nodes[index].start();
        index
    }

    /// Waits until the cluster has given a node its id, and notes it.
    pub(crate) async fn admitted(&mut self, index: usize) {
        let (client, url) = (self.client(0), self.nodes[index].url.clone());
        let known: Vec<usize> = self.nodes.iter().map(|node| node.id).collect();
        let id = eventually(&format!("the node at {url} gets an id"), CHANGED_WITHIN, || async {
            let view = view(&client).await;
            let of_list = |list: &str| {
                let at_url = rows(&view, list).iter().filter(|row| row["url"] == url.as_str());
                // A member that it replaces may have the same URL.
                at_url.map(|row| usize::try_from(whole(row, "id")).expect("a small id")).find(|id| !known.contains(id))
            };
            of_list("joins").or_else(|| of_list("members"))
        })
        .await;
        self.nodes[index].id = id;
    }

    /// Lets a new node with such a token join, and waits until the change is done and the node is ready. Returns its
    /// index.
    pub(crate) async fn join(&mut self, wish: &Value) -> usize {
        let token = create_token(&self.client(0), wish).await;
        let index = self.start_joining(token.string("token"), None);
        self.admitted(index).await;
        settled(&self.client(0)).await;
        self.node_ready(index).await;
        // Its data directory is enough from now on.
        self.nodes[index].origin = Origin::Directory;
        index
    }

    /// Removes a running member, and waits until its process has ended by itself.
    pub(crate) async fn remove(&mut self, index: usize) {
        self.client(0).send(&delete(self.nodes[index].id)).await.expect_status(204);
        settled(&self.client(0)).await;
        self.ends_as_removed(index).await;
    }

    /// Waits until the process of a removed node has ended by itself, with the exit code for it.
    pub(crate) async fn ends_as_removed(&mut self, index: usize) {
        let status = self.nodes[index].exited().await;
        let (id, log) = (self.nodes[index].id, self.nodes[index].log_text());
        assert_eq!(status.code(), Some(CANNOT_TAKE_PART), "node {id}: {}", log.lines().last().unwrap_or_default());
        assert!(log.contains("removed"), "node {id} says why: {log}");
        self.nodes[index].leave();
    }

    /// Replaces a member by a new node at free addresses. Returns its index. The process of the old node ends if it runs.
    pub(crate) async fn replace(&mut self, index: usize) -> usize {
        let new = self.join(&json!({ "replaces": self.nodes[index].id })).await;
        if self.nodes[index].runs() {
            self.ends_as_removed(index).await;
        }
        self.nodes[index].leave();
        new
    }
}
