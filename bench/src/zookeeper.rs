//! ZooKeeper: the lock recipe of its documentation. Each client has its own session and connection.

use crate::{Args, Failure, PATIENCE, RunOutcome, Steps, VALUE, Work, Workload, drive, live, unique, words};
use std::time::{Duration, Instant};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

/// How long a session outlives its connection.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
const LASTING: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const CONTENDER: CreateOptions<'static> = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

/// Runs a load.
pub(crate) async fn run(args: &Args) -> Result<RunOutcome, Failure> {
    let root = format!("/{}", unique());
    connect(args, 0).await?.create(&root, &[], &LASTING).await?;
    let mut works = Vec::new();
    for index in 0..args.clients {
        let client = connect(args, index).await?;
        // The node of a lock exists before the first acquire, as in a real program.
        let path = if args.workload == Workload::Contended { format!("{root}/one") } else { format!("{root}/{index}") };
        if args.workload != Workload::Contended || index == 0 {
            client.create(&path, &VALUE, &LASTING).await?;
        }
        works.push(Load { client, path, workload: args.workload });
    }
    drive(args, works).await
}

/// Opens sessions and keeps them open: the client library keeps them alive.
pub(crate) async fn sessions(args: &Args) -> Result<(), Failure> {
    let mut clients = Vec::new();
    for index in 0..args.clients {
        clients.push(connect(args, index).await?);
    }
    live(args).await
}

async fn connect(args: &Args, index: usize) -> Result<Client, Failure> {
    let connector = Client::connector().with_session_timeout(SESSION_TIMEOUT).with_server_version(3, 8, 0);
    Ok(connector.connect(&args.endpoints(index).join(",")).await?)
}

struct Load {
    client: Client,
    path: String,
    workload: Workload,
}

impl Load {
    /// Queues until it is first. Returns the name of its node, to delete later.
    async fn acquire(&self) -> Result<String, zookeeper_client::Error> {
        let prefix = format!("{}/lock-", self.path);
        let (_, sequence) = self.client.create(&prefix, &[], &CONTENDER).await?;
        let mine = format!("lock-{sequence}");
        loop {
            let mut children = self.client.list_children(&self.path).await?;
            children.sort_unstable();
            let place = children.iter().position(|child| *child == mine).ok_or(zookeeper_client::Error::NoNode)?;
            let Some(before) = place.checked_sub(1) else { return Ok(format!("{}/{mine}", self.path)) };
            let predecessor = format!("{}/{}", self.path, children[before]);
            let (stat, watcher) = self.client.check_and_watch_stat(&predecessor).await?;
            if stat.is_some() {
                watcher.changed().await;
            }
        }
    }
}

impl Work for Load {
    async fn once(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let began = Instant::now();
        match self.workload {
            Workload::Lock | Workload::Contended => {
                let node = self.acquire().await.map_err(words)?;
                let acquired = Instant::now();
                self.client.delete(&node, None).await.map_err(words)?;
                let released = Instant::now();
                steps.took("release", released - acquired);
                if self.workload == Workload::Contended {
                    return Ok(acquired);
                }
                steps.took("acquire", acquired - began);
                return Ok(released);
            }
            Workload::KvWrite => drop(self.client.set_data(&self.path, &VALUE, None).await.map_err(words)?),
            Workload::Failover => {
                let written = tokio::time::timeout(PATIENCE, self.client.set_data(&self.path, &VALUE, None)).await;
                written.map_err(words)?.map_err(words)?;
            }
            Workload::KvRead => {
                self.client.sync(&self.path).await.map_err(words)?;
                self.client.get_data(&self.path).await.map_err(words)?;
            }
            Workload::KvLocalRead => drop(self.client.get_data(&self.path).await.map_err(words)?),
            Workload::Sessions => return Err("sessions do nothing".to_owned()),
        }
        Ok(Instant::now())
    }
}
