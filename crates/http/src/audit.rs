//! The audit log of requests: their callers, what they asked for, and the answers.
//!
//! - `log`: the bounded queue between the requests and the thread that writes. A slow disk never stops a request.
//! - `request`: one request on its way, and the entries that it gets.
//! - `scope`: which requests it has. `entry`: an entry as JSON. `names`: the name in a path. `call_kind`: what a call
//!   does.
//! - `refusals`: a flood of refused requests is counted, so that it neither fills the disk nor removes older entries.
//!
//! The program writes the files: `cli/src/serve/audit.rs`. The decisions are in
//! `docs/internals/decisions/0051-the-audit-log-of-requests.md`.

pub(crate) mod call_kind;
pub(crate) mod entry;
pub(crate) mod log;
pub(crate) mod names;
mod refusals;
pub(crate) mod request;
pub(crate) mod scope;

use crate::edge::problem::{Problem, outcome};
use fairhold_metrics::Registry;
use fairhold_types::{Code, problem::Effect};
use log::{AuditLog, AuditMetrics};
use scope::AuditScope;
use std::sync::Arc;

/// The audit log of a node, if it has one. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Audit(Option<Arc<AuditLog>>);

impl Audit {
    /// No audit log.
    #[must_use]
    pub fn off() -> Audit {
        Audit(None)
    }

    /// An audit log. If it is required, calls that it must have are refused while it cannot be written.
    #[must_use]
    pub fn new(scope: AuditScope, is_required: bool) -> Audit {
        Audit(Some(Arc::new(AuditLog::new(scope, is_required))))
    }

    /// The log, if there is one.
    #[must_use]
    pub fn log(&self) -> Option<&Arc<AuditLog>> {
        self.0.as_ref()
    }

    /// Registers its metrics. They are 0 without a log.
    pub fn register_metrics(&self, registry: &mut Registry) {
        match &self.0 {
            Some(log) => log.metrics().register(registry),
            None => AuditMetrics::default().register(registry),
        }
    }
}

/// The refusal of a call that the audit log must have, while it cannot be written.
pub(crate) fn unavailable() -> Problem {
    Problem::new(
        Code::AuditUnavailable,
        "the audit log of this server cannot be written, and its configuration requires an entry for this call: an operator \
         finds the reason with fairhold doctor",
    )
    .facts(outcome(Effect::None, None))
}
