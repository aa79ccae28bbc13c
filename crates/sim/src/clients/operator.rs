//! An operator who changes the members: lets machines join, replaces nodes, removes them, and changes their votes.
//!
//! One operator changes one member at a time, and waits until the change is complete. While it destroys a disk or switches a
//! machine off, the others must be able to decide.

mod joins;
mod removals;
mod standing;
mod view;

use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
};
use fairhold_types::{MemberRole, NodeId};
use http::{Method, StatusCode};
use rand::RngExt;
use view::{MembersSeen, SPARE_VOTERS, VOTERS_MAX};

/// How many learners are kept.
const LEARNERS_MAX: usize = 1;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(1_000).await;
        joins::until_allowed(&mut client).await;
        let Some(seen) = view::settled(&mut client).await else { return };
        if let Some(node) = seen.members_off_for_ever(&client) {
            // A failed attempt left it behind.
            client.world.oracle.violation(format!("node {node} is a member, but its machine is destroyed"));
            return;
        }
        client.world.calm.begin_change();
        change(&mut client, &seen).await;
        client.world.calm.end_change();
    }
    standing::work(&mut client).await;
}

async fn change(client: &mut SimClient, seen: &MembersSeen) {
    let voters = seen.voters.len();
    let one = seen.voters[client.rng.random_range(0..voters)];
    if let Some(learner) = seen.learners.first().copied()
        && (seen.learners.len() > LEARNERS_MAX || client.rng.random_range(0..2) == 0)
    {
        return if voters < VOTERS_MAX { set_vote(client, learner, true).await } else { removals::remove(client, learner).await };
    }
    match client.rng.random_range(0..12) {
        _ if voters < 2 => joins::grow(client, MemberRole::Voter).await,
        0..=3 if voters < VOTERS_MAX => joins::grow(client, MemberRole::Voter).await,
        4 => joins::grow(client, MemberRole::Learner).await,
        5 | 6 if voters >= SPARE_VOTERS => joins::replace_destroyed(client, one).await,
        5..=7 => joins::replace_running(client, one).await,
        8 if voters == SPARE_VOTERS => removals::be_refused(client, seen).await,
        9 if voters >= SPARE_VOTERS => set_vote(client, one, false).await,
        10 if voters >= SPARE_VOTERS => match seen.leader {
            Some(leader) => removals::remove_leader(client, leader).await,
            None => removals::remove(client, one).await,
        },
        _ => removals::remove(client, one).await,
    }
}

/// Makes a learner a voter, or a voter a learner.
async fn set_vote(client: &mut SimClient, node: NodeId, voter: bool) {
    if !voter {
        view::ask_to_leave(client, node);
    }
    let key = client.key();
    for _ in 0..view::TRIES {
        let request = ClientRequest::new(Method::PATCH, format!("/v1/cluster/members/{node}?voter={voter}"));
        let Some(reply) = view::call(client, &request.header("idempotency-key", key.clone())).await else {
            client.idle(500).await;
            continue;
        };
        match (reply.status, reply.field("code")) {
            (StatusCode::OK, _) => return client.world.coverage.probe(if voter { Probe::VoteGiven } else { Probe::VoteTaken }),
            // Another attempt of the same request is in progress, or a node must catch up first.
            (StatusCode::CONFLICT, "change_in_progress" | "not_caught_up") => {}
            (StatusCode::CONFLICT, "would_lose_quorum") => return client.world.coverage.probe(Probe::RemovalRefused),
            (StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) | (_, "rate_limited") => {}
            _ => return client.unexpected("a change of a vote", &reply),
        }
        client.idle(500).await;
    }
}
