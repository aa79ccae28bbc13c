//! etcd over gRPC. An uncontended lock is a key that is created if it does not exist, with a lease, and deleted. A
//! contended lock uses etcd's lock service, which queues. Each client has its own connection and lease.

use crate::{Args, Failure, PATIENCE, RunOutcome, Steps, VALUE, Work, Workload, drive, live, unique, words};
use etcd_client::{
    Client, Compare, CompareOp, GetOptions, LeaseKeepAliveStream, LeaseKeeper, LockOptions, PutOptions, Txn, TxnOp,
};
use std::time::{Duration, Instant};

/// How long a lease outlives the run: nothing renews it.
const LEASE_BEYOND_SECONDS: i64 = 120;
/// The ttl of an idle session.
const IDLE_LEASE_SECONDS: i64 = 30;
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// How often, and after which pauses, a lease that a member does not know yet is renewed again.
const LEASE_TRIES: u32 = 20;
const LEASE_RETRY_AFTER: Duration = Duration::from_millis(50);
/// The leases per keepalive stream.
const LEASES_A_STREAM: usize = 100;

/// Runs a load.
pub(crate) async fn run(args: &Args) -> Result<RunOutcome, Failure> {
    let root = unique();
    let seconds = i64::try_from(args.plan()?.time.as_secs())? + LEASE_BEYOND_SECONDS;
    let mut works = Vec::new();
    for index in 0..args.clients {
        // For reads and locks a client uses one server. It needs the others only if a server is killed.
        let endpoints = args.endpoints(index);
        let used = if args.workload == Workload::Failover { &endpoints[..] } else { &endpoints[..1] };
        let mut client = Client::connect(used, None).await?;
        let lease = client.lease_grant(seconds, None).await?.id();
        let key = if args.workload == Workload::Contended { root.clone() } else { format!("{root}/{index}") };
        if !matches!(args.workload, Workload::Lock | Workload::Contended) {
            client.put(key.clone(), VALUE, None).await?;
        }
        works.push(Load { client, lease, key, workload: args.workload });
    }
    drive(args, works).await
}

/// Opens leases and renews them, many over each stream.
pub(crate) async fn sessions(args: &Args) -> Result<(), Failure> {
    let mut client = Client::connect(args.endpoints(0), None).await?;
    let mut keepers = Vec::new();
    for first in (0..args.clients).step_by(LEASES_A_STREAM) {
        let mut streams = Vec::new();
        for _ in first..args.clients.min(first + LEASES_A_STREAM) {
            let lease = client.lease_grant(IDLE_LEASE_SECONDS, None).await?.id();
            streams.push(kept_alive(&mut client, lease).await?);
        }
        keepers.push(tokio::spawn(keep(streams)));
    }
    live(args).await?;
    match keepers.iter().filter(|keeper| keeper.is_finished()).count() {
        0 => Ok(()),
        lost => Err(format!("{lost} of {} streams of keepalives ended", keepers.len()).into()),
    }
}

/// Renews leases until one is lost.
async fn keep(mut streams: Vec<(LeaseKeeper, LeaseKeepAliveStream)>) -> Result<(), etcd_client::Error> {
    loop {
        for (keeper, answers) in &mut streams {
            keeper.keep_alive().await?;
            if answers.message().await?.is_none() {
                return Ok(());
            }
        }
        tokio::time::sleep(KEEPALIVE_EVERY).await;
    }
}

/// Opens a stream that renews a lease. The member may not know a lease that was just granted.
async fn kept_alive(client: &mut Client, lease: i64) -> Result<(LeaseKeeper, LeaseKeepAliveStream), etcd_client::Error> {
    let mut tries = 0;
    loop {
        match client.lease_keep_alive(lease).await {
            Err(_) if tries < LEASE_TRIES => {
                tries += 1;
                tokio::time::sleep(LEASE_RETRY_AFTER).await;
            }
            opened => return opened,
        }
    }
}

struct Load {
    client: Client,
    lease: i64,
    key: String,
    workload: Workload,
}

impl Load {
    async fn own_lock(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let began = Instant::now();
        let key = self.key.as_str();
        let put = TxnOp::put(key, VALUE, Some(PutOptions::new().with_lease(self.lease)));
        let txn = Txn::new().when([Compare::create_revision(key, CompareOp::Equal, 0)]).and_then([put]);
        if !self.client.txn(txn).await.map_err(words)?.succeeded() {
            return Err("somebody holds the lock that is this client's own".to_owned());
        }
        let acquired = Instant::now();
        self.client.delete(key, None).await.map_err(words)?;
        let released = Instant::now();
        steps.took("acquire", acquired - began);
        steps.took("release", released - acquired);
        Ok(released)
    }

    async fn queued_lock(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let lock = self.client.lock(self.key.as_str(), Some(LockOptions::new().with_lease(self.lease))).await.map_err(words)?;
        let acquired = Instant::now();
        self.client.unlock(lock.key()).await.map_err(words)?;
        steps.took("release", acquired.elapsed());
        Ok(acquired)
    }
}

impl Work for Load {
    async fn once(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let key = self.key.as_str();
        match self.workload {
            Workload::Lock => return self.own_lock(steps).await,
            Workload::Contended => return self.queued_lock(steps).await,
            Workload::KvWrite => drop(self.client.put(key, VALUE, None).await.map_err(words)?),
            Workload::Failover => {
                let written = tokio::time::timeout(PATIENCE, self.client.put(key, VALUE, None)).await;
                written.map_err(words)?.map_err(words)?;
            }
            Workload::KvRead => drop(self.client.get(key, None).await.map_err(words)?),
            Workload::KvLocalRead => {
                let local = GetOptions::new().with_serializable();
                self.client.get(key, Some(local)).await.map_err(words)?;
            }
            Workload::Sessions => return Err("sessions do nothing".to_owned()),
        }
        Ok(Instant::now())
    }
}
