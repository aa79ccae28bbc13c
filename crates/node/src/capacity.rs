//! Reports to the cluster how large a state this node can hold: the smallest number of all nodes is the state's budget.
//!
//! The report is a command in the log, because every node must refuse the same requests. This node keeps checking that
//! the state has its number: an older report, from before a restart, may arrive late.

use crate::node::Node;
use fairhold_state::command::Command;
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

/// Interval at which this node checks that the state has its number.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Interval before the first report has succeeded: until then the state has no budget, or only those of other nodes.
const FIRST_CHECK_EVERY: Duration = Duration::from_millis(100);
/// How long a report may take.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

impl<RT: AsyncRuntime> Node<RT> {
    /// From now on the state may have at most this many bytes, as `State::bytes` counts them: this node can hold no
    /// more.
    pub fn offer_state_bytes(&self, bytes: u64) {
        let node = self.clone();
        let stop = self.0.stop.clone();
        self.0.tasks.spawn::<RT>(async move {
            tokio::select! {
                biased;
                () = stop.requested() => {}
                () = node.keep_reporting(bytes) => {}
            }
        });
    }

    async fn keep_reporting(&self, bytes: u64) {
        let replica = &self.0.replica;
        let id = replica.id();
        let mut has_reported = false;
        loop {
            if replica.read(|state| state.cluster().is_some() && state.capacity_of(id) != Some(bytes)) {
                let reported =
                    replica.propose(Command::RecordCapacity { node: id, bytes }, RT::Instant::now() + REPORT_TIMEOUT).await;
                match reported {
                    Ok(_) => {
                        has_reported = true;
                        tracing::info!(bytes, "reported how large a state this node can hold");
                    }
                    Err(error) => tracing::debug!(%error, "cannot report how large a state this node can hold; it tries again"),
                }
            }
            has_reported |= replica.read(|state| state.capacity_of(id) == Some(bytes));
            RT::sleep(if has_reported { CHECK_EVERY } else { FIRST_CHECK_EVERY }).await;
        }
    }
}
