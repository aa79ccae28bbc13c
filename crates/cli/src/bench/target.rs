//! What all workloads need: the cluster, a unique name, and a driver with a progress bar.

use super::{
    measure::{self, LoadPlan, RunOutcome, Work},
    progress,
    wire::{Hosts, Wire},
};
use crate::remote::{self, Api, ApiRequest, ConnectArgs, Failure};
use fairhold_client::Client;
use std::time::Duration;

/// The cluster to measure, and a name that no other run has.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) connect: ConnectArgs,
    pub(super) hosts: Hosts,
    /// `bench/` and an id.
    pub(super) name: String,
}

impl Target {
    /// Checks that the cluster answers.
    pub(super) async fn new(connect: &ConnectArgs) -> Result<Target, Failure> {
        Api::new(connect)?.call(&ApiRequest::get("/v1/locks?limit=1")).await?;
        let hosts = Hosts::new(connect)?;
        let name = format!("bench/{}", ulid::Ulid::generate().to_string().to_lowercase());
        Ok(Target { connect: connect.clone(), hosts, name })
    }

    /// Directs all clients to one node.
    pub(super) fn use_only(&mut self, url: &str) -> Result<(), Failure> {
        self.connect.endpoint = vec![url.to_owned()];
        self.hosts = Hosts::new(&self.connect)?;
        Ok(())
    }

    /// A connection for one client. The clients are spread over the nodes in turn.
    pub(super) fn wire(&self, client: usize) -> Wire {
        self.wire_within(client, self.connect.timeout)
    }

    /// The same with another request timeout.
    pub(super) fn wire_within(&self, client: usize, within: Duration) -> Wire {
        Wire::new(self.hosts.beginning_with(client), within)
    }

    /// The Rust client.
    pub(super) fn rust(&self) -> Result<Client, Failure> {
        remote::client(&self.connect, None)
    }

    /// Drives the clients, with a progress bar on a terminal.
    pub(super) async fn drive<W: Work>(&self, plan: LoadPlan, works: Vec<W>) -> RunOutcome {
        drive(plan, works, progress::is_shown(&self.connect)).await
    }
}

pub(super) async fn drive<W: Work>(plan: LoadPlan, works: Vec<W>, is_shown: bool) -> RunOutcome {
    let outcome = measure::drive(plan, works, cpu, async |progress, begin| {
        if is_shown {
            progress::show(&plan, &progress, begin).await;
        }
    });
    let outcome = outcome.await;
    if is_shown {
        progress::erase();
    }
    outcome
}

/// The processor time that this process has used.
fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}
