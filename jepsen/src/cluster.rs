//! The nodes: real processes, each on its own machine, which is a network namespace. Only this program starts and stops
//! them. Nodes are named by their machines: a node that joins later has another id than its machine.

mod membership;
mod security;

use crate::{http::Http, http::Request, log_line, net::Network};
use rustix::process::{Pid, Signal, kill_process};
use security::{ClusterSecurity, write_secret};
use std::{
    ffi::OsString,
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    process::{Child, ChildStdin, Command},
    task::JoinSet,
};

/// The port for clients, in the namespace of the node.
pub(crate) const CLIENT_PORT: u16 = 7171;
/// The port for peers.
const PEER_PORT: u16 = 7271;
/// How long a node may take to become ready.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a killed process may take to exit.
const GONE_WITHIN: Duration = Duration::from_secs(20);
/// How often to check for something that no event announces.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// How many characters of a log are shown.
const LOG_CHARS_MAX: usize = 240;
/// The key of the nodes. Their network is private.
const PEER_KEY: &str = "the peer key of the nodes of a chaos run";
/// The size of the event ring in bytes: large enough for all events of a run.
const EVENT_RING_BYTES: &str = "536870912";

/// How the next process of a node learns of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// By the list of the first members.
    Members,
    /// By the join token in a file.
    Token(PathBuf),
    /// By its data directory alone.
    Directory,
}

/// A machine, and its node if it has one.
#[derive(Debug)]
pub(crate) struct Node {
    /// The number of the machine, from 1. The first members have the same ids.
    pub(crate) id: usize,
    /// Its data directory.
    pub(crate) data: PathBuf,
    /// Its log file.
    pub(crate) log: PathBuf,
    /// The environment of its process.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// The program of its next process.
    pub(crate) program: PathBuf,
    origin: Origin,
    /// Whether its node is a member of the cluster, or is about to join.
    takes_part: bool,
    child: Option<Child>,
    leash: Option<ChildStdin>,
}

/// All nodes.
#[derive(Debug)]
pub(crate) struct ChaosCluster {
    /// The machines, by number minus 1.
    pub(crate) nodes: Vec<Node>,
    /// For requests that are not part of the history.
    pub(crate) http: Http,
    namespaces: Vec<String>,
    /// The addresses of each machine: its URL, and its address for peers.
    addresses: Vec<(String, String)>,
    members: Vec<String>,
    peer_key_file: PathBuf,
    /// `None` if the nodes and the clients speak without TLS, and everyone may do everything.
    pub(crate) security: Option<ClusterSecurity>,
    /// The program of this version.
    program: PathBuf,
    /// The timing profile that the nodes are started with.
    pub(crate) timing: Option<&'static str>,
}

/// The state that a node reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) last_log_index: u64,
    pub(crate) snapshot_index: u64,
    /// The revision of the digest.
    pub(crate) revision: u64,
    pub(crate) digest: String,
}

/// The data of all nodes. The name contains the number of this process, so that a later run can find leftovers.
pub(crate) fn data_of(folder: &Path) -> PathBuf {
    folder.join(format!("fairhold-chaos-{}", std::process::id()))
}

/// The disk of a node, which contains its data directory.
pub(crate) fn disk_of(folder: &Path, id: usize) -> PathBuf {
    data_of(folder).join(format!("node-{id}"))
}

impl ChaosCluster {
    /// Stopped nodes, with their files in a folder. The first machines have the first members, and the others have no
    /// node.
    pub(crate) fn plan(
        network: &Network,
        program: &Path,
        folder: &Path,
        members: usize,
        is_secure: bool,
    ) -> Result<ChaosCluster, String> {
        let ids = 1..=network.nodes();
        let hosts: Vec<String> = ids.clone().map(|id| network.address(id)).collect();
        let scheme = if is_secure { "https" } else { "http" };
        let addresses: Vec<(String, String)> =
            hosts.iter().map(|host| (format!("{scheme}://{host}:{CLIENT_PORT}"), format!("{host}:{PEER_PORT}"))).collect();
        let listed = (1..=members).zip(&addresses).map(|(id, (url, peer))| format!("{id}={url},{peer}")).collect();
        let node = |id: usize| Node {
            id,
            data: disk_of(folder, id).join("fairhold"),
            log: folder.join(format!("node-{id}.log")),
            environment: Vec::new(),
            program: program.to_owned(),
            origin: Origin::Members,
            takes_part: id <= members,
            child: None,
            leash: None,
        };
        let peer_key_file = folder.join("peer.key");
        write_secret(&peer_key_file, PEER_KEY)?;
        let http = Http::new(addresses.iter().map(|(url, _)| url.clone()).collect(), (1..=members).collect())?;
        let security = is_secure.then(|| ClusterSecurity::create(program, folder, hosts)).transpose()?;
        Ok(ChaosCluster {
            nodes: ids.clone().map(node).collect(),
            http: security.as_ref().map_or_else(|| Ok(http.clone()), |security| security.administrator(&http))?,
            namespaces: ids.map(|id| network.namespace(id)).collect(),
            addresses,
            members: listed,
            peer_key_file,
            security,
            program: program.to_owned(),
            timing: None,
        })
    }

