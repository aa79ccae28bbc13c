//! While a request that waits is open, its node keeps the grant alive; from the answer on, only the caller does.

use crate::{api::Renewal, calls::attempt::CallerStanding, leader::keepalive::Renewed, node::Node};
use openraft_rt::{AsyncRuntime, Instant};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// Keeps the grant of an open request alive, as long as this is not dropped.
pub(crate) struct OpenRequest<I> {
    proved: Arc<Mutex<Proved<I>>>,
    _open: oneshot::Sender<()>,
}

/// What is known of a grant's life.
struct Proved<I> {
    /// When the last keepalive that was proved was sent.
    sent: Option<I>,
    /// When it becomes doubtful whether the grant lives, if nothing is proved by then.
    doubtful_from: I,
}

impl<I: Instant> OpenRequest<I> {
    /// Begins. A session that was made by this very request is as young as the request; an older one is renewed at once.
    pub(crate) fn keep<RT: AsyncRuntime<Instant = I>>(
        node: &Node<RT>,
        standing: CallerStanding,
        timeout: Duration,
        begun: I,
    ) -> OpenRequest<I> {
        let (open, mut closed) = oneshot::channel::<()>();
        let is_new = standing.attempt == 1;
        let proved = Proved { sent: is_new.then_some(begun), doubtful_from: I::now() + timeout };
        let proved = Arc::new(Mutex::new(proved));
        let (shared, node) = (Arc::clone(&proved), node.clone());
        node.clone().0.tasks.spawn::<RT>(async move {
            let mut pause = if is_new { timeout / 3 } else { Duration::ZERO };
            loop {
                let sent = RT::Instant::now() + pause;
                let renewed = async {
                    RT::sleep(pause).await;
                    node.0.keepalives.renew::<RT>(Renewal::Number(standing.session), sent + timeout / 3).await
                };
                tokio::select! {
                    biased;
                    _ = &mut closed => return,
                    () = node.0.stop.requested() => return,
                    renewed = renewed => pause = match renewed.map(|renewed| renewed.value) {
                        Ok(Renewed::Alive { timeout_ms }) => {
                            // An older session may have a timeout of its own.
                            let timeout = Duration::from_millis(timeout_ms);
                            let proved = Proved { sent: Some(sent), doubtful_from: sent + timeout };
                            *shared.lock() = proved;
                            timeout / 3
                        }
                        // What became of the grant is seen in the state.
                        Ok(Renewed::Ended { .. } | Renewed::SessionOwned { .. } | Renewed::Unproved) => timeout / 3,
                        // A third of the time is lost already, perhaps to an election.
                        Err(_) => timeout / 30,
                    },
                }
            }
        });
        OpenRequest { proved, _open: open }
    }

    /// When the last keepalive that was proved was sent.
    pub(crate) fn proved(&self) -> Option<I> {
        self.proved.lock().sent
    }

    /// When it becomes doubtful whether the grant lives, if nothing is proved by then.
    pub(crate) fn doubtful_from(&self) -> I {
        self.proved.lock().doubtful_from
    }
}
