//! One lock that all clients want, all the time: it is given on as soon as it is had. The latency is the wait for it, and the
//! rate is how often it changes hands.
//!
//! Tokens are looked at too: a lock that two have at a time, or in another order than by token, has no rate.

use super::{
    grants,
    load::{ClientKind, LoadArgs},
    measure::{RunOutcome, Steps, Work},
    target::Target,
    wire::Wire,
};
use crate::remote::{Failure, request::encode};
use fairhold_client::Session;
use fairhold_types::duration;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// How long one request waits at most.
const WAIT: Duration = Duration::from_secs(60);

/// Runs it.
pub(super) async fn run(ground: &Target, load: &LoadArgs) -> Result<RunOutcome, Failure> {
    let plan = load.plan()?;
    let order = ContendedOrder::default();
    match load.client {
        ClientKind::Http => {
            let target = format!("/v1/locks/{}?wait={}", encode(&ground.name), duration::format(WAIT));
            let works = (0..load.clients).map(|client| ContendedOverHttp {
                wire: ground.wire(client),
                target: target.clone(),
                within: WAIT + ground.connect.timeout,
                order: order.clone(),
            });
            Ok(ground.drive(plan, works.collect()).await)
        }
        ClientKind::Rust => {
            let session = ground.rust()?.session().await.map_err(|error| Failure::from_client(&error))?;
            let one = ContendedOverRust { session: session.clone(), name: ground.name.clone(), order };
            let outcome = ground.drive(plan, vec![one; load.clients]).await;
            session.close().await.map_err(|error| Failure::from_client(&error))?;
            Ok(outcome)
        }
    }
}

/// Who had it last, as all clients saw it.
#[derive(Debug, Clone, Default)]
struct ContendedOrder(Arc<AtomicU64>);

impl ContendedOrder {
    /// Notes a token, while it is held.
    fn note(&self, token: u64) -> Result<(), String> {
        let last = self.0.fetch_max(token, SeqCst);
        if last < token { Ok(()) } else { Err(format!("token {token} was held after token {last}")) }
    }
}

struct ContendedOverHttp {
    wire: Wire,
    target: String,
    within: Duration,
    order: ContendedOrder,
}

impl Work for ContendedOverHttp {
    async fn once(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let held = grants::acquire(&mut self.wire, &self.target, self.within).await?;
        let acquired = Instant::now();
        let noted = self.order.note(held.token);
        grants::release(&mut self.wire, &held).await?;
        steps.took("release", acquired.elapsed());
        noted.map(|()| acquired)
    }
}

#[derive(Clone)]
struct ContendedOverRust {
    session: Session,
    name: String,
    order: ContendedOrder,
}

impl Work for ContendedOverRust {
    async fn once(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let guard = self.session.lock(&self.name).await.map_err(|error| error.to_string())?;
        let acquired = Instant::now();
        let noted = guard.token().map_err(|error| error.to_string()).and_then(|token| self.order.note(token.0));
        guard.release().await.map_err(|error| error.to_string())?;
        steps.took("release", acquired.elapsed());
        noted.map(|()| acquired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_does_not_grow_is_told() {
        let order = ContendedOrder::default();
        assert!(order.note(4).is_ok() && order.note(9).is_ok());
        assert!(order.note(9).is_err() && order.note(5).is_err());
    }
}
