//! The bare replicated log: three nodes in this process with real connections and disks, without HTTP, and with
//! commands that the state machine refuses. Each commit is on the disks of a majority before its answer, so this is the
//! lower bound for every write.

use super::{
    load::{seconds, up_to},
    measure::{LoadPlan, RunOutcome, Steps, Work},
    target::drive,
};
use crate::remote::Failure;
use fairhold_peer::{client::TcpPeer, key::PeerKeys, server::PeerServer};
use fairhold_raft::{ApplyObserver, MemberAddress, PeerService, Replica, ReplicaConfig, defect::NoDefectStore};
use fairhold_state::{
    State,
    command::{Command, Event},
};
use fairhold_storage::{Storage, data_dir::DataDir};
use fairhold_types::{NodeId, Revision, SessionId, time::WallMillis};
use openraft_rt_tokio::TokioRuntime;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::{JoinHandle, spawn_blocking},
    time::sleep,
};

/// Threads of all three nodes.
pub(super) const THREADS: usize = 4;
const NODES: u16 = 3;
/// How long an election and a commit may take.
const LEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long closing the files may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
/// How often it checks for a leader, and for closed files.
const CHECK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Keep this many commits in flight, 1 to 100000
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = up_to(100_000))]
    clients: usize,
    /// Measure for this many seconds, up to 86400
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Run for this many seconds before measuring
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    warmup: Duration,
    /// Create this directory on the disk to measure, and remove it afterwards; it must not exist
    #[arg(long, value_name = "DIR", default_value = "fairhold-bench-log")]
    dir: PathBuf,
    /// Use this port and the next two for traffic between the nodes; at most 65000
    #[arg(long, value_name = "PORT", default_value_t = 7_371, value_parser = clap::value_parser!(u16).range(1..=65_000))]
    port: u16,
}

/// Runs the workload. Removes the directory even if it fails.
pub(super) async fn run(args: &LogArgs, is_shown: bool) -> Result<RunOutcome, Failure> {
    if args.seconds.is_zero() {
        return Err(Failure::Usage("--seconds must be greater than 0".to_owned()));
    }
    fs::create_dir_all(args.dir.parent().unwrap_or(Path::new(".")))?;
    let cannot_create = |error: io::Error| Failure::Usage(format!("--dir {} cannot be created: {error}", args.dir.display()));
    fs::create_dir(&args.dir).map_err(cannot_create)?;
    let outcome = measure(args, is_shown).await;
    remove(&args.dir).await?;
    outcome
}

/// Removes the directory once RocksDB, whose threads outlive its handle, has stopped writing to it.
async fn remove(directory: &Path) -> io::Result<()> {
    let until = Instant::now() + CLOSED_WITHIN;
    loop {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && Instant::now() < until => sleep(CHECK_EVERY).await,
            removed => return removed,
        }
    }
}

async fn measure(args: &LogArgs, is_shown: bool) -> Result<RunOutcome, Failure> {
    let mut nodes = Vec::new();
    for id in 1..=NODES {
        nodes.push(LogNode::start(args, id).await.map_err(Failure::Ended)?);
    }
    let outcome = match leader(&nodes).await {
        Some(replica) => {
            let plan = LoadPlan { clients: args.clients, warmup: args.warmup, time: args.seconds, rate: None };
            Ok(drive(plan, vec![Commit(replica); args.clients], is_shown).await)
        }
        None => Err(Failure::Ended(format!("none of the three nodes became the leader within {LEADER_TIMEOUT:?}"))),
    };
    for node in nodes {
        node.stop().await;
    }
    outcome
}

async fn leader(nodes: &[LogNode]) -> Option<Replica<TokioRuntime>> {
    let until = Instant::now() + LEADER_TIMEOUT;
    while Instant::now() < until {
        if let Some(node) = nodes.iter().find(|node| node.replica.leadership().is_some()) {
            return Some(node.replica.clone());
        }
        sleep(CHECK_EVERY).await;
    }
    None
}

/// A node that consists of its log only.
struct LogNode {
    replica: Replica<TokioRuntime>,
    peer: Arc<TcpPeer>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    /// Holds the lock on the directory.
    _directory: DataDir,
}

impl LogNode {
    async fn start(args: &LogArgs, id: u16) -> Result<LogNode, String> {
        let address = |id: u16| format!("127.0.0.1:{}", args.port + id - 1);
        let server = PeerServer::bind(&address(id)).await.map_err(|error| format!("{}: {error}", address(id)))?;
        let path = args.dir.join(format!("node-{id}"));
        let storage = spawn_blocking(move || Storage::open(&path, NodeId::from(id))).await.map_err(|error| error.to_string())?;
        let Storage { data_dir, log, snapshots, faults: _ } = storage.map_err(|error| error.to_string())?;
        let members: BTreeMap<NodeId, MemberAddress> = (1..=NODES)
            .map(|id| (NodeId::from(id), MemberAddress { url: format!("http://{}", address(id)), address: address(id) }))
            .collect();
        let config = ReplicaConfig::new(NodeId::from(id), members, data_dir.incarnation());
        let peer_service = PeerService::new(&config);
        let peer = Arc::new(TcpPeer::new(Handle::current(), PeerKeys::none()));
        peer.set_service(peer_service.service());
        let replica = Replica::start(
            config,
            peer_service,
            peer.clone(),
            log,
            Arc::new(snapshots),
            Arc::new(IgnoreEvents),
            Arc::new(NoDefectStore),
        )
        .await;
        let replica = replica.map_err(|error| error.to_string())?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.serve(replica.service(), async {
            // The signal has arrived, or its sender is gone.
            drop(stopped.await);
        }));
        Ok(LogNode { replica, peer, stop, serving, _directory: data_dir })
    }

    async fn stop(self) {
        drop(self.stop);
        self.replica.shutdown().await;
        self.peer.close().await;
        self.serving.abort();
    }
}

/// Ignores all events.
struct IgnoreEvents;

impl ApplyObserver for IgnoreEvents {
    fn applied(&self, _: &State, _: Revision, _: &[Event]) {}

    fn replaced(&self, _: &State) {}
}

#[derive(Clone)]
struct Commit(Replica<TokioRuntime>);

impl Work for Commit {
    async fn once(&mut self, _: &mut Steps) -> Result<Instant, String> {
        // This session does not exist, so the state machine has nothing to do.
        let command = Command::CloseSession { session: SessionId(rand::random()), at: WallMillis(0) };
        let result = self.0.propose_within(command, LEADER_TIMEOUT).await;
        result.map_err(|error| error.to_string())?;
        Ok(Instant::now())
    }
}
