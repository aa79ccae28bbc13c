//! Runs the read barriers one after the other: on the leader as a round of heartbeats, elsewhere as a request to the
//! leader.

use crate::{
    base::{
        error::NotProposed,
        wire::{PeerReply, PeerRequest},
    },
    core::{Core, LeaderRoute},
    read::queue::{BarrierReceiver, BarrierWaiter, Outcome},
};
use fairhold_types::failpoint;
use openraft::{AsyncRuntime, ReadPolicy};
use std::{sync::Arc, time::Duration};

/// Time limit for one barrier. After it, all waiting reads must retry.
const ROUND_LIMIT: Duration = Duration::from_secs(1);

/// Runs barriers until Raft stops.
pub(crate) async fn run<RT: AsyncRuntime>(BarrierReceiver(mut queue): BarrierReceiver, core: Arc<Core<RT>>) {
    let mut stopped = std::pin::pin!(core.stopped());
    loop {
        let round = async {
            let first = queue.recv().await?;
            // All of these were requested before this barrier starts.
            let mut waiting = vec![first];
            while let Ok(next) = queue.try_recv() {
                waiting.push(next);
            }
            core.shared.metrics.barriers.inc();
            core.shared.metrics.barrier_reads.inc_by(waiting.len() as u64);
            run_round(&core, waiting).await;
            Some(())
        };
        tokio::select! {
            biased;
            () = &mut stopped => return,
            more = round => if more.is_none() { return },
        }
    }
}

async fn run_round<RT: AsyncRuntime>(core: &Core<RT>, waiting: Vec<BarrierWaiter>) {
    let (waiting, outcome) = match core.route() {
        LeaderRoute::Local => (waiting, RT::timeout(ROUND_LIMIT, read_index(core)).await),
        LeaderRoute::Remote(leader) => {
            let (forwarded, own): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|waiting| waiting.forwarded);
            answer_all(forwarded, Err(NotProposed::NoLeader));
            if own.is_empty() {
                return;
            }
            let answer = async {
                match core.call(&leader, &PeerRequest::ReadIndex).await {
                    Ok(PeerReply::ReadIndex(outcome)) => outcome,
                    Ok(_) | Err(_) => Err(NotProposed::NoLeader),
                }
            };
            // A read changes nothing: if another node leads now, retry there at once.
            let moved = core.until(|metrics| (metrics.current_leader != Some(leader.id)).then_some(()));
            let either = async {
                tokio::select! {
                    biased;
                    outcome = answer => outcome,
                    _ = moved => Err(NotProposed::NoLeader),
                }
            };
            (own, RT::timeout(ROUND_LIMIT, either).await)
        }
        LeaderRoute::Unknown => (waiting, Ok(Err(NotProposed::NoLeader))),
    };
    answer_all(waiting, outcome.unwrap_or(Err(NotProposed::NoLeader)));
}

async fn read_index<RT: AsyncRuntime>(core: &Core<RT>) -> Outcome {
    if failpoint!(RaftBarrierBegin, RT).is_err() {
        return Err(NotProposed::NoLeader);
    }
    match core.raft.get_read_linearizer(ReadPolicy::ReadIndex).await {
        Ok(_) if failpoint!(RaftBarrierProved, RT).is_err() => Err(NotProposed::NoLeader),
        Ok(linearizer) => Ok(linearizer.read_log_id().index()),
        // Deposed, just elected, or no majority in time: all of these may pass.
        Err(_) => Err(NotProposed::NoLeader),
    }
}

fn answer_all(waiting: Vec<BarrierWaiter>, outcome: Outcome) {
    for one in waiting {
        // The reader may be gone; then the outcome is dropped.
        one.answer.send(outcome).ok();
    }
}
