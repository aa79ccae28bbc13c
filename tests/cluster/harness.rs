//! Starts real nodes on free ports of this machine, injects faults, and shows the nodes' logs if a test fails.

use crate::{
    client::{Call, Client},
    leaderships::{self, Causes, Leadership, Span, leaderships},
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    future::Future,
    io::Write as _,
    net::TcpListener,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    pin::pin,
    process::{ExitStatus, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    process::{Child, ChildStdin, Command},
    sync::RwLock,
    task::JoinHandle,
};

/// Nodes in a cluster of these tests.
pub(crate) const NODES: usize = 3;

/// How long a cluster may take to become ready.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(60);

/// Time limit of an ordinary test.
pub(crate) const SHORT: Duration = Duration::from_secs(120);

/// Time limit of a long test.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// Polling interval for conditions that no event announces.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a killed process may take to disappear.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Lines of each node's log that a failed test shows.
const LOG_TAIL_LINES: usize = 60;

/// Below the kernel's range for outgoing ports, so that a restarted node finds its own port free.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

static GATE: RwLock<()> = RwLock::const_new(());

/// Runs a test that may share the machine with other tests.
pub(crate) fn run_parallel(limit: Duration, body: impl Future<Output = ()>) {
    block_on(async {
        let _shared = GATE.read().await;
        within(limit, body).await;
    });
}

/// Runs a test that needs the machine to itself, because it is heavy or measures times.
pub(crate) fn run_exclusive(limit: Duration, body: impl Future<Output = ()>) {
    block_on(async {
        let _alone = GATE.write().await;
        within(limit, body).await;
    });
}

fn block_on(body: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime").block_on(body);
}

async fn within(limit: Duration, body: impl Future<Output = ()>) {
    // Pinned here, so that the body is still alive and shows its nodes' logs while the panic below unwinds.
    let mut body = pin!(body);
    assert!(tokio::time::timeout(limit, body.as_mut()).await.is_ok(), "this test is not done within {limit:?}");
}

/// Lets time pass as a client would: between two renewals, before a retry, for a random time. To wait for a server,
/// poll its answers instead.
pub(crate) async fn pass_time(time: Duration) {
    let never = std::future::pending::<()>();
    assert!(tokio::time::timeout(time, never).await.is_err(), "the pending future completed");
}

/// Polls until `condition` returns a value; panics if it has not within `limit`.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> F,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        pass_time(LOOK_EVERY).await;
    }
}

/// The program as an interactive shell starts it: signals end it even if the test runner ignores them.
pub(crate) fn program() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,QUIT,HUP", env!("CARGO_BIN_EXE_fairhold")]);
    command
}

/// Waits for tasks, in any order, and propagates the first panic at once.
pub(crate) async fn all<T: Send + 'static>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let tasks: Vec<_> = tasks.into_iter().map(|task| async { task.await.map_err(|error| error.to_string()) }).collect();
    futures_util::future::try_join_all(tasks).await.unwrap_or_else(|error| panic!("a client's task: {error}"))
}

/// Prints figures even if the test passes.
pub(crate) fn report(line: &str) {
    writeln!(std::io::stderr().lock(), "{line}").expect("standard error can be written");
}

/// One node: its addresses and data, and its process while it runs.
#[derive(Debug)]
pub(crate) struct NodeProcess {
    pub(crate) id: usize,
    pub(crate) url: String,
    /// The address at which it listens for the other nodes.
    pub(crate) peer_address: String,
    pub(crate) data: PathBuf,
    pub(crate) log: PathBuf,
    /// Environment variables for its next process.
    pub(crate) environment: Vec<(String, OsString)>,
    /// Its program, which differs during an upgrade.
    pub(crate) program: PathBuf,
    /// How its next process learns of its cluster.
    pub(crate) origin: Origin,
    /// The file with the key that it shares with the other nodes.
    pub(crate) peer_key_file: Option<PathBuf>,
    /// The memory cgroup in which it starts, if it has its own.
    pub(crate) cgroup: Option<PathBuf>,
    /// Further arguments of its start.
    pub(crate) flags: Vec<String>,
    /// The address at which it listens for clients, if that differs from its URL.
    listen: Option<String>,
    child: Option<Child>,
    /// The node ends when this pipe closes, so that no node survives if the tests are killed.
    stdin: Option<ChildStdin>,
    /// The times during which the test kept it from working.
    absences: Mutex<Vec<Span>>,
    /// It is no member any more, so its absence explains nothing.
    has_left: bool,
}

