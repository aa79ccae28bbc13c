//! A node keeps the grant of a waiting request alive until it answers; after that only the caller does.

use crate::{api::Renewal, calls::attempt::CommittedAcquire, leader::keepalive::Renewed, node::Node};
use openraft_rt::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// Keeps the grant of an open request alive until it is dropped.
pub(crate) struct KeepAliveGuard<I> {
    liveness: Arc<Mutex<Liveness<I>>>,
    _open: oneshot::Sender<()>,
}

/// How long a grant is known to live.
struct Liveness<I> {
    /// When the last confirmed keepalive was sent.
    confirmed_at: Option<I>,
    /// From when on the grant may have expired, unless another keepalive is confirmed by then.
    may_expire_at: I,
}

impl<I: Instant> KeepAliveGuard<I> {
    /// Starts the keepalives. If this request created the session, its timeout started with the request; an older
    /// session is renewed at once.
    pub(crate) fn start<RT: AsyncRuntime<Instant = I>>(
        node: &Node<RT>,
        committed: CommittedAcquire,
        timeout: Duration,
        started_at: I,
    ) -> KeepAliveGuard<I> {
        let (open, mut closed) = oneshot::channel::<()>();
        let is_new = committed.attempt == 1;
        let confirmed_at = is_new.then_some(started_at);
        let liveness = Arc::new(Mutex::new(Liveness { confirmed_at, may_expire_at: I::now() + timeout }));
        let shared = Arc::clone(&liveness);
        let node = node.clone();
        node.clone().0.tasks.spawn::<RT>(async move {
            let mut pause = if is_new { timeout / 3 } else { Duration::ZERO };
            loop {
                let sent = RT::Instant::now() + pause;
                let renewed = async {
                    RT::sleep(pause).await;
                    node.0.keepalives.renew::<RT>(Renewal::Number(committed.session), sent + timeout / 3).await
                };
                tokio::select! {
                    biased;
                    _ = &mut closed => return,
                    () = node.0.stop.requested() => return,
                    renewed = renewed => pause = match renewed.map(|renewed| renewed.value) {
                        Ok(Renewed::Alive { timeout_ms }) => {
                            // An older session may have another timeout.
                            let timeout = Duration::from_millis(timeout_ms);
                            *shared.lock() = Liveness { confirmed_at: Some(sent), may_expire_at: sent + timeout };
                            timeout / 3
                        }
                        // The state shows what happened to the grant.
                        Ok(Renewed::Ended { .. } | Renewed::SessionOwned { .. } | Renewed::Unconfirmed) => timeout / 3,
                        // The keepalive has already cost a third of the timeout, perhaps because of an election.
                        Err(_) => timeout / 30,
                    },
                }
            }
        });
        KeepAliveGuard { liveness, _open: open }
    }

    /// When the last confirmed keepalive was sent.
    pub(crate) fn confirmed_at(&self) -> Option<I> {
        self.liveness.lock().confirmed_at
    }

    /// From when on the grant may have expired, unless another keepalive is confirmed by then.
    pub(crate) fn may_expire_at(&self) -> I {
        self.liveness.lock().may_expire_at
    }
}
