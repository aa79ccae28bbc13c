//! The listeners of a node that cannot take part yet: it is alive but not ready, and says why.

use super::{
    error::ServeError,
    listeners::{ListenerTask, hosts, listen_for_clients, listen_for_status, stop_requested},
};
use crate::config::ServeConfig;
use fairhold_http::waiting_router;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a listener of a waiting node may take to write its answers.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Listeners that answer every request with the reason for which the node waits.
pub(super) struct WaitingListeners(Vec<ListenerTask>);

impl WaitingListeners {
    /// Listens for clients, and for operators if configured.
    pub(super) async fn start(config: &ServeConfig, reason: &str) -> Result<WaitingListeners, ServeError> {
        let clients = listen_for_clients(&config.listen).await?;
        let status = listen_for_status(config, hosts(config, None)).await?;
        let mut tasks = Vec::new();
        for listener in [Some(clients), status].into_iter().flatten() {
            let (stop, stopped) = oneshot::channel();
            let serving = listener.serve(waiting_router(reason), stop_requested(stopped));
            tasks.push(ListenerTask { name: "HTTP", stop, task: tokio::spawn(serving) });
        }
        Ok(WaitingListeners(tasks))
    }

    /// Frees the ports.
    pub(super) async fn stop(self) {
        for task in self.0 {
            task.stop(STOP_TIMEOUT).await;
        }
    }
}
