//! Distinct locks: each client acquires and releases its own. One operation is one such cycle.

use super::{
    grants,
    load::{ClientKind, LoadArgs},
    measure::{RunOutcome, Steps, Work},
    profile::Profile,
    report::written,
    target::Target,
    wire::Wire,
};
use crate::remote::{Failure, form::OutputFormat, request::encode};
use fairhold_client::Session;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub(super) struct LockArgs {
    #[command(flatten)]
    pub(super) load: LoadArgs,
    /// Report the parts of a cycle from the leader's metrics; sends all load to the leader
    #[arg(long)]
    profile: bool,
}

/// Runs the workload and prints the figures.
pub(super) async fn run(mut ground: Target, args: &LockArgs, output: Option<OutputFormat>) -> Result<(), Failure> {
    let profile = if args.profile { Some(Profile::begin(&mut ground).await?) } else { None };
    let outcome = drive(&ground, &args.load).await?;
    let mut figures = outcome.json("lock", args.load.client.name());
    if let Some(profile) = profile {
        let mean = figures["latency_ms"]["mean"].as_f64().unwrap_or_default();
        figures.insert("profile_ms".to_owned(), profile.end(mean).await?);
    }
    written(&outcome, figures, output)
}

async fn drive(ground: &Target, load: &LoadArgs) -> Result<RunOutcome, Failure> {
    let plan = load.plan()?;
    let names = (0..load.clients).map(|client| format!("{}/{client}", ground.name));
    match load.client {
        ClientKind::Http => {
            let within = ground.connect.timeout;
            let works = names.enumerate().map(|(client, name)| {
                let target = format!("/v1/locks/{}", encode(&name));
                LockOverHttp { wire: ground.wire(client), target, within }
            });
            Ok(ground.drive(plan, works.collect()).await)
        }
        ClientKind::Rust => {
            let session = ground.rust()?.session().await.map_err(|error| Failure::from_client(&error))?;
            let works = names.map(|name| LockOverRust { session: session.clone(), name });
            let outcome = ground.drive(plan, works.collect()).await;
            session.close().await.map_err(|error| Failure::from_client(&error))?;
            Ok(outcome)
        }
    }
}

struct LockOverHttp {
    wire: Wire,
    target: String,
    within: Duration,
}

impl Work for LockOverHttp {
    async fn once(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let began = Instant::now();
        let held = grants::acquire(&mut self.wire, &self.target, self.within).await?;
        let acquired = Instant::now();
        steps.took("acquire", acquired - began);
        grants::release(&mut self.wire, &held).await?;
        let released = Instant::now();
        steps.took("release", released - acquired);
        Ok(released)
    }
}

struct LockOverRust {
    session: Session,
    name: String,
}

impl Work for LockOverRust {
    async fn once(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let began = Instant::now();
        let guard = self.session.lock(&self.name).await.map_err(|error| error.to_string())?;
        let acquired = Instant::now();
        steps.took("acquire", acquired - began);
        guard.release().await.map_err(|error| error.to_string())?;
        let released = Instant::now();
        steps.took("release", released - acquired);
        Ok(released)
    }
}
