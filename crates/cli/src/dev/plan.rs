//! The ports of the nodes, and the lines about them on stdout.

use fairhold_types::NodeId;
use std::{ffi::OsString, path::Path};

/// A node's peer port is this much higher than its client port.
const PEER_PORT_OFFSET: u16 = 100;
/// The port that commands use by default.
const DEFAULT_PORT: u16 = 7171;
/// Only this machine can reach the nodes.
const HOST: &str = "127.0.0.1";

/// The nodes of a cluster on this machine.
#[derive(Debug, Clone)]
pub(crate) struct DevPlan {
    nodes: Vec<PlannedNode>,
}

/// One node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedNode {
    id: NodeId,
    client_port: u16,
    peer_port: u16,
    has_tls: bool,
}

/// A port would exceed 65535.
#[derive(Debug, thiserror::Error)]
#[error("--port {port} is too high for {nodes} nodes: their peer ports are 100 higher, so the highest value is {max}")]
pub(crate) struct PlanError {
    port: u16,
    nodes: u16,
    max: u16,
}

impl DevPlan {
    /// Nodes 1, 2, … with client ports from `port` on.
    pub(crate) fn new(nodes: u16, port: u16) -> Result<DevPlan, PlanError> {
        let max = u16::MAX - PEER_PORT_OFFSET - (nodes - 1);
        if port > max {
            return Err(PlanError { port, nodes, max });
        }
        let node = |index| PlannedNode {
            id: NodeId::from(index) + 1,
            client_port: port + index,
            peer_port: port + index + PEER_PORT_OFFSET,
            has_tls: false,
        };
        Ok(DevPlan { nodes: (0..nodes).map(node).collect() })
    }

    /// The same nodes with TLS.
    pub(crate) fn with_tls(mut self) -> DevPlan {
        self.nodes.iter_mut().for_each(|node| node.has_tls = true);
        self
    }

    /// All nodes, by number.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &PlannedNode> {
        self.nodes.iter()
    }

    /// The URLs for clients, by number.
    pub(crate) fn urls(&self) -> Vec<(NodeId, String)> {
        self.nodes.iter().map(|node| (node.id, node.url())).collect()
    }

    /// The arguments of a node's process.
    pub(crate) fn serve_args(&self, node: &PlannedNode, data: &Path, peer_key: &Path) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["serve".into(), "--exit-with-parent".into()];
        args.extend(["--peer-key-file".into(), peer_key.into()]);
        args.extend(["--id".into(), node.id.to_string().into()]);
        args.extend(["--data".into(), data.join(format!("node-{}", node.id)).into_os_string()]);
        for member in &self.nodes {
            args.push("--member".into());
            args.push(format!("{}={},{}", member.id, member.url(), member.peer_address()).into());
        }
        args
    }

    /// The line for a node whose process has started.
    pub(crate) fn node_line(&self, id: NodeId, pid: u32) -> String {
        let url = self.nodes.iter().find(|node| node.id == id).map(PlannedNode::url).unwrap_or_default();
        format!("node {id} pid {pid} {url}\n")
    }

    /// What to try next with `--secure`. These variables tell commands how to connect, and as which user.
    pub(crate) fn secure_next_steps(&self, variables: &[(&str, String)]) -> String {
        let urls: Vec<String> = self.nodes.iter().map(PlannedNode::url).collect();
        let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let export = |(name, value): &(&str, String)| format!("dev:   export {name}={}\n", quote(value));
        let exports: String = variables.iter().map(export).collect();
        let first = &urls[0];
        format!(
            "dev: ready. In another terminal:\n\
             dev:   export FAIRHOLD_ENDPOINT={}\n\
             {exports}\
             dev:   fairhold lock deploy -- echo hello          # run a command under a lock\n\
             dev:   fairhold access whoami                      # you are user:dev, an administrator\n\
             dev:   curl --cacert \"$FAIRHOLD_CACERT\" -H \"Authorization: Bearer $(cat \"$FAIRHOLD_AUTH_TOKEN_FILE\")\" \
             {first}/v1/locks\n\
             dev: then: fairhold top; fairhold doctor; kill -9 the pid of a node\n",
            urls.join(",")
        )
    }

    /// What to try next, for a person: printed once, when all nodes are ready.
    pub(crate) fn next_steps(&self) -> String {
        let urls: Vec<&PlannedNode> = self.nodes.iter().collect();
        let first = urls[0].url();
        let last = urls[urls.len() - 1].url();
        let here = if self.nodes[0].client_port == DEFAULT_PORT { String::new() } else { format!(" -e {first}") };
        format!(
            "dev: ready. In another terminal:\n\
             dev:   curl -X POST '{first}/v1/locks/deploy?ttl=2m'       # take a lock\n\
             dev:   curl {last}/v1/locks/deploy/queue            # holder and waiters, from any node\n\
             dev:   fairhold lock deploy{here} -- echo hello    # run a command under it (queues until it is free)\n\
             dev: dashboard {first}/ui/\n\
             dev: then: fairhold top{here}; fairhold doctor{here}; kill -9 the pid of a node\n"
        )
    }

    /// The line for a cluster whose nodes are all ready.
    pub(crate) fn ready_line(&self) -> String {
        let urls: Vec<String> = self.nodes.iter().map(PlannedNode::url).collect();
        format!("ready {}\n", urls.join(" "))
    }
}

