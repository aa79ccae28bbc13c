//! One lock that all clients want all the time; each releases it at once. The latency is the wait for the
//! lock, and the rate is how often it changes hands.
//!
//! It checks the tokens too: a lock held by two clients at a time, or out of token order, has no valid rate.

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

/// The longest wait of one request.
const WAIT: Duration = Duration::from_secs(60);

/// Runs the workload.
pub(super) async fn run(target: &Target, load: &LoadArgs) -> Result<RunOutcome, Failure> {
    let plan = load.plan()?;
    let order = ContendedOrder::default();
    match load.client {
        ClientKind::Http => {
            let url_path = format!("/v1/locks/{}?wait={}", encode(&target.name), duration::format(WAIT));
            let works = (0..load.clients).map(|client| ContendedOverHttp {
                wire: target.wire(client),
                url_path: url_path.clone(),
                within: WAIT + target.connect.timeout,
                order: order.clone(),
            });
            Ok(target.drive(plan, works.collect()).await)
        }
        ClientKind::Rust => {
            let session = target.rust()?.session().await.map_err(|error| Failure::from_client(&error))?;
            let one = ContendedOverRust { session: session.clone(), name: target.name.clone(), order };
            let outcome = target.drive(plan, vec![one; load.clients]).await;
            session.close().await.map_err(|error| Failure::from_client(&error))?;
            Ok(outcome)
        }
    }
}

/// The highest token so far, over all clients.
#[derive(Debug, Clone, Default)]
struct ContendedOrder(Arc<AtomicU64>);

impl ContendedOrder {
    /// Records a token while it is held.
    fn note(&self, token: u64) -> Result<(), String> {
        let last = self.0.fetch_max(token, SeqCst);
        if last < token { Ok(()) } else { Err(format!("token {token} was held after token {last}")) }
    }
}

struct ContendedOverHttp {
    wire: Wire,
    url_path: String,
    within: Duration,
    order: ContendedOrder,
}

impl Work for ContendedOverHttp {
    async fn once(&mut self, steps: &mut Steps) -> Result<Instant, String> {
        let held = grants::acquire(&mut self.wire, &self.url_path, self.within).await?;
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
    fn a_token_that_does_not_grow_is_an_error() {
        let order = ContendedOrder::default();
        assert!(order.note(4).is_ok() && order.note(9).is_ok());
        assert!(order.note(9).is_err() && order.note(5).is_err());
    }
}
