//! Redis: `SET NX PX` with a token, and a script that deletes the key only if the token is its own, as in its
//! documentation. There is no queue: a client that finds the lock held retries after a while, so a contended lock is
//! not fair.

use crate::{Args, Failure, RunOutcome, Steps, VALUE, Work, Workload, drive, live, unique, words};
use redis::{Client, Script, aio::MultiplexedConnection, cmd};
use std::time::{Duration, Instant};

/// The ttl of a lock, in milliseconds.
const TTL_MILLIS: u64 = 30_000;
/// A client that found the lock held retries after a random time up to this.
const RETRY_MAX: Duration = Duration::from_millis(10);
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// Runs a load.
pub(crate) async fn run(args: &Args) -> Result<RunOutcome, Failure> {
    let root = unique();
    let mut works = Vec::new();
    for index in 0..args.clients {
        let mut connection = connect(args).await?;
        let key = if args.workload == Workload::Contended { root.clone() } else { format!("{root}/{index}") };
        if !matches!(args.workload, Workload::Lock | Workload::Contended) {
            cmd("SET").arg(&key).arg(&VALUE[..]).query_async::<()>(&mut connection).await?;
        }
        works.push(Load { connection, key, release: Script::new(RELEASE), workload: args.workload });
    }
    drive(args, works).await
}

/// Idle connections, each with a key that has a ttl.
pub(crate) async fn sessions(args: &Args) -> Result<(), Failure> {
    let root = unique();
    let mut connections = Vec::new();
    for index in 0..args.clients {
        let mut connection = connect(args).await?;
        let set = cmd("SET").arg(format!("{root}/{index}")).arg("session").arg("PX").arg(TTL_MILLIS).to_owned();
        set.query_async::<()>(&mut connection).await?;
        connections.push(connection);
    }
    live(args).await
}

async fn connect(args: &Args) -> Result<MultiplexedConnection, Failure> {
    let client = Client::open(format!("redis://{}/", args.endpoint[0]))?;
    Ok(client.get_multiplexed_async_connection().await?)
}

struct Load {
    connection: MultiplexedConnection,
    key: String,
    release: Script,
    workload: Workload,
}

impl Load {
    async fn try_acquire(&mut self, token: &str) -> Result<bool, String> {
        let set = cmd("SET").arg(&self.key).arg(token).arg("NX").arg("PX").arg(TTL_MILLIS).to_owned();
        let set: Option<String> = set.query_async(&mut self.connection).await.map_err(words)?;
        Ok(set.is_some())
    }

    async fn lock(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let began = Instant::now();
        let token = format!("{:016x}", rand::random::<u64>());
        while !self.try_acquire(&token).await? {
            if self.workload == Workload::Lock {
                return Err("somebody holds the lock that is this client's own".to_owned());
            }
            tokio::time::sleep(RETRY_MAX.mul_f64(rand::random())).await;
        }
        let acquired = Instant::now();
        let gone: i64 = self.release.key(&self.key).arg(&token).invoke_async(&mut self.connection).await.map_err(words)?;
        if gone != 1 {
            return Err("the lock was not held any more".to_owned());
        }
        let released = Instant::now();
        steps.took("release", released - acquired);
        if self.workload == Workload::Contended {
            return Ok(acquired);
        }
        steps.took("acquire", acquired - began);
        Ok(released)
    }
}

impl Work for Load {
    async fn once(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        match self.workload {
            Workload::Lock | Workload::Contended => return self.lock(steps).await,
            Workload::KvWrite | Workload::Failover => {
                let set = cmd("SET").arg(&self.key).arg(&VALUE[..]).to_owned();
                set.query_async::<()>(&mut self.connection).await.map_err(words)?;
            }
            Workload::KvRead | Workload::KvLocalRead => {
                let read: Vec<u8> = cmd("GET").arg(&self.key).query_async(&mut self.connection).await.map_err(words)?;
                if read != VALUE {
                    return Err("what was read is not what was written".to_owned());
                }
            }
            Workload::Sessions => return Err("sessions do nothing".to_owned()),
        }
        Ok(Instant::now())
    }
}
