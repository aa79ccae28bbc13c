//! `GET /`: for a person who opens a node's address. A browser is sent to the dashboard. curl gets a page that says what this
//! is, whether the cluster is well, and where to continue; it needs no quorum.

use crate::{
    api::ui::{self, Dashboard},
    edge::accept::accepts_html,
    edge::body::NO_STORE,
    edge::server_info::ServerInfo,
};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use fairhold_node::Node;
use http::{HeaderMap, HeaderValue, header};
use openraft_rt::AsyncRuntime;
use std::fmt::Write as _;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// Links to continue with, and what each one offers.
const LINKS: [(&str, &str); 7] = [
    ("/ui/", "the dashboard, for browsers"),
    ("/v1/locks", "all locks: who holds them, how many wait"),
    ("/v1/sessions", "all sessions"),
    ("/v1/cluster", "this node and the members of the cluster"),
    ("/readyz?verbose", "whether this node can serve, and if not, why"),
    ("/metrics", "metrics for Prometheus"),
    ("/openapi.json", "the description of every call (OpenAPI 3.1)"),
];

/// The facts about the node that the page shows.
struct PageFacts {
    version: &'static str,
    node: u64,
    cluster: Option<String>,
    term: u64,
    leader: Option<(u64, String)>,
    /// Why the node cannot serve.
    trouble: Option<String>,
    host: String,
    has_dashboard: bool,
}

/// `GET /`
pub(crate) async fn front_page<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    info: ServerInfo,
    dashboard: Dashboard,
    headers: HeaderMap,
) -> Response {
    // A browser needs no credential here, so without a dashboard it gets no facts about the node either.
    if accepts_html(&headers) {
        return ui::folder(dashboard).await.into_response();
    }
    let raft = node.cluster().raft;
    let leader_url = |id| raft.members.iter().find(|member| member.id == id).map(|member| member.member.url.clone());
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let facts = PageFacts {
        version: info.version,
        node: node.cluster().id,
        cluster: raft.cluster.map(|cluster| cluster.to_hex()),
        term: raft.term,
        leader: raft.leader.map(|id| (id, leader_url(id).unwrap_or_default())),
        trouble: node.readiness().await.err(),
        host: host.unwrap_or("localhost:7171").to_owned(),
        has_dashboard: dashboard != Dashboard::Off,
    };
    let headers =
        [(header::CONTENT_TYPE, TEXT), (header::CACHE_CONTROL, NO_STORE), (header::VARY, HeaderValue::from_static("accept"))];
    (headers, facts.text()).into_response()
}

impl PageFacts {
    /// The state of the cluster in one sentence.
    fn health(&self) -> String {
        match (&self.trouble, &self.leader, &self.cluster) {
            (_, _, None) => "This node belongs to no cluster yet: the cluster forms when all members have started.".to_owned(),
            (Some(why), _, _) => format!("This node cannot serve: {why}. `fairhold doctor` says what to do."),
            (None, Some((id, _)), _) if *id == self.node => {
                format!("The cluster serves. This node leads, in term {}.", self.term)
            }
            (None, Some((id, url)), _) => format!("The cluster serves. Node {id} at {url} leads, in term {}.", self.term),
            (None, None, _) => "This node knows no leader at the moment.".to_owned(),
        }
    }

    fn title(&self) -> String {
        let cluster = self.cluster.as_deref().map_or_else(String::new, |id| format!(" of cluster {id}"));
        format!("Fairhold {}, node {}{cluster}", self.version, self.node)
    }

    fn example(&self) -> String {
        format!("curl -X POST http://{}/v1/locks/deploy", self.host)
    }

    fn text(&self) -> String {
        let mut text = format!("{}\nFair locks over HTTP. {}\n\n", self.title(), self.health());
        for (path, about) in LINKS.iter().filter(|(path, _)| self.has_dashboard || *path != "/ui/") {
            writeln!(text, "{path:<18}{about}").ok();
        }
        writeln!(text, "\nTake a lock:\n{}", self.example()).ok();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(leader: Option<u64>, trouble: Option<&str>) -> PageFacts {
        PageFacts {
            version: "1.2.3",
            node: 2,
            cluster: Some("c0ffee".to_owned()),
            term: 7,
            leader: leader.map(|id| (id, format!("http://n{id}:7171"))),
            trouble: trouble.map(str::to_owned),
            host: "n2:7171".to_owned(),
            has_dashboard: true,
        }
    }

    #[test]
    fn the_page_shows_the_state_of_the_cluster() {
        assert_eq!(facts(Some(2), None).health(), "The cluster serves. This node leads, in term 7.");
        assert_eq!(facts(Some(1), None).health(), "The cluster serves. Node 1 at http://n1:7171 leads, in term 7.");
        let cut_off = facts(Some(1), Some("no majority")).health();
        assert!(cut_off.starts_with("This node cannot serve: no majority."), "{cut_off}");
        assert!(PageFacts { cluster: None, ..facts(None, Some("x")) }.health().contains("belongs to no cluster yet"));
    }

    #[test]
    fn the_page_lists_where_to_continue() {
        let page = facts(Some(1), None).text();
        for (path, about) in LINKS {
            assert!(page.contains(path) && page.contains(about), "{page}");
        }
        let page = PageFacts { has_dashboard: false, ..facts(Some(1), None) }.text();
        assert!(!page.contains("/ui/") && page.contains("/v1/locks"), "{page}");
    }
}
