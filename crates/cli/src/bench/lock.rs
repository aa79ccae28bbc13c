//! Distinct locks: each client takes its own and gives it back. One operation is both.

use super::{
    Ground, Kind, LoadArgs, grants,
    measure::{Outcome, Steps, Work},
    wire::Wire,
};
use crate::remote::{Failure, api::encode};
use fairhold_client::Session;
use std::time::{Duration, Instant};

/// Runs it.
pub(super) async fn run(ground: &Ground, load: &LoadArgs) -> Result<Outcome, Failure> {
    let plan = load.plan()?;
    let names = (0..load.clients).map(|client| format!("{}/{client}", ground.name));
    match load.client {
        Kind::Http => {
            let within = ground.connect.timeout;
            let works = names.enumerate().map(|(client, name)| {
                let target = format!("/v1/locks/{}", encode(&name));
                OverHttp { wire: ground.wire(client), target, within }
            });
            Ok(ground.drive(plan, works.collect()).await)
        }
        Kind::Rust => {
            let session = ground.rust()?.session().await.map_err(|error| Failure::from_client(&error))?;
            let works = names.map(|name| OverRust { session: session.clone(), name });
            let outcome = ground.drive(plan, works.collect()).await;
            session.close().await.map_err(|error| Failure::from_client(&error))?;
            Ok(outcome)
        }
    }
}

struct OverHttp {
    wire: Wire,
    target: String,
    within: Duration,
}

impl Work for OverHttp {
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

struct OverRust {
    session: Session,
    name: String,
}

impl Work for OverRust {
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
