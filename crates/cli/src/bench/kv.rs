//! Plain writes and reads of small nodes, each client its own.

use super::{
    load::{Kind, LoadArgs, up_to},
    measure::{Outcome, Steps, Work},
    target::Target,
    wire::Wire,
};
use crate::remote::{Failure, request::node_path};
use fairhold_client::Nodes;
use std::time::{Duration, Instant};

/// What `bench kv` was told.
#[derive(Debug, clap::Args)]
pub(super) struct KvArgs {
    /// What the clients do
    #[arg(long, value_enum, default_value_t = Operation::Write)]
    pub(super) operation: Operation,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = up_to(1_048_576))]
    pub(super) value_bytes: usize,
    #[command(flatten)]
    pub(super) load: LoadArgs,
}

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Operation {
    /// Write the value of a node
    Write,
    /// Read it, as it is after all that was written before anywhere
    Read,
    /// Read it as the node that was asked has it
    LocalRead,
}

impl Operation {
    /// Under which name its figures stand.
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Write => "kv-write",
            Operation::Read => "kv-read",
            Operation::LocalRead => "kv-local-read",
        }
    }
}

/// Runs it; the nodes are gone afterwards.
pub(super) async fn run(ground: &Target, args: &KvArgs) -> Result<Outcome, Failure> {
    run_within(ground, args, ground.connect.timeout).await
}

/// The same, of clients that give up an answer after a time of their own.
pub(super) async fn run_within(ground: &Target, args: &KvArgs, within: Duration) -> Result<Outcome, Failure> {
    let plan = args.load.plan()?;
    let root = format!("/{}", ground.name);
    let value = vec![b'v'; args.value_bytes];
    let nodes = ground.rust()?.nodes();
    let client_failed = |error| Failure::from_client(&error);
    let path = |client: usize| format!("{root}/{client}");
    for client in 0..args.load.clients {
        nodes.put(&path(client), value.clone()).parents().await.map_err(client_failed)?;
    }
    let outcome = match args.load.client {
        Kind::Http => {
            let works = (0..args.load.clients).map(|client| {
                let target = node_path(&path(client));
                let target = if args.operation == Operation::LocalRead { target + "?consistency=local" } else { target };
                OverHttp { wire: ground.wire_within(client, within), operation: args.operation, target, value: value.clone() }
            });
            ground.drive(plan, works.collect()).await
        }
        Kind::Rust if args.operation == Operation::LocalRead => {
            return Err(Failure::Usage("the Rust client has no local reads: leave --client out".to_owned()));
        }
        Kind::Rust => {
            let works = (0..args.load.clients).map(|client| OverRust {
                nodes: nodes.clone(),
                operation: args.operation,
                path: path(client),
                value: value.clone(),
            });
            ground.drive(plan, works.collect()).await
        }
    };
    nodes.delete(&root).recursive().await.map_err(client_failed)?;
    Ok(outcome)
}

struct OverHttp {
    wire: Wire,
    operation: Operation,
    target: String,
    value: Vec<u8>,
}

impl Work for OverHttp {
    async fn once(&mut self, _: &mut Steps) -> Result<Instant, String> {
        match self.operation {
            Operation::Write => {
                self.wire.send("PUT", &self.target, "", &self.value).await?.well()?;
            }
            Operation::Read | Operation::LocalRead => {
                let answer = self.wire.send("GET", &self.target, "", &[]).await?.well()?;
                right(&answer.body, &self.value)?;
            }
        }
        Ok(Instant::now())
    }
}

struct OverRust {
    nodes: Nodes,
    operation: Operation,
    path: String,
    value: Vec<u8>,
}

impl Work for OverRust {
    async fn once(&mut self, _: &mut Steps) -> Result<Instant, String> {
        match self.operation {
            Operation::Write => {
                let put = self.nodes.put(&self.path, self.value.clone());
                put.await.map_err(|error| error.to_string())?;
            }
            Operation::Read | Operation::LocalRead => {
                let read = self.nodes.get(&self.path).await.map_err(|error| error.to_string())?;
                right(&read.ok_or("the node is gone")?.bytes, &self.value)?;
            }
        }
        Ok(Instant::now())
    }
}

fn right(read: &[u8], written: &[u8]) -> Result<(), String> {
    if read == written { Ok(()) } else { Err(format!("{} bytes were read that nobody wrote", read.len())) }
}