    /// Starts a stopped node.
    pub(crate) fn start(&mut self, id: usize) -> Result<(), String> {
        let namespace = &self.namespaces[id - 1];
        let security = self.security_args(id);
        let node = &mut self.nodes[id - 1];
        let log = OpenOptions::new().create(true).append(true).open(&node.log).map_err(|error| format!("a log: {error}"))?;
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={namespace}")).arg(&node.program).arg("serve").arg("--data").arg(&node.data);
        match &node.origin {
            Origin::Members => {
                command.args(["--id", &id.to_string()]);
                for member in &self.members {
                    command.args(["--member", member]);
                }
            }
            Origin::Token(file) => {
                let (url, peer) = &self.addresses[id - 1];
                command.arg("--join-file").arg(file).args(["--advertise", &format!("{url},{peer}")]);
            }
            Origin::Directory => {}
        }
        if let Some(timing) = self.timing {
            command.args(["--timing", timing]);
        }
        command.arg("--peer-key-file").arg(&self.peer_key_file).args(security);
        command.args(["--event-ring-bytes", EVENT_RING_BYTES, "--exit-with-parent"]);
        command.envs(node.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(log.try_clone().map_err(|error| error.to_string())?).stderr(log);
        // Signals from the terminal must not reach the nodes.
        command.kill_on_drop(true).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("nsenter: {error}"))?;
        node.leash = child.stdin.take();
        node.child = Some(child);
        Ok(())
    }

    /// Starts all nodes, and waits until each is ready.
    pub(crate) async fn start_all(&mut self) -> Result<(), String> {
        for id in self.machines() {
            self.start(id)?;
        }
        for id in self.machines() {
            self.ready(id, READY_WITHIN).await?;
        }
        Ok(())
    }

