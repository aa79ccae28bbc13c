//! Plain writes and reads of small nodes, one for each client.

use super::{
    load::{ClientKind, LoadArgs, up_to},
    measure::{RunOutcome, Steps, Work},
    target::Target,
    wire::Wire,
};
use crate::remote::{Failure, request::node_path};
use fairhold_client::Nodes;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub(super) struct KvArgs {
    /// Measure this operation
    #[arg(long, value_enum, default_value_t = KvOperation::Write)]
    pub(super) operation: KvOperation,
    /// Write values of this many bytes, 1 to 1048576
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = up_to(1_048_576))]
    pub(super) value_bytes: usize,
    #[command(flatten)]
    pub(super) load: LoadArgs,
}

/// The operation of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum KvOperation {
    /// Write the value of a node
    Write,
    /// Read the value of a node, linearizable
    Read,
    /// Read the value from the node's own state
    LocalRead,
}

impl KvOperation {
    /// Its name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            KvOperation::Write => "kv-write",
            KvOperation::Read => "kv-read",
            KvOperation::LocalRead => "kv-local-read",
        }
    }
}

/// Runs the workload, and removes its nodes afterwards.
pub(super) async fn run(target: &Target, args: &KvArgs) -> Result<RunOutcome, Failure> {
    run_within(target, args, target.connect.timeout).await
}

/// The same with another request timeout.
pub(super) async fn run_within(target: &Target, args: &KvArgs, within: Duration) -> Result<RunOutcome, Failure> {
    let plan = args.load.plan()?;
    let root = format!("/{}", target.name);
    let value = vec![b'v'; args.value_bytes];
    let nodes = target.rust()?.nodes();
    let client_failed = |error| Failure::from_client(&error);
    let path = |client: usize| format!("{root}/{client}");
    for client in 0..args.load.clients {
        nodes.put(&path(client), value.clone()).parents().await.map_err(client_failed)?;
    }
    let outcome = match args.load.client {
        ClientKind::Http => {
            let works = (0..args.load.clients).map(|client| {
                let url_path = node_path(&path(client));
                let url_path = if args.operation == KvOperation::LocalRead { url_path + "?consistency=local" } else { url_path };
                KvOverHttp { wire: target.wire_within(client, within), operation: args.operation, url_path, value: value.clone() }
            });
            target.drive(plan, works.collect()).await
        }
        ClientKind::Rust if args.operation == KvOperation::LocalRead => {
            return Err(Failure::Usage("the Rust client has no local reads: leave out --client".to_owned()));
        }
        ClientKind::Rust => {
            let works = (0..args.load.clients).map(|client| KvOverRust {
                nodes: nodes.clone(),
                operation: args.operation,
                path: path(client),
                value: value.clone(),
            });
            target.drive(plan, works.collect()).await
        }
    };
    nodes.delete(&root).recursive().await.map_err(client_failed)?;
    Ok(outcome)
}

struct KvOverHttp {
    wire: Wire,
    operation: KvOperation,
    url_path: String,
    value: Vec<u8>,
}

impl Work for KvOverHttp {
    async fn once(&mut self, _: &mut Steps) -> Result<Instant, String> {
        match self.operation {
            KvOperation::Write => {
                self.wire.send("PUT", &self.url_path, "", &self.value).await?.success()?;
            }
            KvOperation::Read | KvOperation::LocalRead => {
                let answer = self.wire.send("GET", &self.url_path, "", &[]).await?.success()?;
                check_value(&answer.body, &self.value)?;
            }
        }
        Ok(Instant::now())
    }
}

struct KvOverRust {
    nodes: Nodes,
    operation: KvOperation,
    path: String,
    value: Vec<u8>,
}

impl Work for KvOverRust {
    async fn once(&mut self, _: &mut Steps) -> Result<Instant, String> {
        match self.operation {
            KvOperation::Write => {
                let put = self.nodes.put(&self.path, self.value.clone());
                put.await.map_err(|error| error.to_string())?;
            }
            KvOperation::Read | KvOperation::LocalRead => {
                let read = self.nodes.get(&self.path).await.map_err(|error| error.to_string())?;
                check_value(&read.ok_or("the node is gone")?.bytes, &self.value)?;
            }
        }
        Ok(Instant::now())
    }
}

fn check_value(read: &[u8], written: &[u8]) -> Result<(), String> {
    if read == written { Ok(()) } else { Err(format!("read {} bytes that nobody wrote", read.len())) }
}
