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
use crate::remote::{Failure, format::OutputFormat, request::encode};
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
pub(super) async fn run(mut target: Target, args: &LockArgs, output: Option<OutputFormat>) -> Result<(), Failure> {
    let profile = if args.profile { Some(Profile::begin(&mut target).await?) } else { None };
    let outcome = drive(&target, &args.load).await?;
    let mut figures = outcome.json("lock", args.load.client.name());
    if let Some(profile) = profile {
        let mean = figures["latency_ms"]["mean"].as_f64().unwrap_or_default();
        figures.insert("profile_ms".to_owned(), profile.end(mean).await?);
    }
    written(&outcome, figures, output)
}

async fn drive(target: &Target, load: &LoadArgs) -> Result<RunOutcome, Failure> {
    let plan = load.plan()?;
    let names = (0..load.clients).map(|client| format!("{}/{client}", target.name));
    match load.client {
        ClientKind::Http => {
            let within = target.connect.timeout;
            let works = names.enumerate().map(|(client, name)| {
                let url_path = format!("/v1/locks/{}", encode(&name));
                LockOverHttp { wire: target.wire(client), url_path, within }
            });
            Ok(target.drive(plan, works.collect()).await)
        }
        ClientKind::Rust => {
            let session = target.rust()?.session().await.map_err(|error| Failure::from_client(&error))?;
            let works = names.map(|name| LockOverRust { session: session.clone(), name });
            let outcome = target.drive(plan, works.collect()).await;
            session.close().await.map_err(|error| Failure::from_client(&error))?;
            Ok(outcome)
        }
    }
}

struct LockOverHttp {
    wire: Wire,
    url_path: String,
    within: Duration,
}

impl Work for LockOverHttp {
    async fn once(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let began = Instant::now();
        let held = grants::acquire(&mut self.wire, &self.url_path, self.within).await?;
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