/// How a process of a node learns of its cluster.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// By the list of all members, which forms the cluster.
    Members(Vec<String>),
    /// By the join token in this file.
    Token(PathBuf),
    /// By its data directory alone.
    Directory,
}

impl NodeProcess {
    /// A node without a process. Its files are in the folder, with this name.
    fn stopped(id: usize, (url, peer_address): (String, String), folder: &Path, name: &str, origin: Origin) -> NodeProcess {
        NodeProcess {
            id,
            url,
            peer_address,
            data: folder.join(format!("node-{name}")),
            log: folder.join(format!("node-{name}.log")),
            environment: Vec::new(),
            program: env!("CARGO_BIN_EXE_fairhold").into(),
            origin,
            peer_key_file: Some(folder.join("peer.key")),
            cgroup: None,
            flags: Vec::new(),
            listen: None,
            child: None,
            stdin: None,
            absences: Mutex::default(),
            has_left: false,
        }
    }

    /// Starts the process, and does not wait until it is ready.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "node {} runs already", self.id);
        let log = OpenOptions::new().create(true).append(true).open(&self.log).expect("a log file");
        let mut command = match &self.cgroup {
            None => Command::new(&self.program),
            // A node reads its memory limit at its start, so it must start in the group.
            Some(cgroup) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(cgroup.join("cgroup.procs"));
                shell.arg(&self.program);
                shell
            }
        };
        command.arg("serve");
        match &self.origin {
            Origin::Members(members) => {
                command.args(["--id", &self.id.to_string()]);
                for member in members {
                    command.args(["--member", member]);
                }
            }
            Origin::Token(file) => {
                command.arg("--join-file").arg(file).args(["--advertise", &format!("{},{}", self.url, self.peer_address)]);
            }
            Origin::Directory => {}
        }
        command.arg("--data").arg(&self.data);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(listen) = &self.listen {
            command.args(["--listen", listen, "--insecure"]);
        }
        if let Some(file) = &self.peer_key_file {
            command.arg("--peer-key-file").arg(file);
        }
        command.args(&self.flags).arg("--exit-with-parent").stdin(Stdio::piped());
        command.stdout(log.try_clone().expect("a second handle")).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().expect("fairhold serve starts");
        self.stdin = child.stdin.take();
        self.child = Some(child);
        self.end_absence();
    }

    /// Records that the test keeps it from working from now on.
    fn begin_absence(&self) {
        let mut absences = self.absences.lock().expect("the mutex is not poisoned");
        if !self.has_left && absences.last().is_none_or(|last| last.until.is_some()) {
            absences.push(Span::from_now());
        }
    }

    fn end_absence(&self) {
        let mut absences = self.absences.lock().expect("the mutex is not poisoned");
        if let Some(last) = absences.last_mut() {
            last.until.get_or_insert_with(leaderships::now);
        }
    }

    /// Notes that it is no member any more.
    pub(crate) fn leave(&mut self) {
        self.end_absence();
        self.has_left = true;
    }

    /// Whether it is a member, or was started as one.
    pub(crate) fn is_member(&self) -> bool {
        !self.has_left && self.id > 0
    }

    /// From its next start on, it is at other ports. Only its own member list shows that.
    pub(crate) fn move_to_free_ports(&mut self) {
        let before = format!("{}={},{}", self.id, self.url, self.peer_address);
        self.url = format!("http://127.0.0.1:{}", free_port());
        self.peer_address = format!("127.0.0.1:{}", free_port());
        if let Origin::Members(members) = &mut self.origin {
            let own = members.iter_mut().find(|member| **member == before).expect("the list has this node");
            *own = format!("{}={},{}", self.id, self.url, self.peer_address);
        }
    }

    /// From its next start on, accepts clients at every address of this machine.
    pub(crate) fn listen_everywhere(&mut self) {
        let port = self.url.rsplit(':').next().expect("a URL with a port");
        self.listen = Some(format!("0.0.0.0:{port}"));
    }

    /// From its next start on, accepts clients at another port, so that something else can take the port of its URL.
    /// Returns its new URL.
    pub(crate) fn listen_elsewhere(&mut self) -> String {
        let address = format!("127.0.0.1:{}", free_port());
        self.listen = Some(address.clone());
        address
    }

    /// The id of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().and_then(Child::id).unwrap_or_else(|| panic!("node {} does not run", self.id))
    }

    /// Sends a signal to its process. With [`Signal::STOP`], also waits until each of its threads has stopped: until then, a
    /// thread may still answer a request.
    pub(crate) fn signal(&self, signal: Signal) {
        // Before the signal, so that every consequence comes later.
        if signal != Signal::CONT {
            self.begin_absence();
        }
        signal_pid(self.pid(), signal);
        if signal == Signal::STOP {
            // The runtime still needs to see an exit, so nothing is taken from the kernel here.
            let changes = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let stopped = waitid(WaitId::Pid(process(self.pid())), changes).expect("a child of this process");
            assert!(stopped.is_some_and(|status| status.stopped()), "node {} exited instead of stopping", self.id);
        }
        if signal == Signal::CONT {
            self.end_absence();
        }
    }

    /// Sends SIGKILL, and waits until the process is gone.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.exited().await;
    }

    /// Sends SIGTERM, and waits until the process ends.
    pub(crate) async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exited().await
    }

    /// Waits for the end of its process.
    pub(crate) async fn exited(&mut self) -> ExitStatus {
        self.begin_absence();
        let mut child = self.child.take().unwrap_or_else(|| panic!("node {} does not run", self.id));
        let exited = tokio::time::timeout(GONE_WITHIN, child.wait()).await;
        exited.unwrap_or_else(|_| panic!("node {} still runs after {GONE_WITHIN:?}", self.id)).expect("a child can be waited for")
    }

    /// Whether its process has ended although the test did not end it.
    pub(crate) fn has_exited(&mut self) -> bool {
        let child = self.child.as_mut();
        let ended = child.is_some_and(|child| child.try_wait().expect("a child can be asked").is_some());
        if ended {
            self.child = None;
            self.begin_absence();
        }
        ended
    }

    /// Uses another node's data directory from its next start on.
    pub(crate) fn move_to(&mut self, data: &Path) {
        data.clone_into(&mut self.data);
    }

    /// Whether it has a process.
    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Everything that it has logged so far.
    pub(crate) fn log_text(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

/// Sends a signal to a process.
pub(crate) fn signal_pid(pid: u32, signal: Signal) {
    kill_process(process(pid), signal).expect("a process can be signalled");
}

fn process(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number")
}

/// The key of the clusters of these tests.
pub(crate) const PEER_KEY: &str = "the peer key of the clusters that the tests start";

/// Writes a file that only this user can read.
pub(crate) fn write_secret(file: &Path, text: &str) {
    let mut options = OpenOptions::new();
    let mut opened = options.write(true).create(true).truncate(true).mode(0o600).open(file).expect("a file for a secret");
    opened.write_all(text.as_bytes()).expect("a secret can be written");
}

/// A cluster of real processes, ended and removed when dropped.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<NodeProcess>,
    client: Client,
    /// The time at which all of its nodes were first ready.
    was_ready: Option<u64>,
    /// How many elections the test declared as expected.
    expected: AtomicUsize,
    /// Why the logs name no leader, if they may not.
    without_logs: Option<&'static str>,
    folder: TempDir,
}

