//! An administrator: sets the settings of a lock, revokes it, breaks it, and ends sessions.

use super::{ChaosClient, WORK, micros};
use crate::{
    history::{Call, Op},
    http::Request,
    new_key,
};
use std::{sync::atomic::Ordering, time::Duration};

impl ChaosClient {
    /// Sets the limit of a lock.
    pub(crate) async fn set_limit(&mut self, lock: &str, limit: u32) {
        let request = Request::patch(format!("/v1/locks/{lock}?limit={limit}"), &new_key());
        self.administer(Call::SetLimit, lock, request, |op| op.permits = Some(limit)).await;
    }

    /// Sets the maximum hold time of new grants; zero: no maximum.
    pub(crate) async fn set_max_hold(&mut self, lock: &str, most: Duration) {
        let request = Request::patch(format!("/v1/locks/{lock}?max_hold={}ms", most.as_millis()), &new_key());
        self.administer(Call::SetMaxHold, lock, request, |op| op.ttl = Some(micros(most))).await;
    }

    /// Breaks a lock.
    pub(crate) async fn break_lock(&mut self, lock: &str) {
        let request = Request::delete(format!("/v1/locks/{lock}/holders?reason=chaos")).header("idempotency-key", new_key());
        self.administer(Call::Break, lock, request, |_| {}).await;
    }

    /// Asks the holders to release a lock.
    pub(crate) async fn revoke(&mut self, lock: &str) {
        let request = Request::post(format!("/v1/locks/{lock}/holders/revoke?reason=chaos"), &new_key());
        self.administer(Call::Revoke, lock, request, |_| {}).await;
    }

    /// Ends the session with this public number.
    pub(crate) async fn end_session(&mut self, key: &str, number: u64) {
        let request = Request::delete(format!("/v1/sessions/{number}?reason=chaos"));
        self.administer(Call::EndSession, key, request, |op| op.number = Some(number)).await;
    }

    /// The watch shows which program set a lock, so each request has its own name.
    async fn administer(&mut self, call: Call, key: &str, request: Request, describe: impl FnOnce(&mut Op)) {
        let name = format!("a{}", self.shared.attempts.fetch_add(1, Ordering::SeqCst));
        let request = request.header("user-agent", name.clone()).within(WORK, Duration::ZERO);
        let describe = |op: &mut Op| {
            op.value = Some(name);
            describe(op);
        };
        self.ask(call, key, describe, request, |_, _| {}).await;
    }
}
