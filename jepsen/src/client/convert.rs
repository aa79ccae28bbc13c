//! A client changes the mode and the ttl of its grant.

use super::{ChaosClient, HeldLock, WORK, micros};
use crate::{
    history::{Call, Op, Outcome},
    http::Request,
    new_key,
};
use std::time::Duration;

impl ChaosClient {
    /// Upgrades a shared grant: it gets a new token.
    pub(crate) async fn upgrade(&mut self, held: &mut HeldLock, wait: Duration) -> Outcome {
        let path = format!("/v1/grants/{}/upgrade?wait={}ms", held.id, wait.as_millis());
        let request = Request::post(path, &new_key()).within(WORK, wait);
        let describe = |op: &mut Op| op.grant = Some(held.grant);
        let (_, reply) =
            self.ask(Call::Upgrade, &held.key, describe, request, |reply, op| op.token = reply.json["token"].as_u64()).await;
        if let (Outcome::Ok, Some(token)) = (reply.outcome, reply.json["token"].as_u64()) {
            held.token = token;
        }
        reply.outcome
    }

    /// Downgrades an exclusive grant: it keeps its token.
    pub(crate) async fn downgrade(&mut self, held: &HeldLock) -> Outcome {
        let request = Request::post(format!("/v1/grants/{}/downgrade", held.id), &new_key()).within(WORK, Duration::ZERO);
        let describe = |op: &mut Op| (op.grant, op.token) = (Some(held.grant), Some(held.token));
        let learn = |reply: &crate::http::Reply, op: &mut Op| op.token = reply.json["token"].as_u64().or(op.token);
        self.ask(Call::Downgrade, &held.key, describe, request, learn).await.1.outcome
    }

    /// Renews a grant with this ttl. If the outcome is unknown, the shorter lease counts.
    pub(crate) async fn renew_for(&mut self, held: &mut HeldLock, ttl: Duration) -> Outcome {
        let request = Request::post(format!("/v1/grants/{}/renew?ttl={}ms", held.id, ttl.as_millis()), &new_key());
        let describe = |op: &mut Op| (op.grant, op.token, op.ttl) = (Some(held.grant), Some(held.token), Some(micros(ttl)));
        let (running, reply) = self.ask(Call::Renew, &held.key, describe, request.within(WORK, Duration::ZERO), |_, _| {}).await;
        let good_until = running.start + micros(ttl);
        match reply.outcome {
            Outcome::Ok => held.good_until = good_until,
            Outcome::Unknown => held.good_until = held.good_until.min(good_until),
            Outcome::Fail => {}
        }
        reply.outcome
    }
}