impl PlannedNode {
    /// Its number.
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    /// Its URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.has_tls { "https" } else { "http" }, self.client_address())
    }

    /// The address at which it listens for clients.
    pub(crate) fn client_address(&self) -> String {
        format!("{HOST}:{}", self.client_port)
    }

    /// The address at which it listens for the other nodes.
    pub(crate) fn peer_address(&self) -> String {
        format!("{HOST}:{}", self.peer_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        args::{Args, Command},
        config::{
            ServeConfig,
            peer_trust::PeerTrust,
            start::{MemberSource, Start, StartingNode},
        },
    };
    use clap::Parser;

    #[test]
    fn the_lines_on_stdout_are_stable() {
        let plan = DevPlan::new(3, 7171).unwrap();
        assert_eq!(plan.node_line(2, 4711), "node 2 pid 4711 http://127.0.0.1:7172\n");
        assert_eq!(plan.ready_line(), "ready http://127.0.0.1:7171 http://127.0.0.1:7172 http://127.0.0.1:7173\n");
    }

    #[test]
    fn the_next_steps_fit_the_ports() {
        let steps = DevPlan::new(3, 7171).unwrap().next_steps();
        assert!(steps.contains("fairhold lock deploy -- echo") && steps.contains("http://127.0.0.1:7173/v1/locks/deploy/queue"));
        let steps = DevPlan::new(1, 7571).unwrap().next_steps();
        assert!(steps.contains("fairhold top -e http://127.0.0.1:7571"), "{steps}");
        assert!(steps.lines().all(|line| line.starts_with("dev: ")), "{steps}");
        let plan = DevPlan::new(2, 7171).unwrap().with_tls();
        let steps = plan.secure_next_steps(&[("FAIRHOLD_CACERT", "/it's here/ca.crt".to_owned())]);
        assert!(steps.contains("export FAIRHOLD_ENDPOINT=https://127.0.0.1:7171,https://127.0.0.1:7172\n"), "{steps}");
        assert!(steps.contains("export FAIRHOLD_CACERT='/it'\\''s here/ca.crt'\n"), "{steps}");
        assert!(steps.lines().all(|line| line.starts_with("dev: ")), "{steps}");
    }

    #[test]
    fn serve_accepts_the_arguments_of_a_node() {
        let plan = DevPlan::new(3, 7171).unwrap();
        for node in plan.nodes() {
            let line =
                std::iter::once("fairhold".into()).chain(plan.serve_args(node, Path::new("/data dir"), Path::new("/a key")));
            let Command::Serve(args) = Args::try_parse_from(line).unwrap().command else { panic!("not serve") };
            let config = ServeConfig::resolve(*args).unwrap();
            let Start::Known(StartingNode { id, members, source: MemberSource::List, joined: false }) = config.start else {
                panic!("{:?}", config.start)
            };
            assert_eq!((id, members.len(), config.exit_with_parent), (node.id(), 3, true));
            assert_eq!((config.listen, config.peer_listen), (node.client_address(), node.peer_address()));
            assert_eq!(config.peers, PeerTrust::Key("/a key".into()));
            assert_eq!(config.data, Path::new("/data dir").join(format!("node-{}", node.id())));
        }
    }

    #[test]
    fn ports_above_65535_are_refused() {
        assert!(DevPlan::new(3, 65_433).is_ok());
        assert!(DevPlan::new(3, 65_434).unwrap_err().to_string().contains("the highest value is 65433"));
        assert!(DevPlan::new(5, 65_535).is_err());
        assert_eq!(DevPlan::new(1, 65_435).unwrap().nodes().next().unwrap().peer_address(), "127.0.0.1:65535");
    }
}
