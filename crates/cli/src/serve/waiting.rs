//! The listeners of a node that cannot take part yet: it is alive but not ready, and says why.

use super::{
    certificates::Certificates,
    error::ServeError,
    listeners::{ListenerTask, hosts, listen_for_clients, listen_for_status, stop_requested},
};
use crate::config::ServeConfig;
use fairhold_http::{ClusterHeader, waiting_router};
use fairhold_types::ClusterId;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a listener of a waiting node may take to write its answers.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Listeners that answer every request with the reason for which the node waits.
pub(super) struct WaitingListeners(Vec<ListenerTask>);

impl WaitingListeners {
    /// Listens for clients, and for operators if configured. `cluster` is the cluster of this node, if it is known.
    pub(super) async fn start(
        config: &ServeConfig,
        certificates: &Certificates,
        reason: &str,
        cluster: Option<ClusterId>,
    ) -> Result<WaitingListeners, ServeError> {
        let cluster = ClusterHeader::known(cluster);
        let clients = listen_for_clients(config, certificates).await?;
        let status = listen_for_status(config, hosts(config, None)).await?;
        let mut tasks = Vec::new();
        for listener in [Some(clients), status].into_iter().flatten() {
            let (stop, stopped) = oneshot::channel();
            let router = waiting_router(reason, cluster.clone());
            let serving = listener.with_cluster(cluster.clone()).serve(router, stop_requested(stopped));
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