impl Cluster {
    /// Starts a cluster and waits until every node is ready.
    pub(crate) async fn start() -> Cluster {
        Cluster::start_with(&[]).await
    }

    /// Like `start`, with this number of nodes.
    pub(crate) async fn start_of(nodes: usize) -> Cluster {
        let mut cluster = Cluster::plan_of(nodes);
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.ready().await;
        cluster
    }

    /// Like `start`, with further flags for each node.
    pub(crate) async fn start_with(flags: &[&str]) -> Cluster {
        let mut cluster = Cluster::plan();
        for node in &mut cluster.nodes {
            node.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
            node.start();
        }
        cluster.ready().await;
        cluster
    }

    /// A cluster with no running node.
    pub(crate) fn plan() -> Cluster {
        Cluster::plan_of(NODES)
    }

    /// Like `plan`, with this number of nodes.
    pub(crate) fn plan_of(nodes: usize) -> Cluster {
        leaderships::watch_the_machine();
        let folder = tempfile::Builder::new().prefix("fairhold-cluster-").tempdir().expect("a temporary folder");
        let ports: Vec<(u16, u16)> = (0..nodes).map(|_| (free_port(), free_port())).collect();
        let urls: Vec<String> = ports.iter().map(|(port, _)| format!("http://127.0.0.1:{port}")).collect();
        let peers: Vec<String> = ports.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
        let members = member_list(&urls, &peers);
        let peer_key_file = folder.path().join("peer.key");
        write_secret(&peer_key_file, PEER_KEY);
        let nodes = (1..).zip(urls.into_iter().zip(peers)).map(|(id, addresses)| {
            NodeProcess::stopped(id, addresses, folder.path(), &id.to_string(), Origin::Members(members.clone()))
        });
        let nodes: Vec<NodeProcess> = nodes.collect();
        let client = Client::new(nodes.iter().map(|node| node.url.clone()).collect());
        Cluster { nodes, client, was_ready: None, expected: AtomicUsize::new(0), without_logs: None, folder }
    }

