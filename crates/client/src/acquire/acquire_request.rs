//! The body of an acquire request.

use crate::{
    hold::session::Session,
    wire::{call::BatchPart, url::encode},
};
use fairhold_types::{LockName, Mode, dto::Meta, duration};
use serde_json::{Value, json};
use std::time::Duration;

/// The parameters of an acquisition, the same in each of its requests.
#[derive(Debug, Clone)]
pub(crate) struct AcquireRequest {
    pub(crate) lock: LockName,
    /// Other locks, to be taken in the same step.
    pub(crate) others: Vec<(LockName, Mode)>,
    pub(crate) mode: Mode,
    pub(crate) limit: Option<u32>,
    pub(crate) permits: u32,
    pub(crate) priority: i32,
    pub(crate) owner: String,
    pub(crate) meta: Meta,
    pub(crate) lock_delay: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) reentrant: bool,
    pub(crate) ttl: Duration,
    /// The value that a candidate publishes when it leads; none for a lock.
    pub(crate) value: Option<String>,
}

impl AcquireRequest {
    /// The kind of the request in a batch. A batch takes only a single lock, and no election.
    pub(crate) fn part(&self) -> Option<BatchPart> {
        let is_one = self.others.is_empty() && self.value.is_none();
        is_one.then(|| BatchPart::Acquire(self.lock.clone()))
    }

    /// The body of the request. Default values are omitted.
    pub(crate) fn body(&self, session: Option<&Session>, wait: Duration) -> Value {
        let mut body = json!({ "owner": self.owner });
        if !wait.is_zero() {
            body["wait"] = json!(duration::format(wait));
        }
        if self.priority != 0 {
            body["priority"] = json!(self.priority);
        }
        if !self.meta.is_empty() {
            body["meta"] = json!(self.meta);
        }
        if !self.lock_delay.is_zero() {
            body["lock_delay"] = json!(duration::format(self.lock_delay));
        }
        match session {
            Some(session) => body["session"] = json!(session.id().to_hex()),
            None => body["ttl"] = json!(duration::format(self.ttl)),
        }
        if let Some(max_hold) = self.max_hold {
            body["max_hold"] = json!(duration::format(max_hold));
        }
        if self.reentrant {
            body["reentrant"] = json!(true);
        }
        if !self.others.is_empty() {
            let others = self.others.iter().map(|(name, mode)| (name, *mode));
            let locks = std::iter::once((&self.lock, self.mode)).chain(others);
            body["locks"] = locks.map(|(name, mode)| json!({ "name": name, "mode": mode })).collect();
            return body;
        }
        match &self.value {
            Some(value) => body["value"] = json!(value),
            None => {
                if self.mode != Mode::Exclusive {
                    body["mode"] = json!(self.mode);
                }
                if self.permits != 1 {
                    body["permits"] = json!(self.permits);
                }
            }
        }
        if let Some(limit) = self.limit {
            body["limit"] = json!(limit);
        }
        body
    }

    /// The path of the URL.
    pub(crate) fn path(&self) -> String {
        let name = encode(self.lock.as_str());
        if self.value.is_some() {
            format!("/v1/elections/{name}")
        } else if self.others.is_empty() {
            format!("/v1/locks/{name}")
        } else {
            "/v1/locks".to_owned()
        }
    }
}
