//! Tells a service manager such as systemd how the node is, if one asks for it: that it is ready, that it still works, and
//! that it stops.

use fairhold_node::Node;
use openraft_rt_tokio::TokioRuntime;
use sd_notify::NotifyState;
use std::time::Duration;
use tokio::time::sleep;

/// How often the node checks whether it is ready.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How many signs of life the node sends within the time in which one must come.
const SIGNS: u32 = 4;

/// Tells that the node is ready: it is a member of a cluster, and a leader with a quorum has confirmed that to it. It stays
/// ready for the service manager if the quorum is lost later, because a restart would not bring it back.
pub(super) async fn tell_ready(node: Node<TokioRuntime>) {
    while node.readiness().await.is_err() {
        sleep(CHECK_EVERY).await;
    }
    tell(&[NotifyState::Ready]);
}

/// Tells that the node stops.
pub(super) fn tell_stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells that the process restarts in place. Until it has read its state again, it sends no signs of life.
pub(super) fn tell_restarting() {
    if sd_notify::watchdog_enabled().is_some() {
        tell(&[NotifyState::WatchdogUsec(u32::MAX)]);
    }
}

/// A task that sends signs of life, if the service manager expects any. It sends one only after both Raft and the clock
/// have run, so a node in which one of them is stuck is killed and started again.
pub(super) fn signs_of_life(node: Node<TokioRuntime>) -> Option<impl Future<Output = ()>> {
    let limit = sd_notify::watchdog_enabled()?;
    Some(async move {
        // A restart in place made it longer.
        tell(&[NotifyState::WatchdogUsec(u32::try_from(limit.as_micros()).unwrap_or(u32::MAX))]);
        loop {
            if node.makes_progress().await {
                tell(&[NotifyState::Watchdog]);
            }
            sleep(limit / SIGNS).await;
        }
    })
}

/// Does nothing without a service manager. A message that cannot be sent is no reason to stop.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot reach the service manager at $NOTIFY_SOCKET");
    }
}
