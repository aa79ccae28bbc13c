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

/// A stage of a request, which ends when this is dropped: also if the client has left.
struct OpenStage<'r, RT: AsyncRuntime> {
    work: &'r RequestWork,
    stage: Stage,
    since: RT::Instant,
}

impl<RT: AsyncRuntime> Drop for OpenStage<'_, RT> {
    fn drop(&mut self) {
        self.work.record(StageTime::now(self.stage, self.since.elapsed()));
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
        let _open = self.work().map(|work| OpenStage::<RT> { work, stage, since: RT::Instant::now() });
        work.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use openraft_rt_tokio::{TokioInstant, TokioRuntime};
    use std::time::Duration;

    #[test]
    fn a_client_that_leaves_does_not_hide_the_stage_in_which_it_left() {
        let work = RequestWork::default();
        let took = Duration::from_secs(1);
        let open = OpenStage::<TokioRuntime> { work: &work, stage: Stage::Read, since: TokioInstant::now() - took };
        let mut request = Box::pin(async move {
            let _open = open;
            std::future::pending::<()>().await;
        });
        assert!(request.as_mut().now_or_never().is_none());
        assert_eq!(work.time(Stage::Read), Duration::ZERO);
        drop(request);
        assert!(work.time(Stage::Read) >= took);
    }
}