    /// A stopped node at these addresses, or at free ones, that joins by this token. Its id is 0 until it is known.
    /// Returns its index; all clients learn its URL.
    pub(crate) fn add_node(&mut self, token: &str, addresses: Option<(String, String)>) -> usize {
        let index = self.nodes.len();
        let free = || (format!("http://127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
        let (folder, name) = (self.folder.path(), format!("joined-{index}"));
        let file = folder.join(format!("{name}.token"));
        write_secret(&file, token);
        let node = NodeProcess::stopped(0, addresses.unwrap_or_else(free), folder, &name, Origin::Token(file));
        self.client.add(&node.url);
        self.nodes.push(node);
        index
    }

    /// From its next start on, a node has other ports, which only itself and the clients of this test know.
    pub(crate) fn move_to_free_ports(&mut self, index: usize) {
        self.nodes[index].move_to_free_ports();
        self.client.move_node(index, &self.nodes[index].url);
    }

    /// The folder of its files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Gives every node another port for its peers, from its next start on.
    pub(crate) fn change_peer_ports(&mut self) {
        let peers: Vec<String> = self.nodes.iter().map(|_| format!("127.0.0.1:{}", free_port())).collect();
        let urls: Vec<String> = self.nodes.iter().map(|node| node.url.clone()).collect();
        let members = member_list(&urls, &peers);
        for (node, peer_address) in self.nodes.iter_mut().zip(peers) {
            node.peer_address = peer_address;
            node.origin = Origin::Members(members.clone());
        }
    }

    /// A client of all nodes that prefers the node with this index.
    pub(crate) fn client(&self, first: usize) -> Client {
        self.client.beginning_with(first)
    }

    /// Waits until every running node is ready.
    pub(crate) async fn ready(&mut self) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].runs() {
                self.node_ready(index).await;
            }
        }
        self.was_ready.get_or_insert_with(leaderships::now);
    }

    /// Waits until one node is ready.
    pub(crate) async fn node_ready(&mut self, index: usize) {
        let started = Instant::now();
        let readyz = Call::get("/readyz").within(Duration::from_secs(1));
        loop {
            let id = self.nodes[index].id;
            assert!(!self.nodes[index].has_exited(), "node {id} ended before it was ready");
            if self.client.send_to(index, &readyz).await.is_ok_and(|answer| answer.status == 200) {
                return;
            }
            assert!(started.elapsed() < READY_WITHIN, "node {id} is not ready after {READY_WITHIN:?}");
            pass_time(LOOK_EVERY).await;
        }
    }

    /// The index of the node that reports itself as the leader; waits for one.
    pub(crate) async fn leader(&self) -> usize {
        eventually("a leader", READY_WITHIN, || self.leader_now()).await
    }

    async fn leader_now(&self) -> Option<usize> {
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.runs()) {
            let cluster = Call::get("/v1/cluster").within(Duration::from_secs(1));
            let Ok(answer) = self.client.send_to(index, &cluster).await else { continue };
            if answer.header("fairhold-leader").is_some_and(|url| same_address(url, &node.url)) {
                return Some(index);
            }
        }
        None
    }

    /// The two nodes that do not lead.
    pub(crate) async fn followers(&self) -> [usize; 2] {
        let leader = self.leader().await;
        [(leader + 1) % NODES, (leader + 2) % NODES]
    }

    /// Starts a node again in its old directory, and waits until it is ready.
    pub(crate) async fn restart(&mut self, index: usize) {
        self.nodes[index].start();
        self.node_ready(index).await;
    }

    /// Allows up to `most` elections whose cause the harness cannot see.
    pub(crate) fn expect_elections(&self, most: usize, reason: &str) {
        assert!(!reason.is_empty(), "an election has a reason");
        self.expected.fetch_add(most, Ordering::SeqCst);
    }

    /// Allows logs that name no leader.
    pub(crate) fn allow_missing_logs(&mut self, reason: &'static str) {
        self.without_logs = Some(reason);
    }

    /// The leaders so far.
    pub(crate) fn leaderships(&self) -> Vec<Leadership> {
        let logs: Vec<(usize, String)> = self.nodes.iter().map(|node| (node.id, node.log_text())).collect();
        leaderships(&logs)
    }

    /// Leader changes and node exits that the test did not cause.
    pub(crate) fn unexplained(&mut self) -> Vec<String> {
        let mut complaints = Vec::new();
        for node in self.nodes.iter_mut().filter(|node| node.is_member()) {
            let begin_absence = node.absences.get_mut().is_ok_and(|spans| spans.last().is_some_and(|last| last.until.is_none()));
            if !begin_absence && node.has_exited() {
                complaints.push(format!("node {} ended, although the test did not end it", node.id));
            }
        }
        let absences = self.nodes.iter().map(|node| (node.id, node.absences.lock().expect("the mutex is not poisoned").clone()));
        let causes = Causes {
            ready: self.was_ready,
            absences: absences.collect(),
            requests: self.client.leader_requests(),
            expected: self.expected.load(Ordering::SeqCst),
            stalls: leaderships::stalls(),
        };
        let leaders = self.leaderships();
        if self.was_ready.is_some() && leaders.is_empty() && self.without_logs.is_none() {
            complaints.push("no log names a leader, so elections cannot be checked: is FAIRHOLD_LOG set?".to_owned());
        }
        complaints.extend(causes.unexplained(&leaders, self.nodes.iter().filter(|node| node.is_member()).count()));
        complaints
    }

    fn show_logs(&self) {
        for node in &self.nodes {
            let text = node.log_text();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n");
            eprintln!("--- the end of the log of node {} ({} lines, {})\n{tail}", node.id, lines.len(), node.url);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        let complaints = if failed { Vec::new() } else { self.unexplained() };
        if failed || !complaints.is_empty() {
            self.show_logs();
        }
        for child in self.nodes.iter_mut().filter_map(|node| node.child.as_mut()) {
            // It may have exited already: then there is nothing to kill.
            drop(child.start_kill());
        }
        let started = Instant::now();
        for child in self.nodes.iter_mut().filter_map(|node| node.child.as_mut()) {
            while matches!(child.try_wait(), Ok(None)) && started.elapsed() < GONE_WITHIN {
                std::thread::yield_now();
            }
        }
        assert!(complaints.is_empty(), "{}", leaderships::in_words(&complaints));
    }
}

/// The member list with which every node starts.
fn member_list(urls: &[String], peers: &[String]) -> Vec<String> {
    (1..).zip(urls.iter().zip(peers)).map(|(id, (url, peer))| format!("{id}={url},{peer}")).collect()
}

/// Whether two URLs have the same address, with or without a final slash.
pub(crate) fn same_address(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

/// A port on which nothing listens, and which no other test of this process received.
pub(crate) fn free_port() -> u16 {
    free_ports(&[0])
}

/// Like `free_port`: the ports at the given distances from it are free too.
pub(crate) fn free_ports(offsets: &[u16]) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let begin = u16::try_from(std::process::id() % u32::from(span)).expect("smaller than the span");
    let tries = (0..span).map(|_| {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % span;
        PORTS.start + (begin + step) % span
    });
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    tries.into_iter().find(|port| offsets.iter().all(|offset| is_free(port + offset))).expect("a free port")
}