    /// Waits until a node is ready.
    pub(crate) async fn ready(&mut self, id: usize, within: Duration) -> Result<(), String> {
        let started = Instant::now();
        let readyz = Request::get("/readyz").within(Duration::from_millis(500), Duration::ZERO);
        loop {
            if self.nodes[id - 1].has_ended() {
                let log = self.nodes[id - 1].last_line();
                return Err(format!("node {id} ended before it was ready: {log}"));
            }
            if self.http.ask(id, &readyz).await.status == 200 {
                return Ok(());
            }
            if started.elapsed() > within {
                return Err(format!("node {id} is not ready after {within:?}"));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// The state that a node reports; `None` if it does not answer.
    pub(crate) async fn state_of(&self, id: usize) -> Option<NodeState> {
        let request = Request::get("/v1/cluster?digest").within(Duration::from_secs(2), Duration::ZERO);
        let cluster = self.http.ask(id, &request).await.json;
        Some(NodeState {
            last_log_index: cluster["last_log_index"].as_u64()?,
            snapshot_index: cluster["snapshot_index"].as_u64().unwrap_or(0),
            revision: cluster["digest_revision"].as_u64()?,
            digest: cluster["digest"].as_str()?.to_owned(),
        })
    }

    /// Waits until all nodes are ready and have the same state. Returns it.
    pub(crate) async fn come_to_rest(&mut self) -> Result<NodeState, String> {
        let ids = self.machines();
        for id in &ids {
            self.ready(*id, READY_WITHIN).await?;
        }
        let started = Instant::now();
        loop {
            let mut all = Vec::new();
            for id in &ids {
                all.push(self.state_of(*id).await);
            }
            let known: Vec<&NodeState> = all.iter().flatten().collect();
            if known.len() == all.len() && known.iter().all(|state| state.revision == known[0].revision) {
                if known.iter().all(|state| state.digest == known[0].digest) {
                    return Ok(known[0].clone());
                }
                return Err(format!("the nodes differ at the same revision: {all:?}"));
            }
            if started.elapsed() > READY_WITHIN {
                return Err(format!("the nodes do not reach the same state: {all:?}"));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// A node by its id.
    pub(crate) fn node(&mut self, id: usize) -> &mut Node {
        &mut self.nodes[id - 1]
    }

    /// The nodes that have a process.
    pub(crate) fn running(&self) -> Vec<usize> {
        self.nodes.iter().filter(|node| node.child.is_some()).map(|node| node.id).collect()
    }

    /// The node that reports itself as the leader with the newest term; `None` if no node does.
    pub(crate) async fn leader(&self) -> Option<usize> {
        leader_of(&self.http).await.map(|(node, _)| node)
    }
}

/// The node that reports itself as the leader with the newest term, and that term.
pub(crate) async fn leader_of(http: &Http) -> Option<(usize, u64)> {
    let request = Request::get("/v1/cluster").within(Duration::from_millis(300), Duration::ZERO);
    let mut replies = JoinSet::new();
    for node in http.serving() {
        let (http, request) = (http.clone(), request.clone());
        replies.spawn(async move { (node, http.ask(node, &request).await.json) });
    }
    let mut newest = None;
    for (node, cluster) in replies.join_all().await {
        let term = cluster["term"].as_u64().unwrap_or(0);
        if cluster["role"] == "leader" && newest.is_none_or(|(_, known)| term > known) {
            newest = Some((node, term));
        }
    }
    newest
}

impl Node {
    /// The id of its process, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Sends its process a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = self.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let pid = pid.ok_or_else(|| format!("node {} does not run", self.id))?;
        kill_process(pid, signal).map_err(|error| format!("node {}: {error}", self.id))
    }

    /// `kill -9`, and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> Result<(), String> {
        self.signal(Signal::KILL)?;
        self.exited().await
    }

    /// Waits until its process has exited.
    pub(crate) async fn exited(&mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        self.leash = None;
        let ended = tokio::time::timeout(GONE_WITHIN, child.wait()).await;
        ended.map(|_| ()).map_err(|_| format!("node {} still runs after {GONE_WITHIN:?}", self.id))
    }

    /// Whether its process has exited on its own.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.end_seen().is_some()
    }

    /// The status with which its process exited on its own, reported once.
    pub(crate) fn end_seen(&mut self) -> Option<ExitStatus> {
        match self.child.as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => {
                self.child = None;
                Some(status)
            }
            Some(Ok(None) | Err(_)) | None => None,
        }
    }

    /// Whether it has a process.
    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// The state letter of its process, as in `ps`.
    pub(crate) fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()?)).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    /// Whether none of its threads runs: each is stopped, or will be when its current system call returns.
    pub(crate) fn is_stopped(&self) -> bool {
        let Some(pid) = self.pid() else { return true };
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
        threads.filter_map(Result::ok).all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 'D', 'Z', 'X']))
        })
    }

    /// The last line of its log, cut to `LOG_CHARS_MAX`.
    pub(crate) fn last_line(&self) -> String {
        let text = std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        text.lines().last().unwrap_or_default().chars().take(LOG_CHARS_MAX).collect()
    }
}

impl ChaosCluster {
    /// Kills all running nodes, and waits until they are gone.
    pub(crate) fn end(&mut self) {
        for node in &mut self.nodes {
            let Some(child) = node.child.as_mut() else { continue };
            // This also kills a frozen or stopped process. If it has exited on its own, there is nothing to kill.
            drop(child.start_kill());
            let started = Instant::now();
            while matches!(child.try_wait(), Ok(None)) && started.elapsed() < GONE_WITHIN {
                std::thread::yield_now();
            }
            if matches!(child.try_wait(), Ok(None)) {
                log_line(&format!("node {} could not be killed", node.id));
            }
            node.child = None;
        }
    }
}

impl Drop for ChaosCluster {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_stopped_after_sigstop() {
        let mut busy = Command::new("sh");
        let child = busy.args(["-c", "while :; do :; done"]).kill_on_drop(true).spawn().unwrap();
        let mut node = Node {
            id: 1,
            data: PathBuf::new(),
            log: PathBuf::new(),
            environment: Vec::new(),
            program: PathBuf::new(),
            origin: Origin::Directory,
            takes_part: true,
            child: Some(child),
            leash: None,
        };
        while node.is_stopped() {
            tokio::task::yield_now().await;
        }
        node.signal(Signal::STOP).unwrap();
        // It may be in an uninterruptible wait for a moment before it stops.
        while node.state() != Some('T') {
            tokio::task::yield_now().await;
        }
        assert!(node.is_stopped());
        node.kill().await.unwrap();
    }
}
