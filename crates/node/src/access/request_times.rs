//! Where the time of a request goes: what the node does for it, and its waits for others.

use super::caller_request::CallerRequest;
use crate::node::Node;
use fairhold_raft::Proposer;
use fairhold_trace::{RequestWork, Stage, StageTime, Tracer};
use openraft_rt::{AsyncRuntime, Instant};
use std::{future::Future, sync::Arc};

/// A part of a request waits for others, until this is dropped.
pub(crate) struct WaitTime<RT: AsyncRuntime>(Option<(Arc<CallerRequest>, RT::Instant)>);

impl<RT: AsyncRuntime> Drop for WaitTime<RT> {
    fn drop(&mut self) {
        if let Some((request, since)) = &self.0 {
            request.work().end_wait(since.elapsed());
        }
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Where the time of this request goes, unless the handle is the node's own.
    #[must_use]
    pub fn work(&self) -> Option<&RequestWork> {
        self.1.as_deref().map(CallerRequest::work)
    }

    /// Traces the requests of this node.
    #[must_use]
    pub fn tracer(&self) -> &Tracer {
        self.0.replica.tracer()
    }

    /// Proposes for this request, in the name of a tenant.
    pub(crate) fn proposer(&self, tenant: Option<u64>) -> Proposer<'_> {
        Proposer { tenant, work: self.work() }
    }

    /// Begins to wait for others.
    pub(crate) fn begin_wait_time(&self) -> WaitTime<RT> {
        WaitTime(self.1.as_ref().map(|request| {
            request.work().begin_wait();
            (Arc::clone(request), RT::Instant::now())
        }))
    }

    /// Does the work of a stage, and records how long it took.
    pub(crate) async fn timed<T>(&self, stage: Stage, work: impl Future<Output = T>) -> T {
        let Some(recorder) = self.work() else { return work.await };
        let since = RT::Instant::now();
        let done = work.await;
        recorder.record(StageTime::now(stage, since.elapsed()));
        done
    }
}
