//! The alarms of this node. `fairhold_health` judges what the node sees of its cluster, and what its caller sees of the
//! machine.

use crate::{clock::wall_now, node::Node};
use fairhold_health::alarms::readings::{ClusterReading, MachineReading, MemberReading};
use fairhold_raft::MemberStatus;
use fairhold_types::{SupportedVersions, dto::Alarms};
use openraft_rt::AsyncRuntime;

impl<RT: AsyncRuntime> Node<RT> {
    /// Judges what the node sees now. Call it about once a second: it reads the status of Raft and a few figures of the
    /// state, and its cost is bounded by the number of members and removed nodes.
    pub fn look_for_alarms(&self, machine: MachineReading) {
        self.0.looks.own.set_machine(&machine);
        for change in self.0.alarms.look(wall_now(), machine, self.cluster_reading()) {
            let alarm = change.name.as_str();
            match change.raised {
                Some(seen) => tracing::warn!(alarm, "raised the alarm {alarm}: {seen}"),
                None => tracing::info!(alarm, "the alarm {alarm} is gone"),
            }
        }
    }

    /// The alarms that this node raises now.
    #[must_use]
    pub fn alarms(&self) -> Alarms {
        Alarms { id: self.0.replica.id(), alarms: self.0.alarms.raised() }
    }

    fn cluster_reading(&self) -> ClusterReading {
        let raft = self.0.replica.status();
        self.0.replica.read(|state| {
            let next = state.cluster_version().next();
            ClusterReading {
                id: raft.id,
                leader: raft.leader.filter(|leader| *leader == raft.id || raft.hears_from_leader),
                timing: state.membership().timing(),
                next_version: Some(next).filter(|next| SupportedVersions::OWN.includes(*next)),
                state_bytes: state.bytes(),
                state_bytes_max: state.bytes_max(),
                purged: raft.purged,
                members: raft.members.into_iter().map(member_reading).collect(),
                joins: state.membership().joins().map(|(id, _)| id).collect(),
                removed: state.membership().removed().map(|(id, _)| id).collect(),
                divergence: self.0.hub.comparison.found(),
            }
        })
    }
}

fn member_reading(status: MemberStatus) -> MemberReading {
    MemberReading {
        id: status.id,
        voter: status.voter,
        matched: status.matched,
        lag: status.lag,
        silent: status.silent,
        round_trip_p50: status.round_trip_p50,
        round_trip_p99: status.round_trip_p99,
    }
}
