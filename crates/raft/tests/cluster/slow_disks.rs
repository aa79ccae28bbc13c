//! Elections on disks where writing a vote takes longer than openraft waits for it.

use super::{Cluster, after, open_session, opened};
use std::time::Duration;

/// About six writes lie between the end of a leader and an acknowledgement of the next: the candidate's own vote, the
/// voter's, the leader's, the follower's, the first entry of the term, and the write itself. The rest is for a busy
/// machine.
const WRITES: u32 = 6;
const REST: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_is_elected_however_long_writing_a_vote_takes() {
    for sync in [120, 250, 500].map(Duration::from_millis) {
        let mut cluster = Cluster::form(3, 1_000).await;
        let leader = cluster.leader_among(1..=3).await;
        opened(&cluster.open_session(leader).await.unwrap());
        for disk in cluster.disks.values() {
            disk.log.slow_down(sync);
        }
        cluster.stop(leader).await;

        let left = cluster.others(leader)[0];
        let answer = cluster.node(left).propose(open_session(), after(sync * WRITES + REST)).await;
        opened(&answer.unwrap_or_else(|error| panic!("{sync:?} per write: {error}")));
    }
}
