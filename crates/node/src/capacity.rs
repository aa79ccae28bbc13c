//! Reports to the cluster how large a state this node can hold: the smallest number of all nodes is the state's budget.
//!
//! It is a command in the log, because every node must refuse the same. This node looks again and again whether the state has its
//! number: an older one may arrive late, from before a restart.

use crate::node::Node;
use fairhold_state::command::Command;
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

/// How often it is looked whether the state has this node's number.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same before it is there for the first time: until then the state has no budget, or another node's.
const FIRST_LOOKS_EVERY: Duration = Duration::from_millis(100);
/// How long saying it may take.
const SAY_WITHIN: Duration = Duration::from_secs(5);

impl<RT: AsyncRuntime> Node<RT> {
    /// From now on the state may have at most so many bytes, as it counts them (`State::bytes`): this node can hold no more.
    pub fn offer_state_bytes(&self, bytes: u64) {
        let (node, stop) = (self.clone(), self.0.stop.clone());
        self.0.tasks.spawn::<RT>(async move {
            tokio::select! {
                biased;
                () = stop.requested() => {}
                () = node.keep_saying(bytes) => {}
            }
        });
    }

    async fn keep_saying(&self, bytes: u64) {
        let (replica, id) = (&self.0.replica, self.0.replica.status().id);
        loop {
            if replica.read(|state| state.cluster().is_some() && state.capacity_of(id) != Some(bytes)) {
                let said = replica.propose(Command::NoteCapacity { node: id, bytes }, RT::Instant::now() + SAY_WITHIN).await;
                match said {
                    Ok(_) => tracing::info!(bytes, "this node reported how large a state it can hold"),
                    Err(error) => tracing::debug!(%error, "this node could not report how large a state it can hold"),
                }
            }
            let is_there = replica.read(|state| state.capacity_of(id) == Some(bytes));
            RT::sleep(if is_there { LOOK_EVERY } else { FIRST_LOOKS_EVERY }).await;
        }
    }
}
